"""What a slave pays for its master's messages: checks, log, queues and index.

    python -m benchmarks replication

The log of a master goes into a slave's store as it comes over the HA connection: in frames of
32 KiB when the slave catches up, and one message at a time as a SYNC_MASTER sends it.  Of several
rounds the best counts, the others were disturbed.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from flintmq.model.host import Host
from flintmq.model.java_hash import tags_code
from flintmq.protocol.records.properties import encode_properties
from flintmq.protocol.records.record_pattern import RecordPattern, packed_host
from flintmq.protocol.replication.ha_frames import TRANSFER_BYTES
from flintmq.store.files.store_config import Flush, StoreConfig
from flintmq.store.message_log import MessageLog

Row = dict[str, object]

NOW_MS = 1_700_000_000_000
STORED = Host.parse("127.0.0.1:10911")
BORN = packed_host(Host.parse("127.0.0.1:40000"))
MESSAGES = 20_000
ALONE = 2_000
QUEUES = 8
ROUNDS = 5
CONFIG = StoreConfig(flush=Flush.ASYNC, commit_log_file_bytes=64 * 1024 * 1024)


def run() -> list[Row]:
    rows: list[Row] = []
    for name, body_bytes in (("128 B", 128), ("1 KiB", 1024)):
        octets, ends = master_log(body_bytes)
        together = min(stored(octets, frames(octets, ends)) for _ in range(ROUNDS)) / MESSAGES
        alone = min(stored(octets, ends[:ALONE]) for _ in range(ROUNDS)) / ALONE
        rows.append(row(f"slave, {name}: in frames of 32 KiB, a message", together))
        rows.append(row(f"slave, {name}: one message in a frame", alone))
    return rows


def row(name: str, seconds: float) -> Row:
    return {"name": name, "value": round(seconds * 1e6, 2), "unit": "us"}


def master_log(body_bytes: int) -> tuple[bytes, list[int]]:
    """The log of a master, and where its messages end."""
    with tempfile.TemporaryDirectory(prefix="flintmq-bench-") as scratch:
        log = MessageLog.open(Path(scratch), CONFIG, process_id=1)
        patterns = [
            RecordPattern("T", each, store_host=STORED, sys_flag=0) for each in range(QUEUES)
        ]
        ends = []
        for number in range(MESSAGES):
            key = f"7F0000010001000000000000{number:08X}"
            properties = encode_properties({"UNIQ_KEY": key, "TAGS": "a", "WAIT": "true"})
            appended = log.append(
                patterns[number % QUEUES],
                b"x" * body_bytes,
                properties,
                NOW_MS,
                BORN,
                tags_code=tags_code("a"),
                keys=[key],
                now_ms=NOW_MS,
            )
            ends.append(appended.log_offset + appended.size_bytes)
        log.write()
        octets = log.raw.tail(2**40)
        log.close()
    return octets, ends


def frames(octets: bytes, ends: list[int]) -> list[int]:
    """Where frames end that are full; what is left of a record comes with the next."""
    return [*range(TRANSFER_BYTES, len(octets), TRANSFER_BYTES), ends[-1]]


def stored(octets: bytes, stops: list[int]) -> float:
    """CPU time for a slave to store a log that comes up to these places, one after the other."""
    with tempfile.TemporaryDirectory(prefix="flintmq-bench-") as scratch:
        log = MessageLog.open(Path(scratch), CONFIG, process_id=1)
        started = time.process_time()
        at = 0
        for stop in stops:
            at += log.raw.append(octets[at:stop], NOW_MS)
            log.write()
        took = time.process_time() - started
        assert log.end_offset == stops[-1]
        log.close()
    return took
