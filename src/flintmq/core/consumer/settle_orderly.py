"""What becomes of a batch when a queue is consumed in order: one batch at a time, tried in place.

    Idle ──take──► Listening ──all consumed──► Idle
                       │ given up ──► SendingBack ──done──► Idle
                       │                   │ failed
                       └─ not consumed ──► Suspended ──due──► Idle, with the same messages

A batch is judged from the front: the first message that has to be redelivered stops it, and it and
all after it stay where they are.  A message that was tried too often is given up: it goes to
the dead letters, and the queue goes on behind it.

Invariant: no message is delivered before every one in front of it is consumed or given up.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from flintmq.core.consumer.process_queue import ProcessQueue
from flintmq.core.consumer.running_batches import RunningBatches
from flintmq.core.consumer.settle_concurrent import SettleAction, SettleRules
from flintmq.core.group.actions import Deliver, ReportEvent, SendBack
from flintmq.core.group.listener_results import DEAD_LETTER_LEVEL, Again, Consumed, Outcome, Verdict
from flintmq.core.group.retry_copy import copy_to_retry
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef

SUSPEND_MS_MIN: Final = 10
SUSPEND_MS_MAX: Final = 30_000
"""A queue rests no shorter and no longer, whatever a listener asks for."""


@dataclass(frozen=True, slots=True)
class Idle:
    pass


class Listening(msgspec.Struct, frozen=True, eq=False):
    batch: Deliver


@dataclass(slots=True)
class SendingBack:
    """``stop`` messages are settled once all of ``asks`` are; the rest then rests."""

    stop: int
    suspend_ms: int
    tried: list[ReceivedMessage]
    asks: dict[QueueOffset, SendBack]
    failed: list[ReceivedMessage] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Suspended:
    until_ms: int


_IDLE: Final = Idle()

State: TypeAlias = Idle | Listening | SendingBack | Suspended


class OrderlySettling:
    """The messages of one queue, one batch after the other."""

    def __init__(
        self, queue: QueueRef, cached: ProcessQueue, rules: SettleRules, home: object = None
    ) -> None:
        self.queue = queue
        self.rules = rules
        self.home = home
        self.running = RunningBatches()
        self.state: State = _IDLE
        self._cached = cached

    @property
    def is_busy(self) -> bool:
        """Whether a listener runs, or a message is on its way to the dead letters."""
        return bool(len(self.running)) or isinstance(self.state, SendingBack)

    @property
    def sending_back(self) -> int:
        return len(self.state.asks) if isinstance(self.state, SendingBack) else 0

    def add(self, messages: Sequence[ReceivedMessage]) -> list[Deliver]:
        """New messages; `next_batch` gives them out."""
        self._cached.put_messages(messages)
        return []

    def next_batch(self) -> Deliver | None:
        """The next messages, if the queue is free to go on."""
        if self.state is not _IDLE or not self._cached.has_untaken:
            return None
        rules = self.rules
        messages = self._cached.take_messages(rules.batch_max if rules.batch_max_of is None else 1)
        batch = Deliver(self.queue, messages, self.home)
        self.state = Listening(batch)
        return batch

    def withdraw(self, batch: Deliver) -> None:
        """A batch that no listener has seen goes back to where it was."""
        if isinstance(self.state, Listening) and self.state.batch is batch:
            self._cached.roll_back()
            self.state = _IDLE

    def consumed_all(self, batch: Deliver) -> bool:
        """The listener consumed its whole batch."""
        self.running.pop(batch, None)
        if isinstance(self.state, Listening) and self.state.batch is batch:
            self._cached.commit()
            self.state = _IDLE
        return True

    def consumed_all_of(self, batches: Sequence[Deliver]) -> Sequence[Deliver]:
        """`consumed_all` for many: those that have to be looked at closely."""
        for batch in batches:
            self.consumed_all(batch)
        return ()

    def consumed(self, batch: Deliver, verdict: Verdict, now_ms: int) -> list[SettleAction]:
        """The listener is done with its batch."""
        if verdict.outcomes is None:
            self.consumed_all(batch)
            return []
        self.running.pop(batch, None)
        if not isinstance(self.state, Listening) or self.state.batch is not batch:
            return []
        return self._judge(batch, verdict.outcomes, now_ms)

    def sent_back(self, ask: SendBack, now_ms: int) -> None:
        """A broker has stored the message as a dead letter."""
        if self._owns(ask):
            assert isinstance(self.state, SendingBack)
            del self.state.asks[ask.message.queue_offset]
            self._finish(now_ms)

    def send_back_failed(self, ask: SendBack, reason: str, _now_ms: int) -> list[SettleAction]:
        if not self._owns(ask):
            return []
        report = self._report(f"{ask.message.message_id} was not taken back: {reason}")
        return [report, copy_to_retry(ask, self.rules.retry_topic)]

    def copy_failed(self, ask: SendBack, reason: str, now_ms: int) -> list[SettleAction]:
        """No broker takes the copy: the queue is suspended, and the message is tried once more."""
        if not self._owns(ask):
            return []
        assert isinstance(self.state, SendingBack)
        del self.state.asks[ask.message.queue_offset]
        self.state.failed.append(ask.message)
        self._finish(now_ms)
        return [self._report(f"no copy of {ask.message.message_id} was taken: {reason}")]

    def expire(self, _now_ms: int) -> list[SettleAction]:
        """Nothing expires: to send a slow listener's message back would break the order."""
        return []

    def tick(self, now_ms: int) -> list[SettleAction]:
        if isinstance(self.state, Suspended) and self.state.until_ms <= now_ms:
            self.state = _IDLE
        return []

    def next_due_ms(self) -> int | None:
        return self.state.until_ms if isinstance(self.state, Suspended) else None

    # Inside

    def _judge(
        self, batch: Deliver, outcomes: Sequence[Outcome], now_ms: int
    ) -> list[SettleAction]:
        """From the front: what is settled, what is given up, and where the queue stops."""
        rules = self.rules
        out: list[SettleAction] = []
        asks: dict[QueueOffset, SendBack] = {}
        stop = 0
        suspend_ms = rules.suspend_ms
        for message, outcome in zip(batch.messages, outcomes, strict=True):
            if isinstance(outcome, Again) and message.reconsume_times < rules.tries_max:
                suspend_ms = rules.suspend_ms if outcome.suspend_ms is None else outcome.suspend_ms
                break
            stop += 1
            if isinstance(outcome, Consumed):
                continue
            reason = outcome.reason or f"tried {message.reconsume_times + 1} times"
            if rules.is_broadcasting:
                out.append(self._report(f"{message.message_id} dropped: {reason}"))
                continue
            ask = SendBack(
                self.queue, message, DEAD_LETTER_LEVEL, rules.tries_max, reason, self.home
            )
            asks[message.queue_offset] = ask
            out.append(ask)
        tried = [
            message._replace(reconsume_times=message.reconsume_times + 1)
            for message, outcome in zip(batch.messages[stop:], outcomes[stop:], strict=True)
            if isinstance(outcome, Again)
        ]
        self.state = SendingBack(stop, suspend_ms, tried, asks)
        self._finish(now_ms)
        return out

    def _finish(self, now_ms: int) -> None:
        """Once nothing is on its way any more: settle the front, let the rest rest."""
        state = self.state
        assert isinstance(state, SendingBack)
        if state.asks:
            return
        stop = state.stop
        if state.failed:
            first = min(message.queue_offset for message in state.failed)
            taken = [message.queue_offset for message in self._cached.taken]
            stop = taken.index(first)
        self._cached.commit(stop)
        if not self._cached.taken:
            self.state = _IDLE
            return
        self._cached.roll_back(state.tried)
        suspend_ms = min(max(state.suspend_ms, SUSPEND_MS_MIN), SUSPEND_MS_MAX)
        self.state = Suspended(now_ms + suspend_ms)

    def _owns(self, ask: SendBack) -> bool:
        state = self.state
        if not isinstance(state, SendingBack):
            return False
        return state.asks.get(ask.message.queue_offset) is ask

    def _report(self, text: str) -> ReportEvent:
        return ReportEvent("ordered", str(self.queue), text, logging.WARNING)
