"""From gRPC to the calls and back: who calls, may they, and what an error is told as.

    call ─► metadata ─► signature ─► rights ─► handler ─► answer
                │            │          │          │
                └────────────┴──────────┴──────────┴─ refused ─► answer with a status

The gRPC status of an answer is OK, whatever its own status says, as clients expect it.  The
exceptions are a telemetry stream with settings that cannot be used, and calls the service does not
have: UNIMPLEMENTED.

Invariant: whatever a handler raises, its call ends with an answer, and the others go on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from inspect import isawaitable
from time import perf_counter
from typing import Any, Final

from google.protobuf.message import DecodeError

from flintmq.errors import FlintError, RemoteProtocolError
from flintmq.logs import logger
from flintmq.net.http2.call_server import GrpcMethod
from flintmq.net.http2.grpc_call import GrpcCall
from flintmq.protocol.http2.grpc_form import GrpcStatus
from flintmq.proxy.caller_rights import TELEMETRY, ProxyAccess
from flintmq.proxy.calls.client_settings import BadSettings
from flintmq.proxy.calls.receiving import ReceiveCalls
from flintmq.proxy.calls.telemetry import Telemetry
from flintmq.proxy.tables.call_counts import CallCounts
from flintmq.proxy.wire.caller import Caller, client_id_of
from flintmq.proxy.wire.grpc_codes import Code
from flintmq.proxy.wire.message_classes import (
    SERVICE,
    ReceiveMessageResponse,
    TelemetryCommand,
    service_methods,
)
from flintmq.proxy.wire.statuses import StatusRefusal, refusal_of

log = logger(__name__)

UNARY: Final = (
    "QueryRoute",
    "QueryAssignment",
    "SendMessage",
    "RecallMessage",
    "EndTransaction",
    "AckMessage",
    "ChangeInvisibleDuration",
    "ForwardMessageToDeadLetterQueue",
    "Heartbeat",
    "NotifyClientTermination",
)

RECEIVE: Final = "ReceiveMessage"

Handle = Callable[[Any, Caller], Any]
"""Gives an answer, or something to wait for that does."""


class GrpcHandlers:
    """The calls of the service as gRPC makes them."""

    def __init__(
        self,
        access: ProxyAccess,
        unary: dict[str, Handle],
        receiving: ReceiveCalls,
        telemetry: Telemetry,
    ) -> None:
        assert set(unary) == set(UNARY)
        self._access = access
        self._unary = unary
        self._receiving = receiving
        self._telemetry = telemetry
        self.counts = CallCounts()

    def methods(self) -> dict[str, GrpcMethod]:
        """What a server is given, by path."""
        served = {name: GrpcMethod(self._served(name)) for name in UNARY}
        served[RECEIVE] = GrpcMethod(self._receive)
        served[TELEMETRY] = GrpcMethod(self._tell, takes_many=True)
        return {f"/{SERVICE}/{name}": method for name, method in served.items()}

    def _served(self, name: str) -> Callable[[GrpcCall], Coroutine[Any, Any, None]]:
        handle, (asked, answered) = self._unary[name], _CLASSES[name]
        admit, counts, parse = self._access.admit, self.counts, asked.FromString

        async def serve(call: GrpcCall) -> None:
            began_s = perf_counter()
            request = _parsed(parse, call.take())
            try:
                caller = admit(name, request, caller_of(call))
                answer = handle(request, caller)
                if isawaitable(answer):
                    answer = await answer
            except Exception as error:
                answer = answered(status=_told(name, error).status)
            counts.answered(name, answer.status.code, perf_counter() - began_s)
            call.finish(answer.SerializeToString())

        return serve

    async def _receive(self, call: GrpcCall) -> None:
        request = _parsed(_CLASSES[RECEIVE][0].FromString, call.take())
        with self.counts.stream(RECEIVE) as counted:
            try:
                caller = self._access.admit(RECEIVE, request, caller_of(call))
                found = self._receiving.receive_message(request, caller, call.popped)
                async with aclosing(found) as answers:
                    async for answer in answers:
                        if answer.HasField("status"):
                            counted(answer.status.code)
                        await call.send(answer.SerializeToString())
            except Exception as error:
                refused = _told(RECEIVE, error)
                counted(refused.code)
                await call.send(ReceiveMessageResponse(status=refused.status).SerializeToString())
                await call.send(self._receiving.delivered_now().SerializeToString())
            call.end()

    async def _tell(self, call: GrpcCall) -> None:
        with self.counts.stream(TELEMETRY) as counted:
            try:
                caller = self._access.admit(TELEMETRY, None, caller_of(call))
                told = self._telemetry.telemetry(_commands(call), caller)
                async with aclosing(told) as commands:
                    async for command in commands:
                        await call.send(command.SerializeToString())
                counted(Code.OK)
            except BadSettings as bad:
                unserved = bad.is_unserved
                counted(Code.INTERNAL_SERVER_ERROR if unserved else Code.BAD_REQUEST)
                status = GrpcStatus.INTERNAL if unserved else GrpcStatus.INVALID_ARGUMENT
                call.fail(status, bad.text)
                return
            except Exception as error:
                refused = _told(TELEMETRY, error)
                counted(refused.code)
                await call.send(TelemetryCommand(status=refused.status).SerializeToString())
            call.end()


_CLASSES: Final = service_methods()


def caller_of(call: GrpcCall) -> Caller:
    """Who makes a call; `StatusRefusal` where it does not say so."""
    metadata = call.metadata
    return Caller(client_id_of(metadata), call.peer, call.left_ms, metadata)


async def _commands(call: GrpcCall) -> AsyncIterator[Any]:
    parse = _CLASSES[TELEMETRY][0].FromString
    async for message in call.messages():
        yield _parsed(parse, message)


def _parsed(parse: Callable[[bytes], Any], message: bytes) -> Any:
    try:
        return parse(message)
    except DecodeError:
        raise RemoteProtocolError("Exception deserializing request!") from None


def _told(name: str, error: Exception) -> StatusRefusal:
    """What a client is told of an error; a fault of ours is logged as well."""
    if isinstance(error, StatusRefusal):
        return error
    if isinstance(error, FlintError):
        return refusal_of(error)
    log.error("%s failed", name, exc_info=error)
    return StatusRefusal(Code.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")
