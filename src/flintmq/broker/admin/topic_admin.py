"""Topics, as admins create, show and delete them.

Deleting removes files, which must not happen between an append and its write.  So it waits
for the end of a turn that has records; its answer comes after it.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from flintmq.broker.requests.outcome import (
    TOPICS_PER_REQUEST_MAX,
    Answer,
    Outcome,
    Refusal,
    Stored,
    Work,
    answered,
)
from flintmq.broker.requests.peer import Peer
from flintmq.broker.send.send_checks import MULTI_TAG
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.broker.tables.attributes import TOPIC_ATTRIBUTES, altered, keeps_batches, parse_changes
from flintmq.broker.tables.broker_stats import TOPIC_PUT_NUMS
from flintmq.broker.tables.names import extra_fault, require, topic_fault
from flintmq.errors import DiskFailed
from flintmq.logs import logger
from flintmq.model.group import RETRY_PREFIX
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.model.topic import SYSTEM_TOPICS, Permission
from flintmq.protocol.bodies.client import GroupSubscription
from flintmq.protocol.bodies.group import GroupList
from flintmq.protocol.bodies.in_parts import table_in_parts
from flintmq.protocol.bodies.stats import QueueExtent, TopicStats
from flintmq.protocol.bodies.topic import SINGLE_TAG, TopicConfig, TopicConfigList, TopicList
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.common_headers import GroupHeader, NoFields, OfTopic
from flintmq.protocol.headers.group import SubscriptionOf
from flintmq.protocol.headers.topic import CreateTopic, TopicConfigOf
from flintmq.protocol.pop.retry_topics import retry_topic_v1, retry_topic_v2
from flintmq.protocol.typed_request import TypedRequest

log = logger(__name__)

NOT_SET = "not set any response code"
"""The remark RocketMQ leaves in some answers that went well."""

PERM_MAX = int(Permission.READ | Permission.WRITE | Permission.INHERIT)


# Making


def create_topic(
    request: TypedRequest[CreateTopic], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """UPDATE_AND_CREATE_TOPIC (17): create or change a topic."""
    header = request.header
    asked = TopicConfig(
        attributes=parse_changes(header.attributes),
        topic_name=header.topic,
        read_queue_nums=header.read_queue_nums,
        write_queue_nums=header.write_queue_nums,
        perm=header.perm,
        topic_filter_type=header.topic_filter_type,
        topic_sys_flag=header.topic_sys_flag or 0,
        order=header.order,
    )
    topic = _checked(state, asked)
    state.topics.require_room([topic.topic_name])
    log.info("%s: topic %s is set", peer.address, topic.topic_name)
    _create_or_replace(state, topic, now_ms)
    return Answer(remark=NOT_SET)


def create_topics(
    request: TypedRequest[NoFields], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """UPDATE_AND_CREATE_TOPIC_LIST (18): create or change several topics, all or none."""
    asked = TopicConfigList.from_body(request.body).topic_config_list
    if len(asked) > TOPICS_PER_REQUEST_MAX:
        raise _invalid(f"a request makes {TOPICS_PER_REQUEST_MAX} topics at most, not {len(asked)}")
    topics = [_checked(state, each) for each in asked]
    state.topics.require_room(each.topic_name for each in topics)
    log.info("%s: %d topics are set", peer.address, len(topics))
    for topic in topics:
        _create_or_replace(state, topic, now_ms)
    return Answer(remark=NOT_SET)


def _checked(state: BrokerState, asked: TopicConfig) -> TopicConfig:
    """The topic as it will be: ``asked`` has changes where a topic has attributes."""
    name = asked.topic_name
    fault = topic_fault(name)
    if fault is not None:
        raise _invalid(fault)
    require(extra_fault(asked.extra))
    _refuse_system_topic(state, name)
    if asked.topic_filter_type not in (SINGLE_TAG, MULTI_TAG):
        remark = f"topicFilterType = [{asked.topic_filter_type[:80]}] value invalid"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    found = state.topics.find(name)
    queues_max = state.config.topic_queues_max
    if found is not None:  # what is there may stay, or become less
        queues_max = max(queues_max, found.read_queue_nums, found.write_queue_nums)
    for count in (asked.read_queue_nums, asked.write_queue_nums):
        if not 0 <= count <= queues_max:
            remark = f"a topic has 0 to {queues_max} queues, not {count} (topicQueuesMax)"
            raise _invalid(remark)
    if not 0 <= asked.perm <= PERM_MAX:
        raise _invalid(f"a permission is a number from 0 to {PERM_MAX}, not {asked.perm}")
    current = None if found is None else found.attributes or {}
    attributes = altered(current, asked.attributes or {}, TOPIC_ATTRIBUTES)
    if keeps_batches(attributes) and name not in state.log.batched and _has_queues(state, name):
        raise _invalid(f"topic {name} has plain queues with messages; delete it first")
    extra = asked.extra or ({} if found is None else found.extra)
    return replace(asked, attributes=attributes, extra=extra)


def _create_or_replace(state: BrokerState, topic: TopicConfig, now_ms: int) -> None:
    """Create or replace a topic; the store knows the kind of its queues first."""
    if keeps_batches(topic.attributes):
        state.log.batched.keep(topic.topic_name)
    state.topics.create_or_replace(topic, now_ms)


def _has_queues(state: BrokerState, topic: str) -> bool:
    return any(span.topic == topic for span in state.log.queues())


def _refuse_system_topic(state: BrokerState, name: str) -> None:
    if state.topics.is_system(name):
        raise _invalid(f"The topic[{name}] is conflict with system topic.")


def _invalid(remark: str) -> Refusal:
    return Refusal(ResponseCode.INVALID_PARAMETER, remark)


# Deleting


def delete_topic(
    request: TypedRequest[OfTopic], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """DELETE_TOPIC_IN_BROKER (215): delete a topic with offsets and queues, if it is there."""
    topic = request.header.topic
    if not topic.strip():
        raise _invalid("The specified topic is blank.")
    _refuse_system_topic(state, topic)

    def delete() -> None:
        topics = [topic, *_pop_retry_topics(state, topic)]
        log.info("%s: topic %s is deleted", peer.address, ", ".join(topics))
        for each in topics:  # before anything is appended
            if each in state.log.batched or _has_queues(state, each):
                state.log.delete_topic(each)
        state.timers.finish_reading(state)
        for each in topics:
            state.topics.remove(each, now_ms)
            state.offsets.remove_topic(each)
            state.journal.write_off(state, state.in_flight.of_topic(each), now_ms)
            state.ordered.remove_topic(each)
            state.stats.forget_topic(each)

    return between_turns(state, delete)


def _pop_retry_topics(state: BrokerState, topic: str) -> list[str]:
    """Where popped messages of a topic come back to its groups, without retry topics of groups."""
    names = [
        name(group, topic)
        for group in state.offsets.groups_of(topic)
        for name in (retry_topic_v1, retry_topic_v2)
    ]
    return [
        name
        for name in names
        if name in state.topics and name.removeprefix(RETRY_PREFIX) not in state.groups
    ]


def clean_unused_topics(
    _request: TypedRequest[NoFields], state: BrokerState, peer: Peer, _now_ms: int
) -> Outcome:
    """CLEAN_UNUSED_TOPIC (316): delete the queues of topics that no longer exist."""

    def clean() -> None:
        topics = dict.fromkeys(span.topic for span in state.log.queues())
        topics |= dict.fromkeys(state.log.batched)
        for topic in topics:
            if topic not in state.topics and not state.topics.is_system(topic):
                log.info("%s: the queues of %s go, there is no such topic", peer.address, topic)
                state.log.delete_topic(topic)

    return between_turns(state, clean)


def between_turns(state: BrokerState, act: Callable[[], None]) -> Outcome:
    """Act now if nothing is appended, else as soon as that is written."""
    if not state.log.has_turn:
        act()
        return Answer()

    def after_write(failure: DiskFailed | None) -> None:
        if failure is not None:
            return  # the answer says so
        try:
            act()
        except DiskFailed:
            log.exception("queues are not deleted; code 316 tries again")

    state.after_write.append(after_write)
    return Stored(Answer(), None)


# Showing


def all_topics(
    _request: TypedRequest[NoFields], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """GET_ALL_TOPIC_CONFIG (21): every topic of this broker."""
    table = state.topics.table()

    def work() -> Work:
        topics = table.topic_config_table
        empty = replace(table, topic_config_table={})
        return Answer(body=(yield from table_in_parts(empty, "topicConfigTable", topics.items())))

    return answered(work(), len(table.topic_config_table))


def one_topic(
    request: TypedRequest[TopicConfigOf], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """GET_TOPIC_CONFIG (351): the settings of one topic."""
    topic = state.topics.find(request.header.topic)
    if topic is None:
        remark = f"No topic in this broker. topic: {request.header.topic}"
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
    return Answer(body=topic.to_body())


def topic_stats(
    request: TypedRequest[OfTopic], state: BrokerState, _peer: Peer, now_ms: int
) -> Outcome:
    """GET_TOPIC_STATS_INFO (202): the first and the next offset of every queue of a topic."""
    name = request.header.topic
    topic = state.topics.find(name)
    if topic is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
    queue_count = max(topic.read_queue_nums, topic.write_queue_nums)

    def work() -> Work:
        per_second = state.stats.per_second(TOPIC_PUT_NUMS, name, now_ms)
        extents = (_extent(state, name, queue_id) for queue_id in range(queue_count))
        empty = TopicStats(topic_put_tps=per_second)
        return Answer(body=(yield from table_in_parts(empty, "offsetTable", extents)))

    return answered(work(), queue_count)


def _extent(state: BrokerState, topic: str, queue_id: int) -> tuple[QueueRef, QueueExtent]:
    stop = state.log.max_offset(topic, queue_id)
    last_ms = state.log.lookup.store_ms(topic, queue_id, QueueOffset(stop - 1)) if stop else 0
    extent = QueueExtent(
        last_update_timestamp=-1 if last_ms is None else last_ms,
        max_offset=stop,
        min_offset=state.log.min_offset(topic, queue_id),
    )
    return QueueRef(topic, state.config.broker_name, queue_id), extent


def groups_of_topic(
    request: TypedRequest[OfTopic], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """QUERY_TOPIC_CONSUME_BY_WHO (300): groups that subscribe to a topic, or have offsets in it."""
    topic = request.header.topic
    groups = dict.fromkeys(state.clients.groups_subscribing(topic))
    groups.update(dict.fromkeys(state.offsets.groups_of(topic)))
    return Answer(body=GroupList(group_list=tuple(groups)).to_body())


def system_topics(
    _request: TypedRequest[NoFields], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """GET_SYSTEM_TOPIC_LIST_FROM_BROKER (305): the system topics of this broker."""
    names = sorted(SYSTEM_TOPICS | state.topics.system_names)
    return Answer(body=TopicList(topic_list=tuple(names)).to_body())


def topics_of_group(
    request: TypedRequest[GroupHeader], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """QUERY_TOPICS_BY_CONSUMER (343): topics in which a group has offsets."""
    topics = tuple(state.offsets.topics_of(request.header.group))
    return Answer(body=TopicList(topic_list=topics, broker_addr=state.address).to_body())


def subscription_of_group(
    request: TypedRequest[SubscriptionOf], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """QUERY_SUBSCRIPTION_BY_CONSUMER (345): what a group subscribes to in a topic now."""
    group, topic = request.header.group, request.header.topic or ""
    found = state.clients.subscription(group, topic)
    body = GroupSubscription(group=group, subscription_data=found, topic=topic)
    return Answer(body=body.to_body())


PROCESSORS: dict[RequestCode, Processor] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: create_topic,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: create_topics,
    RequestCode.DELETE_TOPIC_IN_BROKER: delete_topic,
    RequestCode.CLEAN_UNUSED_TOPIC: clean_unused_topics,
    RequestCode.GET_ALL_TOPIC_CONFIG: all_topics,
    RequestCode.GET_TOPIC_CONFIG: one_topic,
    RequestCode.GET_TOPIC_STATS_INFO: topic_stats,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: groups_of_topic,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: system_topics,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: topics_of_group,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: subscription_of_group,
}
