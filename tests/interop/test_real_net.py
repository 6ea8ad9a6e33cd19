"""Our transports, typed headers and records work against real servers, plain and with TLS."""

from __future__ import annotations

from pathlib import Path

import pytest

from flintmq.errors import Unreachable
from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.net.channels.channel_pool import Channels
from flintmq.net.loop import run
from flintmq.net.tls import ClientTls
from flintmq.protocol.bodies.route import ClusterMembers
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.headers.pull import PullAnswer, PullFlag, PullMessage
from flintmq.protocol.headers.send import SendAnswer, SendMessage, SendMessageV2
from flintmq.protocol.records.properties import format_properties
from flintmq.protocol.records.received import decode_messages
from support.interop.real import RealRocketMQ, ServerTls
from support.net.certificates import Authority

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("java"),
    pytest.mark.timeout(600),  # the first run fetches the jars
]

TIMEOUT_MS = 10_000
BORN_MS = 1_700_000_000_000


def send(number: int, *, short_names: bool) -> Command:
    fields = SendMessageV2 if short_names else SendMessage
    code = RequestCode.SEND_MESSAGE_V2 if short_names else RequestCode.SEND_MESSAGE
    header = fields(
        producer_group="probe",
        topic="orders",
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=BORN_MS,
        flag=7,
        properties=format_properties({"TAGS": "paid", "KEYS": f"o-{number}", "note": "größe"}),
    )
    return request(code, header, f"order {number}".encode())


def pull(tags: str) -> Command:
    header = PullMessage(
        consumer_group="probe",
        topic="orders",
        queue_id=0,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=PullFlag.SUBSCRIPTION,
        subscription=tags,
    )
    return request(RequestCode.PULL_MESSAGE, header)


def check_cluster(reply: Command, broker: str) -> None:
    cluster = ClusterMembers.from_body(reply.body)
    assert cluster.broker_addr_table["broker-a"].broker_addrs == {0: broker}


def check_messages(reply: Command, count: int) -> None:
    assert reply.code == ResponseCode.SUCCESS
    header = reply.header(PullAnswer)
    received = decode_messages(reply.body, broker="broker-a", queue_id=0)
    assert received.fault is None
    assert header.next_begin_offset == count
    assert [m.body for m in received.messages] == [b"order %d" % n for n in range(count)]
    assert [m.queue_offset for m in received.messages] == list(range(count))
    last = received.messages[-1]
    assert (last.tags, last.keys, last.flag, last.born_ms) == (
        "paid",
        (f"o-{count - 1}",),
        7,
        BORN_MS,
    )
    assert last.properties["note"] == "größe"


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
def test_messages_go_out_and_come_back_over_both_transports(version: str, tmp_path: Path) -> None:
    async def over_asyncio(rocketmq: RealRocketMQ) -> None:
        channels = Channels()
        reply = await channels.call(
            rocketmq.namesrv, request(RequestCode.GET_BROKER_CLUSTER_INFO), TIMEOUT_MS
        )
        check_cluster(reply, rocketmq.broker)
        for number in (2, 3):
            reply = await channels.call(
                rocketmq.broker, send(number, short_names=number % 2 == 0), TIMEOUT_MS
            )
            assert reply.header(SendAnswer).queue_offset == number
        check_messages(await channels.call(rocketmq.broker, pull("paid || x"), TIMEOUT_MS), 4)
        await channels.close()

    with RealRocketMQ(version, tmp_path) as rocketmq:
        with BlockingChannels() as channels:
            reply = channels.call(
                rocketmq.namesrv, request(RequestCode.GET_BROKER_CLUSTER_INFO), TIMEOUT_MS
            )
            check_cluster(reply, rocketmq.broker)
            for number in (0, 1):
                reply = channels.call(
                    rocketmq.broker, send(number, short_names=number % 2 == 0), TIMEOUT_MS
                )
                assert reply.header(SendAnswer).queue_offset == number
            check_messages(channels.call(rocketmq.broker, pull("*"), TIMEOUT_MS), 2)
            nothing = channels.call(rocketmq.broker, pull("other"), TIMEOUT_MS)
            assert nothing.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        run(over_asyncio(rocketmq))


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
def test_a_broker_that_enforces_tls_is_reached_with_tls_alone(version: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    pem = Path(authority.sign("broker"))
    home = tmp_path / "rocketmq"
    home.mkdir()
    ask = request(RequestCode.GET_ALL_TOPIC_CONFIG)

    async def over_asyncio(broker: str) -> Command:
        channels = Channels(tls=ClientTls(ca_file=authority.ca_file))
        try:
            return await channels.call(broker, ask, TIMEOUT_MS)
        finally:
            await channels.close()

    with RealRocketMQ(version, home, tls=ServerTls(pem, pem)) as rocketmq:
        with BlockingChannels(tls=ClientTls(ca_file=authority.ca_file)) as trusting:
            assert trusting.call(rocketmq.broker, ask, TIMEOUT_MS).code == ResponseCode.SUCCESS
        assert run(over_asyncio(rocketmq.broker)).code == ResponseCode.SUCCESS
        with BlockingChannels() as plain, pytest.raises(Unreachable):
            plain.call(rocketmq.broker, ask, TIMEOUT_MS)
        with (
            BlockingChannels(tls=ClientTls()) as strict,
            pytest.raises(Unreachable, match="ca_file"),
        ):
            strict.call(rocketmq.broker, ask, TIMEOUT_MS)
