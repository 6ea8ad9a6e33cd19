"""The membership of a query, for its source: calls that wait, over a loop on a thread of its own.

    join ──► positions ──► plan ──► … the batch … ──► positions ──► … ──► leave

Besides, it reads and leaves the notes by which the program that runs the query hears of it: a
batch that is done is committed within half a second, also when Spark is idle, and the program
knows until when the locks of the batch hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from flintmq.client.engine.loop_thread import Lease
from flintmq.errors import WrongState
from flintmq.model.queue import QueueOffset, QueueRef, Span
from flintmq.spark.listeners import control_files as names
from flintmq.spark.listeners.control_files import Notes
from flintmq.spark.listeners.group_member import GroupMember
from flintmq.spark.listeners.packed_app import Program
from flintmq.spark.source.stream_offset import StreamOffset

SETTLE_S: Final = 30.0
"""How long a query waits at its start to hear which queues are its own."""

LOCKED_S: Final = 90.0
"""The same where locks are needed: a broker keeps those of a program that died for a minute."""


class Membership:
    """A member of a group, for one thread."""

    def __init__(self, program: Program, notes: Notes) -> None:
        self._notes = notes
        self._has_ordered = program.has_ordered
        self._lease = Lease(f"the query of group {program.config.group!r}")
        self._said: Any = None
        self._heard: Any = None
        try:
            self._member = self._lease.run(self._make(program))
        except BaseException:
            self._lease.give_back()
            raise

    async def _make(self, program: Program) -> GroupMember:
        return GroupMember(program, self._tick)

    @property
    def client_id(self) -> str:
        return self._member.client_id

    def join(self, stops: Mapping[QueueRef, QueueOffset]) -> None:
        """Be a member; ``stops`` is how far the query got before, as its checkpoint says."""
        try:
            self._lease.run(self._member.start(stops))
        except BaseException:
            self._lease.give_back()
            raise
        self._notes.write(names.MEMBER, {"client_id": self.client_id})

    def settle(self) -> None:
        """Wait until it is known which queues are ours and where each goes on."""
        timeout_s = LOCKED_S if self._has_ordered else SETTLE_S
        if not self._lease.run(self._member.settle(timeout_s)):
            reason = self._lease.run(self._troubles())
            raise WrongState(f"group {self._member.group!r}", "not shared out", reason)

    async def _troubles(self) -> str:
        return self._member.troubles()

    def positions(self, stops: Mapping[QueueRef, QueueOffset]) -> Mapping[QueueRef, QueueOffset]:
        """The batch up to ``stops`` is done: commit it.  What is ours now, and where it goes on."""
        return self._lease.run(self._member.ready(stops))

    def finish(self, stops: Mapping[QueueRef, QueueOffset]) -> None:
        """The batch up to ``stops`` is done: commit it."""
        self._lease.run(self._member.finish(stops))

    def plan(self, spans: Iterable[Span]) -> None:
        self._lease.run(self._plan(spans))

    async def _plan(self, spans: Iterable[Span]) -> None:
        await self._member.plan(spans)
        await self._tick(self._member)

    def ahead_of(self, spans: Iterable[Span]) -> list[Span]:
        """Of a batch that runs again, what still has to be read by us."""
        return self._lease.run(self._member.ahead_of(spans))

    def broken(self) -> list[QueueRef]:
        """Queues of the batch that runs whose locks were lost."""
        return self._lease.run(self._member.broken())

    def wait(self, positions: Mapping[QueueRef, QueueOffset], timeout_s: float) -> bool:
        """Wait for new messages, or for other queues; whether something came."""
        return self._lease.run(self._member.arrivals.wait(positions, timeout_s))

    def leave(self) -> None:
        """Commit what the program knows to be done, unlock, and be no member any more."""
        try:
            self._lease.run(self._last_look())
            self._lease.run(self._member.stop())
        finally:
            self._lease.give_back()
            self._notes.write(names.LEFT)

    async def _last_look(self) -> None:
        await self._tick(self._member)

    async def _tick(self, member: GroupMember) -> None:
        """On the loop, twice a second: hear what the program says, and say how it stands."""
        finished = self._notes.read(names.FINISHED)
        if finished is not None and finished != self._heard:
            self._heard = finished
            await member.finish(StreamOffset.from_json(finished).stops)
        if self._has_ordered:
            broken = await member.broken()
            say = {
                "until_ms": member.lease_until_wall_ms(),
                "broken": [str(queue) for queue in broken],
            }
            if say != self._said:
                self._said = say
                self._notes.write(names.LEASE, say)
