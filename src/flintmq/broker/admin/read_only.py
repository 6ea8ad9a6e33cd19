"""What a broker refuses while it is read-only: a slave, or a master that was fenced.

Codes and remarks are those of a slave of RocketMQ 4.9.  A slave of 5.3 carries out changes of
topics and groups, and loses them with the next copy of its master's tables; here they are refused.
Served are pulls, queries, heartbeats, locks, and UPDATE_CONSUMER_OFFSET (15): while the master is
gone, consumers commit here.

Invariant: a request that a processor of this table serves appends nothing while the broker is
read-only; `append` refuses that too, whoever asks.
"""

from __future__ import annotations

from typing import Any, Final

from flintmq.broker.requests.outcome import Outcome, Refusal
from flintmq.broker.requests.peer import Peer
from flintmq.broker.scheduled.append import read_only
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.typed_request import TypedRequest

NO_CHANGES: Final = (
    "Can't modify topic or subscription group from slave broker, "
    "please execute it from master broker."
)
NO_RESETS: Final = "Can not reset offset in slave broker"

_C = RequestCode
_SENDS = (
    _C.SEND_MESSAGE,
    _C.SEND_MESSAGE_V2,
    _C.SEND_BATCH_MESSAGE,
    _C.SEND_REPLY_MESSAGE,
    _C.SEND_REPLY_MESSAGE_V2,
    _C.RESUME_CHECK_HALF_MESSAGE,
)
_POPS = (
    _C.ACK_MESSAGE,
    _C.BATCH_ACK_MESSAGE,
    _C.CHANGE_MESSAGE_INVISIBLETIME,
)
_CHANGES = (
    _C.UPDATE_AND_CREATE_TOPIC,
    _C.UPDATE_AND_CREATE_TOPIC_LIST,
    _C.DELETE_TOPIC_IN_BROKER,
    _C.CLEAN_UNUSED_TOPIC,
    _C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    _C.DELETE_SUBSCRIPTIONGROUP,
    _C.SET_MESSAGE_REQUEST_MODE,
)

REFUSALS: Final[dict[int, Refusal]] = {
    **{int(code): read_only() for code in _SENDS},
    **{int(code): read_only() for code in _POPS},
    **{int(code): Refusal(ResponseCode.SYSTEM_ERROR, NO_CHANGES) for code in _CHANGES},
    int(_C.INVOKE_BROKER_TO_RESET_OFFSET): Refusal(ResponseCode.SYSTEM_ERROR, NO_RESETS),
    int(_C.CLONE_GROUP_OFFSET): Refusal(ResponseCode.SYSTEM_ERROR, NO_RESETS),
    int(_C.CONSUMER_SEND_MSG_BACK): Refusal(ResponseCode.SYSTEM_ERROR, "SERVICE_NOT_AVAILABLE"),
    int(_C.RECALL_MESSAGE): Refusal(
        ResponseCode.SLAVE_NOT_AVAILABLE, "recall failed, broker service not available"
    ),
    int(_C.END_TRANSACTION): Refusal(ResponseCode.SLAVE_NOT_AVAILABLE, "not set any response code"),
}
"""How each request is refused, by its code."""


def wrapped(code: int, processor: Processor) -> Processor:
    """The processor of a code, or one that asks first whether the broker is read-only."""
    refusal = REFUSALS.get(int(code))
    if refusal is None:
        return processor

    def serve(request: TypedRequest[Any], state: BrokerState, peer: Peer, now_ms: int) -> Outcome:
        if state.is_read_only:
            return refusal.answer
        return processor(request, state, peer, now_ms)

    return serve
