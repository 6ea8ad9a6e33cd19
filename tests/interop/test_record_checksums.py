"""Checksums over whole records are RocketMQ's, both ways.

A 5.3.3 broker with ``forceVerifyPropCRC=true`` starts on a store that we wrote, after a crash, and
serves all of it: it cuts the log at the first record whose checksum it finds wrong, which is shown
too.  And records of every kind that a 5.3.3 broker wrote with ``enabledAppendPropCRC=true`` have
the checksum that we would have written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flintmq import Message, Producer
from flintmq.model.java_hash import tags_code
from flintmq.protocol.bodies.topic import TopicConfig, TopicTable
from flintmq.protocol.records.batch import BatchColumns
from flintmq.protocol.records.properties import encode_properties
from flintmq.protocol.records.record_checksum import (
    CHECKSUM_BYTES,
    ROOM,
    checksummed,
    looks_checksummed,
)
from flintmq.protocol.records.record_pattern import RecordPattern, packed_host
from flintmq.store.check.store_check import check_store
from flintmq.store.files.disk import Disk
from flintmq.store.files.json_tables import Tables
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.log.log_scan import LogScan
from flintmq.store.message_log import MessageLog
from support.interop.cluster import wait_until
from support.interop.exchanges import HOST, pulled
from support.interop.real import RealRocketMQ
from support.store.recovering import flip

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("java")]

CONFIG = StoreConfig(
    commit_log_file_bytes=256 * 1024,
    queue_file_bytes=2_000,
    index_slots=1_000,
    index_entries=600,
    record_checksums=True,
)
COUNT = 200
PATIENCE_S = 60.0


def fill(directory: Path) -> list[int]:
    """Single messages and batches in one queue, and a kill; tell where each record lies."""
    log = MessageLog.open(directory, CONFIG, process_id=1)
    pattern = RecordPattern("orders", 0, store_host=HOST)
    places: list[int] = []
    for number in range(COUNT // 4):
        now_ms = 1_700_000_000_000 + number
        keys = (f"U{number:08d}",)
        properties = {"UNIQ_KEY": keys[0], "TAGS": "a"}
        text = encode_properties(properties, trailing_separator=number % 2 == 0)
        body = b"body %d" % number
        parts = pattern, body, text, now_ms, packed_host(HOST)
        code = tags_code("a")
        places.append(log.append(*parts, tags_code=code, keys=keys, now_ms=now_ms).log_offset)
        batch = log.plain.append_batch(
            pattern,
            BatchColumns([body] * 3, [encode_properties({"n": "1"})] * 3, [0] * 3),
            text,
            now_ms,
            packed_host(HOST),
            tags_codes=[code] * 3,
            keys=[keys] * 3,
            now_ms=now_ms,
        )
        places += batch.log_offsets
        log.write()
    log._disk.unlock(log._lock)
    topic = TopicConfig(topic_name="orders", read_queue_nums=1, write_queue_nums=1)
    Tables(Disk(), directory).topics.save(TopicTable(topic_config_table={"orders": topic}))
    return places


def real_broker(directory: Path, **settings: Any) -> RealRocketMQ:
    return RealRocketMQ(
        "5.3.3",
        directory,
        mappedFileSizeCommitLog=CONFIG.commit_log_file_bytes,
        mappedFileSizeConsumeQueue=CONFIG.queue_file_bytes,
        maxHashSlotNum=CONFIG.index_slots,
        maxIndexNum=CONFIG.index_entries,
        maxMessageSize=65_536,
        enabledAppendPropCRC=True,
        forceVerifyPropCRC=True,
        **settings,
    )


@pytest.mark.parametrize("is_flipped", [False, True], ids=["sound", "flipped"])
def test_a_real_broker_finds_our_checksums_right(tmp_path: Path, is_flipped: bool) -> None:
    directory = tmp_path / "real" / "store"
    directory.parent.mkdir()
    places = fill(directory)
    if is_flipped:  # one bit of a property of a record near the end
        flip(directory, places[-10] - CHECKSUM_BYTES - 2, CONFIG)

    with real_broker(tmp_path / "real") as rocketmq:
        found = pulled(rocketmq.broker, "orders", 0)

    assert len(found) == (COUNT - 11 if is_flipped else COUNT)


def records_of(directory: Path) -> Iterator[bytes]:
    config = replace(CONFIG, record_checksums=False)
    log = MessageLog.open(directory, config, process_id=1)
    assert not log.complaints
    for _, columns in LogScan(log._disk, log._log.segments, log._log.min_offset):
        spans = zip(columns.start.tolist(), columns.size_bytes.tolist(), strict=True)
        yield from (bytes(columns.buffer[start : start + size]) for start, size in spans)
    log.close()


def test_records_of_every_kind_of_a_real_broker_have_the_checksum_we_write(tmp_path: Path) -> None:
    quick = " ".join(["1s"] * 18)
    (tmp_path / "real").mkdir()
    with (
        real_broker(tmp_path / "real", messageDelayLevel=quick) as rocketmq,
        Producer("shop", namesrv=rocketmq.namesrv) as producer,
    ):
        producer.send(Message("orders", b"plain", tags="a", keys=["k"]))
        producer.send_batch([Message("orders", b"%d" % number, tags="b") for number in range(5)])
        producer.send(Message("late", b"delayed", delay_level=1))
        wait_until(
            "the delayed message",
            lambda: any(pulled(rocketmq.broker, "late", queue) for queue in range(8)),
            PATIENCE_S,
        )

    directory = tmp_path / "real" / "store"
    assert check_store(Disk(), directory, CONFIG).is_good
    found = list(records_of(directory))
    assert len(found) == 8
    for record in found:
        assert looks_checksummed(record)
        assert checksummed(record[:-CHECKSUM_BYTES] + ROOM) == record
