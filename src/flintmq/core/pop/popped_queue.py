"""One place that a member pops from: when it is popped, and what comes of an answer.

    pop ──► messages ──► Deliver ──► listener ──► settled (`core.pop.settle_popped`)
     ▲                                               │ room for more
     └── unless ``unacked_max`` are under way, the member stops, or it rests ◄──┘

A place that is not ours any more is popped no further; what was popped is still consumed, since it
is ours by its receipts.  A member that stops returns what no listener has begun.

Invariant: at most one pop is under way, and at most ``unacked_max`` messages.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from flintmq.core.bad_record_rule import KIND
from flintmq.core.group.actions import PULL_SUSPEND_MS, Deliver, ReportEvent
from flintmq.core.group.consumer_settings import ConsumerSettings
from flintmq.core.group.listener_results import CONSUMED
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.pop.pop_request import POP_COUNT_MAX, Pop, PopFound
from flintmq.core.pop.pop_settings import pop_start_mode
from flintmq.core.pop.settle_popped import PoppedSettling, SettlePopped
from flintmq.core.pop.simple_actions import BadPopped
from flintmq.errors import BrokerRefused, FlintError
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import PopSource, QueueRef
from flintmq.protocol.codes import ResponseCode

REST_MS: Final = 1_000
"""After a pop that failed, or that the broker could not hold; what Java waits."""

BUSY_MS: Final = 20
"""After a broker said that it is too busy; what Java waits."""

QUICK_MS: Final = 50
QUICK_REST_MS: Final = 200
"""A broker that ends a hold at once is not asked again at once."""

PopAction: TypeAlias = Pop | Deliver | SettlePopped | BadPopped


class PoppedQueue:
    """One place to pop from.  ``source`` has wire names."""

    def __init__(
        self,
        source: PopSource,
        settings: ConsumerSettings,
        subscription: TopicSubscription,
        now_ms: int,
    ) -> None:
        self.source = source
        self.is_ours = True
        self.popped_ms: int | None = None
        self.settling = PoppedSettling(source, settings, self)
        self.rest_until_ms = now_ms
        self.pop: Pop | None = None
        self._asked_ms = now_ms
        self._settings = settings
        self._subscription = subscription
        self.bad_count = 0

    def __repr__(self) -> str:
        return f"<PoppedQueue {self.source}, {len(self.settling.entries)} under way>"

    @property
    def is_idle(self) -> bool:
        """Whether nothing of it is under way but, perhaps, a pop."""
        return not self.settling.entries

    # Pops

    def next_pop(self, now_ms: int, *, is_paused: bool) -> list[PopAction]:
        """The next pop, if it is time for one."""
        if self.pop is not None or not self.is_ours or self.settling.is_stopping or is_paused:
            return []
        room = self._settings.unacked_max - len(self.settling.entries)
        if room <= 0:
            return []
        if self.rest_until_ms > now_ms:
            return []
        settings = self._settings
        self.pop = Pop(
            self.source,
            self._subscription,
            min(POP_COUNT_MAX, settings.pull_batch_max, room),
            settings.invisible_ms,
            PULL_SUSPEND_MS,
            pop_start_mode(settings.start_from),
        )
        self._asked_ms = now_ms
        return [self.pop]

    def next_due_ms(self, *, is_paused: bool) -> int | None:
        """When to look at it again, besides when something is answered."""
        waits = self.pop is None and self.is_ours and not is_paused
        waits = waits and not self.settling.is_stopping
        has_room = len(self.settling.entries) < self._settings.unacked_max
        times = [self.settling.due_ms, self.rest_until_ms if waits and has_room else None]
        return min((each for each in times if each is not None), default=None)

    def popped(self, pop: Pop, found: PopFound, now_ms: int) -> list[PopAction]:
        """A broker answered."""
        settling = self.settling
        self._answered(pop)
        self.popped_ms, settling.trouble = now_ms, ""
        self.rest_until_ms = now_ms + self._rest_ms(found, now_ms - self._asked_ms)
        out: list[PopAction] = []
        if found.fault is not None:
            text = f"the rest of an answer cannot be read and comes again: {found.fault}"
            out.append(ReportEvent(KIND, str(self.source), text, logging.WARNING))
        for bad in found.bad:
            self.bad_count += 1
            out.append(BadPopped(self.source.topic, bad))
        done = [settling.add(message, now_ms) for message in found.unwanted]
        fresh: list[ReceivedMessage] = []
        for message in found.messages:
            entry = settling.add(message, now_ms)
            refused = settling.refuse(entry) if self._is_wanted(message) else CONSUMED
            if settling.is_stopping:
                out.append(settling.give_back(entry))
            elif refused is not None:
                entry.outcome = refused
                done.append(entry)
            else:
                fresh.append(entry.message)
        for entry in done:
            entry.outcome = entry.outcome or CONSUMED
        return [*out, *settling.settle(done, now_ms), *self._batches(fresh)]

    def pop_failed(self, pop: Pop, error: FlintError, now_ms: int) -> list[PopAction]:
        """A pop was refused, or no answer came."""
        self._answered(pop)
        if isinstance(error, BrokerRefused) and error.code == ResponseCode.FLOW_CONTROL:
            self.rest_until_ms = now_ms + BUSY_MS
            return []
        self.rest_until_ms = now_ms + REST_MS
        is_new, self.settling.trouble = not self.settling.trouble, str(error)
        level = logging.WARNING if is_new else logging.DEBUG
        text = f"pop failed, again in {REST_MS} ms: {error}"
        return [ReportEvent("pop", str(self.source), text, level)]

    # Inside

    def _answered(self, pop: Pop) -> None:
        if self.pop is pop:
            self.pop = None

    def _rest_ms(self, found: PopFound, took_ms: int) -> int:
        if found.is_full:
            return REST_MS
        if found.messages or found.bad or found.unwanted:
            return self._settings.pull_interval_ms
        return QUICK_REST_MS if took_ms < QUICK_MS else 0

    def _is_wanted(self, message: ReceivedMessage) -> bool:
        """Brokers compare hashes of tags; what only has the same hash is acknowledged."""
        wish = self._subscription
        return not wish.is_filtered_here or wish.chosen.matches_tag(message.tags)

    def _batches(self, messages: Sequence[ReceivedMessage]) -> Iterable[Deliver]:
        size = self._subscription.batch_max or self._settings.batch_max
        for at in range(0, len(messages), size):
            some = tuple(messages[at : at + size])
            queue = QueueRef(self.source.topic, self.source.broker, some[0].queue_id)
            yield Deliver(queue, some, self)
