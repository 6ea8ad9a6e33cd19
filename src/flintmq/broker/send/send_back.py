"""CONSUMER_SEND_MSG_BACK (36): a consumer could not handle a message and sends it back.

    record ──► retry topic of the group, after a delay that grows with every time
          └──► dead letter topic, when it was delivered often enough or the consumer says so

The record is found by its place in the log and stored again: same body, flags, birth and
unique id, one more time of consumption.  The store host is ours, since that is who stores it.
Its answer waits for the disk as that of a send does: the consumer forgets the message then.
"""

from __future__ import annotations

import msgspec

from flintmq.broker.requests.hooks import SentBack, run_hooks
from flintmq.broker.requests.outcome import Answer, Outcome, Refusal, Stored
from flintmq.broker.requests.peer import Peer
from flintmq.broker.scheduled.append import NewMessage
from flintmq.broker.scheduled.destinations import destination
from flintmq.broker.scheduled.redelivery import Home
from flintmq.broker.send.send_answer import message_id
from flintmq.broker.send.send_checks import broker_forbids, require_room
from flintmq.broker.send.send_message import DEAD_LETTER_QUEUES, OWN_MAXIMUM_SINCE
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.broker.state.put_message import put_message
from flintmq.broker.tables.broker_stats import SNDBCK_PUT_NUMS
from flintmq.errors import DiskFailed
from flintmq.model import properties as names
from flintmq.model.group import dead_letter_topic, retry_topic
from flintmq.model.message_id import offset_id
from flintmq.model.queue import LogOffset
from flintmq.model.topic import SCHEDULE_TOPIC, Permission, TopicFlag
from flintmq.protocol.bodies.group import GroupConfig
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.group import SendBackHeader
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.record import Record
from flintmq.protocol.typed_request import TypedRequest

FIRST_LEVEL = 3
"""The delay before the first of several tries; every further one is a level higher."""


class SendBackTarget(msgspec.Struct, frozen=True, gc=False):
    """The topic of a message that was sent back, and its delay."""

    topic: str
    queue_id: int
    delay_level: int


def send_back(
    request: TypedRequest[SendBackHeader], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """CONSUMER_SEND_MSG_BACK (36): store a message once more for its group."""
    header = request.header
    group = state.groups.find_or_create(header.group, now_ms)
    if group is None:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"subscription group not exist, {header.group}",
        )
    if not state.config.is_writable:
        raise broker_forbids(state, "sending message")
    if group.retry_queue_nums <= 0:
        return Answer()  # the group wants no retries
    require_room(state)
    queue_id = _retry_queue(header, group, state, now_ms)
    record = state.log.lookup.record_at(LogOffset(header.offset))
    if record is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {header.offset}")
    times_max = group.retry_max_times
    if request.version >= OWN_MAXIMUM_SINCE and header.max_reconsume_times is not None:
        times_max = header.max_reconsume_times
    if record.reconsume_times >= times_max or header.delay_level < 0:
        topic = dead_letter_topic(header.group)
        state.topics.ensure(topic, DEAD_LETTER_QUEUES, now_ms)
        home, level = Home(topic, state.pick(DEAD_LETTER_QUEUES)), 0
    else:
        level = header.delay_level or FIRST_LEVEL + record.reconsume_times
        home = Home(retry_topic(header.group), queue_id)
    target = SendBackTarget(*destination(state, home, now_ms), level)
    return _store_again(record, target, header, state, peer, now_ms)


def _retry_queue(
    header: SendBackHeader, group: GroupConfig, state: BrokerState, now_ms: int
) -> int:
    """A queue of the group's retry topic, which is there then."""
    name = retry_topic(header.group)
    topic = state.topics.ensure(
        name,
        group.retry_queue_nums,
        now_ms,
        sys_flag=int(TopicFlag.UNIT_SUBSCRIPTION) if header.unit_mode else 0,
    )
    if not topic.permission & Permission.WRITE:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the topic[{name}] sending message is forbidden")
    return state.pick(group.retry_queue_nums)


def _store_again(
    record: Record,
    target: SendBackTarget,
    header: SendBackHeader,
    state: BrokerState,
    peer: Peer,
    now_ms: int,
) -> Stored:
    properties = parse_properties(record.properties)
    own_topic = properties.setdefault(names.RETRY_TOPIC, record.topic)
    properties[names.WAIT] = "false"
    properties[names.DELAY] = str(target.delay_level)
    if not properties.get(names.ORIGIN_MESSAGE_ID, "").strip():
        properties[names.ORIGIN_MESSAGE_ID] = offset_id(record.store_host, record.log_offset)
    message = NewMessage(
        target.topic,
        target.queue_id,
        record.body,
        properties,
        record.born_ms,
        record.born_host,
        state.host,
        record.flag,
        record.sys_flag,
        record.reconsume_times + 1,
    )
    try:
        appended = put_message(state, message, now_ms)
    except Refusal as refusal:
        if refusal.code == ResponseCode.MESSAGE_ILLEGAL:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "MESSAGE_ILLEGAL") from None
        raise
    if message.topic == SCHEDULE_TOPIC:
        state.stats.sent(message.topic, 1, appended.size_bytes, now_ms)
    if target.topic == dead_letter_topic(header.group):
        state.stats.counts.buried(own_topic, header.group)
    state.stats.add(SNDBCK_PUT_NUMS, f"{own_topic}@{header.group}", now_ms)
    if state.hooks.on_send_back:
        event = SentBack(
            peer,
            header.group,
            own_topic,
            target.topic,
            message_id(state.host, appended.log_offset),
            message.reconsume_times,
            target.delay_level,
        )
        state.after_write.append(lambda failure: _run_hooks(state, event, failure))
    return Stored(Answer(), LogOffset(appended.log_offset + appended.size_bytes))


def _run_hooks(state: BrokerState, event: SentBack, failure: DiskFailed | None) -> None:
    if failure is None:
        run_hooks(state.hooks.on_send_back, event)


PROCESSORS: dict[RequestCode, Processor] = {RequestCode.CONSUMER_SEND_MSG_BACK: send_back}
