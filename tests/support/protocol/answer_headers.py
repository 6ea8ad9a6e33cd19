"""Which header belongs to the answer of a request: what tests compare answers with.

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
from flintmq.protocol.headers import account, group, lookup, offset, pop, pull, route, send
from flintmq.protocol.headers import common_headers as common
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS

_C = RequestCode
_SENDS = (
    _C.SEND_MESSAGE,
    _C.SEND_MESSAGE_V2,
    _C.SEND_BATCH_MESSAGE,
    _C.SEND_REPLY_MESSAGE,
    _C.SEND_REPLY_MESSAGE_V2,
)
_PULLS = (_C.PULL_MESSAGE, _C.LITE_PULL_MESSAGE)

_ANSWERS: dict[RequestCode, type[Header]] = {
    **dict.fromkeys(REQUEST_HEADERS, common.NoFields),
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
    _C.GET_KV_CONFIG: common.SettingAnswer,
    _C.GET_BROKER_CONFIG: common.BrokerConfigAnswer,
    _C.POP_MESSAGE: pop.PopAnswer,
    _C.CHANGE_MESSAGE_INVISIBLETIME: pop.InvisibleTimeAnswer,
    _C.NOTIFICATION: pop.AwaitAnswer,
    _C.POLLING_INFO: pop.PollingAnswer,
    _C.RECALL_MESSAGE: pop.RecallAnswer,
    _C.GET_BROKER_CLUSTER_ACL_INFO: account.AclVersionAnswer,
}

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
        **dict.fromkeys(REQUEST_HEADERS, _SUCCESS),
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
