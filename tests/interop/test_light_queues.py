"""Light queues are RocketMQ's, both ways: 4.9.7 and 5.3.3 with enableLmq and enableMultiDispatch.

Java clients of 4.9.8 and 5.3.3 send to and read from light queues of our broker, and of real ones.

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
from support.interop.cluster import wait_until
from support.interop.exchanges import OK, SEND_MESSAGE, pulled, split
from support.interop.javaclient import NEW, OLD, JavaClient
from support.interop.ours import Kind, serving
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
PATIENCE_S = 60.0
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


def wait_for(broker: str, expected: dict[str, list[bytes]]) -> None:
    """Real brokers put records into queues a moment after they were stored."""
    wait_until("the light queues", lambda: bodies_at(broker) == expected, PATIENCE_S)


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
        wait_for(rocketmq.broker, EXPECTED)

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
        wait_for(rocketmq.broker, OURS)
        send(rocketmq.broker, ",".join(EXPECTED), b"again")
        wait_for(rocketmq.broker, THEIRS)

    assert check_store(Disk(), directory, STORE).is_good


@pytest.mark.parametrize(
    ("client_version", "kind"),
    [(OLD, Kind.OURS), (NEW, Kind.OURS), (OLD, Kind.REAL_4_9), (NEW, Kind.REAL_5_3)],
)
def test_java_clients_send_to_and_read_light_queues(
    client_version: str, kind: Kind, tmp_path: Path
) -> None:
    (tmp_path / "served").mkdir()
    with (
        serving(tmp_path / "served", kind=kind, enableLmq=True, enableMultiDispatch=True) as served,
        JavaClient(client_version, served.namesrv, tmp_path / "client") as client,
    ):
        seen = client.play("light-queues")

    assert [sent["status"] for sent in seen.all("sent")] == ["SEND_OK"] * 5
    for name, bodies, offsets in (
        ("a", ["0", "1", "2"], ["0", "1,0", "1,2"]),
        ("b", ["1", "2"], ["1,0", "1,2"]),
        ("c", ["3"], ["0"]),
    ):
        found = seen.one(name)
        assert (found["bodies"], found["offsets"]) == (bodies, offsets)
        assert (found["min"], found["next"]) == (0, len(bodies))
    assert seen.one("held")["held"] is True
    assert seen.one("came")["bodies"] == ["4"]
    assert seen.one("offset")["kept"] == 2
