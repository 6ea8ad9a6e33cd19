"""Light queues are RocketMQ's, both ways: 4.9.7 and 5.3.3 with enableLmq and enableMultiDispatch.

A real broker stores messages in light queues; ours opens the directory, finds all in order,
serves every light queue and stores more.  Then the real broker opens it again, without its
queue files, and serves all of them.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.model.queue import QueueOffset
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.record import Record
from flintmq.store.check.store_check import check_store
from flintmq.store.files.disk import Disk
from flintmq.store.files.store_config import Flush, StoreConfig
from flintmq.store.message_log import MessageLog
from support.broker.world import World
from support.interop.exchanges import OK, SEND_MESSAGE, pulled, split
from support.interop.real import RealRocketMQ, ask

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("java")]

STORE = StoreConfig(
    commit_log_file_bytes=256 * 1024,
    queue_file_bytes=2_000,
    index_slots=1_000,
    index_entries=600,
    flush=Flush.ASYNC,
    light_queues=True,
    multi_dispatch=True,
)
SENT = [
    ("%LMQ%a", b"0"),
    ("%LMQ%a,%LMQ%b", b"1"),
    ("%LMQ%b,%LMQ%a", b"2"),
    ("%LMQ%c", b"3"),
]
OFFSETS = ["0", "1,0", "1,2", "0"]
EXPECTED = {"%LMQ%a": [b"0", b"1", b"2"], "%LMQ%b": [b"1", b"2"], "%LMQ%c": [b"3"]}
OURS = {name: [*bodies, b"ours"] for name, bodies in EXPECTED.items()}
THEIRS = {name: [*bodies, b"again"] for name, bodies in OURS.items()}


def real_broker(version: str, directory: Path, **more: Any) -> RealRocketMQ:
    return RealRocketMQ(
        version,
        directory,
        mappedFileSizeCommitLog=STORE.commit_log_file_bytes,
        mappedFileSizeConsumeQueue=STORE.queue_file_bytes,
        maxHashSlotNum=STORE.index_slots,
        maxIndexNum=STORE.index_entries,
        maxMessageSize=65_536,
        enableLmq=True,
        enableMultiDispatch=True,
        **more,
    )


def send(broker: str, light: str, body: bytes) -> None:
    fields = {
        "producerGroup": "chat",
        "topic": "chat",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "1",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": str(int(time.time() * 1000)),
        "flag": "0",
        "properties": f"TAGS\x01a\x02INNER_MULTI_DISPATCH\x01{light}\x02",
        "reconsumeTimes": "0",
        "unitMode": "false",
        "batch": "false",
    }
    header, _ = ask(broker, SEND_MESSAGE, fields, body)
    assert header["code"] == OK, header


def bodies_at(broker: str) -> dict[str, list[bytes]]:
    return {name: [record.body for record in pulled(broker, name, 0).values()] for name in EXPECTED}


def bodies_in(log: MessageLog) -> dict[str, list[bytes]]:
    return {name: [record.body for record in records_in(log, name)] for name in EXPECTED}


def records_in(log: MessageLog, topic: str) -> list[Record]:
    return split(b"".join(log.read(topic, 0, QueueOffset(0), 32).views))


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
def test_a_store_with_light_queues_goes_to_ours_and_back(version: str, tmp_path: Path) -> None:
    directory = tmp_path / "real" / "store"
    directory.parent.mkdir()
    with real_broker(version, tmp_path / "real") as rocketmq:
        for light, body in SENT:
            send(rocketmq.broker, light, body)
        assert bodies_at(rocketmq.broker) == EXPECTED

    report = check_store(Disk(), directory, STORE)
    assert report.is_good, report.findings.kept
    with World(directory, BrokerConfig(store=STORE), start_ms=int(time.time() * 1000)) as world:
        assert bodies_in(world.state.log) == EXPECTED
        found = records_in(world.state.log, "chat")
        texts = [parse_properties(each.properties) for each in found]
        assert [text["INNER_MULTI_QUEUE_OFFSET"] for text in texts] == OFFSETS
        properties = f"INNER_MULTI_DISPATCH\x01{','.join(EXPECTED)}\x02"
        assert world.send("chat", b"ours", properties=properties).code == OK
        assert bodies_in(world.state.log) == OURS
    assert check_store(Disk(), directory, STORE).is_good
    shutil.rmtree(directory / "consumequeue")
    (directory / "abort").touch()
    (directory / "checkpoint").unlink()

    with real_broker(version, tmp_path / "real") as rocketmq:
        assert bodies_at(rocketmq.broker) == OURS
        send(rocketmq.broker, ",".join(EXPECTED), b"again")
        assert bodies_at(rocketmq.broker) == THEIRS

    assert check_store(Disk(), directory, STORE).is_good
