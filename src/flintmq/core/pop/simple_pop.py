"""Which broker a simple consumer asks next, and who gets what it answers.

    receive ──► buffered messages? ──► hand out
                   │ none
                   ▼
             one broker after the other, without waiting ──► the first that has some: hand out
                   │ none has any
                   ▼
             all of them at once, each may hold the pop ──► the first answer: hand out
                                                             others: buffered for the next receive

A program with one topic on one broker has one held pop and no buffer.  With several, a pop that is
still held when a receive is over may bring messages that nobody asked for yet.  They are buffered;
one that waited for a while is hidden anew when it is handed out, and one that nobody takes within
half of its invisible time is shown to others again.  So is everything buffered at the end.

Invariant: every message of an answer is handed out once, or returned; each source has at most one
pop under way.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from flintmq.core.bad_record_rule import KIND
from flintmq.core.group.actions import ReportEvent
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.pop.pop_request import (
    POP_COUNT_MAX,
    START_AT_END,
    Pop,
    PopFound,
    is_without_pop,
)
from flintmq.core.pop.simple_actions import (
    AckUnwanted,
    BadPopped,
    HandOut,
    HideBuffered,
    Receiving,
    SimpleAction,
)
from flintmq.core.refusals import is_access_refusal
from flintmq.errors import BrokerRefused, FlintError, NoRoute
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import PopSource
from flintmq.protocol.codes import ResponseCode

HOLD_MS_MAX: Final = 5_000
"""How long a broker may hold a pop; a receive that waits longer asks again.  Brokers of RocketMQ do
not wake a held pop for messages that come again, and what a hold brings after its receive is over
waits in the buffer."""

REST_MS: Final = 1_000
"""How long a source rests after an error, or while its broker holds as many pops as it can."""

LAST_MS: Final = 100
"""A receive with less time than this left asks nobody any more: brokers end a hold 50 ms early."""

QUICK_MS: Final = 50
QUICK_REST_MS: Final = 200
"""A broker that ends a hold at once is not asked again at once."""

FRESH_MS: Final = 1_000
"""A buffered message that is older is hidden anew before it is handed out."""

FINAL_CODES: Final = frozenset(
    {int(ResponseCode.SUBSCRIPTION_PARSE_FAILED), int(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)}
)
"""Refusals that waiting does not mend."""


@dataclass(slots=True)
class _Source:
    pop: Pop | None = None
    asked_ms: int = 0
    rest_until_ms: int = 0
    error: FlintError | None = None


class _Buffered(NamedTuple):
    message: ReceivedMessage
    topic: str
    invisible_ms: int
    popped_ms: int

    @property
    def return_ms(self) -> int:
        return self.popped_ms + self.invisible_ms // 2


class SimplePop:
    """The machine of one simple consumer.  Topics have their wire names."""

    def __init__(self, start_mode: int = START_AT_END) -> None:
        self._start_mode = start_mode
        self._wanted: dict[str, TopicSubscription] = {}
        self._sources: dict[PopSource, _Source] = {}
        self._turn: deque[PopSource] = deque()
        self._receiving: deque[Receiving] = deque()
        self._buffer: deque[_Buffered] = deque()
        self._is_closed = False
        self._seen_ms = -1  # what was due then is done, or waits for an answer
        self.bad_count = 0

    # Topics and brokers

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(self._wanted)

    def subscribe(self, subscription: TopicSubscription) -> None:
        """Pop a topic from now on, or by another filter."""
        self._wanted[subscription.topic] = subscription

    def unsubscribe(self, topic: str) -> None:
        """Pop a topic no more; what is held for it is returned when it comes."""
        self._wanted.pop(topic, None)
        self._forget(source for source in list(self._sources) if source.topic == topic)

    def route_known(self, topic: str, brokers: Iterable[str], now_ms: int) -> list[SimpleAction]:
        """The brokers that have queues of a topic to read, and a master."""
        if topic not in self._wanted:
            return []
        found = {PopSource(topic, broker) for broker in brokers}
        self._forget(
            source
            for source in list(self._sources)
            if source.topic == topic and source not in found
        )
        for source in sorted(found - self._sources.keys()):
            self._sources[source] = _Source()
            self._turn.append(source)
            for receiving in self._receiving:
                receiving.sweep = None
        return self._advance(now_ms)

    # Receives

    def receive(self, receiving: Receiving, now_ms: int) -> list[SimpleAction]:
        """Somebody wants messages."""
        self._receiving.append(receiving)
        return self._advance(now_ms)

    def give_up(self, receiving: Receiving) -> None:
        """Nobody waits for it any more; what was hidden anew for it is for the next one."""
        if receiving in self._receiving:
            self._receiving.remove(receiving)

    def popped(self, pop: Pop, found: PopFound, now_ms: int) -> list[SimpleAction]:
        """A broker answered."""
        source = self._ended(pop)
        out: list[SimpleAction] = []
        for each in self._receiving:
            each.is_answered = True
        if source is not None:
            source.error = None
            source.rest_until_ms = now_ms + _rest_ms(pop, found, now_ms - source.asked_ms)
        topic = pop.source.topic
        wanted = self._of_filter(pop, found.messages, out)
        for bad in found.bad:
            self.bad_count += 1
            out.append(BadPopped(topic, bad))
        if found.fault is not None:
            text = f"the rest of an answer cannot be read and comes again: {found.fault}"
            out.append(ReportEvent(KIND, str(pop.source), text, logging.WARNING))
        if wanted and source is not None:
            self._turn.remove(pop.source)
            self._turn.append(pop.source)  # the others are asked before it next time
        self._buffer.extend(_Buffered(each, topic, pop.invisible_ms, now_ms) for each in wanted)
        return out + self._advance(now_ms)

    def pop_failed(self, pop: Pop, error: FlintError, now_ms: int) -> list[SimpleAction]:
        """A broker did not answer, or refused."""
        source = self._ended(pop)
        if source is None:
            return self._advance(now_ms)
        out: list[SimpleAction] = []
        if source.error is None:
            out.append(ReportEvent("pop", str(pop.source), str(error), logging.WARNING))
        source.error = error
        source.rest_until_ms = now_ms + REST_MS
        if _is_final(error):
            while self._receiving:
                out.append(HandOut(self._receiving.popleft(), (), error))
        return out + self._advance(now_ms)

    def hidden(
        self, ask: HideBuffered, message: ReceivedMessage, now_ms: int
    ) -> list[SimpleAction]:
        """A buffered message is hidden anew, or returned."""
        receiving = ask.to
        if receiving is None:
            return []
        receiving.renewing -= 1
        if receiving in self._receiving:
            receiving.renewed.append(message)
        else:
            self._buffer.appendleft(_Buffered(message, ask.topic, ask.invisible_ms, now_ms))
        return self._advance(now_ms)

    def hide_failed(self, ask: HideBuffered, reason: str, now_ms: int) -> list[SimpleAction]:
        """It comes back by itself when its invisible time is over."""
        text = f"{ask.message.message_id} comes again in a while: {reason}"
        out: list[SimpleAction] = [ReportEvent("return", ask.topic, text, logging.WARNING)]
        if ask.to is not None:
            ask.to.renewing -= 1
        return out + self._advance(now_ms)

    # The clock

    def tick(self, now_ms: int) -> list[SimpleAction]:
        return self._advance(now_ms)

    def next_due_ms(self) -> int | None:
        times = [each.until_ms for each in self._receiving]
        times += [each.return_ms for each in self._buffer]
        if self._receiving:
            times += [each.rest_until_ms for each in self._sources.values() if each.pop is None]
        return min((each for each in times if each > self._seen_ms), default=None)

    def close(self, now_ms: int) -> list[SimpleAction]:
        """Return what nobody took, now and whatever still comes; end every receive."""
        self._is_closed = True
        out: list[SimpleAction] = []
        while self._receiving:
            receiving = self._receiving.popleft()
            out.append(HandOut(receiving, tuple(receiving.renewed)))
        return out + self._advance(now_ms)

    def sources(self) -> list[tuple[PopSource, bool, str]]:
        """Who is asked: whether a pop is under way, and the last error."""
        return [
            (source, state.pop is not None, "" if state.error is None else str(state.error))
            for source, state in self._sources.items()
        ]

    @property
    def buffered_count(self) -> int:
        """Messages that nobody has asked for yet."""
        return len(self._buffer)

    # Inside

    def _ended(self, pop: Pop) -> _Source | None:
        source = self._sources.get(pop.source)
        if source is None or source.pop is not pop:
            return None
        source.pop = None
        return source

    def _forget(self, sources: Iterable[PopSource]) -> None:
        for source in sources:
            del self._sources[source]
            self._turn.remove(source)

    def _of_filter(
        self, pop: Pop, messages: list[ReceivedMessage], out: list[SimpleAction]
    ) -> list[ReceivedMessage]:
        """Brokers compare hashes of tags; what only has the same hash is acknowledged."""
        wish = pop.subscription
        if not isinstance(wish, TopicSubscription) or not wish.is_filtered_here:
            return messages
        wanted = [each for each in messages if wish.chosen.matches_tag(each.tags)]
        if len(wanted) < len(messages):
            others = tuple(each for each in messages if each not in wanted)
            out.append(AckUnwanted(pop.source.topic, others))
        return wanted

    def _advance(self, now_ms: int) -> list[SimpleAction]:
        """Do what can be done now."""
        out: list[SimpleAction] = []
        self._seen_ms = now_ms
        self._return_old(out, now_ms)
        while self._receiving:
            first = self._receiving[0]
            if not first.renewing and not first.renewed:
                self._take_buffered(first, out, now_ms)
            if self._awaits_renewals(first):
                break
            if first.renewed:
                self._receiving.popleft()
                out.append(HandOut(first, tuple(first.renewed)))
                continue
            self._ask(first, out, now_ms)
            if first.until_ms > now_ms or self._is_sweeping:
                break
            self._receiving.popleft()
            out.append(HandOut(first, (), self._why_nothing(first)))
        for late in [each for each in self._receiving if each.until_ms <= now_ms]:
            if late is not self._receiving[0]:
                self._receiving.remove(late)
                out.append(HandOut(late))
        return out

    @staticmethod
    def _awaits_renewals(receiving: Receiving) -> bool:
        """Whether its messages are on their way."""
        return receiving.renewing > 0

    @property
    def _is_sweeping(self) -> bool:
        """Whether a pop that does not wait is under way."""
        return any(each.pop is not None and not each.pop.hold_ms for each in self._sources.values())

    def _take_buffered(self, first: Receiving, out: list[SimpleAction], now_ms: int) -> None:
        while self._buffer and len(first.renewed) + first.renewing < first.count_max:
            each = self._buffer.popleft()
            is_fresh = now_ms - each.popped_ms <= FRESH_MS
            if is_fresh and each.invisible_ms == first.invisible_ms:
                first.renewed.append(each.message)
            else:
                first.renewing += 1
                out.append(HideBuffered(each.message, each.topic, first.invisible_ms, first))

    def _return_old(self, out: list[SimpleAction], now_ms: int) -> None:
        kept: deque[_Buffered] = deque()
        for each in self._buffer:
            if self._is_closed or each.topic not in self._wanted or each.return_ms <= now_ms:
                out.append(HideBuffered(each.message, each.topic, 0, None))
            else:
                kept.append(each)
        self._buffer = kept

    def _ask(self, first: Receiving, out: list[SimpleAction], now_ms: int) -> None:
        """Ask sources for the first who waits: in turn without a hold, then all with one."""
        if first.sweep is None:
            may_hold = first.until_ms - now_ms >= LAST_MS
            alone = len(self._sources) == 1 and may_hold
            first.sweep = deque(() if alone else self._turn)
        if self._is_sweeping:
            return
        while first.sweep:
            source = first.sweep.popleft()
            state = self._sources.get(source)
            if state is not None and state.pop is None and state.rest_until_ms <= now_ms:
                out.append(self._pop(source, first, 0, now_ms))
                return
        left_ms = first.until_ms - now_ms
        if left_ms < LAST_MS:
            return
        hold_ms = min(left_ms, HOLD_MS_MAX)
        for source, state in self._sources.items():
            if state.pop is None and state.rest_until_ms <= now_ms:
                out.append(self._pop(source, first, hold_ms, now_ms))

    def _pop(self, source: PopSource, first: Receiving, hold_ms: int, now_ms: int) -> Pop:
        count_max = min(first.count_max, POP_COUNT_MAX)
        wish = self._wanted[source.topic]
        pop = Pop(source, wish, count_max, first.invisible_ms, hold_ms, self._start_mode)
        state = self._sources[source]
        state.pop, state.asked_ms = pop, now_ms
        return pop

    def _why_nothing(self, receiving: Receiving) -> FlintError | None:
        """Why a receive has no messages, if no broker could say that there are none."""
        if receiving.is_answered:
            return None
        for state in self._sources.values():
            if state.error is not None:
                return state.error
        if self._sources:
            return None
        topic = next(iter(self._wanted), "")
        return NoRoute(topic, "no broker of it is known")


def _is_final(error: FlintError) -> bool:
    if is_access_refusal(error) or is_without_pop(error):
        return True
    return isinstance(error, BrokerRefused) and error.code in FINAL_CODES


def _rest_ms(pop: Pop, found: PopFound, took_ms: int) -> int:
    """How long a source rests after an answer."""
    if found.is_full:
        return REST_MS
    is_empty = not (found.messages or found.bad)
    return QUICK_REST_MS if is_empty and pop.hold_ms and took_ms < QUICK_MS else 0
