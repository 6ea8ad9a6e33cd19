"""The pool runs each job once, lets none wait behind a slow one, and grows and shrinks."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from flintmq.client.push import thread_pool as pools
from flintmq.client.push.thread_pool import Pool
from support.client.support import client_threads, run
from support.net.support import until


class Bench:
    """A pool whose jobs are functions, and what became of them."""

    def __init__(self, size_min: int = 1, size_max: int = 4) -> None:
        self.done: list[Callable[[], object]] = []
        self.refused: set[Callable[[], object]] = set()
        self.admitted: list[Callable[[], object]] = []
        self.pool: Pool[Callable[[], object]] = Pool(
            "flintmq-bench", size_min, size_max, run=self._run, admit=self._admit, done=self._ended
        )

    def _run(self, job: Callable[[], object]) -> None:
        job()

    def _admit(self, jobs: list[Callable[[], object]]) -> list[Callable[[], object]]:
        self.admitted += jobs
        return [job for job in jobs if job not in self.refused]

    def _ended(self, ended: list[tuple[Callable[[], object], int]]) -> None:
        self.done += [job for job, _ in ended]

    async def close(self) -> list[Callable[[], object]]:
        left = self.pool.close()
        await self.pool.wait_closed()
        assert not client_threads()
        return left


def job_of(work: Callable[[], object]) -> Callable[[], object]:
    """A job that is unlike any other."""
    return partial(work)


def test_every_job_runs_once_and_is_reported_once() -> None:
    async def main() -> None:
        bench, lock, ran = Bench(), threading.Lock(), []

        def work(number: int) -> None:
            with lock:
                ran.append(number)

        jobs = [lambda n=number: work(n) for number in range(5_000)]
        for start in range(0, 5_000, 50):
            bench.pool.submit(jobs[start : start + 50])
            await asyncio.sleep(0)
        await until(lambda: len(bench.done) == 5_000)
        assert sorted(ran) == list(range(5_000))
        assert set(bench.done) == set(jobs)
        await bench.close()

    run(main())


def test_what_comes_in_one_turn_of_the_loop_goes_to_a_worker_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[int] = []
    give = pools._Worker.give

    def counted(worker: Any, chunk: Any) -> None:
        given.append(len(chunk))
        give(worker, chunk)

    async def main() -> None:
        bench = Bench()
        for number in range(200):  # it learns that they are quick
            bench.pool.submit([job_of(int)])
            await until(lambda n=number: len(bench.done) == n + 1)  # type: ignore[misc]
        monkeypatch.setattr(pools._Worker, "give", counted)
        for _ in range(5):
            bench.pool.submit([job_of(int), job_of(int)])
        assert bench.pool.waiting_count == 10
        await until(lambda: len(bench.done) == 210)
        assert given == [10]
        await bench.close()

    run(main())


def test_quick_jobs_stay_on_one_thread_and_keep_their_order() -> None:
    async def main() -> None:
        bench, names, order = Bench(), set(), []

        def work(number: int) -> None:
            names.add(threading.current_thread().name)
            order.append(number)

        for number in range(200):  # it learns that they are quick
            bench.pool.submit([lambda n=number: work(n)])  # type: ignore[misc]
            await until(lambda n=number: len(bench.done) == n + 1)  # type: ignore[misc]
        names.clear()
        order.clear()
        bench.pool.submit([lambda n=number: work(n) for number in range(1_000)])  # type: ignore[misc]
        await until(lambda: len(bench.done) == 1_200)
        assert len(names) == 1
        assert order == list(range(1_000))
        await bench.close()

    run(main())


def test_slow_jobs_run_side_by_side_up_to_the_maximum() -> None:
    async def main() -> None:
        bench, gate, inside = Bench(size_max=3), threading.Event(), []

        def work() -> None:
            inside.append(threading.current_thread().name)
            gate.wait(60)

        bench.pool.submit([job_of(work) for _ in range(5)])
        await until(lambda: len(inside) == 3)
        assert (bench.pool.size, bench.pool.waiting_count) == (3, 2)
        gate.set()
        await until(lambda: len(bench.done) == 5)
        await bench.close()

    run(main())


def test_what_waits_behind_a_stuck_job_goes_to_another_worker() -> None:
    async def main() -> None:
        bench, gate = Bench(size_max=2), threading.Event()
        bench.pool._cost_ns = 1_000.0  # it takes everything for quick, and gives it to one worker
        jobs = [job_of(lambda: gate.wait(60)), *(job_of(int) for _ in range(100))]

        bench.pool.submit(jobs)

        await until(lambda: len(bench.done) == 100)
        assert bench.admitted == jobs  # each was asked for once
        gate.set()
        await until(lambda: len(bench.done) == 101)
        await bench.close()

    run(main())


def test_a_job_that_is_not_wanted_any_more_does_not_run() -> None:
    async def main() -> None:
        bench, ran = Bench(), []
        wanted, unwanted = job_of(lambda: ran.append(1)), job_of(lambda: ran.append(2))
        bench.refused.add(unwanted)
        bench.pool.submit([unwanted, wanted, unwanted])
        await until(lambda: bench.done == [wanted])
        assert ran == [1]
        await bench.close()

    run(main())


def test_the_pool_grows_when_it_may_and_shrinks_when_it_must(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        bench, gate, inside = Bench(1, 1), threading.Event(), []

        def work() -> None:
            inside.append(1)
            gate.wait(60)

        bench.pool.submit([job_of(work) for _ in range(4)])
        await until(lambda: len(inside) == 1)
        bench.pool.resize(1, 4)
        await until(lambda: len(inside) == 4)
        bench.pool.resize(1, 2)
        gate.set()
        await until(lambda: bench.pool.size == 2)  # above the maximum they leave at once
        await bench.close()

        monkeypatch.setattr(pools, "IDLE_S", 0.02)
        bench, gate = Bench(1, 2), threading.Event()
        inside.clear()
        bench.pool.submit([job_of(work) for _ in range(2)])
        await until(lambda: len(inside) == 2)
        gate.set()
        await until(lambda: bench.pool.size == 1)  # above the minimum when idle
        await bench.close()

    run(main())


def test_who_asks_is_told_what_runs_and_where() -> None:
    async def main() -> None:
        bench, gate = Bench(), threading.Event()

        def wait_in_here() -> None:
            gate.wait(60)

        job = job_of(wait_in_here)
        bench.pool.submit([job])
        await until(bench.pool.running)
        (running,) = bench.pool.running()
        assert running.job is job
        assert "wait_in_here" in running.stack
        gate.set()
        await until(lambda: bench.done)
        assert bench.pool.running() == []
        await bench.close()

    run(main())


def test_closing_gives_back_what_was_not_begun() -> None:
    async def main() -> None:
        bench, gate, inside = Bench(1, 1), threading.Event(), threading.Event()

        def work() -> None:
            inside.set()
            gate.wait(60)

        first, *rest = [job_of(work) for _ in range(3)]
        bench.pool.submit([first, *rest])
        await until(inside.is_set)
        left = bench.pool.close()
        gate.set()
        await bench.pool.wait_closed()
        assert left == rest
        bench.pool.submit([first])
        await until(lambda: bench.done == [first])

    run(main())


def test_a_loop_that_is_gone_does_not_trouble_a_worker() -> None:
    gate = threading.Event()

    async def main() -> None:
        bench = Bench()
        bench.pool.submit([job_of(lambda: gate.wait(60))])
        await until(bench.pool.running)
        bench.pool.close()

    run(main())
    gate.set()
    deadline_s = time.monotonic() + 20
    while client_threads():
        assert time.monotonic() < deadline_s
        threading.Event().wait(0.005)
