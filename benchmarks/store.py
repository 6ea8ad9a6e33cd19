"""What a record costs the store: appended, read back, and with much already there.

    python -m benchmarks store            a few seconds
    python -m benchmarks.store --full     up to 10 million records and 10,000 queues

Drafts are made beforehand; the cost of a turn holds everything from `append` to `write`, the
keys written to the index with their share.  Nothing is synced: waiting costs no CPU.  Of
several rounds the best counts, the others were disturbed.

The growth of the store should not be felt.  Two plots in ``results/`` show it: the cost of a
record against the number of records, and of queues, that are there already.  Each point is
measured in turn with a small store, because other work on the machine may double both.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from flintmq.model.host import Host
from flintmq.model.java_hash import tags_code
from flintmq.model.message_id import UniqueIds
from flintmq.model.queue import QueueOffset
from flintmq.protocol.records.properties import encode_properties
from flintmq.protocol.records.record_pattern import RecordPattern, packed_host
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import MessageLog
from flintmq.store.queues.selection import EVERYTHING, Selection

RESULTS = Path(__file__).parent / "results"
BORN_HOST = Host.parse("10.0.0.2:40000")
STORE_HOST = Host.parse("10.0.0.1:10911")
NOW_MS = 1_700_000_000_000
TOPIC = "orders"
TAG = "TagA"

TURN = 32  # records to a turn, and to a read
ROUNDS = 7
ROUND_RECORDS = 6_400

Row = dict[str, object]
Work = Callable[[], float]
"""Does something to many records and tells what each cost, in microseconds."""

Point = tuple[int, float, float]
"""How much was there, what a record cost, and what it cost in a small store meanwhile."""


def run(*, full: bool = False) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="flintmq-bench-") as scratch:
        rows += appending(Path(scratch))
        rows += reading(Path(scratch))
    rows += growing_backlog(7 if full else 5)
    rows += growing_queues(4 if full else 3)
    return rows


# One at a time, and many


def appending(scratch: Path) -> list[Row]:
    goals = {(128, TURN): "<= 5"}
    rows = []
    for body_bytes in (128, 1024):
        for turn in (1, TURN):
            log = open_log(scratch / f"append-{body_bytes}-{turn}")
            cost = best(partial(append, log, ROUND_RECORDS, turn, body_bytes))
            log.close()
            name = f"append {body_bytes} B, {'alone' if turn == 1 else f'{turn} to a turn'}"
            rows.append(row(name, cost, "µs/record", goals.get((body_bytes, turn))))
    return rows


def reading(scratch: Path) -> list[Row]:
    tagged = Selection(frozenset({tags_code(TAG)}))
    nothing = Selection(frozenset({tags_code("other")}))
    rows = []
    for body_bytes in (128, 1024):
        log = open_log(scratch / f"read-{body_bytes}")
        append(log, ROUND_RECORDS, TURN, body_bytes)
        cost = best(partial(read, log, TURN))
        rows += [
            row(f"read a backlog, {body_bytes} B, {TURN} to a read", cost, "µs/record", "<= 1"),
            row(f"the same, {body_bytes} B", 1e6 / cost, "records/s"),
        ]
        if body_bytes == 128:
            rows += [
                row("read, one record to a read", best(partial(read, log, 1)), "µs/record"),
                row("read by tag", best(partial(read, log, TURN, tagged)), "µs/record"),
                row("pass by tag", best(partial(read, log, TURN, nothing)), "µs/record"),
            ]
        log.close()
    return rows


# With much already there


def growing_backlog(powers_max: int) -> list[Row]:
    """Cost of a record after a thousand, ten thousand, … are in the store."""
    lines: dict[str, list[Point]] = {"append": [], "read": []}
    with scratch_log() as log:
        for power in range(3, powers_max + 1):
            while (there := log.max_offset(TOPIC, 0)) < 10**power:
                append(log, min(10**power - there, 100_000), TURN, 128)
            with scratch_log() as small:
                append(small, 1_000, TURN, 128)
                lines["read"].append(
                    (
                        10**power,
                        *alternate(
                            partial(read, log, TURN, start=there // 2), partial(read, small, TURN)
                        ),
                    )
                )
                lines["append"].append(
                    (
                        10**power,
                        *alternate(
                            partial(append, log, ROUND_RECORDS, TURN, 128),
                            partial(append, small, ROUND_RECORDS, TURN, 128),
                        ),
                    )
                )
    plot("store-backlog.png", "records in the store", "a thousand records", lines)
    return rows_of(lines, "records")


def growing_queues(powers_max: int) -> list[Row]:
    """Cost of a record when there are one, ten, … queues, against the same turns on few."""
    alone, spread = "append, a turn to one queue", "append, a turn to 32 queues"
    lines: dict[str, list[Point]] = {alone: [], spread: [], "read": []}
    for power in range(powers_max + 1):
        queues = 10**power
        with scratch_log() as log, scratch_log() as small:
            for first in range(0, queues, TURN):
                here = range(first, min(first + TURN, queues))
                append_turns(log, [[queue_id] * TURN for queue_id in here])
            few = range(min(queues, TURN))
            append_turns(small, [[queue_id] * TURN for queue_id in few])
            chosen = [number * 7 % queues for number in range(max(200, min(queues, 2_000)))]
            works = {
                alone: partial(append_turns, log, [[queue_id] * TURN for queue_id in chosen]),
                spread: partial(append, log, ROUND_RECORDS, TURN, 128, chosen),
                "read": partial(read_queues, log, chosen),
            }
            base = {
                alone: partial(append, small, ROUND_RECORDS, TURN, 128),
                spread: partial(append, small, ROUND_RECORDS, TURN, 128, few),
                "read": partial(read_queues, small, [0] * len(chosen)),
            }
            for name, work in works.items():
                lines[name].append((queues, *alternate(work, base[name])))
    plot("store-queues.png", "queues in the store", "few queues", lines)
    return rows_of(lines, "queues")


def alternate(work: Work, base: Work) -> tuple[float, float]:
    """What both cost, measured in turn, so that a busy machine disturbs both alike."""
    pairs = [(work(), base()) for _ in range(ROUNDS)]
    return min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)


def rows_of(lines: dict[str, list[Point]], what: str) -> list[Row]:
    rows: list[Row] = []
    for name, points in lines.items():
        for there, cost, base in points:
            title = f"{name}, {there:,} {what} there"
            rows.append(row(title, cost, "µs/record"))
            rows.append(row(f"{title}, against a small store", cost / base, "times"))
    return rows


@contextmanager
def scratch_log() -> Iterator[MessageLog]:
    with tempfile.TemporaryDirectory(prefix="flintmq-bench-") as scratch:
        log = open_log(Path(scratch))
        yield log
        log.close()


# The work


def open_log(directory: Path) -> MessageLog:
    return MessageLog.open(directory, StoreConfig(), process_id=1)


def texts_of(count: int) -> tuple[list[bytes], list[tuple[str]]]:
    """Properties as a 5.x broker stores those of a Java producer, and the keys in them."""
    ids = UniqueIds(BORN_HOST.packed, 1234, 0x18B4AAC2)
    texts, keys = [], []
    for number in range(count):
        unique_id = ids.make(NOW_MS + number, NOW_MS)
        properties = {
            "UNIQ_KEY": unique_id,
            "CLUSTER": "DefaultCluster",
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
            "TAGS": TAG,
            "WAIT": "true",
        }
        keys.append((unique_id,))
        texts.append(encode_properties(properties))
    return texts, keys


def append(
    log: MessageLog, count: int, turn: int, body_bytes: int, queue_ids: Sequence[int] = (0,)
) -> float:
    """Append records to the given queues in turn; the CPU each cost, in microseconds."""
    turns = -(-count // turn)
    numbers = [number % len(queue_ids) for number in range(turns * turn)]
    chosen = [queue_ids[number] for number in numbers]
    turns_of = [chosen[start : start + turn] for start in range(0, len(chosen), turn)]
    return append_turns(log, turns_of, body_bytes)


def append_turns(log: MessageLog, turns: Sequence[Sequence[int]], body_bytes: int = 128) -> float:
    """Append a record to each queue of each turn; the CPU each cost, in microseconds."""
    texts, keys = texts_of(max(map(len, turns)))
    body, born_host, code = bytes(body_bytes), packed_host(BORN_HOST), tags_code(TAG)
    known = {queue_id for turn in turns for queue_id in turn}
    patterns = {each: RecordPattern(TOPIC, each, store_host=STORE_HOST) for each in known}
    spent = 0.0
    for queue_ids in turns:
        began = time.process_time()
        for text, its_keys, queue_id in zip(texts, keys, queue_ids, strict=True):
            log.append(
                patterns[queue_id],
                body,
                text,
                NOW_MS,
                born_host,
                tags_code=code,
                keys=its_keys,
                now_ms=NOW_MS,
            )
        log.write()
        spent += time.process_time() - began
    began = time.process_time()
    log.flush()
    spent += time.process_time() - began
    return spent / sum(map(len, turns)) * 1e6


def read(log: MessageLog, count_max: int, wanted: Selection = EVERYTHING, start: int = 0) -> float:
    """Read records of queue 0 from ``start`` on; the CPU each cost, in microseconds."""
    offset = QueueOffset(start)
    stop = min(start + ROUND_RECORDS, log.max_offset(TOPIC, 0))
    began = time.process_time()
    while offset < stop:
        offset = log.read(TOPIC, 0, offset, count_max, wanted=wanted).next_offset
    return (time.process_time() - began) / (offset - start) * 1e6


def read_queues(log: MessageLog, queue_ids: Sequence[int]) -> float:
    """Read 32 records from the start of each of the queues."""
    count = 0
    began = time.process_time()
    for queue_id in queue_ids:
        count += log.read(TOPIC, queue_id, QueueOffset(0), TURN).record_count
    return (time.process_time() - began) / max(count, 1) * 1e6


def best(work: Work) -> float:
    return min(work() for _ in range(ROUNDS))


def row(name: str, value: float, unit: str, goal: str | None = None) -> Row:
    return {"name": name, "value": value, "unit": unit} | ({"goal": goal} if goal else {})


def plot(name: str, what: str, small: str, lines: dict[str, list[Point]]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for label, points in lines.items():
        there = [point[0] for point in points]
        axes.plot(there, [cost / base for _, cost, base in points], marker="o", label=label)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel(what)
    axes.set_ylabel(f"CPU per record, as a multiple\nof that with {small}")
    axes.grid(alpha=0.3)
    axes.legend()
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(RESULTS / name, dpi=120, bbox_inches="tight")
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="benchmarks.store", description=__doc__)
    parser.add_argument("--full", action="store_true", help="up to 10 million records")
    for line in run(full=parser.parse_args().full):
        print(f"{line['name']:70} {line['value']:14,.3f} {line['unit']}")
