"""What a message costs when there is much of something: backlog, queues, consumers, bytes.

    python -m benchmarks.growth [--full] [--ends] [--rounds N] [--out FILE]

`flintmq serve` is a process of its own; the client is this one.  CPU of both comes from the
kernel's account, apart.  The points of a line take turns, round by round, and the median of
the rounds counts.  For backlog and queues every point has a broker of its own, so that a small one
is small.  ``--full`` goes on to a backlog of ten million.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.__main__ import RESULTS
from benchmarks.peers.sides import our_side
from benchmarks.report.results import Measured, save
from flintmq import Admin, Message, Producer, PullConsumer, PushConsumer, QueueRef, ReceivedMessage
from flintmq.kernel.choice import kernel

BROKER = "broker-a"
TOPIC = "growing"
SIZE = 128
PULL_COUNT = 32
SEND_COUNT = 1_000
PULLED = 6_400
FILL_BYTES = 128 * 1024
SEND_MS = 30_000
NEVER_PACKED = 2**30
BACKLOGS = (1_000, 10_000, 100_000, 1_000_000)
QUEUES = (1, 10, 100, 1_000, 10_000)
MEMBERS = (1, 4, 16, 64)
GROUP_QUEUES = 64
GROUP_BATCHES = 4  # of 32 messages, to each queue
SIZES = (16, 128, 1_024, 16 * 1_024, 128 * 1_024, 1_024 * 1_024)
SIZE_BYTES = 16 * 1_024 * 1_024  # of one measurement, about
SETTLE_S = 60

Cost = tuple[float, float]
"""CPU of the server and of the client for each message, in microseconds."""

Work = Callable[[], Cost]


class Bench:
    """A broker, and clients of it in this process."""

    def __init__(self, namesrv: str, server_cpu_s: Callable[[], float]) -> None:
        self.namesrv = namesrv
        self._server_cpu_s = server_cpu_s
        self.producer = Producer(
            "growers", namesrv=namesrv, compress_from_bytes=NEVER_PACKED, in_flight_max=1_000
        )
        self.puller = PullConsumer("growers", namesrv=namesrv)

    def make(self, topic: str, queues: int) -> None:
        with Admin(namesrv=self.namesrv) as admin:
            admin.create_topic(topic, queues=queues)

    def fill(self, queue: QueueRef, count: int) -> None:
        at_once = max(1, FILL_BYTES // (SIZE + 100))
        body = bytes(SIZE)
        for start in range(0, count, at_once):
            some = [Message(queue.topic, body) for _ in range(min(at_once, count - start))]
            self.producer.send_batch(some, queue=queue, timeout_ms=SEND_MS)

    def cost(self, act: Callable[[], int]) -> Cost:
        """What ``act`` costs for each of the messages it tells."""
        server_s, client_s = self._server_cpu_s(), time.process_time()
        count = act()
        client_s = time.process_time() - client_s
        return (self._server_cpu_s() - server_s) * 1e6 / count, client_s * 1e6 / count

    def send(self, topic: str, count: int, body: bytes) -> int:
        """One by one, up to a thousand under way."""
        sent = [
            self.producer.send_async(Message(topic, body), timeout_ms=SEND_MS) for _ in range(count)
        ]
        for each in sent:
            each.result()
        return count

    def pull(self, queues: Sequence[QueueRef], starts: Sequence[int], wanted: int) -> int:
        """From each queue in turn, from its start on; at the end of a queue from there again."""
        count, offsets = 0, list(starts)
        while count < wanted:
            for place, queue in enumerate(queues):
                found = self.puller.pull(queue, offsets[place], count_max=PULL_COUNT)
                count += len(found.messages)
                at_end = found.next_offset >= found.max_offset
                offsets[place] = starts[place] if at_end else found.next_offset
                if count >= wanted:
                    break
        return count


@contextmanager
def opened() -> Iterator[Bench]:
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="flintmq-bench-")))
        settings = work / "broker.conf"
        settings.write_text(f"topicQueuesMax={max(QUEUES)}\n")
        side = stack.enter_context(our_side(work / "data", "--config", str(settings)))
        bench = Bench(side.namesrv, side.cpu_s)
        with bench.producer, bench.puller:
            yield bench


@dataclass
class Panel:
    """Lines over something that grows: at each point, what a message costs server and client."""

    title: str
    unit: str
    lines: dict[str, list[tuple[int, float, float]]]
    measured: list[Measured]
    """Each line, with a side for each point, round by round."""


def medians(
    title: str, unit: str, works: dict[int, dict[str, Work]], rounds: int, warm_ups: int = 1
) -> Panel:
    """All points in turn, several times."""
    costs: dict[tuple[str, int], list[Cost]] = {}
    measured: dict[str, Measured] = {}
    for number in range(rounds + warm_ups):
        for point, by_name in works.items():
            for name, work in by_name.items():
                cost = work()
                if number >= warm_ups:
                    costs.setdefault((name, point), []).append(cost)
                    row = {"server_us": cost[0], "client_us": cost[1]}
                    side = f"{point:,} {unit if point != 1 else unit.removesuffix('s')}"
                    line = f"{title}: {name}"
                    measured.setdefault(line, Measured(line)).add(side, row)
    lines: dict[str, list[tuple[int, float, float]]] = {}
    for (name, point), found in costs.items():
        server_us, client_us = (statistics.median(side) for side in zip(*found, strict=True))
        lines.setdefault(name, []).append((point, server_us, client_us))
    return Panel(title, unit, lines, [*measured.values()])


def growing_backlog(backlogs: Sequence[int], rounds: int) -> Panel:
    queue = QueueRef(TOPIC, BROKER, 0)
    with ExitStack() as stack:
        works = {}
        for backlog in backlogs:
            bench = stack.enter_context(opened())
            bench.make(TOPIC, 1)
            bench.fill(queue, backlog)
            works[backlog] = _sends_and_pulls(bench, [queue], [backlog // 2])
        return medians("backlog", "messages", works, rounds)


def growing_queues(counts: Sequence[int], rounds: int) -> Panel:
    with ExitStack() as stack:
        works = {}
        for count in counts:
            bench = stack.enter_context(opened())
            bench.make(TOPIC, count)
            queues = [QueueRef(TOPIC, BROKER, number) for number in range(count)]
            for queue in queues:
                bench.fill(queue, PULL_COUNT)
            step = max(1, count * PULL_COUNT // PULLED)
            some = queues[::step]
            works[count] = _sends_and_pulls(bench, some, [0] * len(some))
        return medians("queues of a topic", "queues", works, rounds)


def _sends_and_pulls(
    bench: Bench, queues: Sequence[QueueRef], starts: Sequence[int]
) -> dict[str, Work]:
    return {
        "send": lambda: bench.cost(lambda: bench.send(TOPIC, SEND_COUNT, bytes(SIZE))),
        "pull, 32 at once": lambda: bench.cost(lambda: bench.pull(queues, starts, PULLED)),
    }


def growing_messages(sizes: Sequence[int], rounds: int) -> Panel:
    chance = random.Random(7)
    with opened() as bench:
        works: dict[int, dict[str, Work]] = {}
        for size in sizes:
            topic = f"{TOPIC}_{size}"
            bench.make(topic, 1)
            works[size] = _of_size(bench, QueueRef(topic, BROKER, 0), chance.randbytes(size))
        return medians("size of a message", "bytes", works, rounds)


def _of_size(bench: Bench, queue: QueueRef, body: bytes) -> dict[str, Work]:
    count = min(SEND_COUNT, SIZE_BYTES // len(body))
    return {
        "send": lambda: bench.cost(lambda: bench.send(queue.topic, count, body)),
        "pull, 32 at once": lambda: bench.cost(
            lambda: bench.pull([queue], [0], min(PULLED, 4 * count))
        ),
    }


def growing_group(counts: Sequence[int], rounds: int) -> Panel:
    with opened() as bench:
        bench.make(TOPIC, GROUP_QUEUES)
        works = {count: {"send in batches, push": _group_work(bench, count)} for count in counts}
        return medians("consumers in a group", "consumers", works, rounds)


def _group_work(bench: Bench, members: int) -> Work:
    """The members join before it counts, and leave afterwards."""

    def work() -> Cost:
        arrived = Arrivals(GROUP_QUEUES * GROUP_BATCHES * PULL_COUNT)
        group = f"group_{members}"
        with ExitStack() as stack:
            consumers = []
            for _ in range(members):
                consumer = PushConsumer(
                    group, arrived.listen, namesrv=bench.namesrv, batch_max=PULL_COUNT
                )
                consumers.append(stack.enter_context(consumer.subscribe(TOPIC)))
            _settle(consumers)
            return bench.cost(lambda: _send_and_wait(bench, arrived))

    return work


def _settle(consumers: Sequence[PushConsumer]) -> None:
    """Wait until every queue has its member, and every member as many as the others."""
    each = GROUP_QUEUES // len(consumers)
    deadline = time.monotonic() + SETTLE_S
    while any(
        sum(queue.topic == TOPIC for queue in consumer.queues()) != each for consumer in consumers
    ):
        if time.monotonic() > deadline:
            raise SystemExit("the group did not share out its queues")
        time.sleep(0.2)
    time.sleep(1)  # until their pulls are held


class Arrivals:
    """Counts what consumers get."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self._count = 0
        self._lock = threading.Lock()
        self.done = threading.Event()

    def listen(self, messages: tuple[ReceivedMessage, ...]) -> None:
        with self._lock:
            self._count += len(messages)
            if self._count >= self.wanted:
                self.done.set()


