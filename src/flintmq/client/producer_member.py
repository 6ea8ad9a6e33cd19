"""A producer as its engine sees it: who is asked about transactions, and who takes replies."""

from __future__ import annotations

from collections.abc import Callable

from flintmq.client.members import TransactionCheck
from flintmq.client.replies import Replies
from flintmq.model.message import ReceivedMessage


class MemberOfProducer:
    """What brokers send to one producer."""

    def __init__(
        self, group: str, replies: Replies, check: Callable[[TransactionCheck], None]
    ) -> None:
        self.group = group
        self._replies = replies
        self._check = check

    def check_transaction(self, check: TransactionCheck) -> None:
        self._check(check)

    def take_reply(self, correlation_id: str, reply: ReceivedMessage) -> bool:
        return self._replies.take(correlation_id, reply)
