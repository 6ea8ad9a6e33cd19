"""Threads that run listeners, and how work is handed to them.

    submit ──► waiting ──admitted──► chunk of one worker ──run──► done ──► loop, many at once
                  ▲                        │
                  └──── taken back ◄───────┘  its worker has been on one job for too long

The loop alone hands work out, so a job is admitted on the loop just before a worker gets it.
Threads of one interpreter take turns, so quick jobs go to one worker in chunks worth about a
millisecond; slow ones, which wait for something, go to a worker each.  A worker that is stuck in
a job loses the rest of its chunk to others.

The pool grows up to ``size_max`` as work needs it, and shrinks to ``size_min`` when workers are
idle for a while.  Both can be changed at any time.  Its threads are daemons: a listener that
never returns does not keep the process.

Invariant: a job is run once, by one worker, and reported once.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from queue import SimpleQueue
from time import perf_counter_ns
from traceback import format_stack
from types import FrameType
from typing import Final, Generic, NamedTuple, TypeVar

J = TypeVar("J")

CHUNK_NS: Final = 1_000_000
"""How much work a worker is given at once."""

CHUNK_MAX: Final = 256
"""Jobs of one chunk, however quick they are."""

CHUNKS_AHEAD: Final = 2
"""Chunks of a busy worker: while it runs one, the next is ready."""

QUICK_NS: Final = 100_000
"""Jobs that take longer probably wait for something: another thread can use the time."""

STUCK_NS: Final = 2_000_000
"""A worker that is on one job for so long keeps nothing else waiting."""

LOOK_S: Final = 0.002
"""How often to look for stuck workers while others wait."""

IDLE_S: Final = 60.0
"""How long a worker above the minimum may be idle."""

STEP_UP: Final = 17 / 16
STEP_DOWN: Final = 16 / 17
COST_NS_MIN: Final = 500.0
COST_NS_MAX: Final = 1e9
"""What a job is thought to take, and how fast that is learned."""

LEARNED_MAX: Final = 16
"""Of jobs that a worker reports together, so many are learned from: the others are like them."""


class RunningJob(NamedTuple, Generic[J]):
    """A job that a worker has now, and where in the code it is."""

    job: J
    worker: str
    running_ms: int
    stack: str


class _Worker(Generic[J]):
    """One thread.  All but ``job``, ``since_ns`` and ``done`` belongs to the loop."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.chunks: SimpleQueue[deque[J] | None] = SimpleQueue()
        self.given: list[deque[J]] = []
        self.pending = 0
        self.idle_since_s = 0.0
        self.job: J | None = None
        self.since_ns = 0
        self.done: deque[tuple[J, int]] = deque()
        self.thread: threading.Thread

    def give(self, chunk: deque[J]) -> None:
        self.given = [each for each in self.given if each]
        self.given.append(chunk)
        self.pending += len(chunk)
        self.chunks.put(chunk)

    def take_back(self) -> list[J]:
        """The jobs of this worker that it has not begun."""
        taken: list[J] = []
        for chunk in reversed(self.given):
            while chunk:
                try:
                    taken.append(chunk.pop())
                except IndexError:  # its thread was quicker
                    break
        taken.reverse()
        self.pending -= len(taken)
        self.given = []
        return taken

    def is_stuck(self, now_ns: int) -> bool:
        return self.job is not None and now_ns - self.since_ns > STUCK_NS


