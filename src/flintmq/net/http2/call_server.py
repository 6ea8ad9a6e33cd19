"""What connections ask of the server they belong to: methods, limits, and room for calls."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol

from flintmq.net.channels.partial_frames import PartialFrames
from flintmq.net.channels.unread_bytes import UnreadBytes
from flintmq.net.http2.grpc_call import GrpcCall


class GrpcMethod(NamedTuple):
    """How a call of one name is served; one that ``takes_many`` is begun before it is whole."""

    run: Callable[[GrpcCall], Coroutine[Any, Any, None]]
    takes_many: bool = False


class H2Limits(NamedTuple):
    """What one connection may take."""

    request_bytes_max: int
    streams_max: int
    metadata_bytes_max: int


class CallServer(Protocol):
    """The server, as a connection sees it."""

    @property
    def partial(self) -> PartialFrames: ...

    @property
    def unread(self) -> UnreadBytes: ...

    @property
    def limits(self) -> H2Limits: ...

    def method(self, path: str) -> GrpcMethod | None: ...

    def begin_call(self, host: str) -> bool:
        """Count a call of an address; whether there is room for it."""

    def end_call(self, host: str) -> None: ...
