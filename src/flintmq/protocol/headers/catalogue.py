"""Which header belongs to which request, and to its answer.

`REQUEST_HEADERS` has every request we can read or write; `NoFields` stands for one without
fields.  A code that is not in it has a header we do not model: its commands stay untyped.

What an answer carries depends on how it went.  `ANSWER_HEADERS` are the headers of answers
that give what was asked for; everything else is a refusal and has the header in
`REFUSAL_HEADERS`, or none.  `answer_header` chooses.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.fields import Header
from flintmq.protocol.headers import (
    client_call,
    group,
    lookup,
    offset,
    pop,
    pull,
    route,
    send,
    topic,
    transaction,
)
from flintmq.protocol.headers import common_headers as common
from flintmq.protocol.headers import common_headers as setting
from flintmq.protocol.headers import common_headers as stats

_C = RequestCode

_SENDS = (
    _C.SEND_MESSAGE,
    _C.SEND_MESSAGE_V2,
    _C.SEND_BATCH_MESSAGE,
    _C.SEND_REPLY_MESSAGE,
    _C.SEND_REPLY_MESSAGE_V2,
)
_PULLS = (_C.PULL_MESSAGE, _C.LITE_PULL_MESSAGE)

_WITHOUT_FIELDS = (
    _C.HEART_BEAT,
    _C.LOCK_BATCH_MQ,
    _C.UNLOCK_BATCH_MQ,
    _C.CHECK_CLIENT_CONFIG,
    _C.GET_CLIENT_CONFIG,
    _C.QUERY_ASSIGNMENT,
    _C.SET_MESSAGE_REQUEST_MODE,
    _C.GET_ALL_MESSAGE_REQUEST_MODE,
    _C.BATCH_ACK_MESSAGE,
    _C.GET_BROKER_CLUSTER_INFO,
    _C.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    _C.GET_SYSTEM_TOPIC_LIST_FROM_NS,
    _C.GET_UNIT_TOPIC_LIST,
    _C.GET_HAS_UNIT_SUB_TOPIC_LIST,
    _C.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    _C.UPDATE_NAMESRV_CONFIG,
    _C.GET_NAMESRV_CONFIG,
    _C.UPDATE_AND_CREATE_TOPIC_LIST,
    _C.GET_ALL_TOPIC_CONFIG,
    _C.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
    _C.CLEAN_UNUSED_TOPIC,
    _C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    _C.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    _C.GET_ALL_CONSUMER_OFFSET,
    _C.GET_ALL_DELAY_OFFSET,
    _C.GET_ALL_PRODUCER_INFO,
    _C.UPDATE_BROKER_CONFIG,
    _C.GET_BROKER_CONFIG,
    _C.GET_BROKER_RUNTIME_INFO,
    _C.GET_TIMER_CHECK_POINT,
    _C.GET_TIMER_METRICS,
    _C.CLEAN_EXPIRED_CONSUMEQUEUE,
    _C.DELETE_EXPIRED_COMMITLOG,
)

_REQUESTS: dict[RequestCode, type[Header]] = {
    **dict.fromkeys(_WITHOUT_FIELDS, common.NoFields),
    **dict.fromkeys(_PULLS, pull.PullMessage),
    _C.SEND_MESSAGE: send.SendMessage,
    _C.SEND_REPLY_MESSAGE: send.SendMessage,
    _C.SEND_MESSAGE_V2: send.SendMessageV2,
    _C.SEND_BATCH_MESSAGE: send.SendMessageV2,
    _C.SEND_REPLY_MESSAGE_V2: send.SendMessageV2,
    _C.PUSH_REPLY_MESSAGE_TO_CLIENT: send.PushReply,
    _C.QUERY_MESSAGE: lookup.QueryMessage,
    _C.VIEW_MESSAGE_BY_ID: lookup.ViewMessage,
    _C.QUERY_CONSUME_QUEUE: lookup.QueryConsumeQueue,
    _C.QUERY_CONSUMER_OFFSET: offset.QueryConsumerOffset,
    _C.UPDATE_CONSUMER_OFFSET: offset.UpdateConsumerOffset,
    _C.SEARCH_OFFSET_BY_TIMESTAMP: offset.SearchOffset,
    _C.GET_MAX_OFFSET: offset.MaxOffset,
    _C.GET_MIN_OFFSET: common.OfQueue,
    _C.GET_EARLIEST_MSG_STORETIME: common.OfQueue,
    _C.END_TRANSACTION: transaction.EndTransaction,
    _C.CHECK_TRANSACTION_STATE: transaction.CheckTransactionState,
    _C.RESUME_CHECK_HALF_MESSAGE: transaction.ResumeCheck,
    _C.UNREGISTER_CLIENT: group.UnregisterClient,
    _C.GET_CONSUMER_LIST_BY_GROUP: common.OfConsumerGroup,
    _C.NOTIFY_CONSUMER_IDS_CHANGED: common.OfConsumerGroup,
    _C.GET_CONSUMER_CONNECTION_LIST: common.OfConsumerGroup,
    _C.GET_PRODUCER_CONNECTION_LIST: common.OfProducerGroup,
    _C.CONSUMER_SEND_MSG_BACK: group.SendBackHeader,
    _C.DELETE_SUBSCRIPTIONGROUP: group.DeleteGroup,
    _C.GET_CONSUME_STATS: group.ConsumeStatsOf,
    _C.QUERY_SUBSCRIPTION_BY_CONSUMER: group.SubscriptionOf,
    _C.QUERY_TOPICS_BY_CONSUMER: common.GroupHeader,
    _C.GET_SUBSCRIPTIONGROUP_CONFIG: common.GroupHeader,
    _C.UPDATE_AND_GET_GROUP_FORBIDDEN: group.ForbidGroup,
    _C.QUERY_CONSUME_TIME_SPAN: common.OfGroupAndTopic,
    _C.QUERY_CORRECTION_OFFSET: group.CorrectionOffset,
    _C.CLONE_GROUP_OFFSET: group.CloneGroupOffset,
    _C.RESET_CONSUMER_CLIENT_OFFSET: client_call.ResetOffset,
    _C.INVOKE_BROKER_TO_RESET_OFFSET: client_call.ResetOffset,
    _C.GET_CONSUMER_STATUS_FROM_CLIENT: client_call.ConsumerStatusRequest,
    _C.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: client_call.ConsumerStatusRequest,
    _C.GET_CONSUMER_RUNNING_INFO: client_call.DescribeConsumer,
    _C.CONSUME_MESSAGE_DIRECTLY: client_call.ConsumeDirectly,
    _C.UPDATE_AND_CREATE_TOPIC: topic.CreateTopic,
    _C.GET_TOPIC_CONFIG: topic.TopicConfigOf,
    _C.GET_TOPIC_STATS_INFO: common.OfTopic,
    _C.DELETE_TOPIC_IN_BROKER: common.OfTopic,
    _C.QUERY_TOPIC_CONSUME_BY_WHO: common.OfTopic,
    _C.REGISTER_TOPIC_IN_NAMESRV: common.OfTopic,
    _C.DELETE_TOPIC_IN_NAMESRV: topic.ForgetTopic,
    _C.GET_TOPICS_BY_CLUSTER: topic.TopicsOfCluster,
    _C.GET_ROUTEINFO_BY_TOPIC: route.RouteOf,
    _C.REGISTER_BROKER: route.RegisterBroker,
    _C.UNREGISTER_BROKER: route.BrokerIdentity,
    _C.QUERY_DATA_VERSION: route.BrokerIdentity,
    _C.BROKER_HEARTBEAT: route.BrokerHeartbeat,
    _C.GET_BROKER_MEMBER_GROUP: route.BrokerMembersHeader,
    _C.NOTIFY_MIN_BROKER_ID_CHANGE: route.MinBrokerIdChange,
    _C.WIPE_WRITE_PERM_OF_BROKER: route.WritePermOf,
    _C.ADD_WRITE_PERM_OF_BROKER: route.WritePermOf,
    _C.PUT_KV_CONFIG: setting.PutSetting,
    _C.GET_KV_CONFIG: setting.SettingOf,
    _C.DELETE_KV_CONFIG: setting.SettingOf,
    _C.GET_KVLIST_BY_NAMESPACE: setting.SettingsOf,
    _C.VIEW_BROKER_STATS_DATA: stats.ViewBrokerStats,
    _C.GET_BROKER_CONSUME_STATS: stats.BrokerConsumeStats,
    _C.POP_MESSAGE: pop.PopMessage,
    _C.ACK_MESSAGE: pop.AckMessage,
    _C.CHANGE_MESSAGE_INVISIBLETIME: pop.ChangeInvisibleTime,
    _C.PEEK_MESSAGE: pop.PeekMessage,
    _C.NOTIFICATION: pop.AwaitMessage,
    _C.POLLING_INFO: pop.PollingOf,
    _C.RECALL_MESSAGE: pop.RecallMessage,
}

_ANSWERS: dict[RequestCode, type[Header]] = {
    **dict.fromkeys(_REQUESTS, common.NoFields),
    **dict.fromkeys(_SENDS, send.SendAnswer),
    **dict.fromkeys(_PULLS, pull.PullAnswer),
    _C.QUERY_MESSAGE: lookup.QueryAnswer,
    _C.QUERY_CONSUMER_OFFSET: offset.OffsetAnswer,
    _C.SEARCH_OFFSET_BY_TIMESTAMP: offset.OffsetAnswer,
    _C.GET_MAX_OFFSET: offset.OffsetAnswer,
    _C.GET_MIN_OFFSET: offset.OffsetAnswer,
    _C.GET_EARLIEST_MSG_STORETIME: offset.StoreTimeAnswer,
    _C.HEART_BEAT: group.HeartbeatAnswer,
    _C.REGISTER_BROKER: route.RegisterAnswer,
    _C.QUERY_DATA_VERSION: route.DataVersionAnswer,
    _C.WIPE_WRITE_PERM_OF_BROKER: route.WipeWritePermAnswer,
    _C.ADD_WRITE_PERM_OF_BROKER: route.AddWritePermAnswer,
    _C.GET_KV_CONFIG: setting.SettingAnswer,
    _C.GET_BROKER_CONFIG: setting.BrokerConfigAnswer,
    _C.POP_MESSAGE: pop.PopAnswer,
    _C.CHANGE_MESSAGE_INVISIBLETIME: pop.InvisibleTimeAnswer,
    _C.NOTIFICATION: pop.AwaitAnswer,
    _C.POLLING_INFO: pop.PollingAnswer,
    _C.RECALL_MESSAGE: pop.RecallAnswer,
}

REQUEST_HEADERS: Final[Mapping[RequestCode, type[Header]]] = MappingProxyType(_REQUESTS)
ANSWER_HEADERS: Final[Mapping[RequestCode, type[Header]]] = MappingProxyType(_ANSWERS)
REFUSAL_HEADERS: Final[Mapping[RequestCode, type[Header]]] = MappingProxyType(
    dict.fromkeys(_SENDS, send.SendRefusal) | dict.fromkeys(_PULLS, pull.PullRefusal)
)

_R = ResponseCode
_SUCCESS = frozenset({_R.SUCCESS})
_SENT = _SUCCESS | {_R.FLUSH_DISK_TIMEOUT, _R.SLAVE_NOT_AVAILABLE, _R.FLUSH_SLAVE_TIMEOUT}
_PULLED = _SUCCESS | {_R.PULL_NOT_FOUND, _R.PULL_RETRY_IMMEDIATELY, _R.PULL_OFFSET_MOVED}
_POPPED = _SUCCESS | {_R.PULL_NOT_FOUND, _R.POLLING_FULL, _R.POLLING_TIMEOUT}

GIVING_CODES: Final[Mapping[RequestCode, frozenset[ResponseCode]]] = MappingProxyType(
    {
        **dict.fromkeys(_REQUESTS, _SUCCESS),
        **dict.fromkeys(_SENDS, _SENT),
        **dict.fromkeys(_PULLS, _PULLED),
        _C.POP_MESSAGE: _POPPED,
        _C.QUERY_MESSAGE: _SUCCESS | {_R.QUERY_NOT_FOUND},
    }
)
"""The codes of answers that give what was asked for and carry the header of `ANSWER_HEADERS`."""


def answer_header(request: int, response: int) -> type[Header] | None:
    """The header of an answer by both codes, or None for requests we do not model."""
    try:
        code = RequestCode(request)
    except ValueError:
        return None
    if code not in REQUEST_HEADERS:
        return None
    if response in GIVING_CODES[code]:
        return ANSWER_HEADERS[code]
    return REFUSAL_HEADERS.get(code, common.NoFields)
