"""Whether a pull may be served, and what it wants: checks in RocketMQ's order.

The first check that fails is the answer.  A pull brings its subscription itself, or the one
its group sent with a heartbeat counts; then it must not know a newer one than the broker.

Two things are refused that RocketMQ has: filters by uploaded code, because this broker runs
nobody's code, and light message queues (``%LMQ%``).
"""

from __future__ import annotations

from enum import IntEnum

from flintmq.broker.requests.outcome import Refusal
from flintmq.broker.requests.peer import Peer
from flintmq.broker.scheduled.light_messages import light_topic
from flintmq.broker.state.broker_state import BrokerState
from flintmq.broker.tables.selections import NOTHING, is_compiled, sql_selection, tag_selection
from flintmq.errors import ExpressionTooLarge, InvalidExpression
from flintmq.model.group import MessageModel, group_of_retry_topic, is_retry_topic
from flintmq.model.light_queue import is_light
from flintmq.model.topic import Permission
from flintmq.protocol.bodies.client import SQL92, TAG, Subscription
from flintmq.protocol.bodies.group import GroupConfig
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.pull import PullFlag, PullMessage, PullRefusal
from flintmq.protocol.typed_request import TypedRequest
from flintmq.store.queues.selection import EVERYTHING, Selection

# Plain numbers: operations on flags of an enum cost ten times as much.
_READ = int(Permission.READ)
_LITE_PULL = int(RequestCode.LITE_PULL_MESSAGE)
_SUBSCRIPTION = int(PullFlag.SUBSCRIPTION)
_CLASS_FILTER = int(PullFlag.CLASS_FILTER)


class ForbiddenBy(IntEnum):
    """Who refuses with code 16; 5.x passes it on to clients."""

    BROKER = 1
    GROUP = 2
    TOPIC = 3
    BROADCASTING = 4
    SUBSCRIPTION = 5


def admit(
    request: TypedRequest[PullMessage], state: BrokerState, peer: Peer, now_ms: int
) -> tuple[GroupConfig, TopicConfig, Selection]:
    """Run all checks.  Raises `Refusal`."""
    header = request.header
    group, topic = _names(request, state, now_ms)
    if not 0 <= header.queue_id < topic.read_queue_nums:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
            f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{peer.address}]",
        )
    if header.sys_flag & _SUBSCRIPTION:
        wanted = _wanted_by_request(header, state, peer, now_ms)
    else:
        wanted = wanted_by_group(header, group, state)
    return group, topic, wanted


def _names(
    request: TypedRequest[PullMessage], state: BrokerState, now_ms: int
) -> tuple[GroupConfig, TopicConfig]:
    """The group and the topic, if they are there and may be read."""
    header, config = request.header, state.config
    if not config.permission & _READ:
        remark = f"the broker[{_own_name(state)}] pulling message is forbidden"
        raise _forbidden(ForbiddenBy.BROKER, remark)
    if request.code == _LITE_PULL and not config.lite_pull:
        remark = f"the broker[{_own_name(state)}] for lite pull consumer is forbidden"
        raise _forbidden(ForbiddenBy.BROKER, remark)
    has_light = state.log.raw.light.is_on
    group: GroupConfig | None
    if has_light and is_light(header.consumer_group):
        group = GroupConfig(group_name=header.consumer_group)
    else:
        group = state.groups.find_or_create(header.consumer_group, now_ms)
    if group is None:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"subscription group [{header.consumer_group}] does not exist, ",
        )
    if not group.consume_enable:
        remark = f"subscription group no permission, {header.consumer_group}"
        raise _forbidden(ForbiddenBy.GROUP, remark)
    if has_light and is_light(header.topic):
        return group, light_topic(header.topic)
    if is_light(header.topic):
        remark = (
            f"the topic[{header.topic}] pulling message is forbidden: "
            "this broker has no light message queues"
        )
        raise _forbidden(ForbiddenBy.TOPIC, remark)
    topic = state.topics.find(header.topic)
    if topic is None:
        raise Refusal(
            ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist, apply first please! "
        )
    if not topic.perm & _READ:
        remark = f"the topic[{header.topic}] pulling message is forbidden"
        raise _forbidden(ForbiddenBy.TOPIC, remark)
    return group, topic


