"""Half messages: their end, and the broker's question after one that has not ended."""

from __future__ import annotations

from flintmq.protocol.fields import Header, Int32, Int64
from flintmq.protocol.headers.common_headers import Named


class EndTransaction(Named, frozen=True, kw_only=True):
    """37 END_TRANSACTION.

    ``commit_or_rollback`` is a `TransactionType`; with NONE the end is still unknown, and
    such a request is never answered.
    """

    topic: str | None = None
    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None


class CheckTransactionState(Named, frozen=True, kw_only=True):
    """39 CHECK_TRANSACTION_STATE, from broker to producer; the offsets go into the end."""

    topic: str | None = None
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResumeCheck(Header, frozen=True, kw_only=True):
    """RESUME_CHECK_HALF_MESSAGE (323)."""

    topic: str | None = None
    msg_id: str
