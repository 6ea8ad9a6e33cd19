"""What every request needs: the table from which access control works, row by row.

    SEND_MESSAGE (10)       Pub on the topic
    PULL_MESSAGE (11)       Sub on the topic, Sub on the group
    UPDATE_BROKER_CONFIG    Update on the cluster
    AUTH_CREATE_USER        a super user

Rows follow RocketMQ 5.3 where it has a rule.  Where it has none (a good signature is then enough
there) the row asks for what the request does; `docs/compatibility.md` lists those.  Names come
from the typed header or body that the processor uses too, so that what is checked and what is done
cannot differ.  Where a request names a record by its place in the log, the topic of that record
counts, not what the request says.

Invariant: a code that is not in the table is refused to everybody but super users.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from flintmq.access.decide import Need
from flintmq.access.rights import (
    Context,
    Reserved,
    Row,
    body_right,
    cluster_right,
    group_right,
    half_topic,
    heartbeat_groups,
    heartbeat_topics,
    locked_topics,
    named_topic,
    record_topic,
    reply_target,
    right,
    routed_topic,
    several,
    topic_right,
    trimmed_topic,
)
from flintmq.access.rules import Action, ResourceType
from flintmq.protocol.bodies.client import CheckClientConfig
from flintmq.protocol.bodies.group import GroupConfig, LockRequest
from flintmq.protocol.bodies.pop import BatchAcks, QueryAssignment, RequestMode
from flintmq.protocol.bodies.topic import TopicConfigList
from flintmq.protocol.codes import RequestCode as Code
from flintmq.protocol.typed_request import TypedRequest

_A = Action
_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP
_SEND: Row = (topic_right(_A.PUB),)
_REPLY: Row = (right(_TOPIC, (_A.PUB,), reply_target, "the topic, unless it is the reply topic"),)
_PULL: Row = (topic_right(_A.SUB), group_right("consumer_group", _A.SUB))
_TOPIC_GET: Row = (topic_right(_A.GET),)
_LOCK: Row = (
    body_right(
        _GROUP, lambda body: (LockRequest.from_body(body).consumer_group,), "the group", _A.SUB
    ),
    body_right(_TOPIC, locked_topics, "each topic", _A.SUB),
)

_ROWS: dict[Code, Row] = {
    # Messages
    Code.SEND_MESSAGE: _SEND,
    Code.SEND_MESSAGE_V2: _SEND,
    Code.SEND_BATCH_MESSAGE: _SEND,
    Code.RECALL_MESSAGE: _SEND,
    Code.SEND_REPLY_MESSAGE: _REPLY,
    Code.SEND_REPLY_MESSAGE_V2: _REPLY,
    Code.END_TRANSACTION: (right(_TOPIC, (_A.PUB,), half_topic, "the topic of the half message"),),
    Code.CONSUMER_SEND_MSG_BACK: (
        group_right("group", _A.SUB),
        right(_TOPIC, (_A.SUB,), record_topic, "the topic of the record"),
    ),
    Code.PULL_MESSAGE: _PULL,
    Code.LITE_PULL_MESSAGE: _PULL,
    Code.QUERY_MESSAGE: (topic_right(_A.SUB, _A.GET),),
    Code.VIEW_MESSAGE_BY_ID: (
        right(_TOPIC, (_A.SUB, _A.GET), record_topic, "the topic of the record"),
    ),
    # Offsets
    Code.QUERY_CONSUMER_OFFSET: (
        topic_right(_A.SUB, _A.GET),
        group_right("consumer_group", _A.SUB, _A.GET),
    ),
    Code.UPDATE_CONSUMER_OFFSET: (
        topic_right(_A.SUB, _A.UPDATE),
        group_right("consumer_group", _A.SUB, _A.UPDATE),
    ),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: _TOPIC_GET,
    Code.GET_MAX_OFFSET: _TOPIC_GET,
    Code.GET_MIN_OFFSET: _TOPIC_GET,
    Code.GET_EARLIEST_MSG_STORETIME: _TOPIC_GET,
    Code.GET_ALL_CONSUMER_OFFSET: cluster_right(_A.GET),
    Code.GET_ALL_DELAY_OFFSET: cluster_right(_A.GET),
    # Clients
    Code.HEART_BEAT: (
        body_right(_GROUP, heartbeat_groups, "each consumer group", _A.SUB),
        body_right(_TOPIC, heartbeat_topics, "each subscribed topic", _A.SUB),
    ),
    Code.UNREGISTER_CLIENT: (group_right("consumer_group", _A.SUB),),
    Code.GET_CONSUMER_LIST_BY_GROUP: (group_right("consumer_group", _A.SUB, _A.GET),),
    Code.LOCK_BATCH_MQ: _LOCK,
    Code.UNLOCK_BATCH_MQ: _LOCK,
    Code.CHECK_CLIENT_CONFIG: (
        body_right(
            _GROUP, lambda body: (CheckClientConfig.from_body(body).group,), "the group", _A.SUB
        ),
        body_right(
            _TOPIC,
            lambda body: (CheckClientConfig.from_body(body).subscription_data.topic,),
            "the topic",
            _A.SUB,
        ),
    ),
    Code.QUERY_ASSIGNMENT: (
        body_right(
            _GROUP,
            lambda body: (QueryAssignment.from_body(body).consumer_group,),
            "the group",
            _A.SUB,
        ),
        body_right(
            _TOPIC, lambda body: (QueryAssignment.from_body(body).topic,), "the topic", _A.SUB
        ),
    ),
    Code.SET_MESSAGE_REQUEST_MODE: (
        body_right(
            _GROUP,
            lambda body: (RequestMode.from_body(body).consumer_group,),
            "the group",
            _A.UPDATE,
        ),
    ),
    Code.GET_ALL_MESSAGE_REQUEST_MODE: cluster_right(_A.GET),
    # Pop consumption
    Code.POP_MESSAGE: _PULL,
    Code.ACK_MESSAGE: _PULL,
    Code.PEEK_MESSAGE: _PULL,
    Code.CHANGE_MESSAGE_INVISIBLETIME: _PULL,
    Code.NOTIFICATION: _PULL,
    Code.BATCH_ACK_MESSAGE: (
        body_right(
            _GROUP,
            lambda body: {ack.consumer_group for ack in BatchAcks.from_body(body).acks},
            "each group",
            _A.SUB,
        ),
        body_right(
            _TOPIC,
            lambda body: {ack.topic for ack in BatchAcks.from_body(body).acks},
            "each topic",
            _A.SUB,
        ),
    ),
    Code.POLLING_INFO: (topic_right(_A.GET), group_right("consumer_group", _A.GET)),
    # Topics
    Code.UPDATE_AND_CREATE_TOPIC: (topic_right(_A.CREATE),),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: (
        body_right(
            _TOPIC,
            lambda body: [
                each.topic_name for each in TopicConfigList.from_body(body).topic_config_list
            ],
            "each topic",
            _A.CREATE,
        ),
    ),
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: cluster_right(_A.UPDATE),
    Code.DELETE_TOPIC_IN_BROKER: (topic_right(_A.DELETE),),
    Code.GET_TOPIC_STATS_INFO: _TOPIC_GET,
    Code.GET_TOPIC_CONFIG: _TOPIC_GET,
    Code.QUERY_TOPIC_CONSUME_BY_WHO: _TOPIC_GET,
    Code.GET_ALL_TOPIC_CONFIG: cluster_right(_A.GET),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: cluster_right(_A.GET),
    Code.CLEAN_UNUSED_TOPIC: cluster_right(_A.UPDATE),
    # Groups
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: (
        body_right(
            _GROUP,
            lambda body: (GroupConfig.from_body(body).group_name,),
            "the group",
            _A.CREATE,
            _A.UPDATE,
        ),
    ),
    Code.DELETE_SUBSCRIPTIONGROUP: (group_right("group_name", _A.DELETE),),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: cluster_right(_A.GET),
    Code.GET_CONSUMER_CONNECTION_LIST: (group_right("consumer_group", _A.GET),),
    Code.GET_PRODUCER_CONNECTION_LIST: cluster_right(_A.GET),
    Code.GET_CONSUMER_RUNNING_INFO: (group_right("consumer_group", _A.GET),),
    Code.CONSUME_MESSAGE_DIRECTLY: (
        topic_right(_A.SUB),
        right(_TOPIC, (_A.SUB,), named_topic, "the topic of the record"),
        group_right("consumer_group", _A.SUB),
    ),
    Code.QUERY_TOPICS_BY_CONSUMER: (group_right("group", _A.GET),),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: (group_right("group", _A.GET),),
    Code.GET_CONSUME_STATS: (
        right(_TOPIC, (_A.GET,), trimmed_topic, "the topic"),
        right(_TOPIC, (_A.GET,), several("topic_list", ";"), "each listed topic"),
        group_right("consumer_group", _A.GET),
    ),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: (topic_right(_A.GET), group_right("group", _A.GET)),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: (topic_right(_A.GET), group_right("group", _A.GET)),
    Code.QUERY_CONSUME_TIME_SPAN: (topic_right(_A.GET), group_right("group", _A.GET)),
    Code.QUERY_CORRECTION_OFFSET: (
        topic_right(_A.GET),
        group_right("compare_group", _A.GET),
        right(_GROUP, (_A.GET,), several("filter_groups", ","), "each listed group"),
    ),
    Code.QUERY_CONSUME_QUEUE: (topic_right(_A.GET), group_right("consumer_group", _A.GET)),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: (topic_right(_A.UPDATE), group_right("group", _A.UPDATE)),
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: (topic_right(_A.UPDATE), group_right("group", _A.UPDATE)),
    Code.CLONE_GROUP_OFFSET: (
        right(_TOPIC, (_A.UPDATE,), trimmed_topic, "the topic"),
        right(
            _GROUP, (_A.SUB, _A.GET), lambda request, _: (request.header.src_group,), "the source"
        ),
        right(_GROUP, (_A.UPDATE,), lambda request, _: (request.header.dest_group,), "the target"),
    ),
    Code.RESUME_CHECK_HALF_MESSAGE: (
        right(_TOPIC, (_A.UPDATE,), named_topic, "the topic of the half message"),
    ),
    # The broker
    Code.UPDATE_BROKER_CONFIG: cluster_right(_A.UPDATE),
    Code.GET_BROKER_CONFIG: cluster_right(_A.GET),
    Code.GET_BROKER_RUNTIME_INFO: cluster_right(_A.GET),
    Code.VIEW_BROKER_STATS_DATA: cluster_right(_A.GET),
    Code.GET_BROKER_CONSUME_STATS: cluster_right(_A.GET),
    Code.GET_ALL_PRODUCER_INFO: cluster_right(_A.GET),
    Code.GET_TIMER_CHECK_POINT: cluster_right(_A.GET),
    Code.GET_TIMER_METRICS: cluster_right(_A.GET),
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: cluster_right(_A.UPDATE),
    Code.DELETE_EXPIRED_COMMITLOG: cluster_right(_A.UPDATE),
    Code.NOTIFY_MIN_BROKER_ID_CHANGE: cluster_right(_A.UPDATE),
    Code.EXCHANGE_BROKER_HA_INFO: cluster_right(_A.UPDATE),
    Code.GET_BROKER_HA_STATUS: cluster_right(_A.GET),
    Code.RESET_MASTER_FLUSH_OFFSET: cluster_right(_A.UPDATE),
    Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: cluster_right(_A.UPDATE),
    Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: cluster_right(_A.UPDATE),
    Code.GET_COLD_DATA_FLOW_CTR_INFO: cluster_right(_A.GET),
    Code.SET_COMMITLOG_READ_MODE: cluster_right(_A.UPDATE),
    Code.GET_CLIENT_CONFIG: Reserved.NOTHING,
    # Accounts: whoever changes or reads them can become anybody
    Code.UPDATE_AND_CREATE_ACL_CONFIG: Reserved.SUPER,
    Code.DELETE_ACL_CONFIG: Reserved.SUPER,
    Code.GET_BROKER_CLUSTER_ACL_INFO: Reserved.SUPER,
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: Reserved.SUPER,
    Code.GET_BROKER_CLUSTER_ACL_CONFIG: Reserved.SUPER,
    Code.AUTH_CREATE_USER: Reserved.SUPER,
    Code.AUTH_UPDATE_USER: Reserved.SUPER,
    Code.AUTH_DELETE_USER: Reserved.SUPER,
    Code.AUTH_GET_USER: Reserved.SUPER,
    Code.AUTH_LIST_USER: Reserved.SUPER,
    Code.AUTH_CREATE_ACL: Reserved.SUPER,
    Code.AUTH_UPDATE_ACL: Reserved.SUPER,
    Code.AUTH_DELETE_ACL: Reserved.SUPER,
    Code.AUTH_GET_ACL: Reserved.SUPER,
    Code.AUTH_LIST_ACL: Reserved.SUPER,
    # Name server
    Code.GET_ROUTEINFO_BY_TOPIC: (
        right(_TOPIC, (_A.PUB, _A.SUB, _A.GET), routed_topic, "the topic, unless a system topic"),
    ),
    Code.GET_BROKER_CLUSTER_INFO: cluster_right(_A.GET),
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: cluster_right(_A.GET),
    Code.GET_TOPICS_BY_CLUSTER: cluster_right(_A.GET),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: cluster_right(_A.GET),
    Code.GET_UNIT_TOPIC_LIST: cluster_right(_A.GET),
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: cluster_right(_A.GET),
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: cluster_right(_A.GET),
    Code.GET_BROKER_MEMBER_GROUP: cluster_right(_A.GET),
    Code.GET_KV_CONFIG: cluster_right(_A.GET),
    Code.GET_KVLIST_BY_NAMESPACE: cluster_right(_A.GET),
    Code.GET_NAMESRV_CONFIG: cluster_right(_A.GET),
    Code.PUT_KV_CONFIG: cluster_right(_A.UPDATE),
    Code.DELETE_KV_CONFIG: cluster_right(_A.UPDATE),
    Code.UPDATE_NAMESRV_CONFIG: cluster_right(_A.UPDATE),
    Code.WIPE_WRITE_PERM_OF_BROKER: cluster_right(_A.UPDATE),
    Code.ADD_WRITE_PERM_OF_BROKER: cluster_right(_A.UPDATE),
    Code.DELETE_TOPIC_IN_NAMESRV: (topic_right(_A.DELETE),),
    Code.REGISTER_TOPIC_IN_NAMESRV: (topic_right(_A.CREATE),),
    Code.REGISTER_BROKER: Reserved.SUPER,
    Code.UNREGISTER_BROKER: Reserved.SUPER,
    Code.BROKER_HEARTBEAT: Reserved.SUPER,
    Code.QUERY_DATA_VERSION: Reserved.SUPER,
}

TABLE: Final[Mapping[Code, Row]] = MappingProxyType(_ROWS)
"""What each request code needs."""

_CHANGES: Final = frozenset({_A.CREATE, _A.UPDATE, _A.DELETE})


def _is_administrative(row: Row) -> bool:
    if isinstance(row, Reserved):
        return row is Reserved.SUPER
    return any(each.type is ResourceType.CLUSTER or each.actions <= _CHANGES for each in row)


ADMINISTRATIVE: Final = frozenset(code for code, row in _ROWS.items() if _is_administrative(row))
"""Requests of administrators: those that need a right on the cluster, a right to create, update or
delete, or a super user.  What consumers may do too, as committing offsets, is not among them."""


def needs_of(request: TypedRequest[Any], context: Context) -> tuple[Need, ...] | Reserved:
    """What this request needs.  Raises `MalformedBody` where its body cannot be read."""
    try:
        row = TABLE[Code(request.code)]
    except (ValueError, KeyError):
        return Reserved.SUPER
    if isinstance(row, Reserved):
        return row
    needs = tuple(dict.fromkeys(need for right in row for need in right.needs(request, context)))
    return needs or Reserved.NOTHING
