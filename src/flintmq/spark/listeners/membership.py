"""The group membership of a query, for its source: blocking calls to a `GroupMember` on a loop.

    join ──► positions ──► plan ──► … the micro-batch … ──► positions ──► … ──► leave

It also reads and writes the control files of the query: a micro-batch that the program reports as
finished is committed within half a second, also while Spark is idle, and the program learns until
when the queue locks of the running micro-batch are valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from flintmq.client.engine.loop_thread import Lease
from flintmq.errors import WrongState
from flintmq.model.queue import QueueOffset, QueueRef, Span
from flintmq.spark.listeners.group_member import GroupMember
from flintmq.spark.source import control_files as names
from flintmq.spark.source.control_files import ControlFiles
from flintmq.spark.source.stream_offset import StreamOffset
from flintmq.spark.tasks.packed_app import Program

SETTLE_S: Final = 30.0
"""How long a query waits at its start until its queues are assigned."""

FIRST_S: Final = 5.0
"""The same for the first micro-batch of a run that goes on: the next trigger may be hours away."""

LOCKED_S: Final = 90.0
"""The same where locks are needed: a broker keeps those of a program that died for a minute."""


class Membership:
    """A member of a group, for one thread."""

    def __init__(self, program: Program, files: ControlFiles) -> None:
        self._files = files
        self._has_ordered = program.has_ordered
        self._lease_written: Any = None
        self._lease = Lease(f"the query of group {program.config.group!r}")
        try:
            self._member = self._lease.call(lambda: GroupMember(program, self._tick))
        except BaseException:
            self._lease.give_back()
            raise

    def join(self, stops: Mapping[QueueRef, QueueOffset]) -> None:
        """Join the group; ``stops`` are the offsets that the checkpoint of the query has."""
        try:
            self._lease.run(self._member.start(stops))
        except BaseException:
            self._lease.give_back()
            raise
        self._files.write(names.MEMBER, {"client_id": self._member.client_id})
        self._lease.run(self._member.settle(FIRST_S))

    def settle(self) -> None:
        """Wait until the queues of the query are assigned and their start offsets known."""
        timeout_s = LOCKED_S if self._has_ordered else SETTLE_S
        if not self._lease.run(self._member.settle(timeout_s)):
            reason = self._lease.call(self._member.troubles)
            raise WrongState(f"group {self._member.group!r}", "not shared out", reason)

    def positions(self, stops: Mapping[QueueRef, QueueOffset]) -> Mapping[QueueRef, QueueOffset]:
        """Commit the micro-batch up to ``stops``; the next offset of each owned queue."""
        return self._lease.run(self._member.ready(stops))

    def finish(self, stops: Mapping[QueueRef, QueueOffset]) -> None:
        """Commit the micro-batch up to ``stops``."""
        self._lease.run(self._member.finish(stops))

    def plan(self, spans: Iterable[Span]) -> None:
        """A micro-batch with these spans runs from now on; the program learns its lease."""
        self._lease.call(lambda: self._member.owned.plan(spans))
        self._lease.run(self._tick(self._member))

    def ahead_of(self, spans: Iterable[Span]) -> list[Span]:
        """The part of a repeated micro-batch that the query still has to read."""
        return self._lease.call(lambda: self._member.ahead_of(spans))

    def broken(self) -> list[QueueRef]:
        """Queues of the running micro-batch whose locks were lost."""
        return self._lease.call(self._member.broken)

    def wait(self, positions: Mapping[QueueRef, QueueOffset], timeout_s: float) -> bool:
        """Wait for new messages or a new assignment; False when the time is up."""
        return self._lease.run(self._member.new_messages.wait(positions, timeout_s))

    def leave(self) -> None:
        """Commit what the program reported as finished, unlock, and leave the group."""
        try:
            self._lease.run(self._tick(self._member))
            self._lease.run(self._member.stop())
        finally:
            self._lease.give_back()
            self._files.write(names.LEFT)

    async def _tick(self, member: GroupMember) -> None:
        """On the loop, twice a second: read ``finished``, and write ``lease`` if it changed."""
        finished = self._files.newly_finished()
        if finished is not None:
            await member.finish(StreamOffset.from_json(finished).stops)
        if self._has_ordered:
            lease = {
                "until_ms": member.lease_until_wall_ms(),
                "broken": [str(queue) for queue in member.broken()],
            }
            if lease != self._lease_written:
                self._lease_written = lease
                self._files.write(names.LEASE, lease)
