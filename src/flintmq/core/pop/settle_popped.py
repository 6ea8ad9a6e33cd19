"""What becomes of popped messages: acknowledged, hidden for a delay, renewed, dead letters.

`core.pop.popped_message` has the life of a message.  What cannot be settled within its invisible
time comes again by itself: that is reported, and nothing else is done.

Invariant: a message leaves the table when the broker knows its fate, or when its invisible time is
over and the broker decides it alone.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from flintmq.core.group.actions import Deliver, ReportEvent, SendBack
from flintmq.core.group.consumer_settings import ConsumerSettings
from flintmq.core.group.listener_results import (
    CONSUMED,
    DEAD_LETTER_LEVEL,
    Again,
    Consumed,
    Dead,
    Outcome,
    Verdict,
)
from flintmq.core.group.redelivery import redelivery_delay
from flintmq.core.group.retry_copy import FIRST_LEVEL
from flintmq.core.pop.popped_message import AckPopped, HidePopped, HideWhy, PoppedMessage
from flintmq.model import properties as names
from flintmq.model.delay_levels import delay_ms
from flintmq.model.group import without_namespace
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import PopSource, QueueRef
from flintmq.protocol.pop.receipts import ReceiptHandle

AGAIN_MS: Final = 1_000
"""When a message is settled again after that failed."""

RENEWALS_MAX: Final = 64
"""Renewals of one place under way at once: thousands would fill the connection for seconds, and
nothing would be acknowledged in time."""

SettlePopped: TypeAlias = AckPopped | HidePopped | SendBack | ReportEvent


class PoppedSettling:
    """The messages under way of one place that is popped."""

    def __init__(self, source: PopSource, settings: ConsumerSettings, home: object) -> None:
        self.source = source
        self.trouble = ""
        """Why the broker was not reached last, or nothing."""
        self.entries: dict[str, PoppedMessage] = {}
        """By the receipt that the message came with."""
        self.running: dict[Deliver, None] = {}
        self.is_stopping = False
        self._is_abandoned = False
        self._settings = settings
        self._home = home
        self._tries_max = settings.tries_max(ordered=False)
        self._renewing: set[PoppedMessage] = set()
        self._to_renew: deque[PoppedMessage] = deque()
        self.due_ms: int | None = None

    def add(self, message: ReceivedMessage, now_ms: int) -> PoppedMessage:
        """A message was popped just now."""
        receipt = message.properties[names.POP_CK]
        topic = without_namespace(self._settings.namespace, message.topic)
        seen = message if topic == message.topic else message._replace(topic=topic)
        invisible_ms = self._settings.invisible_ms
        entry = PoppedMessage(
            seen, ReceiptHandle.parse(receipt), now_ms + invisible_ms, now_ms + invisible_ms // 2
        )
        self.entries[receipt] = entry
        self._due(entry.renew_ms)
        return entry

    def refuse(self, entry: PoppedMessage) -> Outcome | None:
        """What becomes of a message that no listener may get; None where one may."""
        times = entry.message.reconsume_times
        if times > self._tries_max:
            return Dead(f"delivered {times} times and never settled")
        return None

    def give_back(self, entry: PoppedMessage) -> HidePopped:
        """Show a message to others again."""
        return self._hide(entry, 0, HideWhy.RETURN)

    # Listeners

    def started(self, batch: Deliver, now_ms: int) -> bool:
        """A listener is about to begin; False where its messages are not ours any more."""
        found = list(filter(None, map(self._find, batch.messages)))
        are_ours = len(found) == len(batch.messages) and not self.is_stopping
        if not are_ours or any(entry.expires_ms <= now_ms for entry in found):
            for entry in found:
                entry.is_refused = True
            self._due(now_ms)
            return False
        batch.started_ms = now_ms
        self.running[batch] = None
        for entry in found:
            entry.started_ms = now_ms
        return True

    def consumed(self, batch: Deliver, verdict: Verdict, now_ms: int) -> list[SettlePopped]:
        """A listener is done with a batch."""
        self.running.pop(batch, None)
        outcomes: Sequence[Outcome] = verdict.outcomes or (CONSUMED,) * len(batch.messages)
        done = []
        for message, outcome in zip(batch.messages, outcomes, strict=True):
            entry = self._find(message)
            if entry is not None and entry.outcome is None:
                entry.outcome = outcome
                done.append(entry)
        return self.settle(done, now_ms)

    # How settling went

    def acked(
        self, ask: AckPopped, failures: Sequence[str | None], now_ms: int
    ) -> list[SettlePopped]:
        """Messages are acknowledged, or not, each with why."""
        for entry, failure in zip(ask.entries, failures, strict=True):
            if entry.under_way is ask:
                if failure is None:
                    self._drop(entry)
                else:
                    self.trouble = failure
                    self._later(entry, now_ms)
        return []

    def hidden(self, ask: HidePopped, newer: ReceiptHandle, now_ms: int) -> list[SettlePopped]:
        """A message is hidden anew."""
        self._renewing.discard(ask.entry)
        return [*self._hidden(ask, newer, now_ms), *self._renew_some(now_ms)]

    def _hidden(self, ask: HidePopped, newer: ReceiptHandle, now_ms: int) -> list[SettlePopped]:
        entry = ask.entry
        if entry.under_way is not ask:
            return []
        if ask.why is HideWhy.RENEW:
            entry.under_way = None
            entry.handle = newer
            self._renewed(entry, now_ms)
            if entry.outcome is None and self._is_returned(entry):
                return [self.give_back(entry)]
            return self.settle([entry], now_ms)
        self._drop(entry)
        if ask.why is HideWhy.RETURN or not isinstance(entry.outcome, Again):
            return []
        message, level = entry.message, entry.outcome.delay_level
        plan = redelivery_delay(message, level, self._tries_max)
        text = f"{message.message_id} goes back: {entry.outcome.reason or 'not consumed'}; {plan}"
        return [ReportEvent("retry", str(self.source), text)]

    def hide_failed(self, ask: HidePopped, reason: str, now_ms: int) -> list[SettlePopped]:
        """Whether the broker did it is not known."""
        self._renewing.discard(ask.entry)
        return [*self._hide_failed(ask, reason, now_ms), *self._renew_some(now_ms)]

    def _hide_failed(self, ask: HidePopped, reason: str, now_ms: int) -> list[SettlePopped]:
        entry = ask.entry
        if entry.under_way is not ask:
            return []
        self.trouble = reason
        if ask.why is HideWhy.RETURN:
            self._drop(entry)
            return []
        entry.under_way = None
        if ask.why is HideWhy.RENEW:
            entry.renew_ms = now_ms + AGAIN_MS
            self._due(entry.renew_ms)
            return self.settle([entry], now_ms)
        self._later(entry, now_ms)
        return []

    def dead_letter_stored(self, ask: SendBack, now_ms: int) -> list[SettlePopped]:
        """A broker has the dead letter: the message itself is done."""
        entry = self._find(ask.message)
        if entry is None or entry.under_way is not ask:
            return []
        entry.under_way, entry.outcome = None, CONSUMED
        return self.settle([entry], now_ms)

    def dead_letter_failed(self, ask: SendBack, reason: str) -> list[SettlePopped]:
        """No broker took the dead letter: the message comes again, and is given up then."""
        entry = self._find(ask.message)
        if entry is None or entry.under_way is not ask:
            return []
        entry.under_way = None
        text = f"{ask.message.message_id} is no dead letter yet, it comes again: {reason}"
        report = ReportEvent("dead letter", str(self.source), text, logging.WARNING)
        return [report, self._hide(entry, delay_ms(FIRST_LEVEL), HideWhy.RETRY)]

    # The end, and the clock

    def stop(self) -> list[SettlePopped]:
        """Pop no more, and return what no listener has begun."""
        self.is_stopping = True
        return [
            self.give_back(entry)
            for entry in list(self.entries.values())
            if entry.started_ms is None and entry.outcome is None and entry.under_way is None
        ]

    def abandon(self) -> list[SettlePopped]:
        """Wait no longer for listeners: what they have comes again."""
        self.running.clear()
        self._is_abandoned = True
        return [
            self.give_back(entry)
            for entry in list(self.entries.values())
            if entry.outcome is None and entry.under_way is None
        ]

    def tick(self, now_ms: int) -> list[SettlePopped]:
        """Renew, settle again, and forget what is over."""
        self.due_ms = None
        out: list[SettlePopped] = []
        again = []
        for entry in list(self.entries.values()):
            if entry.is_refused and entry.under_way is None and entry.expires_ms > now_ms:
                out.append(self.give_back(entry))
            elif entry.expires_ms <= now_ms and entry.under_way is None:
                if entry.outcome is not None or entry.started_ms is None:
                    out += self._lose(entry)
                    continue
            elif entry.again_ms is not None:
                if entry.again_ms <= now_ms:
                    entry.again_ms = None
                    again.append(entry)
            elif entry.renew_ms <= now_ms and self._is_to_renew(entry):
                entry.waits_for_renewal = True
                self._to_renew.append(entry)
            self._due_of(entry, now_ms)
        return [*out, *self.settle(again, now_ms), *self._renew_some(now_ms)]

    # Inside

    def _is_returned(self, entry: PoppedMessage) -> bool:
        """Whether nobody is to consume it here any more."""
        if entry.is_refused or self._is_abandoned:
            return True
        return self.is_stopping and entry.started_ms is None

    def _find(self, message: ReceivedMessage) -> PoppedMessage | None:
        return self.entries.get(message.properties[names.POP_CK])

    def _drop(self, entry: PoppedMessage) -> None:
        entry.under_way = None
        self.entries.pop(entry.message.properties[names.POP_CK], None)

    def _queue_of(self, message: ReceivedMessage) -> QueueRef:
        return QueueRef(self.source.topic, self.source.broker, message.queue_id)

    def settle(self, entries: Iterable[PoppedMessage], now_ms: int) -> list[SettlePopped]:
        """Do what follows from outcomes, where nothing else is under way."""
        out: list[SettlePopped] = []
        acks: list[PoppedMessage] = []
        for entry in entries:
            if entry.under_way is not None:
                continue
            if entry.expires_ms <= now_ms:
                out += self._lose(entry)
            elif isinstance(entry.outcome, Consumed):
                acks.append(entry)
            elif isinstance(entry.outcome, Again) and not self._is_given_up(entry):
                level = entry.outcome.delay_level
                level = level if level > 0 else FIRST_LEVEL + entry.message.reconsume_times
                out.append(self._hide(entry, delay_ms(level), HideWhy.RETRY))
            elif entry.outcome is not None:
                out.append(self._bury(entry, entry.outcome))
        if acks:
            source = self.source
            ack = AckPopped(source.topic, source.broker, tuple(acks), self._home)
            for entry in acks:
                entry.under_way = ack
            out.append(ack)
        return out

    def _is_given_up(self, entry: PoppedMessage) -> bool:
        return entry.message.reconsume_times >= self._tries_max

    def _bury(self, entry: PoppedMessage, outcome: Outcome) -> SendBack:
        reason = outcome.reason if isinstance(outcome, Again | Dead) else ""
        message = entry.message
        ask = SendBack(
            self._queue_of(message), message, DEAD_LETTER_LEVEL, self._tries_max, reason, self._home
        )
        entry.under_way = ask
        return ask

    def _hide(self, entry: PoppedMessage, invisible_ms: int, why: HideWhy) -> HidePopped:
        ask = HidePopped(self.source.topic, entry, invisible_ms, why, self._home)
        entry.under_way = ask
        return ask

    def _renew_some(self, now_ms: int) -> list[SettlePopped]:
        """Renew what waits for it, as far as there is room."""
        out: list[SettlePopped] = []
        while self._to_renew and len(self._renewing) < RENEWALS_MAX:
            entry = self._to_renew.popleft()
            entry.waits_for_renewal = False
            is_here = self._find(entry.message) is entry and entry.expires_ms > now_ms
            if is_here and self._is_to_renew(entry):
                out += self._renew(entry, now_ms)
                self._due_of(entry, now_ms)
        return out

    def _is_to_renew(self, entry: PoppedMessage) -> bool:
        is_idle = entry.under_way is None and not entry.waits_for_renewal
        return is_idle and entry.outcome is None

    def _renew(self, entry: PoppedMessage, now_ms: int) -> list[SettlePopped]:
        started_ms = entry.started_ms
        timeout_ms = self._settings.consume_timeout_ms
        if started_ms is None or now_ms - started_ms < timeout_ms:
            self._renewing.add(entry)
            return [self._hide(entry, self._settings.invisible_ms, HideWhy.RENEW)]
        entry.renew_ms = entry.expires_ms
        if entry.is_overdue:
            return []
        entry.is_overdue = True
        text = (
            f"{entry.message.message_id} comes again: its listener runs for "
            f"{now_ms - started_ms} ms, longer than {timeout_ms} ms"
        )
        return [ReportEvent("retry", str(self.source), text, logging.WARNING)]

    def _renewed(self, entry: PoppedMessage, now_ms: int) -> None:
        entry.expires_ms = now_ms + self._settings.invisible_ms
        entry.renew_ms = now_ms + self._settings.invisible_ms // 2
        self._due(entry.renew_ms)

    def _later(self, entry: PoppedMessage, now_ms: int) -> None:
        entry.under_way = None
        entry.again_ms = now_ms + AGAIN_MS
        self._due(entry.again_ms)

    def _lose(self, entry: PoppedMessage) -> list[SettlePopped]:
        """Its invisible time is over: the broker gives it to somebody again."""
        self._drop(entry)
        what = "no listener began it" if entry.started_ms is None else "it was not settled"
        text = f"{entry.message.message_id} comes again: {what} within its invisible time"
        if self.trouble:
            text += f"; {self.trouble}"
        return [ReportEvent("expired", str(self.source), text, logging.WARNING)]

    def _due(self, due_ms: int) -> None:
        if self.due_ms is None or due_ms < self.due_ms:
            self.due_ms = due_ms

    def _due_of(self, entry: PoppedMessage, now_ms: int) -> None:
        """When to look at a message again; one that something is under way for needs no look."""
        if entry.under_way is not None:
            return
        due_ms = entry.renew_ms if entry.again_ms is None else entry.again_ms
        if due_ms > now_ms:
            self._due(min(due_ms, entry.expires_ms))
