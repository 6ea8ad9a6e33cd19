"""ReceiveMessage: messages of one broker, as a stream.

    pop ─► tags compared ─► delivered too often? ─► status, messages, time of delivery
              │ differ              │ yes
              ▼                     ▼
          acknowledged         dead letter

A broker compares hashes of tags, so the texts are compared here.  A message that was delivered as
often as its group allows becomes a dead letter instead of being delivered once more.

A pop that is under way when its client leaves is waited for, and what it brings is shown to others
again after a moment.

Invariant: the first answer of a stream is its status, the last one the time of delivery.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.popping.pop_calls import PopCalls
from flintmq.core.pop.pop_request import POP_COUNT_MAX, Pop, PopFound
from flintmq.core.pop.simple_actions import BadPopped
from flintmq.errors import FlintError, InvalidExpression
from flintmq.filter.tags import TagSubscription, parse_tags
from flintmq.logs import logger
from flintmq.model import properties as names
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import PopSource
from flintmq.protocol.bodies.client import SQL92, TAG
from flintmq.protocol.pop.receipts import ReceiptHandle
from flintmq.proxy.calls.renewing import Renewing
from flintmq.proxy.tables.cluster_facts import ClusterFacts, GroupFacts
from flintmq.proxy.tables.kept_handles import GIVEN_BACK_MS, INVISIBLE_MS, KeptHandle
from flintmq.proxy.wire.caller import POLLING_TIME_SINCE, Caller
from flintmq.proxy.wire.grpc_codes import Code, FilterType
from flintmq.proxy.wire.message_classes import ReceiveMessageResponse
from flintmq.proxy.wire.message_form import form_of
from flintmq.proxy.wire.resource_names import group_of, topic_of
from flintmq.proxy.wire.statuses import StatusRefusal, ok, status

log = logger(__name__)

HOLD_MS_MIN: Final = 5_000
HOLD_MS_MAX: Final = 20_000
"""How long a receive waits for a message."""

ANSWER_MS: Final = 1_000
"""What is kept of a deadline for the answer to get back."""

LEFT_BEHIND_MAX: Final = 1_000
"""Pops that clients of one address gave up and a broker still holds: it cannot be told, and others
need its holds."""

INVISIBLE_MS_MIN: Final = 10_000
INVISIBLE_MS_MAX: Final = 12 * 3_600_000


class ChosenFilter(NamedTuple):
    """What a client wants of a topic."""

    expression_type: str
    text: str


@dataclass(frozen=True, slots=True)
class PopWish:
    """One pop of a group."""

    group: str
    pop: Pop

    @property
    def topic(self) -> str:
        return self.pop.source.topic


@dataclass(frozen=True, slots=True)
class DeliveredMessage:
    """A message and the handle of its delivery.

    Handles that clients hold have the offset in the log as a ninth field: with it a message can be
    made a dead letter.
    """

    message: ReceivedMessage
    handle: ReceiptHandle

    @property
    def reconsume_times(self) -> int:
        return self.message.reconsume_times


class ReceiveCalls:
    """Serves receives."""

    def __init__(
        self, engine: ClientEngine, facts: ClusterFacts, pops: PopCalls, renewing: Renewing
    ) -> None:
        self._engine = engine
        self._facts = facts
        self._pops = pops
        self._renewing = renewing
        self._stopping = asyncio.Event()
        self._left_behind: dict[str, int] = {}  # pops under way that nobody waits for, by address

    def stop(self) -> None:
        """Receives that wait are answered now; none waits from here on."""
        self._stopping.set()

    async def receive_message(
        self, request: Any, caller: Caller, weigh: Callable[[int], None] = lambda _: None
    ) -> AsyncGenerator[Any, None]:
        """Serve one receive; ``weigh`` hears how many bytes wait for the client."""
        topic = topic_of(request.message_queue.topic)
        group = group_of(request.group)
        invisible_ms = invisible_time(request)
        hold_ms = hold_time(request, caller)
        wanted, tags = _filter(request.filter_expression)
        facts = await self._facts.group(group, topic)
        broker, _ = await self._facts.master_of(topic, request.message_queue.broker.name)
        pop = Pop(
            PopSource(topic, broker),
            wanted,
            count_max=max(1, min(request.batch_size, POP_COUNT_MAX)),
            invisible_ms=invisible_ms,
            hold_ms=hold_ms,
            is_ordered=facts.is_ordered,
            attempt_id=request.attempt_id or None,
        )
        wish = PopWish(group, pop)
        found = await self._pop(wish, caller.ip)
        weigh(sum(len(message.body) for message in found.messages))
        chosen = await self._sift(_delivered(found), wish, tags, facts)
        if not chosen:
            yield ReceiveMessageResponse(status=_nothing(found))
        else:
            yield ReceiveMessageResponse(status=ok())
            async for message in self._deliver(chosen, wish, caller, is_kept=request.auto_renew):
                yield message
        yield self.delivered_now()

    def delivered_now(self) -> Any:
        """The last answer of every stream."""
        answer = ReceiveMessageResponse()
        answer.delivery_timestamp.FromMilliseconds(self._engine.wall())
        return answer

    async def _pop(self, wish: PopWish, host: str) -> PopFound:
        """Pop, unless the proxy stops first."""
        if self._stopping.is_set():
            return PopFound()
        if self._left_behind.get(host, 0) >= LEFT_BEHIND_MAX:
            text = "too many receives were given up, and brokers still hold them"
            raise StatusRefusal(Code.TOO_MANY_REQUESTS, text)
        popping = self._engine.spawn(self._pop_once(wish), f"pop of {wish.topic}")
        stopped = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({popping, stopped}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._left_behind[host] = self._left_behind.get(host, 0) + 1
            popping.add_done_callback(lambda _: self._caught_up(host))
            self._engine.spawn(self._give_back(popping, wish), "messages of a client that left")
            raise
        finally:
            stopped.cancel()
        if popping.done():
            return popping.result()
        self._engine.spawn(self._give_back(popping, wish), "messages of a receive that was ended")
        return PopFound()

    def _caught_up(self, host: str) -> None:
        self._left_behind[host] -= 1
        if not self._left_behind[host]:
            del self._left_behind[host]

    async def _pop_once(self, wish: PopWish) -> PopFound:
        """Pop; a record that cannot be read is a dead letter, since it would come back for ever."""
        found = await self._pops.pop(wish.group, wish.pop)
        for bad in found.bad:
            await self._pops.lay_aside(wish.group, BadPopped(wish.topic, bad), "dead_letter")
        if found.fault is not None:
            log.warning("%s: the rest of a pop: %s", wish.pop.source, found.fault)
        return found

    async def _give_back(self, popping: asyncio.Task[PopFound], wish: PopWish) -> None:
        """Show to others what came for a client that has gone."""
        try:
            found = await popping
        except FlintError:
            return
        await self._show_again(_delivered(found), wish)

    async def _show_again(self, messages: list[DeliveredMessage], wish: PopWish) -> None:
        for popped in messages:
            try:
                await self._pops.hide(wish.group, wish.topic, popped.handle, GIVEN_BACK_MS)
            except FlintError as error:
                log.info("%s: a message comes back late: %s", wish.topic, error)
                return

    async def _sift(
        self,
        messages: list[DeliveredMessage],
        wish: PopWish,
        tags: TagSubscription | None,
        facts: GroupFacts,
    ) -> list[DeliveredMessage]:
        """The messages to deliver; the others are settled here."""
        chosen = []
        for popped in messages:
            message = popped.message
            try:
                if tags is not None and not tags.matches_tag(message.tags):
                    await self._pops.ack(wish.group, wish.topic, popped.handle)
                elif popped.reconsume_times >= facts.attempts_max:
                    handle, message_id = popped.handle, message.message_id
                    await self._pops.bury(wish.group, wish.topic, handle, message_id)
                else:
                    chosen.append(popped)
            except FlintError as error:  # it comes back, and is settled then
                log.warning("%s: a popped message is not settled: %s", wish.topic, error)
        return chosen

    async def _deliver(
        self, chosen: list[DeliveredMessage], wish: PopWish, caller: Caller, *, is_kept: bool
    ) -> AsyncIterator[Any]:
        now_ms = self._engine.wall()
        left = list(chosen)
        try:
            for popped in chosen:
                text = popped.handle.text
                if is_kept:
                    kept = KeptHandle(
                        caller.client_id,
                        wish.group,
                        wish.topic,
                        popped.message.message_id,
                        text,
                        popped.handle,
                        now_ms,
                    )
                    self._renewing.keep(kept)
                made = form_of(
                    popped.message,
                    wish.topic,
                    now_ms=now_ms,
                    handle=text,
                    attempt=popped.reconsume_times + 1,
                )
                made.system_properties.invisible_duration.FromMilliseconds(wish.pop.invisible_ms)
                yield ReceiveMessageResponse(message=made)
                left.pop(0)
        finally:
            if left:  # the stream was cut
                for popped in left:
                    self._renewing.forget(wish.group, popped.handle.text)
                self._engine.spawn(self._show_again(left, wish), "messages of a cut stream")


def invisible_time(request: Any) -> int:
    """For how long what is popped is hidden."""
    if request.auto_renew:
        return INVISIBLE_MS
    invisible_ms: int = request.invisible_duration.ToMilliseconds()
    if invisible_ms < INVISIBLE_MS_MIN:
        text = f"the invisibleTime is too small. min is {INVISIBLE_MS_MIN}"
        raise StatusRefusal(Code.ILLEGAL_INVISIBLE_TIME, text)
    if invisible_ms > INVISIBLE_MS_MAX:
        text = f"the invisibleTime is too large. max is {INVISIBLE_MS_MAX}"
        raise StatusRefusal(Code.ILLEGAL_INVISIBLE_TIME, text)
    return invisible_ms


def hold_time(request: Any, caller: Caller) -> int:
    """For how long a broker may hold the pop; `StatusRefusal` where there is no time for it."""
    hold_ms = HOLD_MS_MAX
    if request.HasField("long_polling_timeout"):
        hold_ms = request.long_polling_timeout.ToMilliseconds()
    elif caller.deadline_ms is not None:
        hold_ms = caller.deadline_ms - ANSWER_MS
    hold_ms = max(HOLD_MS_MIN, min(hold_ms, HOLD_MS_MAX))
    if caller.deadline_ms is None or hold_ms <= caller.deadline_ms:
        return hold_ms
    if caller.deadline_ms >= HOLD_MS_MIN:
        return caller.deadline_ms
    known = _version(caller.version) >= _version(POLLING_TIME_SINCE)
    text = "The deadline time remaining is not enough for polling, please check network condition"
    raise StatusRefusal(Code.ILLEGAL_POLLING_TIME if known else Code.BAD_REQUEST, text)


def _version(text: str) -> tuple[int, ...]:
    parts = text.partition("-")[0].split(".")
    return tuple(int(part) if part.isascii() and part.isdigit() else 0 for part in parts)


def _filter(expression: Any) -> tuple[ChosenFilter, TagSubscription | None]:
    """A filter as a broker gets it, and its tags where it is not SQL92."""
    if expression.type == FilterType.SQL:
        if not expression.expression.strip():
            raise StatusRefusal(Code.ILLEGAL_FILTER_EXPRESSION, "there is no expression")
        return ChosenFilter(SQL92, expression.expression), None
    try:
        tags = parse_tags(expression.expression)
    except InvalidExpression as error:
        raise StatusRefusal(Code.ILLEGAL_FILTER_EXPRESSION, str(error)) from None
    return ChosenFilter(TAG, tags.text), tags


def _delivered(found: PopFound) -> list[DeliveredMessage]:
    messages = []
    for each in found.messages:
        handle = ReceiptHandle.parse(each.properties[names.POP_CK])
        messages.append(DeliveredMessage(each, handle._replace(log_offset=each.log_offset)))
    return messages


def _nothing(found: PopFound) -> Any:
    if found.is_full:
        return status(Code.TOO_MANY_REQUESTS, "polling full")
    if found.messages:
        return status(Code.MESSAGE_NOT_FOUND, "no match message")
    return status(Code.MESSAGE_NOT_FOUND, "no new message")
