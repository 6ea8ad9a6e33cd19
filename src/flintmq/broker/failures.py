"""The answer to a request that failed: code and remark for each kind of error.

An unexpected error is logged with its traceback and answered with code 1; the
connection goes on.
"""

from __future__ import annotations

from flintmq.broker.requests.outcome import Answer, Refusal
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState
from flintmq.errors import BodyTooLarge, DiskFailed, FlintError, Overloaded
from flintmq.logs import logger
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.fields import Header
from flintmq.protocol.headers.send import SendRefusal
from flintmq.protocol.remarks import remark_of
from flintmq.protocol.typed_request import TypedRequest

log = logger(__name__)

PULLS = frozenset({int(RequestCode.PULL_MESSAGE), int(RequestCode.LITE_PULL_MESSAGE)})
"""Requests that store nothing, and move no deadline unless they are held."""


def failure_answer(
    state: BrokerState, request: TypedRequest[Header], peer: Peer, error: Exception
) -> Answer:
    """The answer for an error that came out of a processor."""
    if isinstance(error, Refusal):
        return error.answer
    if isinstance(error, DiskFailed):
        state.put_times.failed_count += request.code not in PULLS
        return not_available(state, error)
    header = SendRefusal(trace_on=_text(state), region=state.config.region)
    if isinstance(error, Overloaded):
        state.refusals.count(error.knob.partition(" ")[0])
        return Answer(ResponseCode.SYSTEM_BUSY, header, remark=f"[OVERLOAD]{error}")
    if isinstance(error, BodyTooLarge):
        return Answer(ResponseCode.MESSAGE_ILLEGAL, header, remark=str(error))
    if isinstance(error, FlintError):
        log.info("%s: request %d failed: %s", peer.address, request.code, error)
    else:
        log.error("%s: request %d failed", peer.address, request.code, exc_info=error)
    remark = f"{type(error).__name__}: {remark_of(error)}"
    return Answer(ResponseCode.SYSTEM_ERROR, header, remark=remark)


def unsupported(code: int) -> Answer:
    remark = f" request type {code} not supported"
    return Answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)


def not_available(state: BrokerState, failure: DiskFailed) -> Answer:
    """The answer while the store takes nothing."""
    header = SendRefusal(trace_on=_text(state), region=state.config.region)
    remark = f"service not available now. {remark_of(failure)}"
    return Answer(ResponseCode.SERVICE_NOT_AVAILABLE, header, remark=remark)


def _text(state: BrokerState) -> str:
    return "true" if state.config.trace_on else "false"
