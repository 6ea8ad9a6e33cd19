"""The places that a member pops from, and how they come and go.

The pop part of a `GroupConsumer`: events of pops, listeners and settling in, actions out.  It is
empty in a group that only pulls.

Invariant: a place is in the table from when it is assigned until nothing of it is under way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flintmq.core.group.actions import Deliver, SendBack
from flintmq.core.group.consumer_settings import ConsumerSettings
from flintmq.core.group.listener_results import Verdict
from flintmq.core.group.rebalance import Share
from flintmq.core.group.subscriptions import Subscriptions
from flintmq.core.pop.pop_request import Pop, PopFound
from flintmq.core.pop.popped_message import AckPopped, HidePopped
from flintmq.core.pop.popped_queue import PopAction, PoppedQueue
from flintmq.errors import FlintError
from flintmq.model.queue import PopSource
from flintmq.protocol.pop.receipts import ReceiptHandle


@dataclass(frozen=True, slots=True)
class PopStatus:
    """What a member does at one place that it pops from."""

    source: PopSource
    is_ours: bool
    is_asked: bool
    """Whether a pop is under way, or held."""
    unacked_count: int
    running_count: int
    popped_ms: int | None
    """When the last pop was answered."""
    trouble: str
    bad_count: int


class PopTable:
    """All places that one member pops from."""

    def __init__(self, settings: ConsumerSettings, subscriptions: Subscriptions) -> None:
        self._settings = settings
        self._subscriptions = subscriptions
        self._queues: dict[PopSource, PoppedQueue] = {}
        self.is_paused = False
        self.is_freed = False
        """Whether a pop ended of a place that is not ours any more."""

    def __iter__(self) -> Iterator[PoppedQueue]:
        return iter(list(self._queues.values()))

    def __len__(self) -> int:
        """Places where something is under way, besides pops."""
        return sum(not home.is_idle for home in self._queues.values())

    def apply(self, share: Share, now_ms: int) -> tuple[list[PopAction], bool]:
        """Pop from these places of a topic, and no others; whether that is a change."""
        has_changed = False
        for home in self:
            if home.source.topic == share.topic and home.source not in share.popped:
                has_changed |= home.is_ours
                home.is_ours = False
                self._forget(home)
        out: list[PopAction] = []
        for source in sorted(share.popped):
            known = self._queues.get(source)
            home = self._gain(source, now_ms) if known is None else known
            has_changed |= known is None or not home.is_ours
            home.is_ours = True
            out += self._advance(home, now_ms)
        return out, has_changed

    def _gain(self, source: PopSource, now_ms: int) -> PoppedQueue:
        wish = self._subscriptions.find(source.topic)
        assert wish is not None
        home = self._queues[source] = PoppedQueue(source, self._settings, wish, now_ms)
        return home

    def is_popping(self, topic: str) -> bool:
        """Whether a pop of the topic is under way, perhaps held at its broker."""
        return any(home.source.topic == topic and home.pop is not None for home in self)

    # Events

    def popped(self, pop: Pop, found: PopFound, now_ms: int) -> list[PopAction]:
        home = self._queues.get(pop.source)
        if home is None:  # given up meanwhile; its messages are consumed all the same
            home = self._gain(pop.source, now_ms)
            home.is_ours = False
        out = home.popped(pop, found, now_ms)
        self.is_freed |= not home.is_ours
        return out + self._advance(home, now_ms)

    def pop_failed(self, pop: Pop, error: FlintError, now_ms: int) -> list[PopAction]:
        home = self._queues.get(pop.source)
        if home is None:
            return []
        out = home.pop_failed(pop, error, now_ms)
        self.is_freed |= not home.is_ours
        self._forget(home)
        return out

    def consumed(
        self, home: PoppedQueue, batch: Deliver, verdict: Verdict, now_ms: int
    ) -> list[PopAction]:
        out: list[PopAction] = [*home.settling.consumed(batch, verdict, now_ms)]
        return out + self._advance(home, now_ms)

    def acked(self, ask: AckPopped, failures: Sequence[str | None], now_ms: int) -> list[PopAction]:
        home = _home(ask.home)
        home.settling.acked(ask, failures, now_ms)
        return self._advance(home, now_ms)

    def hidden(self, ask: HidePopped, newer: ReceiptHandle, now_ms: int) -> list[PopAction]:
        home = _home(ask.home)
        out: list[PopAction] = [*home.settling.hidden(ask, newer, now_ms)]
        return out + self._advance(home, now_ms)

    def hide_failed(self, ask: HidePopped, reason: str, now_ms: int) -> list[PopAction]:
        home = _home(ask.home)
        out: list[PopAction] = [*home.settling.hide_failed(ask, reason, now_ms)]
        return out + self._advance(home, now_ms)

    def dead_letter_stored(self, ask: SendBack, now_ms: int) -> list[PopAction]:
        home = _home(ask.home)
        out: list[PopAction] = [*home.settling.dead_letter_stored(ask, now_ms)]
        return out + self._advance(home, now_ms)

    def dead_letter_failed(self, ask: SendBack, reason: str, now_ms: int) -> list[PopAction]:
        home = _home(ask.home)
        out: list[PopAction] = [*home.settling.dead_letter_failed(ask, reason)]
        return out + self._advance(home, now_ms)

    # The end, and the clock

    def stop(self) -> list[PopAction]:
        return [action for home in self for action in home.settling.stop()]

    def abandon(self) -> list[PopAction]:
        return [action for home in self for action in home.settling.abandon()]

    def resume(self, now_ms: int) -> list[PopAction]:
        self.is_paused = False
        return [action for home in self for action in self._advance(home, now_ms)]

    def tick(self, now_ms: int) -> list[PopAction]:
        out: list[PopAction] = []
        for home in self:
            due_ms = home.next_due_ms(is_paused=self.is_paused)
            if due_ms is not None and due_ms <= now_ms:
                out += home.settling.tick(now_ms)
                out += self._advance(home, now_ms)
        return out

    def next_due_ms(self) -> int | None:
        times = [home.next_due_ms(is_paused=self.is_paused) for home in self._queues.values()]
        return min((each for each in times if each is not None), default=None)

    def still_running(self) -> list[Deliver]:
        return [batch for home in self for batch in home.settling.running]

    def places(self) -> tuple[PopStatus, ...]:
        return tuple(
            PopStatus(
                home.source,
                home.is_ours,
                home.pop is not None,
                len(home.settling.entries),
                sum(len(batch.messages) for batch in home.settling.running),
                home.popped_ms,
                home.settling.trouble,
                home.bad_count,
            )
            for home in sorted(self, key=lambda home: home.source)
        )

    # Inside

    def _advance(self, home: PoppedQueue, now_ms: int) -> list[PopAction]:
        out = home.next_pop(now_ms, is_paused=self.is_paused)
        self._forget(home)
        return out

    def _forget(self, home: PoppedQueue) -> None:
        """A place that is not ours is gone with the last of its messages."""
        if not home.is_ours and home.is_idle and home.pop is None:
            self._queues.pop(home.source, None)


def _home(home: object) -> PoppedQueue:
    assert isinstance(home, PoppedQueue)
    return home
