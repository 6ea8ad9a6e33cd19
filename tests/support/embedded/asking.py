"""Requests to embedded servers, as a client makes them."""

from __future__ import annotations

from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.net.tls import ClientTls
from flintmq.protocol.bodies.route import ClusterMembers, TopicRoute
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.fields import Header
from flintmq.protocol.headers.common_headers import OfTopic
from flintmq.protocol.headers.pull import PullMessage
from flintmq.protocol.headers.send import SendMessageV2

TIMEOUT_MS = 10_000


def ask(
    address: str,
    code: int,
    header: Header | None = None,
    body: bytes = b"",
    *,
    tls: ClientTls | None = None,
) -> Command:
    with BlockingChannels(tls=tls) as channels:
        return channels.call(address, request(code, header, body), timeout_ms=TIMEOUT_MS)


def cluster(namesrv: str) -> dict[str, str]:
    """The master of each broker name."""
    reply = ask(namesrv, RequestCode.GET_BROKER_CLUSTER_INFO)
    table = ClusterMembers.from_body(reply.body).broker_addr_table
    return {name: entry.broker_addrs[0] for name, entry in table.items()}


def header_of(topic: str, properties: str = "") -> SendMessageV2:
    """To queue 0 of a topic, which is made if there is none."""
    return SendMessageV2(
        producer_group="producers",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
        properties=properties,
    )


def send(broker: str, topic: str, body: bytes = b"hello", properties: str = "") -> Command:
    reply = ask(broker, RequestCode.SEND_MESSAGE_V2, header_of(topic, properties), body)
    assert reply.code == ResponseCode.SUCCESS, reply
    return reply


def pull(broker: str, topic: str, offset: int = 0) -> Command:
    """What is in queue 0 now."""
    header = PullMessage(
        consumer_group="consumers",
        topic=topic,
        queue_id=0,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
    )
    return ask(broker, RequestCode.PULL_MESSAGE, header)


def route(namesrv: str, topic: str) -> TopicRoute | None:
    reply = ask(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, OfTopic(topic=topic))
    return TopicRoute.from_body(reply.body) if reply.code == ResponseCode.SUCCESS else None
