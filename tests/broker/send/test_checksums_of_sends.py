"""With ``enabledAppendPropCRC`` every record that a broker writes has its own checksum.

Also those it writes itself: delayed messages before and after their time, half messages, their ends
and op messages, copies for another try and dead letters.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.group import SendBackHeader
from flintmq.protocol.records.batch import BatchEntry, encode_batch
from flintmq.protocol.records.record import decode_record
from flintmq.protocol.records.record_checksum import has_wrong_checksum, looks_checksummed
from flintmq.store.log.log_scan import LogScan
from support.broker.queued import bodies
from support.broker.transactions import end, put_half
from support.broker.world import SMALL_STORE, World

CHECKED = BrokerConfig(store=replace(SMALL_STORE, record_checksums=True))


def every_record(world: World) -> list[bytes]:
    messages = world.state.log._log
    found = []
    for _, columns in LogScan(world.state.log._disk, messages.segments, messages.min_offset):
        spans = zip(columns.start.tolist(), columns.size_bytes.tolist(), strict=True)
        found += [bytes(columns.buffer[start : start + size]) for start, size in spans]
    return found


def send_back(world: World, topic: str, delay_level: int) -> None:
    record = next(
        record for octets in every_record(world) if (record := decode_record(octets)).topic == topic
    )
    header = SendBackHeader(
        offset=record.log_offset,
        group="g",
        delay_level=delay_level,
        origin_topic=topic,
        max_reconsume_times=16,
    )
    answer = world.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS, answer


def test_every_record_of_a_broker_has_its_checksum(tmp_path: Path) -> None:
    with World(tmp_path, CHECKED) as world:
        world.send("T", b"plain", properties="TAGS\x01a\x02")
        world.send("T", b"copied", properties="TAGS\x01a\x02__CRC32#\x010123456789\x02")
        entries = [BatchEntry(b"one", b"TAGS\x01a"), BatchEntry(b"two", b"")]
        world.send("T", encode_batch(entries), is_batch=True)
        world.send("T", b"late", properties="DELAY\x011\x02")
        world.send("T", b"timed", properties=f"TIMER_DELIVER_MS\x01{world.now_ms + 3_000}\x02")
        end(world, put_half(world, b"half"))
        send_back(world, "T", delay_level=1)
        send_back(world, "T", delay_level=-1)
        world.advance(20_000)

        found = every_record(world)
        topics = {decode_record(octets).topic for octets in found}

        assert bodies(world, "T") == [b"plain", b"copied", b"one", b"two", b"late", b"timed"]
        assert topics >= {
            "SCHEDULE_TOPIC_XXXX",
            "rmq_sys_wheel_timer",
            "RMQ_SYS_TRANS_HALF_TOPIC",
            "RMQ_SYS_TRANS_OP_HALF_TOPIC",
            "%RETRY%g",
            "%DLQ%g",
        }
        assert all(map(looks_checksummed, found))
        assert not any(map(has_wrong_checksum, found))
        assert all(octets.count(b"__CRC32#") == 1 for octets in found)


MARKS_FIRST = "MSG_REGION\x01r\x02TRACE_ON\x01true\x02CLUSTER\x01c\x02"
"""The broker's own marks, sent so that they are not what a record's properties end with."""


@pytest.mark.parametrize(
    "properties",
    [
        "__CRC32#\x010123456789\x02",
        MARKS_FIRST + "__CRC32#\x010123456789\x02",
        MARKS_FIRST + "a\x01__CRC32#\x010123456789\x02",
        MARKS_FIRST + "DELAY\x011\x02a\x01__CRC32#\x010123456789\x02",
    ],
)
@pytest.mark.parametrize("is_batch", [False, True])
def test_no_peer_can_make_its_message_look_damaged(
    tmp_path: Path, properties: str, is_batch: bool
) -> None:
    body = encode_batch([BatchEntry(b"x", b"")]) if is_batch else b"x"
    with World(tmp_path) as world:
        world.send("T", body, properties=properties, is_batch=is_batch)
        world.advance(5_000)

        assert not any(map(looks_checksummed, every_record(world)))
