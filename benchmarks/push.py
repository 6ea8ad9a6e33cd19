"""What the push consumer costs: a backlog consumed from a broker in another process.

    python -m benchmarks push

The broker is `flintmq serve`, filled beforehand.  The clock runs from the first message a listener
gets to the last; the CPU is that of this process over the same time, so the rate is what this
client reaches next to that broker on this machine, and the µs are the client's alone.  Of several
rounds, each a new group, the best counts.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flintmq import Message, Producer, PushConsumer, ReceivedMessage

SIZES = (128, 1_024)
BATCHES = (1, 32)
MESSAGES = 100_000
ROUNDS = 3
PATIENCE_S = 120

Row = dict[str, object]


def run() -> list[Row]:
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory(prefix="flintmq-bench-") as scratch,
        served(scratch) as namesrv,
    ):
        for size in SIZES:
            topic = f"backlog-{size}"
            fill(namesrv, topic, size)
            for batch_max in BATCHES:
                costs = [
                    consume(namesrv, topic, f"g-{size}-{batch_max}-{number}", batch_max)
                    for number in range(ROUNDS)
                ]
                what = f"{size} B, batch {batch_max}"
                rate, cpu_us = max(rate for rate, _ in costs), min(cpu for _, cpu in costs)
                rows.append({"name": f"{what}, rate", "value": rate, "unit": "messages/s"})
                rows.append(
                    {"name": f"{what}, CPU", "value": cpu_us, "unit": "µs/message", "goal": "<= 12"}
                )
    return rows


@contextmanager
def served(directory: str) -> Iterator[str]:
    """A broker in a process of its own; its name server."""
    process = subprocess.Popen(
        [
            Path(sys.executable).with_name("flintmq"),
            *("serve", "--data", directory, "--flush", "async", "--log-level", "error"),
            *("--namesrv-listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0"),
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "NAMESRV_ADDR"},
    )
    try:
        assert process.stdout is not None
        found = re.search(r"namesrv=(\S+)", process.stdout.readline())
        assert found is not None
        yield found[1]
    finally:
        process.terminate()
        process.communicate()


def fill(namesrv: str, topic: str, size: int) -> None:
    body = bytes(size)
    with Producer("bench", namesrv=namesrv) as producer:
        for _ in range(0, MESSAGES, 500):
            producer.send_batch([Message(topic, body, tags="paid") for _ in range(500)])


def consume(namesrv: str, topic: str, group: str, batch_max: int) -> tuple[float, float]:
    """Messages a second, and µs of CPU a message."""
    count = 0
    done = threading.Event()
    start_s = start_cpu_s = end_s = end_cpu_s = 0.0
    lock = threading.Lock()

    def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        nonlocal count, start_s, start_cpu_s, end_s, end_cpu_s
        with lock:
            if not count:
                start_s, start_cpu_s = time.perf_counter(), time.process_time()
            count += len(messages)
            if count >= MESSAGES:
                end_s, end_cpu_s = time.perf_counter(), time.process_time()
                done.set()

    consumer = PushConsumer(
        group, listen, namesrv=namesrv, start_from="first", batch_max=batch_max
    ).subscribe(topic)
    with consumer:
        assert done.wait(PATIENCE_S), count
    return MESSAGES / (end_s - start_s), (end_cpu_s - start_cpu_s) / MESSAGES * 1e6
