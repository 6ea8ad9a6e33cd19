"""Plans the micro-batches of a query that pops.

    settle the finished one ──► gather popped messages ──► cut them into tasks

An offset has only the number of its micro-batch: which messages are out, the brokers know.  After
a crash Spark runs the last micro-batch again; it is empty then, since its messages come again by
themselves when their invisible time is over.

Invariant: a micro-batch that was not committed acknowledges nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Final

from flintmq.arrow.reading.patience import patiently
from flintmq.client.engine.loop_thread import Lease
from flintmq.core.group.listener_results import MessageResult, Retry
from flintmq.errors import WrongState
from flintmq.logs import logger
from flintmq.net.clock import wall_ms
from flintmq.spark.listeners.batch_number import number_of
from flintmq.spark.listeners.batch_pace import PaceFile
from flintmq.spark.listeners.pop_member import ParkedCall, PopMember
from flintmq.spark.source import control_files as names
from flintmq.spark.source.control_files import ControlFiles
from flintmq.spark.tasks.packed_app import Program
from flintmq.spark.tasks.popped_verdicts import VERDICTS, PoppedSome, read_verdicts

log = logger("flintmq.spark")

WAIT_S: Final = 0.5
"""How long to wait for a message before Spark is told that there is none."""

NOW_S: Final = 1.0
"""The same before a run ends that consumes what is there now."""

ASKED_S: Final = 30.0
"""How long a run that consumes what is there now waits until every broker is asked."""

LOOK_S: Final = 0.25
"""How often to look whether a micro-batch is committed: the next trigger may be hours away."""

COUNT_MAX: Final = 32_000
"""Messages of one micro-batch: a thousand pops, as many as may be parked."""

Task = tuple[PoppedSome, ...]


class PopDriver:
    """Plans the micro-batches of one query."""

    def __init__(
        self,
        program: Program,
        files: ControlFiles,
        partitions: int,
        target_ms: int | None = None,
    ) -> None:
        self._program = program
        self._files = files
        self._partitions = partitions
        self._pace = PaceFile(files, target_ms)
        self._lease = Lease(f"the query of group {program.config.group!r}")
        self._member: PopMember | None = None
        self._flight: list[ParkedCall] = []
        self._number: int | None = None
        self._until_ms: int | None = None
        self._is_over = False
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="flintmq-finished", daemon=True)
        self._thread.start()

    def stop_at_now(self) -> None:
        """Consume only messages that are stored now: Trigger.AvailableNow."""
        self._until_ms = wall_ms()

    def plan(self, number: int, count_max: int | None) -> bool:
        """Gather the micro-batch after the one with this number; False where nothing came."""
        member = self._joined()
        self.finish(number)
        if self._flight:  # planned, and never run
            flight, self._flight = self._flight, []
            self._lease.call(lambda: member.put_back(flight))
        if self._is_over:
            return False
        if self._files.has(names.FINISH):
            self._files.write(names.RESTING)
            return False
        if self._until_ms is not None and not self._lease.run(member.asked_in(ASKED_S)):
            why = self._lease.run(member.troubles())
            raise WrongState(f"group {self._program.config.group!r}", "not popping", why)
        limit = self._pace.limit(count_max, number) or COUNT_MAX
        wait_s = WAIT_S if self._until_ms is None else NOW_S
        found = self._lease.run(member.gather(min(limit, COUNT_MAX), wait_s))
        if not found:
            return False
        if self._until_ms is not None:  # what comes all the time would never end
            times = [message.born_ms for call in found for message in call.messages]
            self._is_over = min(times) > self._until_ms
        with self._lock:
            self._flight, self._number = found, number + 1
            self._files.write(VERDICTS)
        return True

    def tasks(self, number: int) -> list[Task]:
        """The tasks of a micro-batch; none of one that runs again after a crash."""
        if number != self._number:
            return []
        self._pace.started(sum(len(call.messages) for call in self._flight))
        tasks = {each.subscription.topic: each.tasks for each in self._program.listeners}
        return cut_tasks(self._flight, tasks, self._partitions)

    def finish(self, number: int) -> None:
        """Settle the micro-batch with this number, once: it is committed."""
        with self._lock:
            if number != self._number or self._member is None:
                return
            flight, self._flight, self._number = self._flight, [], None
            verdicts = self._files.read(VERDICTS)  # before `plan` empties it for the next one
        results: dict[int, dict[int, MessageResult]]
        if verdicts is None:  # its rows were not read to the end: nobody knows
            unknown = Retry(reason="its outcome is not known")
            results = {
                call.pop: dict.fromkeys(range(len(call.messages)), unknown) for call in flight
            }
        else:
            results = read_verdicts(verdicts)
        self._lease.run(self._member.settle(flight, results))

    def close(self) -> None:
        """Settle what the program reported as finished, and leave the group."""
        self._closing.set()
        self._thread.join()
        try:
            self._look()
            if self._member is not None:
                self._lease.run(self._member.stop())
        finally:
            self._lease.give_back()
            self._files.write(names.LEFT)

    def _watch(self) -> None:
        while not self._closing.wait(LOOK_S):
            try:
                self._look()
            except Exception as error:  # the next trigger settles the same micro-batch
                log.warning("a finished batch is not settled yet: %s", error)

    def _look(self) -> None:
        finished = self._files.newly_finished()
        if finished is not None:
            self.finish(number_of(finished))

    def _joined(self) -> PopMember:
        if self._member is None:
            program = self._program

            def join() -> PopMember:
                member = self._lease.call(lambda: PopMember(program))
                self._lease.run(member.start())
                return member

            what = f"group {program.config.group!r} is not joined yet"
            self._member = patiently(what, program.access.retry_ms, join)
            self._files.write(names.MEMBER, {"client_id": self._member.client_id})
        return self._member


def cut_tasks(
    calls: Sequence[ParkedCall], tasks: Mapping[str, int | None], tasks_usual: int
) -> list[Task]:
    """The messages of each topic in as many tasks as its listener says, or as there are cores."""
    topics: dict[str, list[ParkedCall]] = {}
    for call in calls:
        topics.setdefault(call.messages[0].topic, []).append(call)
    made: list[Task] = []
    for topic, some in topics.items():
        count = tasks.get(topic) or tasks_usual
        total = sum(len(call.messages) for call in some)
        size = max(1, -(-total // count))
        task: list[PoppedSome] = []
        room = size
        for call in some:
            at = 0
            while at < len(call.messages):
                part = call.messages[at : at + room]
                task.append(PoppedSome(call.pop, at, part))
                at, room = at + len(part), room - len(part)
                if not room:
                    made.append(tuple(task))
                    task, room = [], size
        if task:
            made.append(tuple(task))
    return made
