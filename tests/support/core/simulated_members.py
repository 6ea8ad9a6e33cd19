"""Members of a group with a pool of listeners, and everything that must hold about them.

A `Member` carries out the actions of a `GroupConsumer`, as the asyncio client does.  `Truth`
watches from outside: it knows which message was stored where, which listener saw it, and what
the broker took.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from random import Random

from flintmq.core.consumer.group_consumer import GroupConsumer, Phase
from flintmq.core.consumer.member_actions import Action
from flintmq.core.conversation import Conversation
from flintmq.core.group.actions import (
    COMMIT_TIMEOUT_MS,
    COPY_TIMEOUT_MS,
    LOCK_TIMEOUT_MS,
    MEMBERS_TIMEOUT_MS,
    SEND_BACK_TIMEOUT_MS,
    AskMembers,
    AskStartOffset,
    CommitOffset,
    ConfirmOffset,
    Deliver,
    LockQueues,
    SendBack,
    SendHeartbeat,
    SendToRetry,
    UnlockQueues,
    Unregister,
)
from flintmq.core.group.group_introduction import heartbeat_body
from flintmq.core.group.listener_results import Again, Consumed, outcomes_of
from flintmq.core.group.pull_answers import read_pull_answer
from flintmq.core.group.requests import (
    lock_request,
    members_request,
    read_locked,
    read_members,
    send_back_request,
    unlock_request,
    unregister_request,
)
from flintmq.core.group.start_offset import StartOffset, choose_start_offset
from flintmq.core.reading.broker_offsets import commit_request, group_offset
from flintmq.core.reading.pull_request import Pull, pull_request
from flintmq.errors import BrokerRefused, FlintError
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.headers.offset import UpdateConsumerOffset
from flintmq.protocol.headers.pull import PullFlag, PullMessage
from flintmq.protocol.headers.send import SendMessageV2
from flintmq.protocol.records.properties import encode_properties
from support.core.simulated_broker import (
    ADDRESS,
    LATE_MS,
    START_MS,
    ClientSide,
    Clock,
    Connection,
)

RECONNECT_MS_MAX = 4_000
ROUTE_MS = 3_000
INTERVAL_MS = 30_000
HEARTBEAT_MS = 3_000

Listener = Callable[[Deliver, Random], tuple[int, object]]
"""How long a listener takes for a batch, and what it returns."""


class Truth:
    """What must hold, checked as it happens."""

    def __init__(self) -> None:
        self.wanted: set[bytes] = set()
        self.consumed: dict[bytes, int] = {}
        self.ordered_topics: set[str] = set()
        self._settled: dict[tuple[str, int], set[int]] = {}
        self._settled_to: dict[tuple[str, int], int] = {}
        self._running: dict[QueueRef, Deliver] = {}

    def unwanted(self, topic: str, queue_id: int, offset: int) -> None:
        """Nobody subscribes to this one."""
        self._settled.setdefault((topic, queue_id), set()).add(offset)

    def started(self, batch: Deliver) -> None:
        queue = batch.queue
        if queue.topic not in self.ordered_topics:
            return
        other = self._running.get(queue)
        assert other is None, f"{queue} is consumed in two places: {other} and {batch}"
        self._running[queue] = batch
        first = batch.messages[0].queue_offset
        done = self._low((queue.topic, queue.queue_id))
        assert first <= done, f"{queue} delivers {first} while {done} is not settled"

    def ended(self, batch: Deliver, result: object) -> None:
        self.vanished(batch)
        verdict = outcomes_of(result, len(batch.messages))
        is_ordered = batch.queue.topic in self.ordered_topics
        for index, message in enumerate(batch.messages):
            outcome = Consumed() if verdict.outcomes is None else verdict.outcomes[index]
            if isinstance(outcome, Consumed):
                self.consumed[message.body] = self.consumed.get(message.body, 0) + 1
                self.settle(batch.queue, message)
            elif is_ordered and isinstance(outcome, Again):
                break

    def vanished(self, batch: Deliver) -> None:
        if self._running.get(batch.queue) is batch:
            del self._running[batch.queue]

    def settle(self, queue: QueueRef, message: ReceivedMessage) -> None:
        key = (queue.topic, queue.queue_id)
        self._settled.setdefault(key, set()).add(message.queue_offset)

    def committed(self, topic: str, queue_id: int, offset: int) -> None:
        low = self._low((topic, queue_id))
        assert offset <= low, f"{topic}/{queue_id}: {offset} committed, settled only to {low}"

    def _low(self, key: tuple[str, int]) -> int:
        low, settled = self._settled_to.get(key, 0), self._settled.get(key, set())
        while low in settled:
            low += 1
        self._settled_to[key] = low
        return low

    def missing(self) -> set[bytes]:
        """Messages that no listener has consumed yet."""
        return self.wanted - self.consumed.keys()


class Member:
    """One process of the group."""

    def __init__(
        self,
        consumer: GroupConsumer,
        broker: ClientSide,
        clock: Clock,
        chance: Random,
        truth: Truth,
        listener: Listener,
        topics: Iterable[str],
        threads: int,
    ) -> None:
        self.consumer = consumer
        self._broker = broker
        self._clock = clock
        self._chance = chance
        self._truth = truth
        self._listener = listener
        self._topics = tuple(topics)
        self._threads = threads
        self._waiting: deque[Deliver] = deque()
        self._running: set[Deliver] = set()
        self._timer_ms = -1
        self._connection: Connection | None = None
        self.is_alive = True
        self._group = consumer.settings.wire_group
        self._connect()
        self._act(consumer.start(clock.now_ms))
        self._routes()
        clock.after(INTERVAL_MS, self._beat)

    # Life

    def stop(self) -> None:
        """Leave in good order; who still runs after ten seconds is left behind."""
        self._act(self.consumer.stop(self._clock.now_ms))
        self._clock.after(10_000, self._give_up)

    def crash(self) -> None:
        """The process is gone, with its listeners."""
        self.is_alive = False
        for batch in self._running:
            self._truth.vanished(batch)
        self.cut()

    def cut(self) -> None:
        if self._connection is not None:
            self._broker.cut(self._connection)

    def freeze(self, lasts_ms: int) -> None:
        if self._connection is not None:
            self._connection.frozen_until_ms = self._clock.now_ms + lasts_ms

    def _exit(self) -> None:
        """The process of a member that has stopped ends."""
        self.is_alive = False
        self.cut()

    def _give_up(self) -> None:
        if self.is_alive and self.consumer.phase is Phase.STOPPING:
            self._act(self.consumer.abandon(self._clock.now_ms))

    # The network

    def _connect(self) -> None:
        if not self.is_alive or self.consumer.phase is Phase.STOPPED:
            return
        self._connection = self._broker.connect(self._noted, self._lost)
        if self._connection is None:
            self._clock.after(self._chance.randint(50, RECONNECT_MS_MAX), self._connect)
        elif self.consumer.phase is not Phase.CREATED:
            self._beat_now()

    def _lost(self) -> None:
        self._connection = None
        if self.is_alive:
            self._act(self.consumer.broker_lost("broker-a", self._clock.now_ms))
            self._clock.after(self._chance.randint(50, RECONNECT_MS_MAX), self._connect)

    def _noted(self, note: Command) -> None:
        if self.is_alive and note.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._act(self.consumer.notified(self._clock.now_ms))

    def _call(
        self,
        wanted: Command,
        timeout_ms: int,
        done: Callable[[Command], None],
        failed: Callable[[FlintError], None],
        served: Callable[[Command], None] | None = None,
    ) -> None:
        def then(reply: Command | FlintError) -> None:
            if not self.is_alive:
                return
            if isinstance(reply, FlintError):
                failed(reply)
                return
            try:
                done(reply)
            except FlintError as error:
                failed(error)

        self._broker.call(self._connection, wanted, timeout_ms, then, served)

    # Chores of the client

    def _beat(self) -> None:
        if self.is_alive and self.consumer.phase is not Phase.STOPPED:
            self._beat_now()
            self._clock.after(INTERVAL_MS, self._beat)

    def _beat_now(self) -> None:
        self._do_heartbeat(SendHeartbeat(self.consumer.subscriptions.section()))

    def _routes(self) -> None:
        """What a name server would say, which is never wrong here."""
        if not self.is_alive or self.consumer.phase is not Phase.RUNNING:
            return
        engine = self._broker.engine
        if engine is not None:
            for topic in (*self._topics, self.consumer.settings.retry_topic):
                config = engine.state.topics.find(topic)
                if config is not None:
                    count = config.read_queue_nums
                    queues = [QueueRef(topic, "broker-a", number) for number in range(count)]
                    self._act(self.consumer.route_known(topic, queues, self._clock.now_ms))
        self._clock.after(ROUTE_MS, self._routes)

    def _schedule(self) -> None:
        if self.consumer.phase is Phase.STOPPED or not self.is_alive:
            return
        due_ms = max(self.consumer.next_due_ms(), self._clock.now_ms + 1)
        if self._timer_ms <= self._clock.now_ms or due_ms < self._timer_ms:
            self._timer_ms = due_ms
            self._clock.at(due_ms, self._tick)

    def _tick(self) -> None:
        is_up = self.is_alive and self.consumer.phase is not Phase.STOPPED
        if is_up and self._clock.now_ms >= self._timer_ms:
            self._act(self.consumer.tick(self._clock.now_ms))

    # Actions

    def _act(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self._do(action)
        self._run_listeners()
        self._schedule()

    def _do(self, action: Action) -> None:
        match action:
            case SendHeartbeat():
                self._do_heartbeat(action)
            case AskMembers():
                self._do_ask_members(action)
            case AskStartOffset():
                self._do_ask_start(action)
            case Pull():
                self._do_pull(action)
            case Deliver():
                self._waiting.append(action)
            case SendBack():
                self._do_send_back(action)
            case SendToRetry():
                self._do_copy(action)
            case CommitOffset() | ConfirmOffset():
                self._do_last(action)
            case LockQueues():
                self._do_lock(action)
            case UnlockQueues():
                self._tell(unlock_request(action, self._group, self.consumer.client_id))
            case Unregister():
                self._tell(unregister_request(self.consumer.client_id, self._group))
                self._clock.after(LATE_MS, self._exit)
            case _:
                pass

    def _tell(self, wanted: Command) -> None:
        self._call(wanted, 1_000, lambda _: None, lambda _: None)

    def _do_heartbeat(self, action: SendHeartbeat) -> None:
        now, consumer = self._clock, self.consumer
        body = heartbeat_body(consumer.client_id, (), (action.section,))

        def done(_: object) -> None:
            self._act(consumer.heartbeat_done(action, now.now_ms))

        beat = request(RequestCode.HEART_BEAT, None, body)
        self._call(beat, HEARTBEAT_MS, done, done)

    def _do_ask_members(self, ask: AskMembers) -> None:
        consumer, clock = self.consumer, self._clock
        self._call(
            members_request(self._group),
            MEMBERS_TIMEOUT_MS,
            lambda reply: self._act(
                consumer.members_known(ask, read_members(reply, ADDRESS), clock.now_ms)
            ),
            lambda error: self._act(consumer.members_failed(ask, str(error), clock.now_ms)),
        )

    def _do_ask_start(self, ask: AskStartOffset) -> None:
        consumer, clock, settings = self.consumer, self._clock, self.consumer.settings

        def find_start() -> Conversation[StartOffset]:
            stored = yield from group_offset(ADDRESS, self._group, ask.queue)
            if stored is not None:
                return StartOffset(stored, is_stored=True)
            start_at_ms = settings.starts_at_ms(START_MS)
            chosen = yield from choose_start_offset(ADDRESS, ask.queue, settings.start, start_at_ms)
            return StartOffset(chosen, is_stored=False)

        def alive(act: Callable[[], None]) -> None:
            if self.is_alive:
                act()

        self._broker.converse(
            self._connection,
            find_start(),
            lambda start: alive(lambda: self._act(consumer.start_known(ask, start, clock.now_ms))),
            lambda error: alive(
                lambda: self._act(consumer.start_failed(ask, str(error), clock.now_ms))
            ),
        )

    def _do_pull(self, pull: Pull) -> None:
        consumer, clock = self.consumer, self._clock
        self._call(
            pull_request(pull, self._group),
            pull.timeout_ms,
            lambda reply: self._act(
                consumer.pull_answered(
                    pull, read_pull_answer(reply, pull.queue, ADDRESS), clock.now_ms
                )
            ),
            lambda error: self._act(consumer.pull_failed(pull, error, clock.now_ms)),
        )

    def _do_send_back(self, ask: SendBack) -> None:
        consumer, clock = self.consumer, self._clock

        def done(reply: Command) -> None:
            if reply.code:
                raise BrokerRefused(reply.code, reply.remark or "", ADDRESS)
            self._act(consumer.sent_back(ask, clock.now_ms))

        self._call(
            send_back_request(ask, self._group),
            SEND_BACK_TIMEOUT_MS,
            done,
            lambda error: self._act(consumer.send_back_failed(ask, str(error), clock.now_ms)),
            lambda reply: self._stored_again(ask, reply),
        )

    def _do_copy(self, copy: SendToRetry) -> None:
        consumer, clock = self.consumer, self._clock
        properties = dict(copy.properties)
        header = SendMessageV2(
            producer_group="CLIENT_INNER_PRODUCER",
            topic=copy.topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=0,
            born_timestamp=START_MS + clock.now_ms,
            flag=0,
            reconsume_times=int(properties.pop("RECONSUME_TIME")),
            max_reconsume_times=int(properties.pop("MAX_RECONSUME_TIMES")),
            properties=encode_properties(properties).decode(),
        )

        def done(reply: Command) -> None:
            if reply.code:
                raise BrokerRefused(reply.code, reply.remark or "", ADDRESS)
            self._act(consumer.copied(copy, clock.now_ms))

        self._call(
            request(RequestCode.SEND_MESSAGE_V2, header, copy.ask.message.body),
            COPY_TIMEOUT_MS,
            done,
            lambda error: self._act(consumer.copy_failed(copy, str(error), clock.now_ms)),
            lambda reply: self._stored_again(copy.ask, reply),
        )

    def _stored_again(self, ask: SendBack, reply: Command) -> None:
        """The broker has the message, whether we hear of it or not."""
        if reply.code == 0:
            self._truth.settle(ask.queue, ask.message)

    def _do_last(self, action: CommitOffset | ConfirmOffset) -> None:
        if isinstance(action, CommitOffset):
            self._do_commit(action)
        else:
            self._do_confirm(action)

    def _do_commit(self, commit: CommitOffset) -> None:
        consumer, clock = self.consumer, self._clock
        wanted = commit_request(
            self._group, commit.queue, commit.offset, oneway=not commit.is_urgent
        )
        if not commit.is_urgent:
            self._tell(wanted)
            return
        self._call(
            wanted,
            COMMIT_TIMEOUT_MS,
            lambda _: self._act(consumer.committed(commit, clock.now_ms)),
            lambda error: self._act(consumer.commit_failed(commit, str(error), clock.now_ms)),
        )

    def _do_confirm(self, ask: ConfirmOffset) -> None:
        consumer, clock = self.consumer, self._clock

        def failed(error: FlintError) -> None:
            if self.is_alive:
                self._act(consumer.confirm_failed(ask, str(error), clock.now_ms))

        def known(stored: QueueOffset | None) -> None:
            if self.is_alive:
                self._act(consumer.confirmed(ask, stored, clock.now_ms))

        def query(_: object) -> None:
            asking = group_offset(ADDRESS, self._group, ask.queue)
            self._broker.converse(self._connection, asking, known, failed)

        self._call(pull_request(ask.pull, self._group), COMMIT_TIMEOUT_MS, query, query)

    def _do_lock(self, ask: LockQueues) -> None:
        consumer, clock = self.consumer, self._clock
        self._call(
            lock_request(ask, self._group, consumer.client_id),
            LOCK_TIMEOUT_MS,
            lambda reply: self._act(
                consumer.locked(ask, read_locked(reply, ADDRESS), clock.now_ms)
            ),
            lambda error: self._act(consumer.lock_failed(ask, str(error), clock.now_ms)),
        )

    # Listeners

    def _run_listeners(self) -> None:
        while self._waiting and len(self._running) < self._threads:
            batch = self._waiting.popleft()
            if not self.consumer.started(batch, self._clock.now_ms):
                continue
            self._running.add(batch)
            self._truth.started(batch)
            lasts_ms, result = self._listener(batch, self._chance)
            self._clock.after(lasts_ms, lambda b=batch, r=result: self._ended(b, r))  # type: ignore[misc]

    def _ended(self, batch: Deliver, result: object) -> None:
        if not self.is_alive:
            return
        self._running.discard(batch)
        self._truth.ended(batch, result)
        self._act(self.consumer.consumed(batch, result, self._clock.now_ms))


def check_commits(truth: Truth) -> Callable[[Command], None]:
    """Look at every commit that reaches the broker."""

    def see(wanted: Command) -> None:
        if wanted.code == RequestCode.UPDATE_CONSUMER_OFFSET:
            commit = wanted.header(UpdateConsumerOffset)
            truth.committed(commit.topic, commit.queue_id, commit.commit_offset)
        elif wanted.code == RequestCode.PULL_MESSAGE:
            pull = wanted.header(PullMessage)
            if pull.sys_flag & PullFlag.COMMIT_OFFSET:
                truth.committed(pull.topic, pull.queue_id, pull.commit_offset)

    return see
