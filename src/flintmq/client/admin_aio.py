"""`flintmq.aio.Admin`: the methods of `client.admin_methods`, awaited.

It belongs to the loop it is first used on.  Questions may be asked side by side.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self, TypeVar, Unpack

from flintmq.client.admin_methods import AdminSettings, AsyncAdmin
from flintmq.client.hooks.request_hooks import run_after
from flintmq.core.admin import spans
from flintmq.core.conversation import Call, PausingConversation
from flintmq.core.reading.read_span import EVERYTHING, OnBad, SpanReader, Wanted, ignore
from flintmq.model.message import ReceivedMessage
from flintmq.net.channels.channel_pool import Channels
from flintmq.net.drive import drive_async
from flintmq.protocol.command import Command

T = TypeVar("T")


class Admin(AsyncAdmin):
    """A connection to a cluster.  Nothing is sent before the first question."""

    def __init__(self, **settings: Unpack[AdminSettings]) -> None:
        super().__init__(settings)
        self._channels = Channels(tls=self._config.client_tls, connect_ms=self._config.connect_ms)

    async def close(self) -> None:
        self._is_closed = True
        await self._channels.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def read(
        self,
        located: spans.LocatedSpan,
        wanted: Wanted = EVERYTHING,
        *,
        on_bad: OnBad = ignore,
    ) -> AsyncIterator[ReceivedMessage]:
        """The messages of a span, pulled as they are asked for.

        One that cannot be decoded comes as it is stored, and ``on_bad`` is called with it.
        """
        reader = SpanReader(located.span, located.address, wanted=wanted)
        while (call := reader.call()) is not None:
            reply = await self.make(call)
            for message in reader.answered(reply).shown(wanted, on_bad):
                yield message

    async def hold(self, conversation: PausingConversation[T]) -> T:
        return await drive_async(conversation, self.make)

    async def make(self, call: Call) -> Command:
        """Carry out one call: hooked, signed, and over a shared connection."""
        prepared = self._prepared(call)
        answer: Command | None = None
        try:
            answer = await self._channels.make(prepared)
            return answer
        finally:
            run_after(self._config.request_hooks, call.address, prepared.request, answer)
