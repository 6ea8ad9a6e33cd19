"""When to pull one queue, and where the answer leads.

                     nothing stands against it
           ┌─────────┐ ───────────────────────► ┌──────────┐
           │ Waiting │                          │ Awaiting │
           └─────────┘ ◄─────────────────────── └──────────┘
              reason, until       answered or failed

A loop that may pull at once waits for nothing until now.  What stands against a pull is looked
at in RocketMQ's order, and each reason has its own delay.  A full cache is also looked at again
as soon as half of it is settled, so that a fast listener does not wait out the 50 ms.

Records that cannot be decoded are reported here, and the setting ``on_bad_record`` says whether the
queue goes on behind them.  An answer without a single intact frame is pulled again a few times;
then its offset counts as such a record.

Invariant: at most one pull is under way, and only its own answer is taken; ``next_offset`` goes
back only when the broker says so, and that is reported.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec

from flintmq.core.bad_record_rule import FRAME_TRIES, KIND, broken_frame, fate_of, stops
from flintmq.core.group.actions import PULL_SUSPEND_MS, PULL_TIMEOUT_MS, ReportEvent
from flintmq.core.group.consumer_settings import MIB, ConsumerSettings
from flintmq.core.group.pull_answers import (
    MessagesFound,
    NoneMatched,
    NoNewMessage,
    OffsetMoved,
    PullAnswer,
    Unreadable,
)
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.reading.pull_request import Pull
from flintmq.errors import BrokerRefused, FlintError
from flintmq.model import properties as names
from flintmq.model.bad_record import BadRecord
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.model.route import MASTER_ID
from flintmq.protocol.codes import ResponseCode

FLOW_CONTROL_MS: Final = 50
"""How long a full cache keeps a queue from being pulled."""

PAUSED_MS: Final = 1_000
"""How often a queue is looked at that is paused or stopped."""

BROKER_BUSY_MS: Final = 20
"""After the broker said that it limits the flow (215)."""

QUICK_MS: Final = 100
"""A broker keeps a pull for seconds before it says that there is nothing.  Sooner, it does not."""

QUICK_MAX: Final = 3
"""So many in a row mean nothing: a broker that stops answers all its pulls at once."""

IDLE_MS_MAX: Final = 120_000
"""An answer that takes longer never comes: whoever drives us has lost it."""

WARN_EVERY: Final = 1_000
"""A limit is reported when it is met the first time, and then every so often."""


class Reason(StrEnum):
    """Why a queue is not pulled just now."""

    READY = "ready"
    PAUSED = "paused"
    COUNT = "too many messages cached"
    SIZE = "too many bytes cached"
    SPAN = "cached offsets too far apart"
    NOT_LOCKED = "not locked at the broker"
    NO_SUBSCRIPTION = "no subscription"
    INTERVAL = "pull interval"
    FAILED = "the last pull failed"
    BROKER_BUSY = "the broker limits the flow"
    BAD_RECORD = "a record cannot be decoded"


LIMITS: Final = frozenset({Reason.COUNT, Reason.SIZE, Reason.SPAN})


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """How much of a queue may be cached.  ``span_max`` is None in ordered consumption."""

    count_max: int
    bytes_max: int
    span_max: int | None

    @classmethod
    def of(cls, settings: ConsumerSettings, queue_count: int, *, ordered: bool) -> CacheLimits:
        """A topic's limits, where they are given, shared out among our queues of it."""
        count_max, mib_max = settings.queue_count_max, settings.queue_mib_max
        if queue_count and settings.topic_count_max is not None:
            count_max = max(1, settings.topic_count_max // queue_count)
        if queue_count and settings.topic_mib_max is not None:
            mib_max = max(1, settings.topic_mib_max // queue_count)
        return cls(count_max, mib_max * MIB, None if ordered else settings.span_max)


class Cached(Protocol):
    """What limits ask of the messages of a queue that are cached."""

    @property
    def count(self) -> int: ...

    @property
    def lowest(self) -> QueueOffset | None: ...

    @property
    def span(self) -> int: ...

    highest: QueueOffset | None
    size_bytes: int


class PullWaiting(msgspec.Struct, frozen=True):
    reason: Reason
    until_ms: int
    text: str = ""


class Awaiting(msgspec.Struct, frozen=True):
    pull: Pull
    wanted: TopicSubscription
    asked_ms: int


State: TypeAlias = PullWaiting | Awaiting


class Gate(msgspec.Struct, frozen=True):
    """What the rest of the consumer says about a pull: the parts of it and what stands against."""

    subscription: TopicSubscription | None
    sub_version: int = 0
    commit_offset: QueueOffset | None = None
    is_paused: bool = False
    is_locked: bool = True


class Taken(NamedTuple):
    """What an answer gives: messages that are wanted, bad records to settle, what is odd."""

    messages: Sequence[ReceivedMessage]
    odd: list[ReportEvent]
    bad: Sequence[BadRecord] = ()


class PullLoop:
    """The pulls of one queue."""

    def __init__(
        self,
        queue: QueueRef,
        start: QueueOffset,
        cached: Cached,
        settings: ConsumerSettings,
        limits: CacheLimits,
        now_ms: int,
    ) -> None:
        self.queue = queue
        self.next_offset = start
        self.limits = limits
        self.state: State = PullWaiting(Reason.READY, now_ms)
        self.is_full = False
        """Whether a limit is all that stands against a pull."""
        self.bad_count = 0
        """Records that could not be decoded."""
        self.stopped_by: BadRecord | None = None
        """The one behind which nothing is pulled."""
        self._cached = cached
        self._settings = settings
        self._broker_id = MASTER_ID
        self._met = dict.fromkeys(LIMITS, 0)
        self._broken_count = 0  # answers in a row without an intact frame
        self._quick_count = 0  # and without a message, at once

    @property
    def due_ms(self) -> int | None:
        """When to look again; None while an answer is due."""
        return self.state.until_ms if isinstance(self.state, PullWaiting) else None

    @property
    def has_room_again(self) -> bool:
        """Whether at least half of what fills the cache is settled."""
        cached, limits = self._cached, self.limits
        return (
            cached.count * 2 <= limits.count_max
            and cached.size_bytes * 2 <= limits.bytes_max
            and (limits.span_max is None or cached.span * 2 <= limits.span_max)
        )

    def is_lost(self, now_ms: int) -> bool:
        """Whether an answer is due for so long that it never comes."""
        state = self.state
        return isinstance(state, Awaiting) and now_ms - state.asked_ms >= IDLE_MS_MAX

    def carry(self, delta_ms: int) -> None:
        """The clock is about to be moved by so much: an answer is due for no longer by it."""
        state = self.state
        if isinstance(state, Awaiting):
            self.state = Awaiting(state.pull, state.wanted, state.asked_ms + delta_ms)

    def next_pull(self, gate: Gate, now_ms: int) -> list[Pull | ReportEvent]:
        """Pull if nothing stands against it; nothing comes back where something does."""
        assert isinstance(self.state, PullWaiting), "one pull at a time"
        reason, delay_ms = self._obstacle(gate)
        self.is_full = reason in LIMITS
        if reason is not Reason.READY:
            self.state = PullWaiting(reason, now_ms + delay_ms)
            return self._warn(reason) if self.is_full else []
        subscription, settings = gate.subscription, self._settings
        assert subscription is not None
        pull = Pull(
            self.queue,
            self.next_offset,
            subscription,
            settings.pull_batch_max,
            settings.pull_bytes_max,
            self._broker_id,
            gate.sub_version,
            gate.commit_offset,
            settings.sends_subscription,
            PULL_SUSPEND_MS,
            PULL_TIMEOUT_MS,
        )
        self.state = Awaiting(pull, subscription, now_ms)
        return [pull]

    def retry(self, reason: Reason, now_ms: int) -> None:
        """End a wait whose reason no longer holds."""
        if isinstance(self.state, PullWaiting) and self.state.reason is reason:
            self.state = PullWaiting(Reason.READY, now_ms)

    def owns(self, pull: Pull) -> bool:
        """Whether this is the pull whose answer is due."""
        return isinstance(self.state, Awaiting) and self.state.pull is pull

    def answered(self, pull: Pull, answer: PullAnswer, now_ms: int) -> Taken:
        """Take an answer.

        An offset that does not exist is not for us: the queue begins anew then.
        """
        state = self.state
        assert isinstance(state, Awaiting)
        assert state.pull is pull
        if isinstance(answer, Unreadable):
            return self._unreadable(pull, answer, now_ms)
        self._broker_id = answer.broker_id
        self.next_offset = answer.next_offset
        self._broken_count = 0
        delay_ms = self._settings.pull_interval_ms if isinstance(answer, MessagesFound) else 0
        self.state = PullWaiting(Reason.INTERVAL if delay_ms else Reason.READY, now_ms + delay_ms)
        if not isinstance(answer, MessagesFound):
            return self._empty(state, answer, now_ms)
        odd: list[ReportEvent] = []
        self._quick_count = 0
        messages: Sequence[ReceivedMessage] = answer.messages
        bad: Sequence[BadRecord] = answer.bad
        if answer.fault is not None:
            odd.append(self._report("unreadable", str(answer.fault), logging.ERROR))
        first = messages[0].queue_offset if messages else pull.offset
        if bad:
            first = min(first, bad[0].queue_offset)
        if first < pull.offset or answer.next_offset <= pull.offset:
            odd.append(self._before(pull.offset, min(first, answer.next_offset)))
            messages = [m for m in messages if m.queue_offset >= pull.offset]
            bad = [one for one in bad if one.queue_offset >= pull.offset]
            if answer.next_offset <= pull.offset:
                ends = [message.queue_offset + 1 for message in messages[-1:]]
                ends += [one.queue_offset + 1 for one in bad[-1:]]
                self.next_offset = QueueOffset(max(ends, default=pull.offset))
                self._lead_nowhere(now_ms)
        if bad:
            bad = self._judge(bad, odd)
            stop = self.stopped_by
            if stop is not None:
                messages = [m for m in messages if m.queue_offset < stop.queue_offset]
        if state.wanted.is_filtered_here:
            tags = state.wanted.chosen.tags
            messages = [m for m in messages if m.properties.get(names.TAGS) in tags]
        return Taken(messages, odd, bad)

    def failed(self, pull: Pull, error: FlintError, now_ms: int) -> list[ReportEvent]:
        """The pull was refused, or no answer came."""
        assert self.owns(pull)
        if isinstance(error, BrokerRefused) and error.code == ResponseCode.FLOW_CONTROL:
            self.state = PullWaiting(Reason.BROKER_BUSY, now_ms + BROKER_BUSY_MS, str(error))
            return []
        self._broker_id = MASTER_ID  # the replica that was suggested may be gone
        delay_ms = self._settings.pull_error_delay_ms
        self.state = PullWaiting(Reason.FAILED, now_ms + delay_ms, str(error))
        text = f"pull at {pull.offset} failed, again in {delay_ms} ms: {error}"
        return [self._report("pull", text, logging.WARNING)]

    # Inside

    def _empty(
        self, asked: Awaiting, answer: NoNewMessage | NoneMatched | OffsetMoved, now_ms: int
    ) -> Taken:
        """Nothing came.  Where a broker says so at once, several times, the client waits itself."""
        offset, led_to = asked.pull.offset, answer.next_offset
        is_quick = now_ms - asked.asked_ms < QUICK_MS and led_to <= offset
        self._quick_count = self._quick_count + 1 if is_quick else 0
        if isinstance(answer, NoneMatched) and led_to <= offset:
            self._lead_nowhere(now_ms)  # a slave that does not have the offset says so
        elif self._quick_count > QUICK_MAX:
            self.state = PullWaiting(Reason.INTERVAL, now_ms + QUICK_MS)
        return Taken((), [self._before(offset, led_to)] if led_to < offset else [])

    def _lead_nowhere(self, now_ms: int) -> None:
        """Ask again after a while, and not again and again at full speed."""
        until_ms = now_ms + self._settings.pull_error_delay_ms
        self.state = PullWaiting(Reason.FAILED, until_ms, "the answer led nowhere")

    def _unreadable(self, pull: Pull, answer: Unreadable, now_ms: int) -> Taken:
        """No frame of an answer is intact.  After a few, the queue goes on one offset behind."""
        self._broken_count += 1
        if self._broken_count < FRAME_TRIES:
            return Taken((), self.failed(pull, answer.fault, now_ms))
        self._broken_count = 0
        self.state = PullWaiting(Reason.READY, now_ms)
        self.next_offset = QueueOffset(pull.offset + 1)
        odd: list[ReportEvent] = []
        bad = self._judge([broken_frame(self.queue, pull.offset, answer.fault.reason)], odd)
        return Taken((), odd, bad)

    def _judge(self, bad: Sequence[BadRecord], odd: list[ReportEvent]) -> Sequence[BadRecord]:
        """Report bad records; those that are to be settled, up to one that stops the queue."""
        rule = self._settings.bad_rule
        for index, one in enumerate(bad):
            self.bad_count += 1
            is_end = stops(rule, one)
            level = logging.ERROR if is_end else logging.WARNING
            odd.append(self._report(KIND, f"{one}; {fate_of(rule, one)}", level))
            if is_end:
                self.stopped_by, self.next_offset = one, one.queue_offset
                return bad[:index]
        return bad

    def _obstacle(self, gate: Gate) -> tuple[Reason, int]:
        """The first thing that stands against a pull, and when to look again."""
        cached, limits = self._cached, self.limits
        if self.stopped_by is not None:
            return Reason.BAD_RECORD, PAUSED_MS
        if gate.is_paused:
            return Reason.PAUSED, PAUSED_MS
        if cached.count > limits.count_max:
            return Reason.COUNT, FLOW_CONTROL_MS
        if cached.size_bytes > limits.bytes_max:
            return Reason.SIZE, FLOW_CONTROL_MS
        if limits.span_max is not None and cached.span > limits.span_max:
            return Reason.SPAN, FLOW_CONTROL_MS
        if not gate.is_locked:
            return Reason.NOT_LOCKED, self._settings.pull_error_delay_ms
        if gate.subscription is None:
            return Reason.NO_SUBSCRIPTION, self._settings.pull_error_delay_ms
        return Reason.READY, 0

    def _warn(self, reason: Reason) -> list[Pull | ReportEvent]:
        met = self._met[reason]
        self._met[reason] = met + 1
        if met % WARN_EVERY:
            return []
        cached = self._cached
        text = (
            f"not pulled: {reason.value}; min {cached.lowest}, max {cached.highest}, "
            f"count {cached.count}, size {cached.size_bytes} bytes, times {met + 1}"
        )
        return [self._report("flow control", text, logging.WARNING)]

    def _before(self, asked: QueueOffset, given: QueueOffset) -> ReportEvent:
        text = f"asked from {asked}, the answer lies before it, at {given}"
        return self._report("offset", text, logging.ERROR)

    def _report(self, kind: str, text: str, level: int) -> ReportEvent:
        return ReportEvent(kind, str(self.queue), text, level)
