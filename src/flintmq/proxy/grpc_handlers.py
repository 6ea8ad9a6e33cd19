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

from collections.abc import AsyncIterator, Awaitable, Callable
from inspect import isawaitable
from time import perf_counter
from typing import Any, Final

import grpc

from flintmq.errors import FlintError
from flintmq.logs import logger
from flintmq.proxy.caller_rights import TELEMETRY, ProxyAccess
from flintmq.proxy.calls.client_settings import BadSettings
from flintmq.proxy.calls.receiving import ReceiveCalls
from flintmq.proxy.calls.telemetry import Telemetry
from flintmq.proxy.tables.call_counts import CallCounts
from flintmq.proxy.wire.caller import Caller, client_id_of, read_metadata
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
PeerOf = Callable[[str], str | None]
"""Who is behind a connection, by what gRPC calls its peer; None for nobody who may be served."""


class GrpcHandlers:
    """The calls of the service as gRPC makes them."""

    def __init__(
        self,
        access: ProxyAccess,
        peer_of: PeerOf,
        unary: dict[str, Handle],
        receiving: ReceiveCalls,
        telemetry: Telemetry,
    ) -> None:
        assert set(unary) == set(UNARY)
        self._access = access
        self._peer_of = peer_of
        self._unary = unary
        self._receiving = receiving
        self._telemetry = telemetry
        self.counts = CallCounts()

    def handlers(self) -> Any:
        """What a server of grpcio is given."""
        methods = service_methods()
        made = {}
        for name in UNARY:
            asked, answered = methods[name]
            made[name] = grpc.unary_unary_rpc_method_handler(
                self._served(name, answered),
                request_deserializer=asked.FromString,
                response_serializer=answered.SerializeToString,
            )
        asked, answered = methods[RECEIVE]
        made[RECEIVE] = grpc.unary_stream_rpc_method_handler(
            self._receive,
            request_deserializer=asked.FromString,
            response_serializer=answered.SerializeToString,
        )
        asked, answered = methods[TELEMETRY]
        made[TELEMETRY] = grpc.stream_stream_rpc_method_handler(
            self._tell,
            request_deserializer=asked.FromString,
            response_serializer=answered.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(SERVICE, made)

    def _served(self, name: str, answered: Any) -> Callable[[Any, Any], Awaitable[Any]]:
        handle = self._unary[name]

        async def serve(request: Any, context: Any) -> Any:
            began_s = perf_counter()
            try:
                caller = self._access.admit(name, request, await self._caller(context))
                answer = handle(request, caller)
                if isawaitable(answer):
                    answer = await answer
            except Exception as error:
                answer = answered(status=_told(name, error).status)
            self.counts.answered(name, answer.status.code, perf_counter() - began_s)
            return answer

        return serve

    async def _receive(self, request: Any, context: Any) -> AsyncIterator[Any]:
        with self.counts.stream(RECEIVE) as counted:
            try:
                caller = self._access.admit(RECEIVE, request, await self._caller(context))
                async for answer in self._receiving.receive_message(request, caller):
                    if answer.HasField("status"):
                        counted(answer.status.code)
                    yield answer
            except Exception as error:
                refused = _told(RECEIVE, error)
                counted(refused.code)
                yield ReceiveMessageResponse(status=refused.status)
                yield self._receiving.delivered_now()

    async def _tell(self, commands: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        with self.counts.stream(TELEMETRY) as counted:
            try:
                caller = self._access.admit(TELEMETRY, None, await self._caller(context))
                async for command in self._telemetry.telemetry(commands, caller):
                    yield command
                counted(Code.OK)
            except BadSettings as bad:
                unserved = bad.is_unserved
                counted(Code.INTERNAL_SERVER_ERROR if unserved else Code.BAD_REQUEST)
                code = grpc.StatusCode.INTERNAL if unserved else grpc.StatusCode.INVALID_ARGUMENT
                await context.abort(code, bad.text)
            except Exception as error:
                refused = _told(TELEMETRY, error)
                counted(refused.code)
                yield TelemetryCommand(status=refused.status)

    async def _caller(self, context: Any) -> Caller:
        peer = self._peer_of(context.peer())
        if peer is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "use the address of the proxy")
        metadata = read_metadata(context.invocation_metadata() or ())
        left_s = context.time_remaining()
        deadline_ms = None if left_s is None else max(0, int(left_s * 1000))
        assert peer is not None
        return Caller(client_id_of(metadata), peer, deadline_ms, metadata)


def _told(name: str, error: Exception) -> StatusRefusal:
    """What a client is told of an error; a fault of ours is logged as well."""
    if isinstance(error, StatusRefusal):
        return error
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if isinstance(error, FlintError):
        return refusal_of(error)
    log.error("%s failed", name, exc_info=error)
    return StatusRefusal(Code.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")
