"""Request and reply: a message that waits for another one, sent straight back to its sender.

    request ─► topic ─► a consumer ─► reply ─► the broker pushes it to the client that asked

A correlation id joins request and reply.  Only the client that asked can get the reply, and only
while it waits.  `MemberOfProducer` is the producer as its engine sees it: brokers ask it about
transactions and give it replies.

Invariant: a request is no longer in the table once it has its reply, timed out or was stopped.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Final

from flintmq.client.engine.members import TransactionCheck
from flintmq.errors import InvalidSetting, NoReply, Overloaded, WrongState
from flintmq.model import properties as names
from flintmq.model.message import Message, ReceivedMessage
from flintmq.model.topic import reply_topic

REQUESTS_MAX: Final = 10_000
"""Requests of one producer that may wait at once."""

REPLY_TYPE: Final = "reply"


class Replies:
    """The requests that wait for a reply, by correlation id."""

    def __init__(self, requests_max: int = REQUESTS_MAX) -> None:
        self._requests_max = requests_max
        self._waiting: dict[str, asyncio.Future[ReceivedMessage]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def expect(self) -> str:
        """A new correlation id whose reply is wanted from now on."""
        if len(self._waiting) >= self._requests_max:
            raise Overloaded("requests waiting for a reply", self._requests_max, "requests_max")
        correlation_id = str(uuid.uuid4())
        self._waiting[correlation_id] = asyncio.get_running_loop().create_future()
        return correlation_id

    async def wait(
        self, correlation_id: str, topic: str, left_ms: int, timeout_ms: int
    ) -> ReceivedMessage:
        try:
            async with asyncio.timeout(max(0, left_ms) / 1000):
                return await self._waiting[correlation_id]
        except TimeoutError:
            raise NoReply(topic, timeout_ms, "the request was sent and nobody replied") from None

    def forget(self, correlation_id: str) -> None:
        waiting = self._waiting.pop(correlation_id, None)
        if waiting is not None and waiting.done() and not waiting.cancelled():
            waiting.exception()  # a request that could not be sent has raised an error of its own

    def resolve(self, correlation_id: str, reply: ReceivedMessage) -> bool:
        """A reply arrived; whether somebody waits for it."""
        waiting = self._waiting.get(correlation_id)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(reply)
        return True

    def stop(self, what: str) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(WrongState(what, "stopped", "no reply can come any more"))


def request_properties(correlation_id: str, client_id: str, timeout_ms: int) -> dict[str, str]:
    """What makes a message a request."""
    return {
        names.CORRELATION_ID: correlation_id,
        names.REPLY_TO_CLIENT: client_id,
        names.TTL: str(timeout_ms),
    }


def reply_to(request: ReceivedMessage, body: bytes) -> tuple[Message, dict[str, str]]:
    """The reply to a request, and what makes it one."""
    cluster = request.properties.get(names.CLUSTER)
    correlation_id = request.properties.get(names.CORRELATION_ID)
    client_id = request.properties.get(names.REPLY_TO_CLIENT)
    if not cluster or not correlation_id or not client_id:
        raise InvalidSetting("request", request.message_id, "the message does not ask for a reply")
    extra = {
        names.MSG_TYPE: REPLY_TYPE,
        names.CORRELATION_ID: correlation_id,
        names.REPLY_TO_CLIENT: client_id,
        names.TTL: request.properties.get(names.TTL) or "3000",
    }
    return Message(reply_topic(cluster), body), extra


class MemberOfProducer:
    """The member of one producer: takes transaction checks and replies."""

    def __init__(
        self, group: str, replies: Replies, check: Callable[[TransactionCheck], None]
    ) -> None:
        self.group = group
        self._replies = replies
        self._check = check

    def check_transaction(self, check: TransactionCheck) -> None:
        self._check(check)

    def take_reply(self, correlation_id: str, reply: ReceivedMessage) -> bool:
        return self._replies.resolve(correlation_id, reply)
