"""Telemetry, Heartbeat and NotifyClientTermination: clients come, stay and go.

    client ─► settings ─► checked, registered ─► settings to go by
    broker ─► question ─► outbox of a client ─► command on its stream

A stream carries commands both ways for as long as a client lives.  It ends when the client leaves,
when the proxy stops, and with an error for settings that cannot be used.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from secrets import token_hex
from typing import Any, Final

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.model.message import ReceivedMessage
from flintmq.protocol.bodies.client_call import DirectOutcome, DirectResult
from flintmq.proxy.calls.client_settings import (
    ToldSettings,
    consumer_settings,
    producer_settings,
    read_settings,
)
from flintmq.proxy.calls.renewing import Renewing
from flintmq.proxy.tables.cluster_facts import ClusterFacts, GroupFacts
from flintmq.proxy.tables.proxy_clients import ProxyClient, ProxyClients
from flintmq.proxy.tables.telemetry_outbox import TelemetryOutbox
from flintmq.proxy.wire.caller import Caller
from flintmq.proxy.wire.grpc_codes import Code, MessageType
from flintmq.proxy.wire.message_classes import (
    HeartbeatResponse,
    NotifyClientTerminationResponse,
    TelemetryCommand,
)
from flintmq.proxy.wire.message_form import form_of
from flintmq.proxy.wire.statuses import StatusRefusal, ok

VERIFY_S: Final = 5.0
"""How long a client may take with a message that it is given for a test."""

SWEEP_MS: Final = 10_000
"""How often silent clients are looked for."""

_OUTCOMES: Final = {
    Code.OK: DirectOutcome.SUCCESS,
    Code.FAILED_TO_CONSUME_MESSAGE: DirectOutcome.LATER,
    Code.MESSAGE_CORRUPTED: DirectOutcome.RETURNED_NULL,
}

Permit = Callable[[Caller, ToldSettings], None]
"""Raises `StatusRefusal` where a client may not be what it says it is."""


class Telemetry:
    """The streams of clients."""

    def __init__(
        self,
        engine: ClientEngine,
        facts: ClusterFacts,
        renewing: Renewing,
        permit: Permit,
    ) -> None:
        self._engine = engine
        self._facts = facts
        self._renewing = renewing
        self._permit = permit
        self.clients: ProxyClients
        self._verifying: dict[str, asyncio.Future[DirectResult]] = {}

    # Calls

    async def telemetry(
        self, commands: AsyncIterator[Any], caller: Caller
    ) -> AsyncGenerator[Any, None]:
        """Serve one stream; raises `BadSettings` for settings that end it."""
        outbox = TelemetryOutbox()
        reading = asyncio.ensure_future(self._read(commands, caller, outbox))
        reading.add_done_callback(lambda _: outbox.close())
        try:
            while (command := await outbox.next()) is not None:
                yield command
            if reading.done() and not reading.cancelled():
                reading.result()  # raises what was wrong with the settings
        finally:
            reading.cancel()
            client = self.clients.find(caller.client_id)
            if client is not None and client.outbox is outbox:
                client.outbox = None

    def heartbeat(self, _request: Any, caller: Caller) -> Any:
        self.clients.seen(caller)
        return HeartbeatResponse(status=ok())

    async def terminate(self, _request: Any, caller: Caller) -> Any:
        client = self.clients.require(caller)
        await self._leave(client)
        return NotifyClientTerminationResponse(status=ok())

    # Inside

    async def _read(
        self, commands: AsyncIterator[Any], caller: Caller, outbox: TelemetryOutbox
    ) -> None:
        async for command in commands:
            match command.WhichOneof("command"):
                case "settings":
                    await self._settle(command.settings, caller, outbox)
                case "verify_message_result":
                    self._verified(command)
                case _:
                    pass  # stacks and what later versions add: nobody here asked for it
            client = self.clients.find(caller.client_id)
            if client is not None:
                client.seen_ms = self._engine.clock()

    async def _settle(self, settings: Any, caller: Caller, outbox: TelemetryOutbox) -> None:
        told = read_settings(settings, self._engine.wall())
        self._permit(caller, told)
        if told.is_consumer:
            answer = consumer_settings(settings, await self._group(told))
            client = self.clients.tell(caller, told.kind, group=told.group, wishes=told.wishes)
        else:
            answer = producer_settings(settings)
            halves_of = await self._with_halves(told.topics)
            topics = frozenset(told.topics)
            client = self.clients.tell(caller, told.kind, topics=topics, halves_of=halves_of)
        if client.outbox is not None and client.outbox is not outbox:
            client.outbox.close()  # the client came back, its old stream is dead
        client.outbox = outbox
        outbox.put(TelemetryCommand(status=ok(), settings=answer))

    async def _group(self, told: ToldSettings) -> GroupFacts:
        """The settings of a group at a broker of one of its topics that has a route."""
        for topic in told.topics:
            try:
                return await self._facts.group(told.group, topic)
            except StatusRefusal as refused:
                if refused.code is not Code.TOPIC_NOT_FOUND:
                    raise
        return GroupFacts()

    async def _with_halves(self, topics: tuple[str, ...]) -> frozenset[str]:
        """The topics that take half messages."""
        found = set()
        for topic in topics:
            try:
                if MessageType.TRANSACTION in await self._facts.types(topic):
                    found.add(topic)
            except StatusRefusal as refused:
                if refused.code is not Code.TOPIC_NOT_FOUND:
                    raise
        return frozenset(found)

    async def _leave(self, client: ProxyClient) -> None:
        self.clients.forget(client)
        await self._renewing.give_back(client.client_id)

    async def sweep(self, forget_old: Callable[[], None]) -> None:
        """Forget clients that are silent, again and again."""
        while True:
            await self._engine.timing.sleep(SWEEP_MS)
            forget_old()
            for client in self.clients.silent():
                await self._leave(client)

    # Messages for a test

    def verify(self, group: str, message: ReceivedMessage) -> Awaitable[DirectResult]:
        """Give a message to a client of the group and wait for what it makes of it."""
        return self._verify(group, message)

    async def _verify(self, group: str, message: ReceivedMessage) -> DirectResult:
        nonce = token_hex(16)
        asked = TelemetryCommand()
        asked.verify_message_command.nonce = nonce
        formed = form_of(message, message.topic, now_ms=self._engine.wall())
        asked.verify_message_command.message.CopyFrom(formed)
        answered = self._verifying[nonce] = asyncio.get_running_loop().create_future()
        try:
            for client in self.clients.reachable(group=group):
                if client.outbox is not None and client.outbox.put(asked):
                    return await asyncio.wait_for(answered, VERIFY_S)
        except TimeoutError:
            remark = f"the client did not answer within {VERIFY_S:g} s"
            return DirectResult(consume_result=DirectOutcome.THREW, remark=remark)
        finally:
            del self._verifying[nonce]
        remark = f"no client of {group} has a stream to this proxy"
        return DirectResult(consume_result=DirectOutcome.THREW, remark=remark)

    def _verified(self, command: Any) -> None:
        answered = self._verifying.get(command.verify_message_result.nonce)
        if answered is not None and not answered.done():
            code = command.status.code
            outcome = _OUTCOMES.get(code, DirectOutcome.THREW)
            answered.set_result(
                DirectResult(consume_result=outcome, remark=command.status.message or None)
            )
