"""Whether a pop may be served, and what it wants: the checks of 5.3.3 in their order.

The first check that fails is the answer.  Peeks and notifications are checked in the same way.
One thing is refused that RocketMQ serves: topics that keep inner batches, since a handle names one
offset and their messages share records.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from flintmq.broker.requests.outcome import Refusal
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState
from flintmq.broker.tables.selections import is_compiled, predicate_of, sql_selection, tag_selection
from flintmq.errors import InvalidExpression
from flintmq.model.group import is_retry_topic
from flintmq.model.light_queue import is_light
from flintmq.model.topic import Permission
from flintmq.protocol.bodies.client import SQL92, TAG
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.headers.pop import PopAnswer, PopMessage
from flintmq.store.queues.selection import EVERYTHING, Selection

POP_COUNT_MAX: Final = 32
"""Messages that one pop may ask for: a checkpoint has so many bits."""

LATE_MS: Final = 500
"""A pop that comes so long after it should have been answered is not worth an answer."""

NOTHING_POPPED: Final = PopAnswer(pop_time=0, invisible_time=0, revive_qid=0, rest_num=0)
"""The header of every answer without messages."""

_READ = int(Permission.READ)


class PopPlace(NamedTuple):
    """What a request about pops names."""

    topic: str
    group: str
    queue_id: int

    @property
    def marked_as_retry(self) -> bool:
        return is_retry_topic(self.topic)


def admit_pop(
    header: PopMessage, state: BrokerState, peer: Peer, now_ms: int, born_ms: int
) -> tuple[TopicConfig, Selection]:
    """Run all checks of a pop.  Raises `Refusal`."""
    own_name = state.address.rpartition(":")[0]
    if now_ms - born_ms - header.poll_time > LATE_MS:
        raise refusal(
            ResponseCode.POLLING_TIMEOUT, f"the broker[{own_name}] pop message is timeout too much"
        )
    if not state.config.permission & _READ:
        raise refusal(
            ResponseCode.NO_PERMISSION, f"the broker[{own_name}] pop message is forbidden"
        )
    if header.max_msg_nums > POP_COUNT_MAX:
        raise refusal(
            ResponseCode.INVALID_PARAMETER,
            f"the broker[{own_name}] pop message's num is greater than {POP_COUNT_MAX}",
        )
    if not state.config.timers:
        raise refusal(
            ResponseCode.SYSTEM_ERROR,
            f"the broker[{own_name}] pop message is forbidden because timerWheelEnable is false",
        )
    place = PopPlace(header.topic, header.consumer_group, header.queue_id)
    topic = admit_place(place, state, peer, now_ms)
    return topic, wanted_by(header, state, peer, now_ms)


def admit_place(
    place: PopPlace, state: BrokerState, peer: Peer, now_ms: int, doing: str = "peeking"
) -> TopicConfig:
    """Check topic, queue and group.  Raises `Refusal`."""
    topic = state.topics.find(place.topic)
    if topic is None:
        remark = f"topic[{place.topic}] not exist, apply first please! "
        raise refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
    if not topic.perm & _READ:
        remark = f"the topic[{place.topic}] {doing} message is forbidden"
        raise refusal(ResponseCode.NO_PERMISSION, remark)
    if place.topic in state.log.batched or is_light(place.topic):
        remark = f"the topic[{place.topic}] is not popped: its messages share records"
        raise refusal(ResponseCode.NO_PERMISSION, remark)
    if place.queue_id >= topic.read_queue_nums:
        raise refusal(ResponseCode.INVALID_PARAMETER, illegal_queue(place, topic, peer))
    group = state.groups.find_or_create(place.group, now_ms)
    if group is None:
        remark = f"subscription group [{place.group}] does not exist, "
        raise refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    if not group.consume_enable:
        remark = f"subscription group no permission, {place.group}"
        raise refusal(ResponseCode.NO_PERMISSION, remark)
    return topic


def illegal_queue(place: PopPlace, topic: TopicConfig, peer: Peer) -> str:
    """The remark for a queue that the topic does not have."""
    return (
        f"queueId[{place.queue_id}] is illegal, topic:[{place.topic}] "
        f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{peer.address}]"
    )


def wanted_by(header: PopMessage, state: BrokerState, peer: Peer, now_ms: int) -> Selection:
    """What a pop takes.  Raises `Refusal`."""
    text, kind = header.exp, header.exp_type or TAG
    if not text:
        return EVERYTHING
    try:
        if kind == TAG:
            return tag_selection(text)
        if kind != SQL92 or not state.config.property_filter:
            raise _not_parsed()
        if not is_compiled(text):
            state.compiling.require(peer, text, now_ms)
        predicate_of(text)
        return sql_selection(text)
    except InvalidExpression:
        raise _not_parsed() from None


def refusal(code: int, remark: str) -> Refusal:
    """A refusal with the header that 5.3.3 gives all of them."""
    return Refusal(code, remark, NOTHING_POPPED)


def _not_parsed() -> Refusal:
    return refusal(
        ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed"
    )
