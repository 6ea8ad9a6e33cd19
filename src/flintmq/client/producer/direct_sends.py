"""Sends of a producer on the threads that wait for them, over a `DirectLine`.

The conversation is the same that the loop holds; only who carries its calls out differs.  What
needs the loop is left to it, and None comes back: a route that is not known, a time of delivery,
several threads that send at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from flintmq.client.engine.direct_line import DirectLine
from flintmq.core.conversation import PausingConversation
from flintmq.core.producer.receipt import SendReceipt
from flintmq.core.producer.send_draft import Draft
from flintmq.core.routes import Routes
from flintmq.model.message import Message
from flintmq.model.queue import QueueRef
from flintmq.net.drive import drive

Send: TypeAlias = Callable[[Draft, Sequence[QueueRef], int], PausingConversation[SendReceipt]]
SendAll: TypeAlias = Callable[
    [Sequence[Message], Sequence[Draft], int], PausingConversation[list[SendReceipt]]
]


class DirectSends:
    """The sends of one producer.  Its parts are the producer's own, and safe on any thread."""

    def __init__(
        self,
        line: DirectLine,
        routes: Routes,
        draft: Callable[[Message], Draft],
        draft_all: Callable[[Sequence[Message]], list[Draft]],
        send: Send,
        send_all: SendAll,
        given: Callable[[SendReceipt], SendReceipt],
    ) -> None:
        self.line = line
        self._routes = routes
        self._draft = draft
        self._draft_all = draft_all
        self._send = send
        self._send_all = send_all
        self._given = given

    def send(self, message: Message, timeout_ms: int) -> SendReceipt | None:
        if not self.line.take():
            return None
        try:
            draft = self._draft(message)
            queues = self._routes.publish_queues(draft.topic)
            if not queues or draft.is_timed:
                return None
            return self._given(drive(self._send(draft, queues, timeout_ms), self.line.make))
        finally:
            self.line.give_back()

    def send_batch(self, messages: Sequence[Message], timeout_ms: int) -> list[SendReceipt] | None:
        if not self.line.take():
            return None
        try:
            drafts = self._draft_all(messages)
            if not self._routes.publish_queues(drafts[0].topic):
                return None
            receipts = drive(self._send_all(messages, drafts, timeout_ms), self.line.make)
            return list(map(self._given, receipts))
        finally:
            self.line.give_back()
