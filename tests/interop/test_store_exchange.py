"""A store directory goes from us to a real broker and back, and nothing is lost on the way.

Our store writes a directory.  The real broker of both generations starts on it, serves every
message by pull and finds every key, and stores messages of its own.  Then the directory comes
back: `store check` finds nothing wrong, before and after, and ours serves everything and finds
every key.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from flintmq.model.java_hash import tags_code
from flintmq.model.topic import SCHEDULE_TOPIC
from flintmq.protocol.bodies.topic import TopicConfig, TopicTable
from flintmq.protocol.records.batch import BatchColumns
from flintmq.protocol.records.properties import encode_properties, parse_properties
from flintmq.protocol.records.record import Record, decode_record
from flintmq.protocol.records.record_pattern import RecordPattern, packed_host
from flintmq.store.check.store_check import check_store
from flintmq.store.files.disk import Disk
from flintmq.store.files.json_tables import Tables
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.index.key_index import QUERY_COUNT_MAX
from flintmq.store.message_log import MessageLog
from flintmq.store.queues.dispatch import keys_of
from support.crash.workload import served
from support.interop.exchanges import HOST, OK, QUERY_MESSAGE, SEND_MESSAGE, Key, pulled, split
from support.interop.real import RealRocketMQ, ask
from support.store.stored import Draft

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("java")]

CONFIG = StoreConfig(
    commit_log_file_bytes=256 * 1024,
    queue_file_bytes=2_000,
    index_slots=1_000,
    index_entries=600,
)
TOPICS = ("orders", "events")
QUEUES = 2
LAST_LEVEL = 18  # two hours: none is delivered while the test runs


def fill(directory: Path, count: int, *, is_killed: bool) -> dict[Key, bytes]:
    """Write a directory with everything in it; tell its messages.

    When it is killed, the queues lack what came after the last checkpoint.
    """
    log = MessageLog.open(directory, CONFIG, process_id=1)
    wanted: dict[Key, bytes] = {}
    began_ms = int(time.time() * 1000) - count * 10
    for number in range(count):
        topic, queue_id = TOPICS[number % 2], number // 2 % QUEUES
        now_ms = began_ms + number * 10
        if number % 10 == 9:
            batch(log, topic, queue_id, number, now_ms, wanted)
            continue
        body = b"body %d " % number + bytes(number % 900)
        properties = {"TAGS": f"tag{number % 3}", "KEYS": f"k{number} shared"}
        properties |= {"UNIQ_KEY": f"U{number:08d}", "WAIT": "true"}
        level = 0
        if number % 25 == 24:
            properties |= {"DELAY": "18", "REAL_TOPIC": topic, "REAL_QID": str(queue_id)}
            topic, queue_id, level = SCHEDULE_TOPIC, LAST_LEVEL - 1, LAST_LEVEL
        at = log.append(
            *drafted(topic, queue_id, body, properties, now_ms),
            tags_code=tags_code(properties["TAGS"]),
            keys=(properties["UNIQ_KEY"], f"k{number}", "shared"),
            delay_level=level,
            now_ms=now_ms,
        )
        wanted[topic, queue_id, at.queue_offset] = body
        if number % 7 == 0:
            log.write()
        if number == count // 2:
            log.write()
            plan = log.begin_sync(thorough=True)
            assert plan is not None
            plan.run()
            log.finish_sync(plan)
    log.write()
    if is_killed:
        log._disk.unlock(log._lock)
    else:
        log.close()
    topics = {
        name: TopicConfig(topic_name=name, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
        for name in TOPICS
    }
    Tables(Disk(), directory).topics.save(TopicTable(topic_config_table=topics))
    return wanted


def drafted(
    topic: str, queue_id: int, body: bytes, properties: dict[str, str], now_ms: int
) -> Draft:
    pattern = RecordPattern(topic, queue_id, store_host=HOST)
    return Draft(pattern, body, encode_properties(properties), now_ms, packed_host(HOST))


def batch(
    log: MessageLog, topic: str, queue_id: int, number: int, now_ms: int, wanted: dict[Key, bytes]
) -> None:
    bodies = [b"batch %d/%d" % (number, part) for part in range(3)]
    keys = [(f"B{number:06d}{part}",) for part in range(3)]
    texts = [encode_properties({"UNIQ_KEY": key}) for (key,) in keys]
    appended = log.plain.append_batch(
        RecordPattern(topic, queue_id, store_host=HOST),
        BatchColumns(bodies, texts, [0] * len(texts)),
        b"",
        now_ms,
        packed_host(HOST),
        tags_codes=[0, 0, 0],
        keys=keys,
        now_ms=now_ms,
    )
    for offset, body in enumerate(bodies, appended.queue_offset):
        wanted[topic, queue_id, offset] = body


def queried(broker: str, topic: str, key: str) -> list[Record]:
    fields = {
        "topic": topic,
        "key": key,
        "maxNum": "32",
        "beginTimestamp": "0",
        "endTimestamp": str(2**62),
    }
    header, body = ask(broker, QUERY_MESSAGE, fields)
    assert header["code"] == OK, header
    return split(body)


def send(broker: str, topic: str, queue_id: int, body: bytes, key: str) -> int:
    fields = {
        "producerGroup": "exchange",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": str(queue_id),
        "sysFlag": "0",
        "bornTimestamp": str(int(time.time() * 1000)),
        "flag": "0",
        "properties": f"KEYS\x01{key}\x02UNIQ_KEY\x01{key}-id\x02TAGS\x01real\x02",
        "reconsumeTimes": "0",
        "unitMode": "false",
        "batch": "false",
    }
    header, _ = ask(broker, SEND_MESSAGE, fields, body)
    assert header["code"] == OK, header
    return int(header["extFields"]["queueOffset"])


def real_broker(version: str, directory: Path) -> RealRocketMQ:
    return RealRocketMQ(
        version,
        directory,
        mappedFileSizeCommitLog=CONFIG.commit_log_file_bytes,
        mappedFileSizeConsumeQueue=CONFIG.queue_file_bytes,
        maxHashSlotNum=CONFIG.index_slots,
        maxIndexNum=CONFIG.index_entries,
        maxMessageSize=65_536,
    )


def assert_every_key_is_found(log: MessageLog, records: Iterable[Record]) -> None:
    """Each key finds the records that carry it, each once, the newest when there are many."""
    places: dict[tuple[str, str], list[int]] = {}
    for record in records:
        for key in keys_of(parse_properties(record.properties)):
            places.setdefault((record.topic, key), []).append(record.log_offset)
    for (topic, key), wanted in places.items():
        views = log.lookup.by_key(topic, key, QUERY_COUNT_MAX, 0, 2**62).views
        found = [decode_record(view).log_offset for view in views]
        assert found == sorted(wanted)[-QUERY_COUNT_MAX:], (topic, key)


@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
def test_a_directory_goes_to_a_real_broker_and_comes_back(
    version: str, is_killed: bool, tmp_path: Path
) -> None:
    directory = tmp_path / "real" / "store"
    directory.parent.mkdir()
    wanted = fill(directory, 1_000, is_killed=is_killed)
    assert check_store(Disk(), directory, CONFIG).is_good
    rocketmq = real_broker(version, tmp_path / "real")

    with rocketmq:
        found: dict[Key, Record] = {}
        for topic in TOPICS:
            for queue_id in range(QUEUES):
                found |= pulled(rocketmq.broker, topic, queue_id)
        found |= pulled(rocketmq.broker, SCHEDULE_TOPIC, LAST_LEVEL - 1)
        assert {key: record.body for key, record in found.items()} == wanted
        for number in range(0, 1_000, 50):
            topic = TOPICS[number % 2]
            assert any(
                record.body.startswith(b"body %d " % number)
                for record in queried(rocketmq.broker, topic, f"k{number}")
            )
        for number in range(40):
            topic, queue_id, body = TOPICS[number % 2], number % QUEUES, b"real %d" % number
            offset = send(rocketmq.broker, topic, queue_id, body, f"r{number}")
            assert (topic, queue_id, offset) not in wanted
            wanted[topic, queue_id, offset] = body

    report = check_store(Disk(), directory, CONFIG)
    assert report.is_good
    log = MessageLog.open(directory, CONFIG, process_id=1)
    ours = served(log)
    assert {key: record.body for key, record in ours.items() if key in wanted} == wanted
    assert_every_key_is_found(log, ours.values())
    log.close()
    # After a crash the real broker puts the last record of the index it kept once more: here the
    # one before the checkpoint, which has three keys.
    (last,) = [record for record in ours.values() if record.body.startswith(b"body 500 ")]
    repeated = f"repeats one of the record at {last.log_offset}:"
    noted = [repeated in finding.what for finding in report.findings.kept]
    assert noted == [True] * (3 if is_killed else 0), report.findings.kept
    assert check_store(Disk(), directory, CONFIG).findings == report.findings


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
def test_the_directory_of_a_killed_real_broker_opens_with_all_it_acknowledged(
    version: str, tmp_path: Path
) -> None:
    directory = tmp_path / "real" / "store"
    directory.parent.mkdir()
    wanted: dict[Key, bytes] = {}

    with real_broker(version, tmp_path / "real") as rocketmq:
        for number in range(300):
            topic, queue_id, body = TOPICS[number % 2], number % QUEUES, b"real %d" % number * 200
            offset = send(rocketmq.broker, topic, queue_id, body, f"r{number}")
            wanted[topic, queue_id, offset] = body
        rocketmq.kill_broker()

    assert (directory / "abort").exists()
    log = MessageLog.open(directory, CONFIG, process_id=1)
    ours = {key: record.body for key, record in served(log).items()}
    assert {key: body for key, body in ours.items() if key in wanted} == wanted
    for number in range(300):
        assert log.lookup.by_key(TOPICS[number % 2], f"r{number}", 1, 0, 2**62).views
    log.close()
    assert check_store(Disk(), directory, CONFIG).is_good
