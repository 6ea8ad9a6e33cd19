"""What becomes of the records of a queue that cannot be decoded, where they are dead letters.

    take ──► DeadLetterRecord ──stored──► settled
                  │ refused, up to `REFUSED_MAX` times: again after 5 s; then reported, and settled
                  │ no answer: again after 5 s, as often as it takes
                  └── of which nothing but the offset is known: settled at once

The broker copies its own record, byte for byte, so nothing has to be decoded for it.  Listeners
and the order of messages are not concerned: the queue goes on meanwhile.

Invariant: an offset is held in the cache until a broker has stored the copy or refused it for
good, so nothing at or behind it is committed before.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final, TypeAlias

from flintmq.core.bad_record_rule import KIND
from flintmq.core.consumer.process_queue import ProcessQueue
from flintmq.core.group.actions import DeadLetterRecord, ReportEvent
from flintmq.model.bad_record import BadRecord
from flintmq.model.queue import QueueOffset, QueueRef

AGAIN_MS: Final = 5_000
"""When a record is sent back again that was not taken; as with messages that failed."""

REFUSED_MAX: Final = 6
"""How often a broker may say no to one record: its reason may pass, but a queue that commits
nothing behind it for ever would be stopped all the same."""

BadAction: TypeAlias = DeadLetterRecord | ReportEvent


class BadSettling:
    """The bad records of one queue that are on their way to the dead letters."""

    def __init__(self, queue: QueueRef, cached: ProcessQueue, home: object) -> None:
        self._queue = queue
        self._cached = cached
        self._home = home
        self._asks: dict[QueueOffset, DeadLetterRecord] = {}
        self._again: list[tuple[int, DeadLetterRecord]] = []

    @property
    def in_flight(self) -> int:
        """Records that a broker was asked to store and has not answered for."""
        return len(self._asks)

    def send_to_dead_letters(self, bad: Iterable[BadRecord]) -> list[BadAction]:
        """Have a broker copy these."""
        out: list[BadAction] = []
        for one in bad:
            if one.raw:
                self._cached.hold(one.queue_offset)
                out.append(self._ask(one, 0))
            else:
                self._cached.pass_over(one.queue_offset)
        return out

    def stored(self, ask: DeadLetterRecord) -> None:
        if self._done(ask):
            self._cached.release(ask.bad.queue_offset)

    def refused(self, ask: DeadLetterRecord, reason: str, now_ms: int) -> list[BadAction]:
        """A broker answered, and does not take it."""
        if not self._done(ask):
            return []
        times = ask.refused + 1
        if times < REFUSED_MAX:
            return self._later(ask.bad, times, reason, now_ms)
        self._cached.release(ask.bad.queue_offset)
        text = f"{ask.bad} and is no dead letter: skipped, refused {times} times: {reason}"
        return [ReportEvent(KIND, str(self._queue), text, logging.ERROR)]

    def failed(self, ask: DeadLetterRecord, reason: str, now_ms: int) -> list[BadAction]:
        """The request for a dead letter got no answer."""
        return self._later(ask.bad, ask.refused, reason, now_ms) if self._done(ask) else []

    def tick(self, now_ms: int) -> list[BadAction]:
        """Ask again for what is due."""
        due = [ask for due_ms, ask in self._again if due_ms <= now_ms]
        if not due:
            return []
        self._again = [each for each in self._again if each[0] > now_ms]
        return [self._ask(ask.bad, ask.refused) for ask in due]

    def next_due_ms(self) -> int | None:
        return self._again[0][0] if self._again else None

    # Inside

    def _ask(self, bad: BadRecord, refused: int) -> DeadLetterRecord:
        ask = DeadLetterRecord(self._queue, bad, refused, self._home)
        self._asks[bad.queue_offset] = ask
        return ask

    def _done(self, ask: DeadLetterRecord) -> bool:
        if self._asks.get(ask.bad.queue_offset) is not ask:
            return False
        del self._asks[ask.bad.queue_offset]
        return True

    def _later(self, bad: BadRecord, refused: int, reason: str, now_ms: int) -> list[BadAction]:
        self._again.append(
            (now_ms + AGAIN_MS, DeadLetterRecord(self._queue, bad, refused, self._home))
        )
        text = f"{bad.queue_offset} is no dead letter yet, again in {AGAIN_MS} ms: {reason}"
        return [ReportEvent("send back", str(self._queue), text, logging.WARNING)]
