"""Clients join, stay and leave: HEART_BEAT (34), UNREGISTER_CLIENT (35), GET_CONSUMER_LIST_BY_GROUP
(38), LOCK_BATCH_MQ (41), UNLOCK_BATCH_MQ (42), CHECK_CLIENT_CONFIG (46), and lost connections.

Whenever the members or the topics of a group change, every member is notified (40), the one
that caused it included and before its own answer, so that all rebalance at once.  A broadcasting
group shares nothing and is not notified.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from flintmq.broker.requests.outcome import Answer, Outcome, Refusal, Tell
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.broker.tables.names import (
    broker_fault,
    client_fault,
    require,
    used_group_fault,
    used_topic_fault,
)
from flintmq.broker.tables.selections import is_compiled, require_tags
from flintmq.errors import ExpressionTooLarge, InvalidExpression
from flintmq.model.group import MessageModel, retry_topic
from flintmq.model.topic import TopicFlag
from flintmq.protocol.bodies.client import (
    SQL92,
    CheckClientConfig,
    ConsumerGroup,
    ConsumerIds,
    Heartbeat,
)
from flintmq.protocol.bodies.group import LockAnswer, LockRequest
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import request as new_request
from flintmq.protocol.headers.common_headers import NoFields, OfConsumerGroup
from flintmq.protocol.headers.group import HeartbeatAnswer, UnregisterClient
from flintmq.protocol.typed_request import TypedRequest

SUBSCRIPTIONS_MAX = 4_096
"""Subscriptions of one heartbeat: each takes some 10 µs.  A process has tens."""

SUBSCRIPTION_CHARACTERS_MAX = 256 * 1024
"""Characters of all subscriptions of a heartbeat: they are kept while the client is connected."""

LOCKED_AT_ONCE_MAX = 4_096
"""Queues that one request locks: each takes some 10 µs.  Clients lock those of one broker."""


MANY_MEMBERS = 100
"""Up to so many members are notified of every change: a millisecond."""

NOTIFY_AGAIN_MS = 1_000
"""How long members of a larger group are not notified again: a member that changes all the time
makes no more work than one that changes once.  Clients rebalance every 20 s by themselves."""


def heart_beat(
    request: TypedRequest[NoFields], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """HEART_BEAT (34): a client names its groups.  A group that may not be created is skipped."""
    heartbeat = Heartbeat.from_body(request.body)
    _check(heartbeat)
    _require_own(state, heartbeat.client_id, peer)
    state.clients.require_room(heartbeat, peer)
    known = tuple(each for each in heartbeat.consumer_data_set if _prepare(state, each, now_ms))
    if len(known) < len(heartbeat.consumer_data_set):
        heartbeat = replace(heartbeat, consumer_data_set=known)
    result = state.clients.heartbeat(heartbeat, peer, request.language, request.version, now_ms)
    if not (heartbeat.heartbeat_fingerprint and heartbeat.without_sub):
        for each in known:
            state.filters.register(
                each.group_name,
                each.subscription_data_set,
                now_ms,
                lambda text: state.compiling.spend(peer, text, now_ms),
            )
    for group in result.changed_groups:
        _notify(state, group, now_ms)
    return Answer(
        header=HeartbeatAnswer(supports_v2=True, subscription_changed=result.subscription_changed)
    )


def unregister_client(
    request: TypedRequest[UnregisterClient], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """UNREGISTER_CLIENT (35): a client leaves a group."""
    header = request.header
    left = state.clients.unregister(
        peer, header.client_id, header.producer_group, header.consumer_group
    )
    _without_member(state, left, now_ms)
    return Answer()


def tell_late(state: BrokerState, now_ms: int) -> None:
    """Notify members of large groups of changes that came too soon after others."""
    for found in state.clients.consumer_groups():
        if found.must_notify:
            _notify(state, found.group, now_ms)


def connection_lost(state: BrokerState, peer: Peer, now_ms: int) -> None:
    """A connection was lost: its client leaves all groups."""
    state.compiling.forget(peer)
    _without_member(state, state.clients.lost(peer), now_ms)


def list_members(
    request: TypedRequest[OfConsumerGroup], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """GET_CONSUMER_LIST_BY_GROUP (38): the client ids of a group; clients sort them themselves."""
    group = request.header.consumer_group
    found = state.clients.consumer_group(group)
    if found is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group}")
    return Answer(body=ConsumerIds(consumer_id_list=tuple(found.client_ids)).to_body())


def lock_queues(
    request: TypedRequest[NoFields], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """LOCK_BATCH_MQ (41): lock queues for one client, or renew its locks."""
    asked = _lock_request(request.body)
    _require_own(state, asked.client_id, peer)
    granted = state.locks.lock(asked.consumer_group, asked.client_id, asked.mq_set, now_ms)
    return Answer(body=LockAnswer(lock_ok_mq_set=tuple(granted)).to_body())


def unlock_queues(
    request: TypedRequest[NoFields], state: BrokerState, peer: Peer, _now_ms: int
) -> Outcome:
    """UNLOCK_BATCH_MQ (42): unlock queues."""
    asked = _lock_request(request.body)
    _require_own(state, asked.client_id, peer)
    state.locks.unlock(asked.consumer_group, asked.client_id, asked.mq_set)
    return Answer()


def check_client_config(
    request: TypedRequest[NoFields], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """CHECK_CLIENT_CONFIG (46): check a subscription; a client that is refused does not start."""
    if not request.body:
        return Answer()
    subscription = CheckClientConfig.from_body(request.body).subscription_data
    kind = subscription.expression_type
    if subscription.is_tag:
        _check_tags(subscription.sub_string)
        return Answer()
    if not state.config.property_filter:
        remark = f"The broker does not support consumer to filter message by {kind}"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    if kind != SQL92:
        raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"unknown expression type {kind}")
    if not is_compiled(subscription.sub_string):
        state.compiling.require(peer, subscription.sub_string, now_ms)
    try:
        state.filters.predicate(subscription.sub_string)
    except InvalidExpression as error:
        raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None
    return Answer()


def _check(heartbeat: Heartbeat) -> None:
    """Raise `Refusal` for a heartbeat that no client would send."""
    require(client_fault(heartbeat.client_id))
    count = characters = 0
    for group in heartbeat.consumer_data_set:
        require(used_group_fault(group.group_name))
        count += len(group.subscription_data_set)
        for each in group.subscription_data_set:
            require(used_topic_fault(each.topic))
            characters += len(each.sub_string) + len(each.expression_type)
            characters += sum(map(len, each.tags_set)) + 4 * len(each.code_set)
            if each.is_tag:
                _check_tags(each.sub_string)
    for producer in heartbeat.producer_data_set:
        require(used_group_fault(producer.group_name))
    if count > SUBSCRIPTIONS_MAX:
        require(f"a heartbeat has {SUBSCRIPTIONS_MAX} subscriptions at most, not {count}")
    if characters > SUBSCRIPTION_CHARACTERS_MAX:
        limit = SUBSCRIPTION_CHARACTERS_MAX
        require(f"the subscriptions of a heartbeat have {limit} characters at most")


def _require_own(state: BrokerState, client_id: str, peer: Peer) -> None:
    """Raise `Refusal` for a client id that is registered by another account."""
    if state.clients.owners.is_of_another(client_id, peer):
        remark = f"client id {client_id} is registered by another account"
        raise Refusal(ResponseCode.NO_PERMISSION, remark)


def _check_tags(text: str) -> None:
    try:
        require_tags(text)
    except ExpressionTooLarge as error:
        raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, error.reason) from None


def _lock_request(body: bytes) -> LockRequest:
    asked = LockRequest.from_body(body)
    require(used_group_fault(asked.consumer_group) or client_fault(asked.client_id))
    if len(asked.mq_set) > LOCKED_AT_ONCE_MAX:
        count = len(asked.mq_set)
        require(f"a request locks {LOCKED_AT_ONCE_MAX} queues at most, not {count}")
    for queue in asked.mq_set:
        require(used_topic_fault(queue.topic) or broker_fault(queue.broker))
    return asked


def _prepare(state: BrokerState, consumer: ConsumerGroup, now_ms: int) -> bool:
    """Create a group and its retry topic if need be; return whether it may be served."""
    config = state.groups.find_or_create(consumer.group_name, now_ms)
    if config is None:
        return False
    topic = retry_topic(consumer.group_name)
    if topic not in state.topics:
        subscribed = (state.topics.find(each.topic) for each in consumer.subscription_data_set)
        state.topics.ensure(
            topic,
            config.retry_queue_nums,
            now_ms,
            sys_flag=int(TopicFlag.UNIT_SUBSCRIPTION) if consumer.unit_mode else 0,
            order=any(found is not None and found.order for found in subscribed),
        )
    return True


def _without_member(state: BrokerState, groups: Iterable[str], now_ms: int) -> None:
    """A member left these groups: notify the others, or drop the filters of an empty group."""
    for group in groups:
        if state.clients.consumer_group(group) is None:
            state.filters.unregister(group, now_ms)
        else:
            _notify(state, group, now_ms)


def _notify(state: BrokerState, group: str, now_ms: int) -> None:
    """NOTIFY_CONSUMER_IDS_CHANGED (40): notify every member that its group changed.

    Members of a large group that changes all the time are notified later.
    """
    found = state.clients.consumer_group(group)
    config = state.groups.find(group)
    if (
        found is None
        or found.message_model is MessageModel.BROADCASTING
        or not state.config.notify_members
        or (config is not None and not config.notify_consumer_ids_changed_enable)
    ):
        return
    if len(found.members) > MANY_MEMBERS and 0 <= now_ms - found.notified_ms < NOTIFY_AGAIN_MS:
        found.must_notify = True
        return
    found.notified_ms, found.must_notify = now_ms, False
    note = new_request(
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
        OfConsumerGroup(consumer_group=group),
        oneway=True,
    )
    state.outbox += [Tell(peer, note) for peer in found.members]


PROCESSORS: dict[RequestCode, Processor] = {
    RequestCode.HEART_BEAT: heart_beat,
    RequestCode.UNREGISTER_CLIENT: unregister_client,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: list_members,
    RequestCode.LOCK_BATCH_MQ: lock_queues,
    RequestCode.UNLOCK_BATCH_MQ: unlock_queues,
    RequestCode.CHECK_CLIENT_CONFIG: check_client_config,
}
