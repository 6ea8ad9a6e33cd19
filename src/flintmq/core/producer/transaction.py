"""How a transaction ends: what the producer's own work came to, told to the broker.

    half message stored ─► local work ─► commit │ roll back │ unknown
    the broker hears nothing, or "unknown" ─► it asks later ─► the same three answers

Both ends are oneway requests: one that is lost is asked for again.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from msgspec.structs import replace

from flintmq.core.producer.receipt import SendReceipt, SendStatus
from flintmq.model.message_id import parse_offset_id
from flintmq.model.sys_flag import TransactionType
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.headers.transaction import CheckTransactionState, EndTransaction

REMARK_CHARACTERS_MAX: Final = 1_000
"""How much of an exception's text the broker is told; it only logs it."""


class TransactionState(StrEnum):
    """What became of the work a message stands for."""

    COMMIT = "COMMIT_MESSAGE"
    ROLLBACK = "ROLLBACK_MESSAGE"
    UNKNOWN = "UNKNOW"


_ON_THE_WIRE: Final = {
    TransactionState.COMMIT: int(TransactionType.COMMIT),
    TransactionState.ROLLBACK: int(TransactionType.ROLLBACK),
    TransactionState.UNKNOWN: int(TransactionType.NONE),
}


class TransactionReceipt(NamedTuple):
    """Where the half message is, and how its transaction ended here."""

    receipt: SendReceipt
    state: TransactionState


def may_execute(receipt: SendReceipt) -> bool:
    """Whether the local work may be done: only for a half message that is safe."""
    return receipt.status is SendStatus.OK


def end_of(
    receipt: SendReceipt, topic: str, group: str, state: TransactionState, remark: str = ""
) -> Command:
    """Tell the broker of a half message how its transaction ended."""
    _, log_offset = parse_offset_id(receipt.offset_message_id)
    header = EndTransaction(
        topic=topic,
        producer_group=group,
        tran_state_table_offset=receipt.queue_offset,
        commit_log_offset=log_offset,
        commit_or_rollback=_ON_THE_WIRE[state],
        from_transaction_check=False,
        msg_id=receipt.message_id,
        transaction_id=receipt.transaction_id or receipt.message_id,
        broker_name=receipt.queue.broker,
    )
    return _told(header, remark)


def end_of_check(
    check: CheckTransactionState,
    topic: str,
    group: str,
    message_id: str,
    state: TransactionState,
    remark: str = "",
) -> Command:
    """Answer a broker that asked.  What it asked with says which half message it meant."""
    header = EndTransaction(
        topic=topic,
        producer_group=group,
        tran_state_table_offset=check.tran_state_table_offset,
        commit_log_offset=check.commit_log_offset,
        commit_or_rollback=_ON_THE_WIRE[state],
        from_transaction_check=True,
        msg_id=message_id,
        transaction_id=check.transaction_id or message_id,
        broker_name=check.broker_name,
    )
    return _told(header, remark)


def state_of(result: object) -> TransactionState:
    """What a function of the user said; nothing said is unknown, anything else is an error."""
    if result is None:
        return TransactionState.UNKNOWN
    if isinstance(result, TransactionState):
        return result
    raise TypeError(f"give a TransactionState, not {result!r:.80}")


def _told(header: EndTransaction, remark: str) -> Command:
    command = request(RequestCode.END_TRANSACTION, header, oneway=True)
    return replace(command, remark=remark[:REMARK_CHARACTERS_MAX]) if remark else command
