"""Transactions: messages whose end is not known yet, and the marks of those that ended.

A half message is a record of the half topic, which nobody subscribes to, with its real topic
and queue among its properties.  When it ends, an *op message* with its queue offset says so;
committed or rolled back makes no difference to that.  A half message without such a mark is
asked about, see `half_check`.

A delay or a time of delivery stays on a half message and counts from its commit.  (RocketMQ
would delay the half message itself, and lose it.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flintmq.broker.scheduled.append import NewMessage, append
from flintmq.broker.scheduled.half_check import HalfCheck
from flintmq.broker.scheduled.op_messages import OP_TAG
from flintmq.broker.tables.broker_tables import BrokerTables
from flintmq.model import properties as names
from flintmq.model.sys_flag import TransactionType, with_transaction_type
from flintmq.model.topic import HALF_TOPIC, OP_HALF_TOPIC
from flintmq.store.message_log import Appended

if TYPE_CHECKING:
    from flintmq.protocol.records.record import Record

HALF_QUEUE = 0


class HalfMessages:
    """All half messages of a broker."""

    def __init__(self) -> None:
        self._check = HalfCheck()

    def append(self, state: BrokerTables, message: NewMessage, now_ms: int) -> Appended:
        """Store a message whose end is not yet known."""
        properties = message.properties
        unique_id = properties.get(names.UNIQ_KEY)
        if unique_id:
            properties[names.TRANSACTION_ID] = unique_id
        properties[names.REAL_TOPIC] = message.topic
        state.stats.counts.half_came(message.topic)
        properties[names.REAL_QUEUE_ID] = str(message.queue_id)
        message.sys_flag = with_transaction_type(message.sys_flag, TransactionType.NONE)
        message.topic = HALF_TOPIC
        message.queue_id = HALF_QUEUE
        return append(state, message, now_ms)

    def mark_ended(self, state: BrokerTables, half: Record, now_ms: int) -> Appended:
        """Store the mark of a half message that was committed or rolled back.

        Its body is one number and no list, since 4.9 reads nothing else.
        """
        return append(
            state,
            NewMessage(
                OP_HALF_TOPIC,
                half.queue_id,
                b"%d" % half.queue_offset,
                {names.TAGS: OP_TAG, names.WAIT: "true"},
                now_ms,
                state.host,
                state.host,
            ),
            now_ms,
        )

    def check(self, state: BrokerTables, now_ms: int) -> None:
        """One round, or a part of one: ask producers about what was not ended in time."""
        self._check.run(state, now_ms)

    def next_due_ms(self, state: BrokerTables, now_ms: int) -> int | None:
        return self._check.next_due_ms(state, now_ms)