def _wanted_by_request(
    header: PullMessage, state: BrokerState, peer: Peer, now_ms: int
) -> Selection:
    """What the pull says itself.  A filter that nobody can compile lets everything through."""
    kind, text = header.expression_type or TAG, header.subscription
    if header.sys_flag & _CLASS_FILTER:
        raise _no_code()
    if kind == TAG:
        try:
            return tag_selection(text)
        except InvalidExpression as error:
            raise _not_parsed(error) from None
    if not text:
        raise _not_parsed()
    _require_property_filter(state, kind)
    if state.config.filter_supports_retry and is_retry_topic(header.topic):
        return state.filters.wanted_again(group_of_retry_topic(header.topic))
    if kind != SQL92:
        return EVERYTHING
    if not is_compiled(text):
        state.compiling.require(peer, text, now_ms)
    try:
        return sql_selection(text)
    except ExpressionTooLarge as error:
        raise _not_parsed(error) from None


def wanted_by_group(header: PullMessage, group: GroupConfig, state: BrokerState) -> Selection:
    """What the members of the group subscribe to.  Raises `Refusal`."""
    name, topic = header.consumer_group, header.topic
    members = state.clients.consumer_group(name)
    if members is None:
        raise Refusal(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist")
    if not group.consume_broadcast_enable and members.message_model is MessageModel.BROADCASTING:
        remark = f"the consumer group[{name}] can not consume by broadcast way"
        raise _forbidden(ForbiddenBy.BROADCASTING, remark)
    if not state.groups.may_read(name, topic):
        remark = f"the consumer group[{name}] is forbidden for topic[{topic}]"
        raise _forbidden(ForbiddenBy.SUBSCRIPTION, remark)
    subscription = members.subscriptions.get(topic)
    if subscription is None:
        raise Refusal(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist")
    if subscription.sub_version < header.sub_version:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
        )
    if subscription.class_filter_mode or header.sys_flag & _CLASS_FILTER:
        raise _no_code()
    if not subscription.is_tag:
        return _wanted_by_filter(header, subscription, state)
    try:
        return tag_selection(subscription.sub_string)
    except InvalidExpression:
        return NOTHING


def _wanted_by_filter(
    header: PullMessage, subscription: Subscription, state: BrokerState
) -> Selection:
    group, topic = header.consumer_group, header.topic
    found = state.filters.find(topic, group)
    if found is None:
        raise Refusal(
            ResponseCode.FILTER_DATA_NOT_EXIST,
            "The broker's consumer filter data is not exist!Your expression may be wrong!",
        )
    if found.client_version < header.sub_version:
        raise Refusal(
            ResponseCode.FILTER_DATA_NOT_LATEST, "the consumer's consumer filter data not latest"
        )
    _require_property_filter(state, subscription.expression_type)
    if state.config.filter_supports_retry and is_retry_topic(topic):
        return state.filters.wanted_again(group_of_retry_topic(topic))
    return state.filters.wanted(topic, group, by_bits=state.config.store.extended_queues)


def _require_property_filter(state: BrokerState, kind: str) -> None:
    if not state.config.property_filter:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"The broker does not support consumer to filter message by {kind}",
        )


def _own_name(state: BrokerState) -> str:
    return state.address.rpartition(":")[0]


def _forbidden(by: ForbiddenBy, remark: str) -> Refusal:
    return Refusal(ResponseCode.NO_PERMISSION, remark, PullRefusal(forbidden_type=by))


def _not_parsed(error: InvalidExpression | None = None) -> Refusal:
    remark = "parse the consumer's subscription failed"
    if isinstance(error, ExpressionTooLarge):
        remark += f": {error.reason}"
    return Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark)


def _no_code() -> Refusal:
    return Refusal(
        ResponseCode.SYSTEM_ERROR,
        "The broker does not support consumer to filter message by class: it runs no uploaded code",
    )
