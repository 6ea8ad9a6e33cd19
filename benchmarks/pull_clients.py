"""What pulling a backlog costs a client: the pull consumer and lite pull, on both faces.

    python -m benchmarks pull_clients

The broker is a process of its own.  Rates are by the clock, CPU is that of the client process
alone, all its threads.  Of several rounds the best counts.  The goal is aiokafka's rate on the
same kind of machine, for which a message may cost 3.2 µs.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flintmq import ConsumeFromWhere, LitePullConsumer, Message, Producer, aio
from flintmq.net.loop import new_event_loop

COUNT = 100_000
QUEUES = 4
BATCH = 200
ROUNDS = 5
SIZES = ((128, "128 B"), (1_024, "1 KiB"))
FIRST = ConsumeFromWhere.FIRST_OFFSET

Row = dict[str, object]
Work = Callable[[str, str, str], int]


def run() -> list[Row]:
    rows: list[Row] = []
    with served() as namesrv:
        for size, name in SIZES:
            topic = f"backlog-{size}"
            fill(namesrv, topic, size)
            works: dict[str, Work] = {
                "pull, 32 at once": on_loop(pull_with(32)),
                "pull, 1,024 at once": on_loop(pull_with(1_024)),
                "lite pull, asyncio": on_loop(lite_pull),
                "lite pull, threads": lite_pull_threads,
            }
            for what, work in works.items():
                rate, cpu_us = best(work, namesrv, topic)
                goal = "" if "32" in what else ">= 315000"
                rows.append(row(f"{what}, {name}", rate, "messages/s", goal))
                rows.append(row("  client CPU", cpu_us, "µs/message"))
    return rows


@contextmanager
def served() -> Iterator[str]:
    """A name server and a broker in a process of their own; where the name server is."""
    with tempfile.TemporaryDirectory(prefix="flintmq-bench-") as scratch:
        anywhere = "127.0.0.1:0"
        command = [sys.executable, "-m", "flintmq", "serve", "--data", scratch, "--flush", "async"]
        command += ["--namesrv-listen", anywhere, "--broker-listen", anywhere]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            try:
                assert process.stdout is not None
                ready = process.stdout.readline()
                yield dict(part.partition("=")[::2] for part in ready.split())["namesrv"]
            finally:
                process.terminate()
                process.wait(20)


def fill(namesrv: str, topic: str, size_bytes: int) -> None:
    body = bytes(size_bytes)
    with Producer("fillers", namesrv=namesrv, default_queue_count=QUEUES) as producer:
        for _ in range(COUNT // BATCH):
            producer.send_batch([Message(topic, body, tags="TagA") for _ in range(BATCH)])


def best(work: Work, namesrv: str, topic: str) -> tuple[float, float]:
    """The highest rate and the least CPU of some rounds."""
    rates, costs = [], []
    for number in range(ROUNDS):
        start, start_cpu = time.perf_counter(), time.process_time()
        count = work(namesrv, topic, f"g-{topic}-{id(work)}-{number}")
        rates.append(count / (time.perf_counter() - start))
        costs.append((time.process_time() - start_cpu) / count * 1e6)
        assert count == COUNT, count
    return max(rates), min(costs)


def on_loop(work: Callable[[str, str, str], Awaitable[int]]) -> Work:
    def run_it(namesrv: str, topic: str, group: str) -> int:
        async def main() -> int:
            return await work(namesrv, topic, group)

        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(main())

    return run_it


def pull_with(count_max: int) -> Callable[[str, str, str], Awaitable[int]]:
    async def pull(namesrv: str, topic: str, group: str) -> int:
        async with aio.PullConsumer(group, namesrv=namesrv) as consumer:

            async def one(queue: Any) -> int:
                offset = count = 0
                while True:
                    result = await consumer.pull(queue, offset, count_max=count_max)
                    if not result.messages:
                        return count
                    count += len(result.messages)
                    offset = result.next_offset

            return sum(await asyncio.gather(*map(one, await consumer.queues(topic))))

    return pull


async def lite_pull(namesrv: str, topic: str, group: str) -> int:
    async with aio.LitePullConsumer(group, namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(topic)
        count = 0
        while count < COUNT:
            count += len(await consumer.poll())
        return count


def lite_pull_threads(namesrv: str, topic: str, group: str) -> int:
    with LitePullConsumer(group, namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(topic)
        count = 0
        while count < COUNT:
            count += len(consumer.poll())
        return count


def row(name: str, value: float, unit: str, goal: str = "") -> Row:
    found: Row = {"name": name, "value": value, "unit": unit}
    return found | ({"goal": goal} if goal else {})
