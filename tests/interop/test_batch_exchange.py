"""Topics that keep batches (``queue.type=BatchCQ``) work alike here and in a real 5.3.3.

A directory goes from one to the other and back, and the Java client of 5.3.3 adds to it and reads
all of it at every stop.  Directories of brokers that were killed are taken over too.
"""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any

import pytest

from flintmq.model.sys_flag import INNER_BATCH, NEED_UNWRAP
from flintmq.protocol.bodies.topic import TopicConfig, TopicTable
from flintmq.protocol.records.properties import encode_properties
from flintmq.protocol.records.record import Record
from flintmq.protocol.records.record_pattern import RecordPattern, packed_host
from flintmq.store.check.store_check import check_store
from flintmq.store.files.disk import Disk
from flintmq.store.files.json_tables import Tables
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import MessageLog
from flintmq.store.queues.queue_reader import GetStatus
from support.interop.ask import ask
from support.interop.asked import make_topic
from support.interop.beside import Java
from support.interop.exchanges import HOST, pulled, split
from support.interop.filled import patiently
from support.interop.javaclient import NEW, JavaClient, MqAdmin
from support.interop.ours import Kind, serving
from support.interop.real import RealRocketMQ

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("java"),
    pytest.mark.timeout(600),  # servers and JVMs are started and stopped several times
]

BATCH_TYPE = "+queue.type=BatchCQ"
SEND_BATCH = 320
CONFIG = StoreConfig(
    commit_log_file_bytes=256 * 1024,
    queue_file_bytes=2_000,
    batch_queue_file_bytes=46 * 20,
    index_slots=1_000,
    index_entries=600,
)


SIZES: dict[str, Any] = {
    "mappedFileSizeCommitLog": CONFIG.commit_log_file_bytes,
    "mappedFileSizeConsumeQueue": CONFIG.queue_file_bytes,
    "mapperFileSizeBatchConsumeQueue": CONFIG.batch_queue_file_bytes,
    "maxHashSlotNum": CONFIG.index_slots,
    "maxIndexNum": CONFIG.index_entries,
    "maxMessageSize": 65_536,
}
"""A real broker opens only files of the sizes it is told."""


# By clients


def test_the_java_client_uses_a_directory_that_goes_to_a_real_broker_and_back(
    tmp_path: Path,
) -> None:
    prefix = "kept_"
    stops = [
        ("ours", Kind.OURS, "data"),
        ("real", Kind.REAL_5_3, "store"),
        ("back", Kind.OURS, "data"),
    ]
    sent: list[str] = []
    store = None
    for number, (name, kind, folder) in enumerate(stops):
        directory = tmp_path / name
        directory.mkdir()
        if store is not None:
            store.rename(directory / folder)
        store = directory / folder
        with serving(directory, kind=kind, **SIZES) as up:
            if not number:
                make_topic(up.broker, f"{prefix}t", 1, BATCH_TYPE)
            with JavaClient(NEW, up.namesrv, directory) as client:
                told = client.play("send-batches", prefix)
        start = 24 * number
        sent += [
            text
            for i in range(start, start + 4)
            for text in (*(f"{i}/{j}" for j in range(5)), str(i))
        ]
        assert [one["offset"] for one in told.all("batch")] == [start + 6 * i for i in range(4)]
        assert all("," not in one["msgId"] for one in told.all("batch"))
        assert told.one("range") == {"event": "range", "min": 0, "max": start + 24}
        inside = told.one("inside")
        assert (inside["first"], inside["count"], inside["next"]) == (start + 6, 6, start + 12)
        stored = told.all("stored")
        assert [one["body"] for one in stored] == sent
        assert [one["offset"] for one in stored] == list(range(start + 24))
        assert stored[-2]["properties"]["TAGS"] == "tag4"
        assert check_store(Disk(), store, StoreConfig()).findings.kept == []


def test_a_java_push_consumer_gets_every_message_of_our_batches(tmp_path: Path) -> None:
    prefix = "pushed_"
    with serving(tmp_path, kind=Kind.OURS) as up:
        make_topic(up.broker, f"{prefix}t", 1, BATCH_TYPE)
        with JavaClient(NEW, up.namesrv, tmp_path) as client:
            client.play("send-batches", prefix)
            java = Java(client, prefix)
            java.play("join")
            patiently(lambda: len(java.seen()) >= 24)
            bodies = java.leave()
    wanted = [b"%d/%d" % (i, j) for i in range(4) for j in range(5)] + [b"%d" % i for i in range(4)]
    assert sorted(bodies) == sorted(wanted)


