"""A consumer that is asked for messages: what to pull ahead, and what was handed out.

    apply ──► Locating ──start known──► pulling ◄──seek── anywhere
                 │ ▲ 1 s                   │
                 └─┘ failed                └──not ours any more──► Release

    pulled ──► cached ──take──► handed out ──next take──► settled ──► committed

Each queue is pulled by its own `PullLoop`; a limit on all queues together stands above theirs.
What was handed out counts as settled when more is asked for, so a batch that is still being
worked on is not committed by itself.  An offset that the broker does not have is corrected to
what it says, and pulling goes on there.

A paused queue is not pulled, and what is cached of it stays until it is resumed.

Invariant: nothing is committed that was not handed out; and after a `seek` no message comes
that was pulled before it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from flintmq.core.bad_record_rule import stopped_by
from flintmq.core.consumer.assigned_queue import START_AGAIN_MS, Locating
from flintmq.core.consumer.consumer_status import AssignedQueueStatus
from flintmq.core.consumer.due_queue import Agenda
from flintmq.core.consumer.offset_ledger import OffsetLedger, Position
from flintmq.core.consumer.pull_loop import (
    FLOW_CONTROL_MS,
    WARN_EVERY,
    Gate,
    PullLoop,
    PullWaiting,
    Reason,
)
from flintmq.core.group.actions import AskStartOffset, ReportEvent
from flintmq.core.group.pull_answers import OffsetMoved, PullAnswer
from flintmq.core.group.start_offset import StartOffset
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.pull.cached_batches import CachedBatches
from flintmq.core.pull.lite_queue import LiteQueue, Pulling
from flintmq.core.pull.lite_settings import LiteSettings
from flintmq.core.reading.pull_request import Pull
from flintmq.errors import FlintError, InvalidSetting
from flintmq.model.bad_record import BadRecord
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef

TOTAL_TEXT: Final = "too many messages cached of all queues"


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """Stop pulling a queue; store ``offset`` for it, if there is one, and forget it."""

    queue: QueueRef
    offset: QueueOffset | None


LiteAction: TypeAlias = AskStartOffset | Pull | ReportEvent | Release


class Batch(NamedTuple):
    """Messages of one queue, in order."""

    queue: QueueRef
    messages: Sequence[ReceivedMessage]


class LitePull:
    """The machine of one consumer."""

    def __init__(self, settings: LiteSettings, group: str, now_ms: int) -> None:
        self.settings = settings
        self._of_pulls = settings.of_pulls(group)
        self._limits = settings.limits
        self._homes: dict[QueueRef, LiteQueue] = {}
        self._ledger = OffsetLedger()
        self._agenda: Agenda[LiteQueue] = Agenda()
        self._ready: deque[tuple[LiteQueue, Sequence[ReceivedMessage] | BadRecord]] = deque()
        self._handed: set[LiteQueue] = set()
        self._full: set[LiteQueue] = set()
        self._total = 0
        self._times_full = 0
        self._commit_ms = now_ms + settings.auto_commit_ms

    @property
    def queues(self) -> frozenset[QueueRef]:
        return frozenset(self._homes)

    @property
    def paused(self) -> frozenset[QueueRef]:
        return frozenset(queue for queue, home in self._homes.items() if home.is_paused)

    @property
    def total_count(self) -> int:
        """Messages that are cached."""
        return self._total

    @property
    def ready_count(self) -> int:
        """Batches that `next_batch` would give one after the other."""
        return sum(not home.is_paused for home, _ in self._ready)

    def status(self) -> tuple[AssignedQueueStatus, ...]:
        """What each queue does and waits for."""
        return tuple(home.status() for home in self._homes.values())

    # Which queues

    def apply(
        self,
        wanted: Mapping[QueueRef, TopicSubscription],
        now_ms: int,
        *,
        topic: str | None = None,
    ) -> list[LiteAction]:
        """These are ours now; of one topic only, where it is named."""
        out: list[LiteAction] = []
        for queue, home in list(self._homes.items()):
            if queue in wanted:
                home.subscription = wanted[queue]
            elif topic is None or queue.topic == topic:
                out.append(self._release(home))
        for queue in sorted(wanted.keys() - self._homes.keys()):
            home = self._homes[queue] = LiteQueue(queue, wanted[queue])
            out += self._advance(home, now_ms)
        return out

    def start_known(self, ask: AskStartOffset, start: StartOffset, now_ms: int) -> list[LiteAction]:
        home = self._asking(ask)
        if home is None:
            return []
        position = self._ledger.begin(ask.queue, start.offset, is_stored=start.is_stored)
        return self._begin(home, position, now_ms)

    def start_failed(self, ask: AskStartOffset, reason: str, now_ms: int) -> list[LiteAction]:
        home = self._asking(ask)
        if home is None:
            return []
        home.stage = Locating(None, now_ms + START_AGAIN_MS)
        self._agenda.schedule(home, home.stage.due_ms)
        text = f"where to begin is not known: {reason}"
        return [ReportEvent("offset", str(ask.queue), text, logging.WARNING)]

    # Pulls

    def pulled(self, pull: Pull, answer: PullAnswer, now_ms: int) -> list[LiteAction]:
        """An answer came; one that nobody waits for any more is ignored."""
        home = self._homes.get(pull.queue)
        if home is None or not isinstance(home.stage, Pulling) or not home.stage.loop.owns(pull):
            return []
        stage = home.stage
        messages, odd, _ = stage.loop.answered(pull, answer, now_ms)
        out: list[LiteAction] = [*odd]
        highest = home.cached.highest
        if isinstance(answer, OffsetMoved):
            text = f"the broker has no {pull.offset}; goes on at {answer.next_offset}"
            out.append(ReportEvent("offset", str(pull.queue), text, logging.WARNING))
            if answer.next_offset < max(home.consumed, 0 if highest is None else highest):
                return out + self._restart(home, answer.next_offset, now_ms)
        if messages:
            new = home.cached.put(messages)
            if new:
                self._total += len(new)
                self._ready.append((home, new))
        self._stop_at(home, stage)
        self._skip(home, stage)
        return out + self._advance(home, now_ms)

    def pull_failed(self, pull: Pull, error: FlintError, now_ms: int) -> list[LiteAction]:
        home = self._homes.get(pull.queue)
        if home is None or not isinstance(home.stage, Pulling) or not home.stage.loop.owns(pull):
            return []
        reports = home.stage.loop.failed(pull, error, now_ms)
        return [*reports, *self._advance(home, now_ms)]

    def due(self, now_ms: int) -> list[LiteAction]:
        """Look at every queue whose time has come."""
        out: list[LiteAction] = []
        for home in self._agenda.pop_due(now_ms):
            if self._homes.get(home.queue) is home:
                out += self._advance(home, now_ms)
        return out

    def next_due_ms(self) -> int | None:
        return self._agenda.next_due_ms()

    # Handing out

    def next_batch(self, now_ms: int) -> tuple[Batch | None, list[LiteAction]]:
        """The oldest batch of a queue that is not paused.  All that was handed out is settled.

        Raises `UndecodableRecord` once for a queue that stops at such a record, when everything
        before it was handed out.
        """
        self.settle()
        passed_over = []
        found = None
        while self._ready and found is None:
            entry = self._ready.popleft()
            if entry[0].is_paused:
                passed_over.append(entry)
            else:
                found = entry
        self._ready.extendleft(reversed(passed_over))
        if found is None:
            return None, []
        home, messages = found
        if isinstance(messages, BadRecord):
            raise stopped_by(home.queue, messages)
        stage = home.stage
        assert isinstance(stage, Pulling)
        home.cached.take()
        self._total -= len(messages)
        self._note_consumed(home, stage)
        self._handed.add(home)
        return Batch(home.queue, messages), self._wake(home, stage, now_ms)

    def settle(self) -> None:
        """What was handed out is done."""
        for home in self._handed:
            if isinstance(home.stage, Pulling):
                home.stage.position.advance(home.consumed)
        self._handed.clear()

    # Offsets

    def auto_commit(self, now_ms: int) -> list[tuple[QueueRef, QueueOffset]]:
        """What to store now, if the consumer commits by itself and it is time."""
        if not self.settings.auto_commit or now_ms < self._commit_ms:
            return []
        self._commit_ms = now_ms + self.settings.auto_commit_ms
        return self._ledger.next_commits()

    def settled(self) -> list[tuple[QueueRef, QueueOffset]]:
        """What is settled and not stored; it counts as stored from here on."""
        return self._ledger.next_commits()

    def commit_failed(self, queue: QueueRef) -> None:
        self._ledger.failed(queue)

    def consumed(self, queue: QueueRef) -> QueueOffset | None:
        """Up to where messages were handed out; None while the start is not known."""
        home = self._require(queue)
        return home.consumed if isinstance(home.stage, Pulling) else None

    def seek(self, queue: QueueRef, offset: QueueOffset, now_ms: int) -> list[LiteAction]:
        """Go on from ``offset``, forward or back; what is cached is forgotten."""
        return self._restart(self._require(queue), offset, now_ms)

    # Pausing

    def pause(self, queues: Iterable[QueueRef]) -> None:
        for home in self._all(queues):
            home.is_paused = True

    def resume(self, queues: Iterable[QueueRef], now_ms: int) -> list[LiteAction]:
        out: list[LiteAction] = []
        for home in self._all(queues):
            home.is_paused = False
            if isinstance(home.stage, Pulling):
                home.stage.loop.retry(Reason.PAUSED, now_ms)
            out += self._advance(home, now_ms)
        return out

    # Inside

    def _all(self, queues: Iterable[QueueRef]) -> list[LiteQueue]:
        """All or none: one queue that is not ours changes nothing."""
        return [self._require(queue) for queue in queues]

    def _require(self, queue: QueueRef) -> LiteQueue:
        home = self._homes.get(queue)
        if home is None:
            reason = "is not assigned to this consumer; queues may be being shared out anew"
            raise InvalidSetting("queue", str(queue), reason)
        return home

    def _asking(self, ask: AskStartOffset) -> LiteQueue | None:
        home = self._homes.get(ask.queue)
        if home is None or not isinstance(home.stage, Locating) or home.stage.ask is not ask:
            return None
        return home

    def _begin(self, home: LiteQueue, position: Position, now_ms: int) -> list[LiteAction]:
        start = position.settled_to
        loop = PullLoop(home.queue, start, home.cached, self._of_pulls, self._limits, now_ms)
        home.consumed = start
        home.is_stopped = False
        home.stage = Pulling(loop, position)
        return self._advance(home, now_ms)

    def _restart(self, home: LiteQueue, offset: QueueOffset, now_ms: int) -> list[LiteAction]:
        self._drop_cached(home)
        home.cached = CachedBatches()
        self._ledger.reset(home.queue, offset)
        position = self._ledger.find(home.queue)
        assert position is not None
        return self._begin(home, position, now_ms)

    def _release(self, home: LiteQueue) -> Release:
        del self._homes[home.queue]
        self._drop_cached(home)
        self._agenda.drop(home)
        offset = self._ledger.next_commit(home.queue) if self.settings.auto_commit else None
        self._ledger.forget(home.queue)
        return Release(home.queue, offset)

    def _drop_cached(self, home: LiteQueue) -> None:
        self._ready = deque(entry for entry in self._ready if entry[0] is not home)
        self._total -= home.cached.count
        self._handed.discard(home)
        self._full.discard(home)

    def _stop_at(self, home: LiteQueue, stage: Pulling) -> None:
        """Tell the program, behind what is cached, where a queue stops."""
        bad = stage.loop.stopped_by
        if bad is not None and not home.is_stopped:
            home.is_stopped = True
            self._ready.append((home, bad))

    def _note_consumed(self, home: LiteQueue, stage: Pulling) -> None:
        lowest = home.cached.lowest
        home.consumed = stage.loop.next_offset if lowest is None else lowest

    def _skip(self, home: LiteQueue, stage: Pulling) -> None:
        """Where nothing is cached, what does not match is behind us too."""
        if home.cached.count:
            return
        was_settled = home not in self._handed
        self._note_consumed(home, stage)
        if was_settled:
            stage.position.advance(home.consumed)

    def _wake(self, home: LiteQueue, stage: Pulling, now_ms: int) -> list[LiteAction]:
        """There is room again: pull before the usual 50 ms are over."""
        out: list[LiteAction] = []
        loop = stage.loop
        if loop.is_full and loop.has_room_again and isinstance(loop.state, PullWaiting):
            loop.retry(loop.state.reason, now_ms)
            out += self._advance(home, now_ms)
        if self._full and self._total * 2 <= self.settings.total_count_max:
            waiting, self._full = self._full, set()
            for each in waiting:
                if isinstance(each.stage, Pulling):
                    each.stage.loop.retry(Reason.COUNT, now_ms)
                    out += self._advance(each, now_ms)
        return out

    def _advance(self, home: LiteQueue, now_ms: int) -> list[LiteAction]:
        """Ask, pull, or come back later."""
        stage = home.stage
        if isinstance(stage, Locating):
            if stage.ask is not None or stage.due_ms > now_ms:
                return []
            ask = AskStartOffset(home.queue)
            home.stage = Locating(ask, now_ms)
            return [ask]
        loop = stage.loop
        out: list[LiteAction] = []
        if loop.due_ms is not None and loop.due_ms <= now_ms:
            if self._total > self.settings.total_count_max and not home.is_paused:
                loop.state = PullWaiting(Reason.COUNT, now_ms + FLOW_CONTROL_MS, TOTAL_TEXT)
                self._full.add(home)
                out += self._warn()
            else:
                gate = Gate(home.subscription, is_paused=home.is_paused)
                out += loop.next_pull(gate, now_ms)
        self._agenda.schedule(home, loop.due_ms)
        return out

    def _warn(self) -> list[ReportEvent]:
        self._times_full += 1
        if (self._times_full - 1) % WARN_EVERY:
            return []
        text = f"not pulled: {TOTAL_TEXT}: {self._total}, times {self._times_full}"
        return [ReportEvent("flow control", "all queues", text, logging.WARNING)]
