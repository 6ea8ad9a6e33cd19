"""`flintmq.Admin`: what an administrator asks and changes, from threads.

    with Admin(namesrv="127.0.0.1:9876") as admin:
        admin.create_topic("orders", queues=8)
        print(admin.lag("billing").lag)

The methods are those of `client.admin_methods`; `client.admin_aio` has the same for asyncio.
Methods may be called from several threads; they take turns.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Self, TypeVar, Unpack

from flintmq.client.admin_methods import AdminSettings, ThreadedAdmin
from flintmq.client.hooks.request_hooks import run_after
from flintmq.core.admin import spans
from flintmq.core.conversation import Call, PausingConversation
from flintmq.core.reading.read_span import EVERYTHING, OnBad, SpanReader, Wanted, ignore
from flintmq.model.message import ReceivedMessage
from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.net.drive import drive
from flintmq.protocol.command import Command

T = TypeVar("T")


class Admin(ThreadedAdmin):
    """A connection to a cluster.  Nothing is sent before the first question."""

    def __init__(self, **settings: Unpack[AdminSettings]) -> None:
        super().__init__(settings)
        self._channels = BlockingChannels(
            tls=self._config.client_tls, connect_ms=self._config.connect_ms
        )
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._channels.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def read(
        self,
        located: spans.LocatedSpan,
        wanted: Wanted = EVERYTHING,
        *,
        on_bad: OnBad = ignore,
    ) -> Iterator[ReceivedMessage]:
        """The messages of a span, pulled as they are asked for.

        One that cannot be decoded comes as it is stored, and ``on_bad`` is called with it.
        """
        reader = SpanReader(located.span, located.address, wanted=wanted)
        while (call := reader.call()) is not None:
            with self._lock:
                reply = self._make(call)
            yield from reader.answered(reply).shown(wanted, on_bad)

    def hold(self, conversation: PausingConversation[T]) -> T:
        with self._lock:
            return drive(conversation, self._make)

    def _make(self, call: Call) -> Command:
        prepared = self._prepared(call)
        answer: Command | None = None
        try:
            answer = self._channels.make(prepared)
            return answer
        finally:
            run_after(self._config.request_hooks, call.address, prepared.request, answer)