def _send_and_wait(bench: Bench, arrived: Arrivals) -> int:
    for _ in range(GROUP_BATCHES):
        for number in range(GROUP_QUEUES):
            bench.fill(QueueRef(TOPIC, BROKER, number), PULL_COUNT)
    if not arrived.done.wait(SETTLE_S):
        raise SystemExit("not every message was consumed")
    return arrived.wanted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--full", action="store_true", help="a backlog of up to ten million")
    parser.add_argument("--quick", action="store_true", help="only the two smallest of each")
    parser.add_argument("--ends", action="store_true", help="only the smallest and the largest")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="what grows: its name contains this")
    parser.add_argument("--out", type=Path, default=RESULTS / "growth.json")
    chosen = parser.parse_args()
    backlogs = (*BACKLOGS, 10_000_000) if chosen.full else BACKLOGS
    panels: dict[str, tuple[Callable[[Sequence[int], int], Panel], Sequence[int]]] = {
        "backlog": (growing_backlog, backlogs),
        "queues": (growing_queues, QUEUES),
        "consumers": (growing_group, MEMBERS),
        "size": (growing_messages, SIZES),
    }
    found = []
    for name, (measure, points) in panels.items():
        if not chosen.only or any(part in name for part in chosen.only):
            print(f"… {name}", file=sys.stderr, flush=True)
            some = points[:2] if chosen.quick else points
            panel = measure((points[0], points[-1]) if chosen.ends else some, chosen.rounds)
            found.append(panel)
            show(panel)
    shown = [{"title": p.title, "unit": p.unit, "lines": p.lines} for p in found]
    measured = [each for panel in found for each in panel.measured]
    versions = {"kernel": kernel.name}
    settings = {"rounds": chosen.rounds}
    save(
        chosen.out,
        measured,
        versions=versions,
        settings=settings,
        panels=shown,
        adds=bool(chosen.only),
    )
    return 0


def show(panel: Panel) -> None:
    for name, points in panel.lines.items():
        first = sum(points[0][1:])
        for point, server_us, client_us in points:
            times = (server_us + client_us) / first
            print(
                f"{panel.title:20} {name:24} {point:>10,} {panel.unit:10} "
                f"server {server_us:8.1f} µs  client {client_us:8.1f} µs  {times:6.2f} times"
            )


if __name__ == "__main__":
    sys.exit(main())
