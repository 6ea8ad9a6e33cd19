"""How long a store takes to open, and to be checked, for each GiB of its log.

    python -m benchmarks recovery

A store is filled and left without being closed, as a killed broker leaves it.  It has never
written a checkpoint, so every record is read, verified and put into queues and index again:
that is the worst case.  With a checkpoint only what is newer than it is indexed again.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree

from benchmarks.store import Row, append, row
from flintmq.store.check.store_check import check_store
from flintmq.store.files.disk import Disk
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import MessageLog

GIB = 1024**3
LOG_BYTES = 64 * 1024 * 1024
TURN = 32
ROUNDS = 3
QUEUE_IDS = range(16)


def run() -> list[Row]:
    rows: list[Row] = []
    for body_bytes in (128, 1024):
        with tempfile.TemporaryDirectory(prefix="flintmq-bench-") as scratch:
            rows += opening(Path(scratch) / "store", body_bytes)
    return rows


def opening(directory: Path, body_bytes: int) -> list[Row]:
    log = opened(directory)
    while log.end_offset < LOG_BYTES:
        append(log, 64 * TURN, TURN, body_bytes, QUEUE_IDS)
    size_bytes = log.end_offset
    leave(log)

    def start() -> None:
        leave(opened(directory))

    def rebuild() -> None:
        rmtree(directory / "consumequeue")
        rmtree(directory / "index")
        start()

    def check() -> None:
        assert check_store(Disk(), directory, StoreConfig()).is_good

    def start_clean() -> None:
        opened(directory).close()

    works = {"rebuilt from its log": rebuild, "after a kill": start, "checked": check}
    costs = {name: cost(work) for name, work in works.items()}
    start_clean()
    costs["after a clean exit"] = cost(start_clean)
    return [
        row(f"a store of {body_bytes} B bodies, {name}", seconds * GIB / size_bytes, "s/GiB")
        for name, seconds in costs.items()
    ]


def opened(directory: Path) -> MessageLog:
    return MessageLog.open(directory, StoreConfig(), process_id=1)


def leave(log: MessageLog) -> None:
    """End as a killed process does."""
    log._disk.unlock(log._lock)
    log._disk.close()


def cost(work: Callable[[], None]) -> float:
    """CPU of the quickest of a few rounds."""
    spent = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return min(spent)
