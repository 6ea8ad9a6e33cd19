"""The connections of one client: every request leaves here, hooked, signed and introduced.

    request ─► hooks ─► signature ─► channel ─► answer ─► hooks
    new channel to a broker ─► heartbeat ─► whatever was to be sent

A broker ties members to the connection their heartbeat came by, and forgets them with it.  So
the first thing a broker hears on a new connection is who we are, and nothing else is sent
before its answer came or failed.  Its answer also tells the broker's version.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from flintmq.client.engine.event_log import EventLog
from flintmq.client.hooks.request_hooks import RequestHook, run_after, run_before
from flintmq.core.account import Account
from flintmq.core.ask import refusal
from flintmq.core.conversation import SENT, Call
from flintmq.errors import BrokerRefused, FlintError
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.channel_pool import Channels
from flintmq.net.channels.write_waiters import AnswerWaiter
from flintmq.net.clock import Clock
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, request

HEARTBEAT_MS = 3_000
"""How long a broker may take to answer a heartbeat."""


class Links:
    """Open channels by address, and what was said on them.

    ``introduction`` gives the body of a heartbeat for an address, or None where none is due.
    """

    def __init__(
        self,
        channels: Channels,
        *,
        introduction: Callable[[str], bytes | None],
        account: Account | None,
        hooks: Sequence[RequestHook],
        events: EventLog,
        clock: Clock,
    ) -> None:
        self._channels = channels
        self._introduction = introduction
        self._account = account
        self._hooks = hooks
        self._is_hooked = account is not None or bool(hooks)
        self._events = events
        self._clock = clock
        self._ready: dict[str, Channel] = {}
        self._greetings: dict[Channel, asyncio.Task[FlintError | None]] = {}
        self.versions: dict[str, int] = {}
        """What brokers said they are, by address."""
        self.refusals: dict[str, BrokerRefused] = {}
        """Brokers that do not take our heartbeats, and why."""

    async def call(self, address: str, request: Command, timeout_ms: int) -> Command:
        channel = self._ready.get(address)
        if channel is None or channel.is_closed:
            channel, timeout_ms = await self._reach(address, timeout_ms)
        if self._is_hooked:
            return await self._ask(channel, request, timeout_ms)
        return await channel.call(request, timeout_ms)

    async def send_oneway(self, address: str, request: Command, timeout_ms: int) -> None:
        channel = self._ready.get(address)
        if channel is None or channel.is_closed:
            channel, timeout_ms = await self._reach(address, timeout_ms)
        outgoing = self._prepared(address, request)
        await channel.send_oneway(outgoing, timeout_ms)
        run_after(self._hooks, address, outgoing, None)

    def make(self, call: Call) -> Awaitable[Command]:
        """Carry out one call of a conversation, with no step more than it needs."""
        channel = self._ready.get(call.address)
        if channel is None or channel.is_closed or call.request.flag or self._is_hooked:
            return self._make(call)
        return channel.call(call.request, call.timeout_ms)

    def begin(self, call: Call, waiter: AnswerWaiter) -> bool:
        """`make` without an awaitable; False where there is more to do than to send."""
        channel = self._ready.get(call.address)
        if channel is None or call.request.flag or self._is_hooked or not channel.may_begin():
            return False
        channel.begin(call.request, call.timeout_ms, waiter)
        return True

    async def _make(self, call: Call) -> Command:
        if call.request.is_oneway:
            await self.send_oneway(call.address, call.request, call.timeout_ms)
            return SENT
        return await self.call(call.address, call.request, call.timeout_ms)

    async def beat(self, address: str) -> FlintError | None:
        """A heartbeat now; what went wrong, if anything."""
        channel = self._ready.get(address)
        if channel is not None and not channel.is_closed:
            return await self._greet(address, channel)
        try:
            channel = await self._channels.reach(address, HEARTBEAT_MS)
        except FlintError as error:
            self._events.add("heartbeat", address, str(error))
            return error
        outcome = await self._greeting(address, channel)
        self._ready[address] = channel
        return outcome

    def is_known_to(self, address: str) -> bool:
        """Whether the broker there has heard from us, and still can."""
        return address in self.versions and self.is_open(address)

    def is_open(self, address: str) -> bool:
        """Whether a connection is open there, by which a broker knows us.  For any thread."""
        channel = self._ready.get(address)
        return channel is not None and not channel.is_closed

    @property
    def open_addresses(self) -> list[str]:
        return [address for address, channel in self._ready.items() if not channel.is_closed]

    def forget(self, address: str) -> None:
        """Forget an address that no route names any more; its channel ends when it is idle."""
        self._ready.pop(address, None)
        self.versions.pop(address, None)
        self.refusals.pop(address, None)

    async def close(self) -> None:
        greetings = list(self._greetings.values())
        for greeting in greetings:
            greeting.cancel()
        await asyncio.gather(*greetings, return_exceptions=True)
        await self._channels.close()
        self._ready.clear()

    async def _reach(self, address: str, timeout_ms: int) -> tuple[Channel, int]:
        """A channel on which we are known, and how much of the time is left."""
        start_ms = self._clock()
        channel = await self._channels.reach(address, timeout_ms)
        left_ms = max(1, timeout_ms - (self._clock() - start_ms))
        if self._introduction(address) is not None:
            await asyncio.wait([self._greeting(address, channel)], timeout=left_ms / 1000)
            left_ms = max(1, timeout_ms - (self._clock() - start_ms))
        self._ready[address] = channel
        return channel, left_ms

    def _greeting(self, address: str, channel: Channel) -> asyncio.Task[FlintError | None]:
        """The one greeting of a new channel: all who want to use it wait for it."""
        greeting = self._greetings.get(channel)
        if greeting is None:
            loop = asyncio.get_running_loop()
            greeting = loop.create_task(self._greet(address, channel), name="flintmq greeting")
            self._greetings[channel] = greeting
            greeting.add_done_callback(lambda _: self._greetings.pop(channel, None))
        return greeting

    async def _greet(self, address: str, channel: Channel) -> FlintError | None:
        body = self._introduction(address)
        if body is None:
            return None
        try:
            answer = await self._ask(
                channel, request(RequestCode.HEART_BEAT, body=body), HEARTBEAT_MS
            )
            self.versions[address] = answer.version
            if answer.code != ResponseCode.SUCCESS:
                raise refusal(answer, address)
        except BrokerRefused as error:
            self.refusals[address] = error
            self._events.add("heartbeat", address, str(error), logging.WARNING)
            return error
        except FlintError as error:
            self._events.add("heartbeat", address, str(error))
            return error
        self.refusals.pop(address, None)
        return None

    async def _ask(self, channel: Channel, request: Command, timeout_ms: int) -> Command:
        outgoing = self._prepared(channel.peer, request)
        answer: Command | None = None
        try:
            answer = await channel.call(outgoing, timeout_ms)
            return answer
        finally:
            run_after(self._hooks, channel.peer, outgoing, answer)

    def _prepared(self, address: str, request: Command) -> Command:
        request = run_before(self._hooks, address, request)
        return request if self._account is None else self._account.sign(request)


async def quietly(work: Awaitable[object]) -> None:
    """Await something whose failure no longer matters."""
    with suppress(FlintError):
        await work
