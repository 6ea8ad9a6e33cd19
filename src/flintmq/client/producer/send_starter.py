"""Sends that are begun on the loop and end in a callback: what `send_async` and threads wait for.

Where the route is known, a send needs neither a task nor a future: the answer of the broker drives
it on.  Anything else is a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.core.producer.publisher import Publisher, Watch
from flintmq.core.producer.receipt import SendReceipt
from flintmq.core.producer.send_draft import Draft
from flintmq.model.message import Message
from flintmq.net.drive import Driven

Outcome: TypeAlias = SendReceipt | BaseException
Done: TypeAlias = Callable[[Outcome], object]


class SendDraft(Protocol):
    """Sends a draft of messages, whatever that takes."""

    def __call__(
        self, draft: Draft, timeout_ms: int, messages: Sequence[Message], /
    ) -> Coroutine[Any, Any, SendReceipt]: ...


class SendStarter:
    """The sends of one producer that may go to any queue.

    ``given`` makes of a receipt what the user gets, where that is another one.
    """

    def __init__(
        self,
        engine: ClientEngine,
        publisher: Publisher,
        *,
        draft: Callable[[Message], Draft],
        watch: Callable[[Sequence[Message]], Watch | None],
        send: SendDraft,
        given: Callable[[SendReceipt], SendReceipt] | None,
    ) -> None:
        self._engine = engine
        self._publisher = publisher
        self._draft = draft
        self._watch = watch
        self._send = send
        self._given = given
        self._tasks: set[asyncio.Task[SendReceipt]] = set()

    def begin(self, message: Message, timeout_ms: int, done: Done) -> None:
        """Send a message, on the loop; ``done`` gets the receipt, or what went wrong."""
        engine = self._engine
        try:
            engine.life.require_running()
            draft = self._draft(message)
            queues = engine.routes.publish_queues(draft.topic)
            if queues and not draft.is_timed:
                watch = self._watch((message,))
                conversation = self._publisher.send(draft, queues, timeout_ms, watch)
                ended = done if self._given is None else partial(self._tell, done)
                Driven(conversation, engine.links, ended).start()
                return
        except Exception as error:
            done(error)
            return
        self.begin_task(self._send(draft, timeout_ms, (message,)), done)

    def begin_task(self, work: Coroutine[Any, Any, SendReceipt], done: Done) -> None:
        """Run a send that has to wait for more than its answer."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, done))

    def _ended(self, done: Done, task: asyncio.Task[SendReceipt]) -> None:
        self._tasks.discard(task)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        done(task.result() if error is None else error)

    def _tell(self, done: Done, outcome: Outcome) -> None:
        if self._given is not None and isinstance(outcome, SendReceipt):
            outcome = self._given(outcome)
        done(outcome)


def resolve(future: asyncio.Future[SendReceipt], outcome: Outcome) -> None:
    """End a future, unless whoever waited has gone."""
    if future.done():
        return
    if not isinstance(outcome, BaseException):
        future.set_result(outcome)
    elif isinstance(outcome, asyncio.CancelledError):
        future.cancel()
    else:
        future.set_exception(outcome)
