"""One record in several light queues: offsets, pulls, recovery, and what is refused.

Light queues are RocketMQ's: a producer names them in INNER_MULTI_DISPATCH, and the broker writes
the offsets of the record in each of them to INNER_MULTI_QUEUE_OFFSET.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.state.saving import take_positions
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.offset import QueryConsumerOffset, UpdateConsumerOffset
from flintmq.protocol.records.batch import BatchEntry, encode_batch
from flintmq.protocol.records.properties import format_properties, parse_properties
from flintmq.protocol.records.record import Record, decode_record, encode_record
from flintmq.store.check.store_check import check_store
from flintmq.store.files.disk import Disk
from flintmq.store.files.json_tables import Tables
from flintmq.store.message_log import MessageLog
from support.broker.pulling import pull
from support.broker.transactions import COMMIT, end, put_half
from support.broker.world import SMALL_STORE, World
from support.store.recovering import kill

STORE = replace(SMALL_STORE, light_queues=True, multi_dispatch=True, light_queues_max=5)
LIGHT = BrokerConfig(store=STORE)
GOLDEN = Path(__file__).parents[2] / "golden"


def send(world: World, light: str, body: bytes = b"hello", **more: Any) -> int:
    properties = f"TAGS\x01a\x02INNER_MULTI_DISPATCH\x01{light}\x02" + more.pop("properties", "")
    return int(world.send("chat", body, properties=properties, **more).code)


def records(log: MessageLog, topic: str) -> list[Record]:
    found = log.read(topic, 0, QueueOffset(0), 32)
    octets, taken = b"".join(found.views), []
    while octets:
        taken.append(decode_record(octets))
        octets = octets[int.from_bytes(octets[:4]) :]
    return taken


def bodies(log: MessageLog, name: str) -> list[bytes]:
    return [record.body for record in records(log, name)]


def offsets(record: Record) -> str | None:
    return parse_properties(record.properties).get("INNER_MULTI_QUEUE_OFFSET")


def filled(world: World) -> None:
    for light, body in (
        ("%LMQ%a", b"0"),
        ("%LMQ%a,%LMQ%b", b"1"),
        ("%LMQ%b,%LMQ%a", b"2"),
        ("%LMQ%c", b"3"),
    ):
        assert send(world, light, body) == ResponseCode.SUCCESS


def assert_filled(log: MessageLog) -> None:
    assert bodies(log, "chat") == [b"0", b"1", b"2", b"3"]
    assert bodies(log, "%LMQ%a") == [b"0", b"1", b"2"]
    assert bodies(log, "%LMQ%b") == [b"1", b"2"]
    assert bodies(log, "%LMQ%c") == [b"3"]


def test_a_record_is_in_every_queue_it_names(tmp_path: Path) -> None:
    with World(tmp_path, LIGHT) as world:
        filled(world)

        assert_filled(world.state.log)
        found = records(world.state.log, "chat")
        assert [offsets(record) for record in found] == ["0", "1,0", "1,2", "0"]
    assert sorted(path.name for path in (tmp_path / "consumequeue" / "%LMQ%a").iterdir()) == ["0"]
    assert check_store(Disk(), tmp_path, STORE).is_good


@pytest.mark.parametrize("loses_queues", [False, True])
def test_recovery_makes_them_again(tmp_path: Path, loses_queues: bool) -> None:
    world = World(tmp_path, LIGHT)
    filled(world)
    kill(world.state.log)
    if loses_queues:
        for path in (tmp_path / "consumequeue").rglob("*"):
            if path.is_file():
                path.unlink()

    with World(tmp_path, LIGHT) as again:
        assert again.state.log.complaints == ()
        assert_filled(again.state.log)
        assert send(again, "%LMQ%a", b"more") == ResponseCode.SUCCESS
        assert bodies(again.state.log, "%LMQ%a")[-1] == b"more"
    assert check_store(Disk(), tmp_path, STORE).is_good


def test_a_slave_makes_them_from_its_masters_log(tmp_path: Path) -> None:
    with World(tmp_path / "master", LIGHT) as master:
        filled(master)
        octets = master.state.log.raw.tail(1_000_000)
    slave = MessageLog.open(tmp_path / "slave", STORE, process_id=1)
    slave.raw.begin_at(LogOffset(0))

    assert slave.raw.append(octets, 0) == len(octets)
    slave.write()

    assert_filled(slave)
    slave.close()
    assert check_store(Disk(), tmp_path / "slave", STORE).is_good


def test_delayed_and_committed_messages_come_to_their_light_queues_when_they_are_due(
    tmp_path: Path,
) -> None:
    with World(tmp_path, LIGHT) as world:
        send(world, "%LMQ%a", b"late", properties="DELAY\x011\x02")
        half = put_half(world, b"half", INNER_MULTI_DISPATCH="%LMQ%a")
        assert bodies(world.state.log, "%LMQ%a") == []

        end(world, half, COMMIT)
        world.advance(5_000)

        assert sorted(bodies(world.state.log, "%LMQ%a")) == [b"half", b"late"]


def test_they_are_pulled_without_a_topic(tmp_path: Path) -> None:
    with World(tmp_path, LIGHT) as world:
        filled(world)
        answer = pull(world, topic="%LMQ%b", queue_id=0, consumer_group="g")
        assert answer is not None
        assert answer.code == ResponseCode.SUCCESS
        assert "%LMQ%b" not in world.state.topics


def test_offsets_of_groups_on_light_queues_are_saved_as_rocketmq_does(tmp_path: Path) -> None:
    def commit(world: World, group: str, topic: str, offset: int) -> int:
        header = UpdateConsumerOffset(
            consumer_group=group, topic=topic, queue_id=0, commit_offset=offset
        )
        answer = world.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)
        assert answer is not None
        return int(answer.code)

    with World(tmp_path, LIGHT) as world:
        filled(world)
        world.state.groups.find_or_create("readers", world.now_ms)
        assert commit(world, "readers", "%LMQ%a", 2) == ResponseCode.SUCCESS
        assert commit(world, "%LMQ%me", "%LMQ%a", 1) == ResponseCode.SUCCESS
        take_positions(world.state, world.tables, world.now_ms).save()

    saved = Tables(Disk(), tmp_path).light_offsets.load()
    assert saved is not None
    assert saved.offset_table == {"%LMQ%a@readers": {0: 2}}
    assert saved.lmq_offset_table == {"%LMQ%a@%LMQ%me": 1}
    text = (tmp_path / "config" / "lmqConsumerOffset.json").read_text()
    assert '"lmqOffsetTable"' in text
    with World(tmp_path, LIGHT) as world:
        header = QueryConsumerOffset(consumer_group="%LMQ%me", topic="%LMQ%a", queue_id=0)
        answer = world.ask(RequestCode.QUERY_CONSUMER_OFFSET, header)
        assert answer is not None
        assert world.state.offsets.query("%LMQ%me", "%LMQ%a", 0) == 1


@pytest.mark.parametrize(
    "light",
    [
        "chat",
        "%LMQ%a,chat",
        "%LMQ%a,%LMQ%a",
        "%LMQ%../x",
        "%LMQ%a b",
        "%LMQ%a,,%LMQ%b",
        "%LMQ%",
        "%LMQ%\x07",
        "%LMQ%" + "x" * 251,
    ],
)
def test_what_is_no_light_queue_is_refused(tmp_path: Path, light: str) -> None:
    with World(tmp_path, LIGHT) as world:
        assert send(world, light) == ResponseCode.MESSAGE_ILLEGAL
        assert bodies(world.state.log, "chat") == []


def test_a_name_may_have_what_names_of_clients_have(tmp_path: Path) -> None:
    killed = World(tmp_path, LIGHT)
    assert send(killed, "%LMQ%p2p%client@10.0.0.1:7,%LMQ%größe") == ResponseCode.SUCCESS
    kill(killed.state.log)

    with World(tmp_path, LIGHT) as world:
        for name in ("%LMQ%p2p%client@10.0.0.1:7", "%LMQ%größe"):
            assert bodies(world.state.log, name) == [b"hello"]
    assert check_store(Disk(), tmp_path, STORE).is_good


def test_a_record_of_a_master_cannot_name_a_place_outside(tmp_path: Path) -> None:
    bad = "%LMQ%../../../../outside"
    with World(tmp_path / "master", BrokerConfig(store=SMALL_STORE)) as master:
        offset = "INNER_MULTI_QUEUE_OFFSET\x010,0\x02"
        assert send(master, f"%LMQ%a,{bad}", properties=offset) == ResponseCode.SUCCESS
        octets = master.state.log.raw.tail(1_000_000)
    assert bad.encode() in octets
    slave = MessageLog.open(tmp_path / "a" / "slave", STORE, process_id=1)
    slave.raw.begin_at(LogOffset(0))
    slave.raw.append(octets, 0)
    slave.write()

    assert bodies(slave, "%LMQ%a") == [b"hello"]
    kill(slave)
    again = MessageLog.open(tmp_path / "a" / "slave", STORE, process_id=1)
    assert bodies(again, "%LMQ%a") == [b"hello"]
    again.close()
    assert {path.name for path in tmp_path.iterdir()} == {"master", "a"}
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"slave"}
    assert not list(tmp_path.rglob("outside"))


def test_their_number_has_a_limit(tmp_path: Path) -> None:
    with World(tmp_path, LIGHT) as world:
        for number in range(5):
            assert send(world, f"%LMQ%{number}") == ResponseCode.SUCCESS
        assert send(world, "%LMQ%one-more") == ResponseCode.SYSTEM_ERROR
        assert send(world, "%LMQ%3") == ResponseCode.SUCCESS


def test_offsets_that_a_producer_makes_up_do_not_count(tmp_path: Path) -> None:
    forged = "INNER_MULTI_QUEUE_OFFSET\x017\x02"
    with World(tmp_path, LIGHT) as world:
        send(world, "%LMQ%a", b"single", properties=forged)
        entry = BatchEntry(b"x", f"INNER_MULTI_DISPATCH\x01%LMQ%a\x02{forged}".encode())
        batch = world.send("chat", encode_batch([entry]), is_batch=True)

        assert batch.code == ResponseCode.MESSAGE_ILLEGAL
        assert [offsets(record) for record in records(world.state.log, "chat")] == ["0"]


def test_without_the_settings_the_property_means_nothing(tmp_path: Path) -> None:
    with World(tmp_path, BrokerConfig(store=replace(STORE, multi_dispatch=False))) as world:
        assert send(world, "%LMQ%a") == ResponseCode.SUCCESS
        assert bodies(world.state.log, "%LMQ%a") == []
        answer = pull(world, topic="%LMQ%a", queue_id=0, consumer_group="g")
        assert answer is not None
        assert answer.code == ResponseCode.NO_PERMISSION


def golden_rows(release: str) -> list[dict[str, Any]]:
    """Records in light queues as a real broker wrote them, in the order of their sends."""
    rows = map(json.loads, (GOLDEN / "records.jsonl").read_text(encoding="utf-8").splitlines())
    return [row for row in rows if (row["kind"], row["broker"]) == ("light-queues", release)]


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_records_are_those_of_real_brokers(tmp_path: Path, release: str) -> None:
    """To the byte, but for the order of properties: in RocketMQ it is that of a hash table."""
    rows = golden_rows(release)
    by_broker = {"INNER_MULTI_QUEUE_OFFSET", "CLUSTER", "MSG_REGION", "TRACE_ON"}
    with World(tmp_path, LIGHT) as world:
        for row in rows:
            real = decode_record(bytes.fromhex(row["hex"]))
            texts = parse_properties(real.properties)
            sent = {name: text for name, text in texts.items() if name not in by_broker}
            world.send("chat", real.body, properties=format_properties(sent))
        ours = records(world.state.log, "chat")

    assert len(ours) == len(rows) == 4
    for mine, row in zip(ours, rows, strict=True):
        octets = bytes.fromhex(row["hex"])
        real = decode_record(octets)
        texts = parse_properties(mine.properties)
        if release == "4.9.7":  # which adds these two only for consumers
            texts = {k: v for k, v in texts.items() if k not in ("MSG_REGION", "TRACE_ON")}
        assert texts == parse_properties(real.properties)
        same = msgspec.structs.replace(
            mine,
            properties=real.properties,
            born_ms=real.born_ms,
            born_host=real.born_host,
            store_ms=real.store_ms,
            store_host=real.store_host,
            log_offset=real.log_offset,
        )
        assert encode_record(same) == octets


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_records_of_real_brokers_are_put_into_their_light_queues(
    tmp_path: Path, release: str
) -> None:
    octets = b"".join(bytes.fromhex(row["hex"]) for row in golden_rows(release))
    slave = MessageLog.open(tmp_path, STORE, process_id=1)
    slave.raw.begin_at(LogOffset(0))

    assert slave.raw.append(octets, 0) == len(octets)
    slave.write()

    assert bodies(slave, "%LMQ%a") == [b"0", b"1", b"2"]
    assert bodies(slave, "%LMQ%b") == [b"1", b"2"]
    assert bodies(slave, "%LMQ%c") == bodies(slave, "%LMQ%mqtt_topic@device-1") == [b"3"]
    slave.close()
    assert check_store(Disk(), tmp_path, STORE).is_good
