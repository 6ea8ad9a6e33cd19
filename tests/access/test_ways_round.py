"""No way of writing a request steps around the rights of its account.

The account `elsewhere` may do everything in the topic and the group `other`, and nothing else.  It
tries to write to `T`, to the retry and dead letter topics of `g`, and to end a transaction of `T`:
by batches, compressed bodies, marks of inner batches, properties of the broker's own, replies, half
messages, records inside bodies, and the other ports of a broker.
"""

from __future__ import annotations

import asyncio
import socket
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from flintmq.access.rules import Dialect
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.server import BrokerServer
from flintmq.errors import InvalidSetting
from flintmq.model.host import Host
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.sys_flag import COMPRESSED, INNER_BATCH, NEED_UNWRAP
from flintmq.model.topic import HALF_TOPIC, is_system_topic, reply_topic
from flintmq.net.address import Address
from flintmq.net.channels.channel_pool import Channels
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.records.batch import BatchEntry, encode_batch
from flintmq.protocol.records.record import Record, Version, crc_of, encode_record
from support.broker.admin import make_topic
from support.broker.guarded import HALF_OFFSET, accounts_of, fill, guard, picture, signed
from support.broker.wire import Wire, command_of
from support.broker.world import World

HOUR_MS = 3_600_000
SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
REPLIES = (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
TIMES = 4
"""Often enough that headers become known at the gate and behind it."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        fill(world)
        make_topic(world, "other")
        yield world


@pytest.fixture(params=list(Dialect), ids=["ACL 1.0", "ACL 2.0"])
def wire(world: World, request: pytest.FixtureRequest) -> Wire:
    return guard(world, request.param)


def a_send(
    code: RequestCode,
    topic: str,
    properties: str = "",
    body: bytes = b"hello",
    *,
    sys_flag: int = 0,
    number: int = 1,
    group: str = "other",
    reconsume_times: int = 0,
) -> Command:
    """A send of any code; a batch has the properties in its header and in every message."""
    is_batch = code == RequestCode.SEND_BATCH_MESSAGE
    if is_batch:
        body = encode_batch([BatchEntry(body, properties.encode())] * 2)
        if sys_flag & COMPRESSED:
            body = zlib.compress(body)
    values = {
        "producerGroup": group,
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": str(sys_flag),
        "bornTimestamp": str(1_700_000_000_000 + number),
        "flag": "0",
        "properties": f"UNIQ_KEY\x01AB{number:030d}\x02WAIT\x01true\x02{properties}",
        "reconsumeTimes": str(reconsume_times),
        "unitMode": "false",
        "maxReconsumeTimes": "1",
        "batch": "true" if is_batch else "false",
    }
    if code not in (RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE):
        values = dict(zip("abcdefghijklm", values.values(), strict=True))
    return command_of(code, values, body)


def an_end(log_offset: int, queue_offset: int, how: str = "8") -> Command:
    """The end of a transaction: 8 commits, 12 rolls back."""
    fields = {
        "producerGroup": "p",
        "tranStateTableOffset": str(queue_offset),
        "commitLogOffset": str(log_offset),
        "commitOrRollback": how,
        "fromTransactionCheck": "false",
        "msgId": "AB",
        "transactionId": "AB",
    }
    return command_of(RequestCode.END_TRANSACTION, fields)


def sizes(world: World) -> Counter[str]:
    """How many messages each topic has."""
    return Counter(
        {
            topic: sum(span.stop for span in world.state.log.queues() if span.topic == topic)
            for topic in {span.topic for span in world.state.log.queues()}
        }
    )


def refuse(wire: Wire, command: Command) -> None:
    """The command is refused for want of rights, and nothing changes."""
    before = picture(wire.world)
    (answer,) = wire.give(signed(command, "elsewhere"))
    assert answer.code in (ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_ERROR), answer
    assert "permission" in (answer.remark or "")
    assert picture(wire.world) == before


@pytest.mark.parametrize("code", SENDS, ids=lambda code: code.name)
@pytest.mark.parametrize("topic", ["T", "%RETRY%g", "%DLQ%g", "new"])
def test_a_send_to_a_topic_of_others_is_refused_whatever_marks_it_has(
    wire: Wire, code: RequestCode, topic: str
) -> None:
    """A retry topic belongs to its group, not to the group that the sender names."""
    inner = INNER_BATCH | NEED_UNWRAP
    for sys_flag in (0, COMPRESSED, INNER_BATCH, inner, COMPRESSED | inner, 4, 8):
        for properties in ("", HALF):
            refuse(wire, a_send(code, topic, properties, sys_flag=sys_flag))


@pytest.mark.parametrize("code", REPLIES, ids=lambda code: code.name)
def test_a_reply_to_a_topic_of_others_is_refused(wire: Wire, code: RequestCode) -> None:
    for topic in ("T", "%RETRY%g", "%DLQ%g"):
        refuse(wire, a_send(code, topic, "REPLY_TO_CLIENT\x01c@1\x02"))


HALF = "TRAN_MSG\x01true\x02PGROUP\x01p\x02"
NAMING_OTHERS = {
    "a real topic": "REAL_TOPIC\x01T\x02REAL_QID\x010\x02",
    "a delay": "DELAY\x011\x02REAL_TOPIC\x01T\x02REAL_QID\x010\x02",
    "a time": "TIMER_DELAY_SEC\x011\x02REAL_TOPIC\x01T\x02REAL_QID\x010\x02",
    "a time of the cloud": "__STARTDELIVERTIME\x011\x02REAL_TOPIC\x01T\x02",
    "a half message": f"{HALF}REAL_TOPIC\x01T\x02REAL_QID\x010\x02",
    "a half message with a delay": f"{HALF}DELAY\x011\x02REAL_TOPIC\x01T\x02",
    "a retry": "RETRY_TOPIC\x01T\x02ORIGIN_MESSAGE_ID\x01x\x02DELAY\x011\x02",
    "a dead letter": "DLQ_ORIGIN_TOPIC\x01T\x02RETRY_TOPIC\x01%RETRY%g\x02",
    "several queues": "INNER_MULTI_DISPATCH\x01T,%LMQ%T\x02INNER_MULTI_QUEUE_OFFSET\x010,0\x02",
    "an inner batch": "INNER_NUM\x012\x02INNER_BASE\x010\x02REAL_TOPIC\x01T\x02",
    "another way": "REDIRECT\x01T\x02TRANSFER_FLAG\x01true\x02POP_CK\x010 0 6 0 0 broker-a 0\x02",
    "two properties": "REAL_TOPIC\x01other\x02DELAY\x011\x02REAL_TOPIC\x01T\x02REAL_QID\x010\x02",
}


@pytest.mark.parametrize("named", NAMING_OTHERS)
def test_properties_that_name_a_topic_of_others_bring_nothing_there(
    world: World, wire: Wire, named: str
) -> None:
    """The message is stored where its request says, or refused; nothing follows elsewhere."""
    before, topics = sizes(world), names(world)
    replies = reply_topic(world.state.config.cluster)
    half = 0
    for code in (*SENDS, *REPLIES):
        for number in range(TIMES):
            offset = world.state.log.end_offset
            topic = replies if code in REPLIES else "other"
            command = a_send(code, topic, NAMING_OTHERS[named], number=number)
            wire.give(signed(command, "elsewhere"))
            half += sizes(world)[HALF_TOPIC] > half + before[HALF_TOPIC]
            wire.give(signed(an_end(offset, half), "elsewhere"))  # what is a half message, ends
    world.advance(3 * HOUR_MS)

    after = sizes(world)
    grown = {topic for topic, count in after.items() if count > before[topic]}
    assert {"other", replies} <= grown, "it can fail"
    assert {each for each in grown if not is_system_topic(each)} <= {"other", replies}
    assert {each for each in names(world) - topics if not is_system_topic(each)} <= {replies}


def names(world: World) -> set[str]:
    return set(world.state.topics.table().topic_config_table)


def test_the_properties_of_the_test_above_do_something_for_who_may(world: World) -> None:
    """It can fail: who may write `T` gets a delayed message there."""
    wire = guard(world, Dialect.AUTH)
    before = sizes(world)
    wire.give(signed(a_send(RequestCode.SEND_MESSAGE_V2, "T", NAMING_OTHERS["a delay"]), "granted"))
    world.advance(HOUR_MS)

    assert sizes(world)["T"] == before["T"] + 1


@pytest.mark.parametrize("times", [0, 16])
def test_a_retry_of_the_own_group_reaches_no_topic_of_another(
    world: World, wire: Wire, times: int
) -> None:
    """After its last try a message becomes a dead letter, of the group of its topic."""
    before = sizes(world)
    for number, code in enumerate(SENDS * TIMES):
        command = a_send(
            *(code, "%RETRY%other", "RETRY_TOPIC\x01T\x02DELAY\x011\x02"),
            number=number,
            group="g",
            reconsume_times=times,
        )
        wire.give(signed(command, "elsewhere"))
    world.advance(3 * HOUR_MS)

    grown = {topic for topic, count in sizes(world).items() if count > before[topic]}
    assert {each for each in grown if not is_system_topic(each)} <= {"%RETRY%other", "%DLQ%other"}


def test_a_transaction_of_others_is_not_ended(wire: Wire) -> None:
    for how in ("8", "12"):
        refuse(wire, an_end(HALF_OFFSET, 0, how))


@pytest.mark.parametrize("named", ["T", "other"])
def test_a_half_message_inside_a_body_is_none(world: World, wire: Wire, named: str) -> None:
    """Who knows where its body is in the log may name a place in it: a record of its own making."""
    properties = f"{HALF}REAL_TOPIC\x01{named}\x02REAL_QID\x010\x02"
    host = Host.parse("127.0.0.1:10911")
    forged = encode_record(
        Record(
            version=Version.V1,
            body_crc=crc_of(b"forged"),
            queue_id=0,
            flag=0,
            queue_offset=QueueOffset(0),
            log_offset=LogOffset(0),
            sys_flag=0,
            born_ms=1,
            born_host=host,
            store_ms=1,
            store_host=host,
            reconsume_times=0,
            prepared_offset=LogOffset(0),
            body=b"forged",
            topic=HALF_TOPIC,
            properties=properties.encode(),
        )
    )
    start = world.state.log.end_offset
    wire.give(signed(a_send(RequestCode.SEND_MESSAGE_V2, "other", body=forged), "elsewhere"))
    before = sizes(world)
    for offset in range(start, world.state.log.end_offset):
        wire.give(signed(an_end(offset, 0), "elsewhere"))

    assert sizes(world) == before


def test_the_other_ports_of_a_broker_are_behind_the_gate_too(tmp_path: Path) -> None:
    """The fast port, two below, and the port of administrators check like the first one."""

    async def run() -> None:
        broker = await _with_a_fast_port(tmp_path)
        channels = Channels()
        try:
            fast, admin = broker.listeners.fast, broker.listeners.admin
            assert fast is not None
            assert admin is not None
            end = broker.state.log.end_offset
            topics = broker.state.topics.table()
            for where in (broker.address, fast.address, admin.address):
                for code in SENDS:
                    for who in (None, "elsewhere"):
                        command = signed(a_send(code, "T"), who)
                        answer = await channels.call(str(where), command, 60_000)
                        assert answer.code == ResponseCode.NO_PERMISSION, (where, code, who)
            assert broker.state.log.end_offset == end
            assert broker.state.topics.table() == topics
            send = signed(a_send(RequestCode.SEND_MESSAGE_V2, "T"), "granted")
            answer = await channels.call(str(fast.address), send, 60_000)
            assert answer.code == ResponseCode.SUCCESS
        finally:
            await channels.close()
            await broker.stop()

    asyncio.run(run())


async def _with_a_fast_port(directory: Path) -> BrokerServer:
    """A broker on ports that nobody else took between the look and the start."""
    for attempt in range(20):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port: int = free.getsockname()[1]
        with suppress(InvalidSetting):
            broker = await BrokerServer.start(
                directory / str(attempt),
                BrokerConfig(),
                listen=Address("127.0.0.1", port),
                admin_listen=Address("127.0.0.1", 0),
                accounts=accounts_of(Dialect.AUTH),
            )
            if broker.listeners.fast is not None:
                return broker
            await broker.stop()
    raise AssertionError("no two ports are free")
