"""The end of a transaction tells the broker which half message is meant and what became of it."""

from __future__ import annotations

import pytest

from flintmq.core.producer.receipt import SendReceipt, SendStatus
from flintmq.core.producer.transaction import (
    REMARK_CHARACTERS_MAX,
    TransactionState,
    end_of,
    end_of_check,
    may_execute,
    state_of,
)
from flintmq.errors import InvalidName
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.transaction import CheckTransactionState, EndTransaction

RECEIPT = SendReceipt(
    SendStatus.OK,
    "UNIQUE",
    "0A00000100002A9F0000000000000400",
    QueueRef("t", "broker-a", 2),
    QueueOffset(7),
)


@pytest.mark.parametrize(
    ("state", "number"),
    [
        (TransactionState.COMMIT, 8),
        (TransactionState.ROLLBACK, 12),
        (TransactionState.UNKNOWN, 0),
    ],
)
def test_an_end_names_the_record_and_the_state(state: TransactionState, number: int) -> None:
    command = end_of(RECEIPT, "ns%t", "bank", state)

    assert command.code == RequestCode.END_TRANSACTION
    assert command.is_oneway
    assert command.remark is None
    assert command.header(EndTransaction) == EndTransaction(
        topic="ns%t",
        producer_group="bank",
        tran_state_table_offset=7,
        commit_log_offset=0x400,
        commit_or_rollback=number,
        from_transaction_check=False,
        msg_id="UNIQUE",
        transaction_id="UNIQUE",
        broker_name="broker-a",
    )


def test_a_failure_is_told_but_not_at_any_length() -> None:
    command = end_of(RECEIPT, "t", "bank", TransactionState.UNKNOWN, "x" * 5_000)

    assert command.remark == "x" * REMARK_CHARACTERS_MAX


def test_an_answer_to_a_check_repeats_what_the_broker_asked_with() -> None:
    check = CheckTransactionState(
        tran_state_table_offset=11, commit_log_offset=1_234, transaction_id="T", broker_name="b"
    )

    command = end_of_check(check, "t", "bank", "UNIQUE", TransactionState.COMMIT, "why")

    header = command.header(EndTransaction)
    assert (header.tran_state_table_offset, header.commit_log_offset) == (11, 1_234)
    assert header.from_transaction_check
    assert (header.transaction_id, header.msg_id, header.broker_name) == ("T", "UNIQUE", "b")
    assert command.remark == "why"


def test_work_is_done_only_for_a_half_message_that_is_safe() -> None:
    unsafe = SendReceipt(SendStatus.FLUSH_DISK_TIMEOUT, "", "", RECEIPT.queue, QueueOffset(0))

    assert may_execute(RECEIPT)
    assert not may_execute(unsafe)


def test_nothing_said_is_unknown_and_anything_else_is_an_error() -> None:
    assert state_of(None) is TransactionState.UNKNOWN
    assert state_of(TransactionState.ROLLBACK) is TransactionState.ROLLBACK
    with pytest.raises(TypeError, match="True"):
        state_of(True)


def test_a_receipt_without_a_place_has_no_end() -> None:
    lost = SendReceipt(SendStatus.OK, "", "no id", RECEIPT.queue, QueueOffset(0))

    with pytest.raises(InvalidName):
        end_of(lost, "t", "bank", TransactionState.COMMIT)
