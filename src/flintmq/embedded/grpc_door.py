"""A proxy for gRPC clients beside servers of this process, or in front of others.

Official Java, Go and C# clients speak TLS unless told otherwise and check no certificate.  So where
no certificate is given one is made, as RocketMQ's proxy does: it hides what is sent from whoever
only listens, and proves nothing.  Clients without TLS are served on the same port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from flintmq.access.accounts import Accounts
from flintmq.errors import MissingExtra
from flintmq.net.address import Address
from flintmq.net.servers.accepting import SERVER_LIMITS, ServerLimits
from flintmq.net.servers.access_gate import Auditor
from flintmq.net.tls import ServerTls
from flintmq.proxy.server_settings import ProxyLimits, ProxySettings, require_grpc

if TYPE_CHECKING:
    from flintmq.client.engine.client_config import ClientConfig
    from flintmq.metrics.pages import Source
    from flintmq.proxy.server import ProxyServer

SELF_MADE_DAYS: Final = 3_650
"""How long a certificate holds that is made for one run."""

HERE: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcPlan:
    """Where gRPC clients are served, and what they are shown."""

    listen: Address
    tls: ServerTls | None = None
    """None: a certificate is made."""
    advertise: str | None = None
    cluster: str = "DefaultCluster"
    connections: ServerLimits = SERVER_LIMITS
    """What connections may take; beside a broker as at its own port."""


class GrpcDoor:
    """A running proxy and the certificate that was made for it."""

    def __init__(self, proxy: ProxyServer, made: TemporaryDirectory[str] | None) -> None:
        self.proxy = proxy
        self._made = made

    @property
    def address(self) -> Address:
        return self.proxy.address

    @property
    def source(self) -> Source:
        """What is measured of the proxy."""
        from flintmq.proxy.monitoring import proxy_source

        return proxy_source(self.proxy)

    async def stop(self) -> None:
        try:
            await self.proxy.stop()
        finally:
            if self._made is not None:
                self._made.cleanup()


async def open_door(
    plan: GrpcPlan,
    client: ClientConfig,
    accounts: Accounts | None = None,
    auditor: Auditor | None = None,
) -> GrpcDoor:
    """Start a proxy.  ``client`` is how it speaks to brokers, ``accounts`` whom it serves."""
    start = await asyncio.to_thread(_loaded)  # it takes a while
    made, tls = None, plan.tls
    if tls is None:
        made = TemporaryDirectory(prefix="flintmq-grpc-")
    try:
        if made is not None:
            host = plan.advertise or plan.listen.host
            tls = await asyncio.to_thread(self_made_tls, Path(made.name), host)
        settings = ProxySettings(
            listen=plan.listen,
            client=client,
            tls=tls,
            advertise=plan.advertise,
            cluster=plan.cluster,
            limits=ProxyLimits(connections=plan.connections),
        )
        return GrpcDoor(await start(settings, accounts, auditor), made)
    except BaseException:
        if made is not None:
            made.cleanup()
        raise


def _loaded() -> Callable[[ProxySettings, Accounts | None, Auditor | None], Awaitable[ProxyServer]]:
    require_grpc()
    from flintmq.proxy.server import ProxyServer

    return ProxyServer.start


def self_made_tls(directory: Path, host: str) -> ServerTls:
    """A certificate that nobody signed but us, for peers with and without TLS."""
    try:
        from flintmq.embedded.certificate_files import make_certificates
    except ImportError:
        raise MissingExtra("cryptography", "grpc") from None
    make_certificates(directory, list(dict.fromkeys([*HERE, host])), SELF_MADE_DAYS)
    certificate, key = directory / "server.pem", directory / "server.key"
    return ServerTls(certificate_file=str(certificate), key_file=str(key))
