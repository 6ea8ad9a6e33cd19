"""The load of `Load.java` made by our client: the same commands, the same answers.

    send  NAMESRV TOPIC SIZE THREADS SECONDS
    batch NAMESRV TOPIC SIZE THREADS SECONDS COUNT
    async NAMESRV TOPIC SIZE SECONDS UNDER_WAY
    many  NAMESRV TOPIC SIZE SECONDS UNDER_WAY
    pull  NAMESRV TOPIC COUNT [EACH]
    lite  NAMESRV TOPIC COUNT [EACH]
    push  NAMESRV TOPIC COUNT BATCH

Programs are written as a user would: the threaded face, its defaults, one message at a time.  Only
``many`` is on asyncio, with ``auto_batch``: what clients of other systems do by themselves.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from flintmq import (
    ConsumeFromWhere,
    LitePullConsumer,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    SendReceipt,
    aio,
)
from flintmq.errors import FlintError

SEND_MS = 10_000
PULL_COUNT = 32
FIRST = ConsumeFromWhere.FIRST_OFFSET

Result = dict[str, float]

_ids = (f"load{number}_{os.getpid()}" for number in itertools.count())
_producers: dict[tuple[str, int], Producer] = {}


class Meter:
    """Counts messages, and the clock and CPU from the first to the last one that is wanted."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._count = 0
        self._lock = threading.Lock()
        self.done = threading.Event()
        self._start = self._end = (0.0, 0.0)

    def add(self, some: int) -> None:
        with self._lock:
            before = self._count
            self._count = before + some
            if before == 0:
                self._start = time.perf_counter(), time.process_time()
            if before < self._wanted <= self._count:
                self._end = time.perf_counter(), time.process_time()
                self.done.set()

    def result(self) -> Result:
        seconds, cpu_s = (end - start for start, end in zip(self._start, self._end, strict=True))
        return {"count": self._count, "failed": 0, "seconds": seconds, "cpu_s": cpu_s}


def producer(namesrv: str, under_way: int = 1_024) -> Producer:
    key = namesrv, under_way
    if key not in _producers:
        _producers[key] = Producer("load_producers", namesrv=namesrv, in_flight_max=under_way)
        _producers[key].start()
    return _producers[key]


def send(namesrv: str, topic: str, size: int, threads: int, seconds: int, batch: int = 1) -> Result:
    ours, body = producer(namesrv), b"x" * size
    ours.send(Message(topic, body, tags="TagA", keys=["k"]), timeout_ms=SEND_MS)
    counts, failures = [0] * threads, [0] * threads

    def work(number: int) -> None:
        while time.perf_counter() < stop_s:
            try:
                if batch == 1:
                    ours.send(Message(topic, body, tags="TagA"), timeout_ms=SEND_MS)
                else:
                    many = [Message(topic, body, tags="TagA") for _ in range(batch)]
                    ours.send_batch(many, timeout_ms=SEND_MS)
                counts[number] += batch
            except FlintError:
                failures[number] += 1

    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    stop_s = start_s + seconds
    if threads == 1:
        work(0)
    else:
        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    return {
        "count": sum(counts),
        "failed": sum(failures),
        "seconds": time.perf_counter() - start_s,
        "cpu_s": time.process_time() - start_cpu_s,
    }


def send_async(namesrv: str, topic: str, size: int, seconds: int, under_way: int) -> Result:
    ours, body = producer(namesrv, under_way), b"x" * size
    ours.send(Message(topic, body, tags="TagA", keys=["k"]), timeout_ms=SEND_MS)
    failed: list[BaseException] = []

    def ended(how: object) -> None:
        if isinstance(how, BaseException):
            failed.append(how)

    count = 0
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    stop_s = start_s + seconds
    while time.perf_counter() < stop_s:
        ours.send_async(Message(topic, body, tags="TagA"), timeout_ms=SEND_MS, callback=ended)
        count += 1
    ours.flush()
    return {
        "count": count - len(failed),
        "failed": len(failed),
        "seconds": time.perf_counter() - start_s,
        "cpu_s": time.process_time() - start_cpu_s,
    }


def send_many(namesrv: str, topic: str, size: int, seconds: int, under_way: int) -> Result:
    return asyncio.run(_send_many(namesrv, topic, b"x" * size, seconds, under_way))


async def _send_many(namesrv: str, topic: str, body: bytes, seconds: int, under_way: int) -> Result:
    async with aio.Producer(
        next(_ids), namesrv=namesrv, auto_batch=True, in_flight_max=under_way
    ) as ours:
        await ours.send(Message(topic, body, tags="TagA"), timeout_ms=SEND_MS)
        count = failed = 0
        waiting: deque[asyncio.Future[SendReceipt]] = deque()
        start_s, start_cpu_s = time.perf_counter(), time.process_time()
        stop_s = start_s + seconds
        while waiting or time.perf_counter() < stop_s:
            if time.perf_counter() < stop_s:
                message = Message(topic, body, tags="TagA")
                waiting.append(await ours.send_async(message, timeout_ms=SEND_MS))
                count += 1
                if len(waiting) < under_way:
                    continue
            try:
                await waiting.popleft()
            except FlintError:
                failed += 1
        spent_s = time.perf_counter() - start_s
        spent_cpu_s = time.process_time() - start_cpu_s
    return {
        "count": count - failed,
        "failed": failed,
        "seconds": spent_s,
        "cpu_s": spent_cpu_s,
    }


def pull(namesrv: str, topic: str, wanted: int, each: int = PULL_COUNT) -> Result:
    with PullConsumer(next(_ids), namesrv=namesrv) as consumer:
        queues = sorted(consumer.queues(topic))
        count = 0
        start_s, start_cpu_s = time.perf_counter(), time.process_time()
        for queue in queues:
            offset = consumer.min_offset(queue)
            while count < wanted:
                found = consumer.pull(queue, offset, count_max=each)
                if not found.messages:
                    break
                count += len(found.messages)
                offset = found.next_offset
        return {
            "count": count,
            "failed": 0,
            "seconds": time.perf_counter() - start_s,
            "cpu_s": time.process_time() - start_cpu_s,
        }


def lite(namesrv: str, topic: str, wanted: int, each: int = PULL_COUNT) -> Result:
    meter = Meter(wanted)
    with LitePullConsumer(
        next(_ids), namesrv=namesrv, start_from=FIRST, pull_batch_max=each
    ) as consumer:
        consumer.subscribe(topic)
        while not meter.done.is_set():
            some = consumer.poll()
            if some:
                meter.add(len(some))
    return meter.result()


def push(namesrv: str, topic: str, wanted: int, batch_max: int) -> Result:
    meter = Meter(wanted)

    def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        meter.add(len(messages))

    consumer = PushConsumer(
        next(_ids), listen, namesrv=namesrv, start_from="first", batch_max=batch_max
    )
    with consumer.subscribe(topic):
        meter.done.wait()
    return meter.result()


COMMANDS: dict[str, Callable[..., Result]] = {
    "send": send,
    "batch": send,
    "async": send_async,
    "many": send_many,
    "pull": pull,
    "lite": lite,
    "push": push,
}


def main() -> None:
    for line in sys.stdin:
        name, namesrv, topic, *numbers = line.split()
        try:
            result: dict[str, Any] = dict(COMMANDS[name](namesrv, topic, *map(int, numbers)))
        except Exception as error:  # whoever asked is to know
            result = {"error": repr(error)}
        print("RESULT " + json.dumps(result), flush=True)
    for each in _producers.values():
        each.stop()


if __name__ == "__main__":
    main()