def test_mqadmin_makes_such_a_topic_shows_and_deletes_it(tmp_path: Path) -> None:
    with (
        serving(tmp_path, kind=Kind.OURS) as up,
        MqAdmin(NEW, up.namesrv, tmp_path) as mqadmin,
    ):
        made = mqadmin(
            "updateTopic",
            "-b",
            up.broker,
            "-t",
            "made",
            "-r",
            "1",
            "-w",
            "1",
            "-a",
            BATCH_TYPE,
        )
        refused = mqadmin(
            "updateTopic", "-b", up.broker, "-t", "made", "-a", "+queue.type=SimpleCQ"
        )
        batch(up.broker, "made", 0, 3)
        shown = mqadmin("topicStatus", "-t", "made")
        deleted = mqadmin("deleteTopic", "-c", "DefaultCluster", "-t", "made")
    assert "success" in made
    assert "BatchCQ" in made
    assert "attempt to update an unchangeable attribute" in refused
    assert ["broker-a", "0", "0", "3"] in [line.split()[:4] for line in shown.splitlines()]
    assert "success" in deleted
    assert not (tmp_path / "data" / "batchconsumequeue" / "made").exists()


# By hand, killed


def encoded(bodies: list[bytes]) -> bytes:
    return b"".join(
        struct.pack(">iiiii", 22 + len(body), 0, 0, 0, len(body)) + body + bytes(2)
        for body in bodies
    )


def batch(broker: str, topic: str, number: int, count: int) -> int:
    """Send an inner batch; tell its queue offset."""
    letters = {
        "a": "probe", "b": topic, "c": "TBW102", "d": "1", "e": "0", "f": "0",
        "g": str(int(time.time() * 1000)), "h": "0", "i": f"UNIQ_KEY\x01R{number:08d}\x02",
        "j": "0", "k": "false", "m": "true",
    }  # fmt: skip
    bodies = [b"real %d/%d" % (number, part) for part in range(count)]
    header, _ = ask(broker, SEND_BATCH, letters, encoded(bodies))
    assert header["code"] == 0, header
    return int(header["extFields"]["queueOffset"])


def fill(directory: Path, *, is_killed: bool) -> dict[int, bytes]:
    """Write a directory; tell its records by the offset of their first message."""
    log = MessageLog.open(directory, CONFIG, process_id=1)
    log.batched.keep("kept")
    wanted: dict[int, bytes] = {}
    began_ms = int(time.time() * 1000) - 10_000
    for number in range(400):
        count = number % 7 + 1
        base = log.batched.next_offset("kept", 0)
        properties = {"UNIQ_KEY": f"U{number:08d}", "TAGS": "a"}
        flags, body = 0, b"single %d" % number
        if count > 1:
            flags = INNER_BATCH | NEED_UNWRAP
            properties |= {"INNER_NUM": str(count), "INNER_BASE": str(base)}
            body = encoded([b"%d/%d" % (number, part) * 40 for part in range(count)])
        log.append(
            RecordPattern("kept", 0, store_host=HOST, sys_flag=flags),
            body,
            encode_properties(properties),
            began_ms,
            packed_host(HOST),
            tags_code=97,
            keys=(properties["UNIQ_KEY"],),
            count=count,
            now_ms=began_ms + 10 * number,
        )
        wanted[base] = body
        log.write()
        if number == 200:
            plan = log.begin_sync(thorough=True)
            assert plan is not None
            plan.run()
            log.finish_sync(plan)
    if is_killed:
        log._disk.unlock(log._lock)
    else:
        log.close()
    topic = TopicConfig(
        topic_name="kept",
        read_queue_nums=1,
        write_queue_nums=1,
        attributes={"queue.type": "BatchCQ"},
    )
    Tables(Disk(), directory).topics.save(TopicTable(topic_config_table={"kept": topic}))
    return wanted


def served(log: MessageLog) -> dict[int, Record]:
    found: dict[int, Record] = {}
    offset = log.min_offset("kept", 0)
    while True:
        result = log.read("kept", 0, offset, 32)
        if result.status is not GetStatus.FOUND:
            return found
        found |= {record.queue_offset: record for record in split(b"".join(result.views))}
        offset = result.next_offset


def real_broker(directory: Path) -> RealRocketMQ:
    return RealRocketMQ("5.3.3", directory, **SIZES)


@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
def test_a_directory_goes_to_a_real_broker_which_is_killed_and_comes_back(
    is_killed: bool, tmp_path: Path
) -> None:
    directory = tmp_path / "real" / "store"
    directory.parent.mkdir()
    wanted = fill(directory, is_killed=is_killed)
    assert check_store(Disk(), directory, CONFIG).is_good

    with real_broker(tmp_path / "real") as rocketmq:
        found = pulled(rocketmq.broker, "kept", 0)
        assert {offset: record.body for (_, _, offset), record in found.items()} == wanted
        for number in range(50):
            bodies = [b"real %d/%d" % (number, part) for part in range(3)]
            wanted[batch(rocketmq.broker, "kept", number, 3)] = encoded(bodies)
        rocketmq.kill_broker()

    log = MessageLog.open(directory, CONFIG, process_id=1)
    ours = served(log)
    assert {offset: record.body for offset, record in ours.items()} == wanted
    assert log.max_offset("kept", 0) == max(wanted) + 3
    log.close()
    assert check_store(Disk(), directory, CONFIG).is_good
