"""The pull consumer on asyncio.  The one for threads, `flintmq.PullConsumer`, is a face of it.

    async with PullConsumer("audit", namesrv="127.0.0.1:9876") as consumer:
        for queue in await consumer.queues("orders"):
            offset = await consumer.start_offset(queue, "first")
            result = await consumer.pull(queue, offset, tags="paid")
            ...
            consumer.update_offset(queue, result.next_offset)  # stored every 5 s and at the end

It decides nothing: which queue, from where, how often are the program's to say.  The queues of a
topic given to `share_topic` or `on_queues_changed` are shared out among the members of the group;
`own_queues` are this one's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import time_ns
from typing import Final, Self, Unpack

from flintmq.client.engine.async_client import AsyncClient
from flintmq.client.engine.client_config import split_settings
from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.engine.direct_line import DirectLine, Runner
from flintmq.client.engine.setting_names import StartFrom, renamed
from flintmq.client.pull.pull_client import StreamClient, StreamOwner
from flintmq.client.pull.pull_settings import (
    RENAMED,
    PullConfig,
    PullConsumerSettings,
    subscription_to,
)
from flintmq.client.pull.queue_assignment import QueueAssignment
from flintmq.client.pull.queue_listeners import QueueListener, QueueListeners
from flintmq.client.push.push_status import PullingStatus, idle_queue
from flintmq.core.bad_record_rule import FRAME_TRIES, KIND, fate_of, stops
from flintmq.core.conversation import Call
from flintmq.core.group.actions import QueuesChanged
from flintmq.core.group.consumer_settings import check_range
from flintmq.core.group.pull_answers import MessagesFound, PullAnswer, Unreadable
from flintmq.core.group.rebalance import Share
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.pull.pull_result import PullResult, given_up, result_of
from flintmq.core.reading.pull_request import Pull
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.bodies.client import Subscription
from flintmq.protocol.headers.pull_template import mark_stream

PULL_COUNT: Final = 32
"""Messages of a pull that says nothing else; the most a broker of RocketMQ gives."""

COUNT_MAX: Final = 4_096
"""Messages asked for at once: what our own broker gives at most."""

_OFFSETS: Final = (0, 2**63 - 1)


class PullConsumer(AsyncClient):
    """Pulls when it is told to.  Made on any thread, used on the loop it is started on."""

    def __init__(self, group: str, **settings: Unpack[PullConsumerSettings]) -> None:
        config, self.config = split_settings(settings, PullConfig, RENAMED)
        self._client = client = StreamClient(type(self).__name__, group, config, self.config)
        super().__init__(group, client.engine)
        self._assignment = QueueAssignment(client.engine, client.pulling, self.config, self._shared)
        self._listeners = QueueListeners(client.engine)
        self._own: dict[str, frozenset[QueueRef]] = {}
        self._bad: dict[QueueRef, int] = {}  # records that could not be decoded
        self._pulls: dict[QueueRef, tuple[int, int]] = {}  # offset, and since when
        client.join(
            StreamOwner(
                self._subscriptions, self._assignment.wake, self._offsets, self._reset, self._shares
            )
        )

    # Life

    @property
    def retry_topic(self) -> str:
        """The topic of messages that were sent back.  Nobody pulls it by itself."""
        return self._client.engine.user_name(self._client.retry_topic)

    @property
    def engine(self) -> ClientEngine:
        """The engine, for clients that are built on this consumer."""
        return self._client.engine

    def function_ended(self, queue: QueueRef, took_ns: int, *, is_well: bool) -> None:
        """The same, for metrics."""
        if self._client.counts is not None:
            self._client.counts.function_ended(queue.topic, took_ns, is_well=is_well)

    async def status(self) -> PullingStatus:
        """Own queues, those it knows offsets of, and those with a pull under way."""
        self._client.require_running()
        known = self._offsets(None)
        own = {queue for share in self._own.values() for queue in share}
        queues = []
        pulls = self._pulls.copy()  # other threads pull, too
        for queue in sorted(own | pulls.keys() | known.keys() | self._bad.keys()):
            waits_for, why = "program", "pulled when the program asks"
            if queue in pulls:
                offset, since_ms = pulls[queue]
                since_ms = self.engine.clock() - since_ms
                waits_for, why = "pull", f"pulls from {offset} since {since_ms} ms"
            settled_to = known.get(queue)
            at = None if settled_to is None else QueueOffset(settled_to)
            bad_count = self._bad.get(queue, 0)
            queues.append(idle_queue(queue, waits_for, why, settled_to=at, bad_count=bad_count))
        return self._client.status(queues, self._assignment.troubles())

    async def start(self) -> Self:
        await self._client.start()
        self._assignment.start()
        return self

    async def stop(self) -> None:
        """Store what was updated, leave the group, close.  Stopping twice is no error."""
        self._assignment.close()
        await self._client.stop()

    # Queues

    async def queues(self, topic: str) -> list[QueueRef]:
        """All queues of a topic that may be read."""
        return await self._client.queues(topic)

    def share_topic(self, topic: str) -> None:
        """Share the queues of a topic with the group.  Before the start or after it."""
        self._assignment.add(self._client.wire_topic(topic))
        self._tell_brokers()

    register = renamed("register", share_topic)

    def on_queues_changed(self, topic: str, listener: QueueListener) -> None:
        """Share a topic, and have ``listener(topic, queues, own)`` called when either changes.

        A function runs on the loop and must be quick; a coroutine function may take its time.
        """
        self._listeners.add(topic, listener)
        self.share_topic(topic)

    listen = renamed("listen", on_queues_changed)

    def own_queues(self, topic: str) -> list[QueueRef]:
        """Our queues of a shared topic as far as they are known."""
        share = self._assignment.share(self._client.wire_topic(topic))
        return [] if share is None else sorted(map(self._client.to_user, share.own))

    # Pulling

    async def pull(
        self,
        queue: QueueRef,
        offset: int,
        *,
        tags: str | None = None,
        sql: str | None = None,
        count_max: int = PULL_COUNT,
        timeout_ms: int | None = None,
    ) -> PullResult:
        """What the queue has from ``offset`` on; comes back at once when there is nothing.

        Brokers of RocketMQ give 32 messages at most; ours gives what is asked for.
        """
        return await self._pull(
            queue, offset, tags, sql, count_max, 0, timeout_ms or self.config.pull_timeout_ms
        )

    async def pull_blocking(
        self,
        queue: QueueRef,
        offset: int,
        *,
        tags: str | None = None,
        sql: str | None = None,
        count_max: int = PULL_COUNT,
    ) -> PullResult:
        """Pull, and let the broker hold the request up to ``hold_ms`` until a message comes."""
        config = self.config
        return await self._pull(
            queue, offset, tags, sql, count_max, config.hold_ms, config.hold_timeout_ms
        )

    async def _pull(
        self,
        queue: QueueRef,
        offset: int,
        tags: str | None,
        sql: str | None,
        count_max: int,
        hold_ms: int,
        timeout_ms: int,
    ) -> PullResult:
        subscription = subscription_to(self._client.to_wire(queue).topic, tags, sql)
        wanted = self._wanted(queue, offset, subscription, count_max, hold_ms, timeout_ms)
        with self._shown(wanted) as started_ns:
            for _ in range(FRAME_TRIES):
                answer = await self._client.pulling.pull(wanted)
                if not isinstance(answer, Unreadable):
                    break
        return self._given(answer, wanted, subscription, started_ns)

    def pull_past_loop(
        self,
        line: DirectLine,
        queue: QueueRef,
        offset: int,
        tags: str | None,
        sql: str | None,
        count_max: int,
        timeout_ms: int | None,
    ) -> PullResult | None:
        """`pull` on the calling thread, or None where the loop has to do it."""
        timeout_ms = timeout_ms or self.config.pull_timeout_ms
        subscription = subscription_to(self._client.to_wire(queue).topic, tags, sql)
        wanted = self._wanted(queue, offset, subscription, count_max, 0, timeout_ms)
        with self._shown(wanted) as started_ns:
            answer = self._pull_here(line, wanted)
        if answer is None or isinstance(answer, Unreadable):
            return None
        return self._given(answer, wanted, subscription, started_ns)

    def _pull_here(self, line: DirectLine, pull: Pull) -> PullAnswer | None:
        """None for a broker that is not known, or while several threads pull at once."""
        if not line.acquire():
            return None
        try:
            known = self._client.pulling.prepare(pull)
            if known is None:
                return None
            address, request = known
            reply = line.make(Call(address, request, pull.timeout_ms))
            return self._client.pulling.read(reply, pull, address)
        finally:
            line.release()

    def direct_line(self, runner: Runner) -> DirectLine | None:
        """A connection past the loop; None where hooks have to see each pull."""
        if self._client.is_hooked:
            return None
        return DirectLine(self._client.engine, runner, mark_stream)

    @contextmanager
    def _shown(self, pull: Pull) -> Iterator[int]:
        """Have `status` show a pull while it is in flight; when it began."""
        self._pulls[pull.queue] = (pull.offset, self._client.engine.clock())
        started_ns = time_ns()
        try:
            yield started_ns
        except BaseException as error:
            self._client.pull_failed(pull.queue, started_ns, error)
            raise
        finally:
            self._pulls.pop(pull.queue, None)

    def _wanted(
        self,
        queue: QueueRef,
        offset: int,
        subscription: TopicSubscription,
        count_max: int,
        hold_ms: int,
        timeout_ms: int,
    ) -> Pull:
        client = self._client
        client.require_running()
        check_range("offset", offset, _OFFSETS)
        check_range("count_max", count_max, (1, COUNT_MAX))
        return Pull(
            client.to_wire(queue),
            QueueOffset(offset),
            subscription,
            count_max,
            suspend_ms=hold_ms,
            timeout_ms=timeout_ms,
        )

    def _given(
        self, answer: PullAnswer, wanted: Pull, subscription: TopicSubscription, started_ns: int
    ) -> PullResult:
        client, on_wire = self._client, wanted.queue
        if isinstance(answer, Unreadable):
            answer = given_up(answer, on_wire, wanted.offset)
        if isinstance(answer, MessagesFound) and answer.bad:
            self._note_bad(answer, on_wire)
        result = result_of(
            answer,
            on_wire,
            subscription,
            is_retry=on_wire.topic == client.retry_topic,
            namespace=client.namespace,
            rule=self.config.on_bad_record,
        )
        client.pulled(on_wire, result.messages, started_ns)
        return result

    def _note_bad(self, answer: MessagesFound, queue: QueueRef) -> None:
        """Report records that cannot be decoded, up to one behind which nothing is given."""
        rule = self.config.on_bad_record
        for one in answer.bad:
            is_end = stops(rule, one)
            level = logging.ERROR if is_end else logging.WARNING
            self.engine.events.add(KIND, str(queue), f"{one}; {fate_of(rule, one)}", level)
            self._bad[queue] = self._bad.get(queue, 0) + 1
            if is_end:
                break

    # Offsets

    async def min_offset(self, queue: QueueRef) -> QueueOffset:
        """The oldest message that is kept."""
        self._client.require_running()
        return await self._client.pulling.min_offset(self._client.to_wire(queue))

    async def max_offset(self, queue: QueueRef) -> QueueOffset:
        """What the next message will get."""
        self._client.require_running()
        return await self._client.pulling.max_offset(self._client.to_wire(queue))

    async def offset_at(self, queue: QueueRef, time_ms: int) -> QueueOffset:
        """The first message stored at a time (ms since 1970) or after it."""
        self._client.require_running()
        return await self._client.pulling.offset_at(self._client.to_wire(queue), time_ms)

    async def committed(self, queue: QueueRef, *, from_store: bool = False) -> QueueOffset | None:
        """Where the group stands, None if nobody knows.

        What was updated here counts before it is stored, unless ``from_store`` asks past it.
        """
        self._client.require_running()
        return await self._client.keeper.read(self._client.to_wire(queue), from_store=from_store)

    async def start_offset(self, queue: QueueRef, start_from: StartFrom = "last") -> QueueOffset:
        """The group's offset, or where a group without one starts: as for push consumers."""
        return await self._client.start_offset(queue, start_from)

    def update_offset(self, queue: QueueRef, offset: int, *, increase_only: bool = False) -> None:
        """Remember how far the group is; it is stored within ``commit_interval_ms``."""
        self._client.require_running()
        check_range("offset", offset, _OFFSETS)
        self._client.keeper.update(
            self._client.to_wire(queue), QueueOffset(offset), increase_only=increase_only
        )

    update = renamed("update", update_offset)

    async def commit(self, queue: QueueRef, offset: int) -> None:
        """Store how far the group is, and come back when it is stored."""
        self._client.require_running()
        check_range("offset", offset, _OFFSETS)
        await self._client.keeper.commit(self._client.to_wire(queue), QueueOffset(offset))

    async def send_back(self, message: ReceivedMessage, *, delay_level: int = 0) -> None:
        """Have a message redelivered on the group's `retry_topic`.

        With level 0 the broker chooses the delay, -1 makes it a dead letter at once.
        """
        await self._client.send_back(message, delay_level)

    # Inside

    def _tell_brokers(self) -> None:
        if self._client.engine.life.is_running:
            self._client.engine.spawn(self._client.engine.heartbeat(), "heartbeat")

    def _shared(self, share: Share) -> None:
        client = self._client
        for queue in self._own.get(share.topic, frozenset()) - share.own:
            client.engine.spawn(client.keeper.release(queue), "offset of a lost queue")
        self._own[share.topic] = share.own
        change = QueuesChanged(
            client.engine.user_name(share.topic),
            tuple(map(client.to_user, share.queues)),
            tuple(sorted(map(client.to_user, share.own))),
        )
        self._listeners.notify(change)

    def _shares(self) -> list[tuple[str, int, int, int]]:
        """For metrics: nothing is cached here."""
        assert self._client.counts is not None
        self._client.counts.bad_count = sum(self._bad.copy().values())
        user_name = self._client.engine.user_name
        return [(user_name(topic), len(own), 0, 0) for topic, own in self._own.copy().items()]

    def _subscriptions(self) -> tuple[Subscription, ...]:
        return tuple(TopicSubscription(topic).to_wire(0) for topic in self._assignment.topics)

    def _offsets(self, topic: str | None) -> Mapping[QueueRef, int]:
        return self._client.keeper.store.clone(topic)

    def _reset(self, offsets: Mapping[QueueRef, int]) -> None:
        """Correct the remembered offsets after a reset; the program decides where to pull."""
        for queue, offset in offsets.items():
            self._client.keeper.update(queue, QueueOffset(offset))
