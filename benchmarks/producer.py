"""What a send costs the client, and how many it makes a second.

    python -m benchmarks producer

The broker is another process on the same machine, messages have 128 bytes, nothing is synced.
Rates are by the clock and fall with everything else the machine does; the CPU of a message is
that of the client process alone.  Of several rounds the best counts.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from flintmq.client.producer import producer as aio
from flintmq.client.producer.threaded_producer import Producer
from flintmq.model.message import Message
from flintmq.net.loop import run as run_loop

ROUNDS = 4
WORKERS = 64
BATCH = 100
MESSAGE = Message("bench", b"x" * 128, tags="a")

Row = dict[str, object]
Figure = tuple[float, float]
"""Messages a second, and microseconds of CPU for each."""


def run() -> list[Row]:
    with broker() as namesrv:
        figures = {
            "send, threads, one by one": blocking(namesrv),
            "send_async, threads": threaded(namesrv),
            **run_loop(on_asyncio(namesrv)),
        }
    rows: list[Row] = []
    for name, (rate, cpu_us) in figures.items():
        rows.append({"name": f"{name}: rate", "value": round(rate), "unit": "1/s"})
        rows.append({"name": f"{name}: client CPU", "value": round(cpu_us, 1), "unit": "µs"})
    return rows


@contextmanager
def broker() -> Iterator[str]:
    """A name server and a broker in a process of their own."""
    with tempfile.TemporaryDirectory(prefix="flintmq-bench-") as data:
        command = [sys.executable, "-m", "flintmq", "serve", "--data", data, "--flush", "async"]
        command += ["--namesrv-listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            ready = re.search(r"namesrv=(\S+)", process.stdout.readline())
            assert ready is not None
            try:
                yield ready[1]
            finally:
                process.terminate()
                process.wait()


def measured(count: int, act: Callable[[], object]) -> Figure:
    best_rate, best_cpu_us = 0.0, float("inf")
    for _ in range(ROUNDS):
        began, cpu = time.perf_counter(), time.process_time()
        act()
        best_cpu_us = min(best_cpu_us, (time.process_time() - cpu) / count * 1e6)
        best_rate = max(best_rate, count / (time.perf_counter() - began))
    return best_rate, best_cpu_us


async def measured_async(count: int, act: Callable[[], Awaitable[object]]) -> Figure:
    best_rate, best_cpu_us = 0.0, float("inf")
    for _ in range(ROUNDS):
        began, cpu = time.perf_counter(), time.process_time()
        await act()
        best_cpu_us = min(best_cpu_us, (time.process_time() - cpu) / count * 1e6)
        best_rate = max(best_rate, count / (time.perf_counter() - began))
    return best_rate, best_cpu_us


def blocking(namesrv: str) -> Figure:
    count = 2_000

    def act() -> None:
        for _ in range(count):
            producer.send(MESSAGE)

    with Producer("bench", namesrv=namesrv) as producer:
        return measured(count, act)


def threaded(namesrv: str) -> Figure:
    count = 20_000

    def act() -> None:
        for _ in range(count):
            producer.send_async(MESSAGE)
        producer.flush()

    with Producer("bench", namesrv=namesrv) as producer:
        return measured(count, act)


async def on_asyncio(namesrv: str) -> dict[str, Figure]:
    async with aio.Producer("bench", namesrv=namesrv) as producer:

        async def one_by_one(count: int) -> None:
            for _ in range(count):
                await producer.send(MESSAGE)

        async def side_by_side(count: int) -> None:
            await asyncio.gather(*(one_by_one(count // WORKERS) for _ in range(WORKERS)))

        async def started(count: int) -> None:
            for _ in range(count):
                await producer.send_async(MESSAGE)
            await producer.flush()

        async def batches(count: int) -> None:
            for _ in range(count // BATCH):
                await producer.send_batch([MESSAGE] * BATCH)

        return {
            "send, asyncio, one by one": await measured_async(3_000, lambda: one_by_one(3_000)),
            f"send, asyncio, {WORKERS} tasks": await measured_async(
                20_032, lambda: side_by_side(20_032)
            ),
            "send_async, asyncio": await measured_async(20_000, lambda: started(20_000)),
            f"send_batch of {BATCH}, asyncio": await measured_async(
                50_000, lambda: batches(50_000)
            ),
        }
