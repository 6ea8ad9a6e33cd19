"""What must hold before a message is taken from a producer, in RocketMQ's order.

Every check that fails is a `Refusal` with RocketMQ's code and remark.  The last ones make the
topic, if it is not there and may be made.  Not checked is the topic's own write permission:
clients see it in the route, and brokers take the message all the same.

Two of our own come first: a broker that stops takes nothing more, and one whose disk cannot
keep up refuses sends instead of collecting them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeAlias

from flintmq.access.quotas import QuotaUse
from flintmq.broker.requests.outcome import Refusal
from flintmq.broker.requests.peer import Peer
from flintmq.broker.scheduled.append import NewMessage
from flintmq.broker.state.broker_state import BrokerState
from flintmq.broker.tables.names import has_queue, name_fault
from flintmq.model.group import is_retry_topic
from flintmq.model.sys_flag import MULTI_TAGS
from flintmq.model.topic import Permission
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.headers.send import SendMessage, SendMessageV2
from flintmq.protocol.typed_request import TypedRequest

SendHeader: TypeAlias = SendMessage | SendMessageV2
SendRequest: TypeAlias = TypedRequest[SendHeader]

MULTI_TAG = "MULTI_TAG"
"""A filter type of topics that marks their messages."""

_WRITE = int(Permission.WRITE)  # with an enum the test would cost ten times as much


def check_send(request: SendRequest, state: BrokerState, peer: Peer, now_ms: int) -> TopicConfig:
    """The topic of a send that may be taken, made if need be."""
    header, config = request.header, state.config
    name = header.topic
    require_room(state)
    if state.quotas.sends:
        _require_quota(request, state, peer, now_ms)
    if not request.body:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "the message has no body")
    if now_ms < config.accept_sends_from_ms:
        until = _readable(config.accept_sends_from_ms)
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"broker unable to service, until {until}")
    topic = state.topics.find(name)
    if not config.permission & _WRITE and topic is not None and topic.order:
        raise broker_forbids(state, "sending message")
    fault = name_fault(name)
    if fault is not None:
        raise Refusal(*fault)
    if topic is None:
        topic = _create(header, state, now_ms)
    if not has_queue(topic, header.queue_id) and not _is_any_queue(topic, header.queue_id):
        raise _illegal_queue(header, topic, peer)
    return topic


def new_message(
    request: SendRequest,
    topic: TopicConfig,
    properties: dict[str, str],
    state: BrokerState,
    peer: Peer,
) -> NewMessage:
    """The message of a send.  Where the producer leaves it open, the broker picks the queue."""
    header = request.header
    queue_id, sys_flag = header.queue_id, header.sys_flag
    if queue_id < 0:
        queue_id = state.pick(topic.write_queue_nums)
    if topic.topic_filter_type == MULTI_TAG:
        sys_flag |= MULTI_TAGS
    return NewMessage(
        header.topic,
        queue_id,
        request.body,
        properties,
        header.born_timestamp,
        peer.host,
        state.host,
        header.flag,
        sys_flag,
        header.reconsume_times,
    )


def require_room(state: BrokerState) -> None:
    """Whether the broker takes anything now."""
    config = state.config
    if state.is_stopping:
        raise Refusal(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            "service not available now. The broker is about to stop.",
        )
    if state.unsynced_count >= config.unsynced_sends_max:
        raise _busy(state, "sends", config.unsynced_sends_max, "unsynced_sends_max")
    if state.unsynced_bytes >= config.unsynced_bytes_max:
        raise _busy(state, "bytes", config.unsynced_bytes_max, "unsynced_bytes_max")


def _require_quota(request: SendRequest, state: BrokerState, peer: Peer, now_ms: int) -> None:
    """Whether account and group may send now.  What consumers send to be retried always passes."""
    group = request.header.producer_group or ""
    over = state.quotas.exhausted(QuotaUse.SEND, peer.account, group, now_ms)
    if over is not None and not is_retry_topic(request.header.topic):
        state.refusals.count(over.quota.limit)
        raise Refusal(ResponseCode.SYSTEM_BUSY, over.reason)


def pay_quota(
    request: SendRequest, state: BrokerState, peer: Peer, size: tuple[int, int], now_ms: int
) -> None:
    """So many messages of so many bytes were stored."""
    if state.quotas.sends:
        group = request.header.producer_group or ""
        state.quotas.pay(QuotaUse.SEND, peer.account, group, *size, now_ms)


def broker_forbids(state: BrokerState, what: str) -> Refusal:
    own_name = state.address.rpartition(":")[0]
    return Refusal(ResponseCode.NO_PERMISSION, f"the broker[{own_name}] {what} is forbidden")


def describe(topic: TopicConfig) -> str:
    """A topic as RocketMQ prints it."""
    attributes = ", ".join(f"{name}={value}" for name, value in (topic.attributes or {}).items())
    return (
        f"TopicConfig [topicName={topic.topic_name}, readQueueNums={topic.read_queue_nums}, "
        f"writeQueueNums={topic.write_queue_nums}, perm={topic.permission.letters}, "
        f"topicFilterType={topic.topic_filter_type}, topicSysFlag={topic.topic_sys_flag}, "
        f"order={'true' if topic.order else 'false'}, attributes={{{attributes}}}]"
    )


def _create(header: SendHeader, state: BrokerState, now_ms: int) -> TopicConfig:
    made = state.topics.create_by_send(
        header.topic,
        header.default_topic,
        header.default_topic_queue_nums,
        now_ms,
        unit_mode=header.unit_mode,
    )
    if made is None:
        raise Refusal(
            ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist, apply first please!"
        )
    return made


def _is_any_queue(topic: TopicConfig, queue_id: int) -> bool:
    """Whether the queue id stands for any queue that is written."""
    return queue_id < 0 < topic.write_queue_nums


def _illegal_queue(header: SendHeader, topic: TopicConfig, peer: Peer) -> Refusal:
    return Refusal(
        ResponseCode.INVALID_PARAMETER,
        f"request queueId[{header.queue_id}] is illegal, {describe(topic)} "
        f"Producer: {peer.address}",
    )


def _busy(state: BrokerState, what: str, limit: int, knob: str) -> Refusal:
    state.refusals.count(knob)
    return Refusal(
        ResponseCode.SYSTEM_BUSY,
        f"[OVERLOAD]{limit} {what} wait for the medium already ({knob}), try again later",
    )


def _readable(ms: int) -> str:
    """A time as RocketMQ prints it, in the zone of this machine."""
    at = datetime.fromtimestamp(ms // 1_000, UTC).astimezone()
    return f"{at:%Y-%m-%d %H:%M:%S},{ms % 1_000:03}"
