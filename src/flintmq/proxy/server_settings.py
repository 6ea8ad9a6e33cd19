"""How a proxy is to run.  This may be imported without protobuf."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from flintmq.errors import MissingExtra
from flintmq.net.address import Address
from flintmq.net.servers.accepting import ServerLimits
from flintmq.net.tls import ServerTls

if TYPE_CHECKING:
    from flintmq.client.engine.client_config import ClientConfig

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyLimits:
    """How much clients may take."""

    request_bytes_max: int = 32 * MIB
    """Of one request: several messages of the largest size, and no more than a frame has."""
    calls_max: int = 40_000
    """Calls at once.  An idle push consumer has one stream and one receive open for each broker of
    each topic."""
    streams_max: int = 1_000
    """Calls at once on one connection."""
    metadata_bytes_max: int = 16 * 1024
    connections: ServerLimits = field(default_factory=ServerLimits)
    stop_s: float = 3.0
    """How long calls may take to end when the proxy stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """Where a proxy listens and which brokers are behind it."""

    listen: Address
    client: ClientConfig
    """How it speaks to name servers and brokers, and as whom."""
    tls: ServerTls | None = None
    advertise: str | None = None
    """The host that clients are told who name none in their requests."""
    cluster: str = "DefaultCluster"
    limits: ProxyLimits = field(default_factory=ProxyLimits)


def require_grpc() -> None:
    """Raise `MissingExtra` unless everything is installed that a proxy needs."""
    try:
        import google.protobuf  # noqa: F401
    except ImportError:
        raise MissingExtra("protobuf", "grpc") from None