class Pool(Generic[J]):
    """Workers of one consumer.  Methods are called on the loop it was made on.

    ``run`` is called on a worker and must not raise; ``admit`` says just before which of some
    jobs are still wanted; ``done`` is given jobs that ended, with how long each took in ns.
    """

    def __init__(
        self,
        name: str,
        size_min: int,
        size_max: int,
        *,
        run: Callable[[J], None],
        admit: Callable[[list[J]], list[J]],
        done: Callable[[list[tuple[J, int]]], None],
    ) -> None:
        self._name = name
        self._size_min = size_min
        self._size_max = size_max
        self._run = run
        self._admit = admit
        self._on_done = done
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[J] = deque()
        self._ready: deque[J] = deque()  # admitted, and taken back from a worker
        self._workers: list[_Worker[J]] = []
        self._serial = 0
        self._is_told = False
        self._is_feed_due = False
        self._cost_ns = float(CHUNK_NS)
        self._relief_timer: asyncio.TimerHandle | None = None
        self._shrinker: asyncio.TimerHandle | None = None
        self._leaving: list[_Worker[J]] = []
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<Pool {self._name}, {self.size} threads, {self.waiting_count} waiting>"

    @property
    def size(self) -> int:
        return len(self._workers)

    @property
    def waiting_count(self) -> int:
        """Jobs that no worker has yet."""
        return len(self._waiting) + len(self._ready)

    def submit(self, jobs: Iterable[J]) -> None:
        """Have these run, in this order as far as workers allow.

        They are handed out at the end of this turn of the loop: answers for several queues come
        together, and waking a worker costs more than a quick job.
        """
        self._waiting.extend(jobs)
        if not self._is_feed_due:
            self._is_feed_due = True
            self._loop.call_soon(self._feed)

    def resize(self, size_min: int, size_max: int) -> None:
        """Change the bounds.  Workers that are too many leave as soon as they are idle."""
        self._size_min = size_min
        self._size_max = size_max
        self._shrink(at_once=True)
        self._feed()

    def running(self, *, with_stacks: bool = True) -> list[RunningJob[J]]:
        """What workers are at now."""
        frames: dict[int, FrameType] = sys._current_frames() if with_stacks else {}  # noqa: SLF001
        now_ns = perf_counter_ns()
        found = []
        for worker in self._workers:
            job, since_ns = worker.job, worker.since_ns
            if job is not None:
                frame = frames.get(worker.thread.ident or 0)
                stack = "" if frame is None else "".join(format_stack(frame))
                found.append(RunningJob(job, worker.name, (now_ns - since_ns) // 1_000_000, stack))
        return found

    def close(self) -> list[J]:
        """Run nothing more; give back what no worker has begun.  Workers leave when they can."""
        self._is_closed = True
        left = [job for worker in self._workers for job in worker.take_back()]
        left += [*self._ready, *self._waiting]
        self._ready.clear()
        self._waiting.clear()
        for timer in (self._relief_timer, self._shrinker):
            if timer is not None:
                timer.cancel()
        for worker in list(self._workers):
            self._dismiss(worker)
        return left

    async def wait_closed(self) -> None:
        """Wait until every thread has ended; for ever, if a listener never returns."""
        while any(worker.thread.is_alive() for worker in self._leaving):  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    # On the loop

    def _feed(self) -> None:
        """Hand out what waits, as far as there are workers for it."""
        self._is_feed_due = False
        ready, waiting = self._ready, self._waiting
        while (ready or waiting) and not self._is_closed:
            worker = self._free_worker()
            if worker is None:
                break
            room = self._chunk_size
            chunk: deque[J] = deque()
            while ready and len(chunk) < room:
                chunk.append(ready.popleft())
            while waiting and len(chunk) < room:
                some = [waiting.popleft() for _ in range(min(room - len(chunk), len(waiting)))]
                chunk.extend(self._admit(some))
            if chunk:
                worker.give(chunk)
        if self._relief_timer is None and self._may_get_stuck:
            self._relief_timer = self._loop.call_later(LOOK_S, self._relieve_stuck)

    @property
    def _chunk_size(self) -> int:
        if self._cost_ns > QUICK_NS:
            return 1
        return max(1, min(CHUNK_MAX, int(CHUNK_NS / self._cost_ns)))

    @property
    def _may_get_stuck(self) -> bool:
        """Whether something could wait behind a job that takes long."""
        return not self._is_closed and any(worker.pending > 1 for worker in self._workers)

    def _free_worker(self) -> _Worker[J] | None:
        """Who gets the next chunk: for quick work whoever is at it, else anybody idle."""
        size = self._chunk_size
        now_ns = perf_counter_ns()
        idle: _Worker[J] | None = None
        for worker in self._workers:
            if not worker.pending:
                idle = idle or worker
            elif size > 1 and not worker.is_stuck(now_ns):
                return worker if worker.pending <= size * (CHUNKS_AHEAD - 1) else None
        if idle is None and len(self._workers) < self._size_max:
            idle = self._hire()
        return idle

    def _relieve_stuck(self) -> None:
        """Give others what waits behind a stuck worker."""
        self._relief_timer = None
        now_ns = perf_counter_ns()
        for worker in self._workers:
            if worker.pending > 1 and worker.is_stuck(now_ns):
                self._ready.extend(worker.take_back())
        self._feed()

    def _hire(self) -> _Worker[J]:
        self._serial += 1
        worker: _Worker[J] = _Worker(f"{self._name}-{self._serial}")
        worker.thread = threading.Thread(
            target=self._live, args=(worker,), name=worker.name, daemon=True
        )
        self._workers.append(worker)
        worker.thread.start()
        if self._shrinker is None and len(self._workers) > self._size_min:
            self._shrinker = self._loop.call_later(IDLE_S, self._shrink)
        return worker

    def _shrink(self, *, at_once: bool = False) -> None:
        """End workers that were idle for long; with ``at_once`` all that are above the maximum."""
        if not at_once:
            self._shrinker = None
        bound = self._size_max if at_once else self._size_min
        now_s = self._loop.time()
        for worker in reversed(list(self._workers)):
            if len(self._workers) <= bound:
                break
            if not worker.pending and (at_once or now_s - worker.idle_since_s >= IDLE_S):
                self._dismiss(worker)
        if self._shrinker is None and len(self._workers) > self._size_min:
            self._shrinker = self._loop.call_later(IDLE_S, self._shrink)

    def _dismiss(self, worker: _Worker[J]) -> None:
        self._workers.remove(worker)
        self._leaving = [each for each in self._leaving if each.thread.is_alive() or each.done]
        self._leaving.append(worker)
        worker.chunks.put(None)

    def _collect(self) -> None:
        """Take what workers have done since the last time."""
        self._is_told = False
        ended: list[tuple[J, int]] = []
        for worker in (*self._workers, *self._leaving):
            done = worker.done
            if done:
                some = [done.popleft() for _ in range(len(done))]
                self._learn(some)
                worker.pending -= len(some)
                if not worker.pending:
                    worker.idle_since_s = self._loop.time()
                ended += some
        self._on_done(ended)
        if len(self._workers) > self._size_max:
            self._shrink(at_once=True)
        self._feed()

    def _learn(self, done: list[tuple[J, int]]) -> None:
        """A step up or down for each job: what it settles at is the median."""
        cost_ns = self._cost_ns
        for _, spent_ns in islice(done, LEARNED_MAX):
            cost_ns *= STEP_UP if spent_ns > cost_ns else STEP_DOWN
        self._cost_ns = min(max(cost_ns, COST_NS_MIN), COST_NS_MAX)

    # On a worker

    def _live(self, worker: _Worker[J]) -> None:
        done, run = worker.done, self._run
        while (chunk := worker.chunks.get()) is not None:
            told_ns = worker.since_ns = perf_counter_ns()
            while chunk:
                try:
                    worker.job = job = chunk.popleft()
                except IndexError:  # taken back meanwhile
                    break
                run(job)
                now_ns = perf_counter_ns()
                done.append((job, now_ns - worker.since_ns))
                worker.job = None
                worker.since_ns = now_ns
                if now_ns - told_ns > CHUNK_NS:
                    told_ns = now_ns
                    self._collect_soon()
            if done:
                self._collect_soon()

    def _collect_soon(self) -> None:
        """Have the loop collect what is done, unless it is about to."""
        if not self._is_told:
            self._is_told = True
            with suppress(RuntimeError):  # the loop is closed: nobody wants to know
                self._loop.call_soon_threadsafe(self._collect)
