"""END_TRANSACTION (37): a half message becomes visible or does not; RESUME_CHECK_HALF_MESSAGE
(323): one that was given up is asked about again.

An end names the half message by its place and repeats what its record says; what does not
match is refused.  A commit stores the message in its real topic, see `destinations`, and both
ends store a mark in the op topic.  That a half message has ended already is not noticed, as in
RocketMQ.

Both requests take records of the broker's own topics only, found where their queue has them:
never a message that merely has the properties of a half message, nor bytes inside a body.
"""

from __future__ import annotations

from flintmq.broker.requests.outcome import Answer, Outcome, Refusal, Stored
from flintmq.broker.requests.peer import Peer
from flintmq.broker.scheduled.append import append
from flintmq.broker.scheduled.destinations import destination
from flintmq.broker.scheduled.half_check import immunity_of
from flintmq.broker.scheduled.half_messages import HALF_QUEUE
from flintmq.broker.scheduled.redelivery import home_of, is_in_queue, rebuilt
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.broker.state.put_message import put_message
from flintmq.errors import InvalidName
from flintmq.model import properties as names
from flintmq.model.message_id import parse_offset_id
from flintmq.model.queue import LogOffset
from flintmq.model.sys_flag import TransactionType, with_transaction_type
from flintmq.model.topic import CHECK_MAX_TOPIC, HALF_TOPIC
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.transaction import EndTransaction, ResumeCheck
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.record import Record
from flintmq.protocol.typed_request import TypedRequest
from flintmq.store.message_log import Appended

NOTHING_SAID = "not set any response code"
"""What RocketMQ's answers remark when nothing was said, good or bad."""

_ENDS = (TransactionType.COMMIT, TransactionType.ROLLBACK)


def end_transaction(
    request: TypedRequest[EndTransaction], state: BrokerState, _peer: Peer, now_ms: int
) -> Outcome:
    """END_TRANSACTION (37): commit a half message, or roll it back."""
    header = request.header
    if header.commit_or_rollback == TransactionType.NONE:
        return None
    if header.commit_or_rollback not in _ENDS:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "commitOrRollback field wrong")
    half = _half_at(state, LogOffset(header.commit_log_offset), HALF_TOPIC)
    if half is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")
    properties = parse_properties(half.properties)
    _check(header, half, properties, state.config.transaction_timeout_ms, now_ms)
    home = home_of(properties)
    if header.commit_or_rollback == TransactionType.ROLLBACK:
        ended = state.halves.mark_ended(state, half, now_ms)
        if home is not None:
            state.stats.counts.half_ended(home.topic, after_ms=None)
        return Stored(Answer(remark=NOTHING_SAID), _stop(ended))
    if home is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "the half message does not say its topic")
    message = rebuilt(half, properties, *destination(state, home, now_ms))
    message.sys_flag = with_transaction_type(half.sys_flag, TransactionType.COMMIT)
    message.prepared_offset = half.log_offset
    stored = put_message(state, message, now_ms)
    ended = state.halves.mark_ended(state, half, now_ms)
    state.stats.sent(message.topic, 1, stored.size_bytes, now_ms)
    state.stats.counts.half_ended(home.topic, after_ms=now_ms - half.born_ms)
    return Stored(Answer(), _stop(ended))


def resume_check(
    request: TypedRequest[ResumeCheck], state: BrokerState, _peer: Peer, now_ms: int
) -> Outcome:
    """RESUME_CHECK_HALF_MESSAGE (323): check a half message again that was given up."""
    failed = "Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC."
    try:
        _, log_offset = parse_offset_id(request.header.msg_id)
    except InvalidName:
        raise Refusal(ResponseCode.SYSTEM_ERROR, failed) from None
    half = _half_at(state, log_offset, CHECK_MAX_TOPIC, HALF_TOPIC)
    properties = {} if half is None else parse_properties(half.properties)
    if half is None or home_of(properties) is None or names.PRODUCER_GROUP not in properties:
        raise Refusal(ResponseCode.SYSTEM_ERROR, failed)
    properties[names.TRANSACTION_CHECK_TIMES] = "0"
    message = rebuilt(half, properties, HALF_TOPIC, 0)
    message.sys_flag = with_transaction_type(half.sys_flag, TransactionType.NONE)
    return Stored(Answer(), _stop(append(state, message, now_ms)))


def _check(
    header: EndTransaction,
    half: Record,
    properties: dict[str, str],
    timeout_ms: int,
    now_ms: int,
) -> None:
    """Raise `Refusal` for an end that comes too late, or is not about this message."""
    immunity_ms = immunity_of(properties, timeout_ms)
    is_late = immunity_ms is not None and now_ms - half.born_ms > max(immunity_ms, timeout_ms)
    if is_late and not header.from_transaction_check:
        raise Refusal(ResponseCode.ILLEGAL_OPERATION, NOTHING_SAID)
    group = properties.get(names.PRODUCER_GROUP)
    if group is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "the half message has no producer group")
    if group != header.producer_group:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "The producer group wrong")
    if half.queue_offset != header.tran_state_table_offset:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "The transaction state table offset wrong")
    if half.log_offset != header.commit_log_offset:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "The commit log offset wrong")


def _half_at(state: BrokerState, log_offset: LogOffset, *topics: str) -> Record | None:
    """The record at a place, if it is one of a queue of half messages."""
    record = state.log.lookup.record_at(log_offset)
    if record is None or record.topic not in topics or record.queue_id != HALF_QUEUE:
        return None
    return record if is_in_queue(state, record) else None


def _stop(appended: Appended) -> LogOffset:
    return LogOffset(appended.log_offset + appended.size_bytes)


PROCESSORS: dict[RequestCode, Processor] = {
    RequestCode.END_TRANSACTION: end_transaction,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: resume_check,
}
