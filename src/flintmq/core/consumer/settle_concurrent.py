"""What becomes of a batch when messages of a queue are consumed in any order.

    Deliver ──► listener ──► consumed ───────────────────────────────► settled
                    │            failed ──► SendBack ──done──────────► settled
                    │                          │ failed ─► SendToRetry ──done──► settled
                    │                                          │ failed
                    │  ◄──────────── again after 5 s ──────────┘
                    └─ runs too long ─► SendBack, once ──done──► settled, its result is ignored

In broadcasting nothing is sent back: a message that fails is dropped, and reported.
`settle_rules` derives the `SettleRules` of a queue, of either order, from the group's settings.

Invariant: a message leaves the cache only when a listener consumed it or a broker stored it
again; so the lowest offset in the cache is the one to commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import attrgetter
from typing import Final, TypeAlias

from flintmq.core.consumer.process_queue import ProcessQueue
from flintmq.core.consumer.running_batches import EXPIRED_MAX, RunningBatches
from flintmq.core.group.actions import Deliver, ReportEvent, SendBack, SendToRetry
from flintmq.core.group.consumer_settings import ConsumerSettings
from flintmq.core.group.listener_results import DEAD_LETTER_LEVEL, Again, Consumed, Dead, Verdict
from flintmq.core.group.retry_copy import EXPIRED_LEVEL, copy_to_retry
from flintmq.core.group.subscriptions import Subscriptions
from flintmq.model.group import with_namespace
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef

AGAIN_MS: Final = 5_000
"""When a message is delivered again that could not be sent back."""

_messages_of: Callable[[Deliver], tuple[ReceivedMessage, ...]] = attrgetter("messages")

SettleAction: TypeAlias = Deliver | SendBack | SendToRetry | ReportEvent


@dataclass(frozen=True, slots=True)
class SettleRules:
    """The rules by which messages of one queue are settled."""

    batch_max: int
    tries_max: int
    retry_topic: str
    consume_timeout_ms: int
    suspend_ms: int
    batch_max_of: Callable[[str], int] | None = None
    """In a retry topic messages of several topics meet: a batch is of one, and of its size."""
    is_broadcasting: bool = False
    is_dead_lettering: bool = True
    """Whether records that cannot be decoded are dead letters."""
    may_copy: bool = True
    """Whether a copy in the retry topic is redelivered.  In groups that hold locks brokers take
    every such copy for a dead letter."""


class ConcurrentSettling:
    """The messages of one queue on their way through listeners."""

    def __init__(
        self, queue: QueueRef, cached: ProcessQueue, rules: SettleRules, home: object = None
    ) -> None:
        self.queue = queue
        self.home = home
        self.rules = rules
        self.running = RunningBatches()
        self._cached = cached
        self._asks: dict[QueueOffset, SendBack] = {}
        self._again: list[tuple[int, ReceivedMessage]] = []

    @property
    def is_busy(self) -> bool:
        """Whether something is under way that will still settle messages."""
        return bool(len(self.running) or self._asks)

    @property
    def sending_back(self) -> int:
        return len(self._asks)

    def add(self, messages: Sequence[ReceivedMessage]) -> list[Deliver]:
        """Deliver new messages, cut into batches."""
        return self._batches(self._cached.put_messages(messages))

    def next_batch(self) -> Deliver | None:
        """Nothing waits here: `add` gives everything out at once."""
        return None

    def consumed_all(self, batch: Deliver) -> bool:
        """A listener consumed a whole batch.  False if that has to be looked at closely."""
        if self._asks:
            return False
        self.running.pop(batch, None)
        self._cached.remove(batch.messages)
        return True

    def consumed_all_of(self, batches: Sequence[Deliver]) -> Sequence[Deliver]:
        """`consumed_all` for many: those that have to be looked at closely."""
        if self._asks:
            return batches
        self.running.pop_all(batches)
        self._cached.remove(chain.from_iterable(map(_messages_of, batches)))
        return ()

    def consumed(self, batch: Deliver, verdict: Verdict, _now_ms: int) -> list[SettleAction]:
        """A listener is done with a batch."""
        self.running.pop(batch, None)
        out: list[SettleAction] = []
        outcomes = verdict.outcomes or (Consumed(),) * len(batch.messages)
        for message, outcome in zip(batch.messages, outcomes, strict=True):
            offset = message.queue_offset
            if offset in self._asks or offset not in self._cached:
                continue  # it ran too long and was sent back meanwhile
            if isinstance(outcome, Consumed):
                self._cached.remove((message,))
            elif self.rules.is_broadcasting:
                self._cached.remove((message,))
                text = f"{message.message_id} dropped: {outcome.reason or 'not consumed'}"
                out.append(self._report("broadcasting", text))
            else:
                out.append(self._send_back(message, outcome))
        return out

    def sent_back(self, ask: SendBack, _now_ms: int) -> None:
        """A broker has stored the message again, itself or its copy."""
        if self._asks.pop(ask.message.queue_offset, None) is ask:
            self._cached.remove((ask.message,))

    def send_back_failed(self, ask: SendBack, reason: str, now_ms: int) -> list[SettleAction]:
        """The broker of the queue did not take it back; perhaps another takes a copy."""
        if self._asks.get(ask.message.queue_offset) is not ask:
            return []
        text = f"{ask.message.message_id} was not taken back: {reason}"
        report = self._report("send back", text)
        if ask.delay_level != DEAD_LETTER_LEVEL and not self.rules.may_copy:
            return [report, *self._come_again(ask, now_ms)]
        return [report, copy_to_retry(ask, self.rules.retry_topic)]

    def copy_failed(self, ask: SendBack, reason: str, now_ms: int) -> list[SettleAction]:
        """No broker takes the copy: the message is delivered here again."""
        if self._asks.get(ask.message.queue_offset) is not ask:
            return []
        text = f"no copy of {ask.message.message_id} was taken: {reason}"
        return [self._report("send back", text), *self._come_again(ask, now_ms)]

    def expire(self, now_ms: int) -> list[SettleAction]:
        """Send messages back whose listeners run for too long."""
        out: list[SettleAction] = []
        if self.rules.is_broadcasting:
            return out
        for batch in self.running.overdue(self.rules.consume_timeout_ms, now_ms):
            for message in batch.messages:
                offset = message.queue_offset
                if offset in self._asks or offset not in self._cached:
                    continue
                if len(out) == EXPIRED_MAX:
                    return out
                assert batch.started_ms is not None
                reason = f"its listener runs for {now_ms - batch.started_ms} ms"
                outcome = Again(EXPIRED_LEVEL, reason=reason)
                out.append(self._send_back(message, outcome, is_overdue=True))
        return out

    def tick(self, now_ms: int) -> list[SettleAction]:
        """Deliver the messages whose redelivery is due."""
        due = [message for due_ms, message in self._again if due_ms <= now_ms]
        if not due:
            return []
        self._again = [each for each in self._again if each[0] > now_ms]
        return list(self._batches(due))

    def next_due_ms(self) -> int | None:
        return self._again[0][0] if self._again else None

    # Inside

    def _batches(self, messages: Sequence[ReceivedMessage]) -> list[Deliver]:
        rules = self.rules
        if rules.batch_max_of is None:
            return self._cut(messages, rules.batch_max)
        batches = []
        for topic, some in groupby(messages, attrgetter("topic")):
            batches += self._cut(list(some), rules.batch_max_of(topic))
        return batches

    def _cut(self, messages: Sequence[ReceivedMessage], size: int) -> list[Deliver]:
        queue, home = self.queue, self.home
        if size == 1:
            return [Deliver(queue, (message,), home) for message in messages]
        return [
            Deliver(queue, tuple(messages[at : at + size]), home)
            for at in range(0, len(messages), size)
        ]

    def _send_back(
        self, message: ReceivedMessage, outcome: Again | Dead, *, is_overdue: bool = False
    ) -> SendBack:
        level = DEAD_LETTER_LEVEL if isinstance(outcome, Dead) else outcome.delay_level
        tries_max, reason = self.rules.tries_max, outcome.reason
        ask = SendBack(self.queue, message, level, tries_max, reason, self.home, is_overdue)
        self._asks[message.queue_offset] = ask
        return ask

    def _come_again(self, ask: SendBack, now_ms: int) -> Iterable[SettleAction]:
        """Redeliver a message later; not while its listener runs, whose end tries again."""
        message = ask.message
        del self._asks[message.queue_offset]
        if any(message in batch.messages for batch in self.running):
            return ()
        tried = message._replace(reconsume_times=message.reconsume_times + 1)
        self._again.append((now_ms + AGAIN_MS, tried))
        return (self._report("retry", f"{message.message_id} comes again in {AGAIN_MS} ms"),)

    def _report(self, kind: str, text: str) -> ReportEvent:
        return ReportEvent(kind, str(self.queue), text, logging.WARNING)


def settle_rules(
    settings: ConsumerSettings, subscriptions: Subscriptions, topic: str
) -> SettleRules:
    """``topic`` is that of the queue, as on the wire."""
    ordered = subscriptions.is_ordered(topic)

    def batch_max_of(own_topic: str) -> int:
        return subscriptions.batch_max(with_namespace(settings.namespace, own_topic))

    return SettleRules(
        batch_max=subscriptions.batch_max(topic),
        tries_max=settings.tries_max(ordered=ordered),
        retry_topic=settings.retry_topic,
        consume_timeout_ms=settings.consume_timeout_ms,
        suspend_ms=settings.ordered_suspend_ms,
        batch_max_of=batch_max_of if topic == settings.retry_topic else None,
        is_broadcasting=not settings.is_clustering,
        is_dead_lettering=settings.bad_rule == "dead_letter",
        may_copy=not subscriptions.has_ordered,
    )
