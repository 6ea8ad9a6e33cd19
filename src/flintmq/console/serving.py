"""Runs a console on a socket until it is told to stop.

uvicorn serves it, with limits and without a log of addresses: an address may hold the token of the
start link.  Signals stay with whoever runs the process.  With TLS the certificate is read again
when its files change, for the handshakes that follow.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Final

import uvicorn

from flintmq.console.app import ConsoleSettings, make_app
from flintmq.console.showing.site import Site
from flintmq.errors import InvalidSetting
from flintmq.net.address import Address
from flintmq.net.tls import ServerTls
from flintmq.net.watched_tls import WatchedTls

CONNECTIONS_MAX: Final = 256
"""Of all browsers together; more get 503 at once."""

HEADER_BYTES_MAX: Final = 32 * 1024
"""Of one request: its line, its cookies and its headers."""

KEEP_ALIVE_S: Final = 10

STOP_S: Final = 3
"""What is under way at a stop may end within this time."""

BACKLOG: Final = 128


class _Server(uvicorn.Server):
    """A server that leaves signals alone: the process it is in has its own way to stop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self.is_up.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass(frozen=True, slots=True)
class RunningConsole:
    """A console that listens at ``address``, as ``http://127.0.0.1:8088``, or ``https``."""

    address: str
    site: Site

    @property
    def link(self) -> str:
        """What to open: with the token, if it was made for this start alone."""
        login = f"/login?token={self.site.token}" if self.site.token_in_links else "/"
        return self.address + login


@asynccontextmanager
async def serving(settings: ConsoleSettings, listen: Address) -> AsyncIterator[RunningConsole]:
    """A console that answers, until the end of the ``async with``."""
    with _bound(listen) as bound:
        port = bound.getsockname()[1]
        hosts = (*settings.hosts, listen.host)
        app = make_app(replace(settings, port=port, hosts=hosts))
        site: Site = app.state.site
        config = uvicorn.Config(
            app,
            loop="none",
            lifespan="on",
            ws="none",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=CONNECTIONS_MAX,
            h11_max_incomplete_event_size=HEADER_BYTES_MAX,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=STOP_S,
        )
        scheme = "http"
        if settings.tls is not None:
            config.load()
            config.ssl, scheme = _newest(settings.tls), "https"
        server = _Server(config)
        running = asyncio.create_task(server.serve(sockets=[bound]))
        try:
            await server.is_up.wait()
            yield RunningConsole(f"{scheme}://{Address(listen.host, port)}", site)
        finally:
            site.stopping.set()
            server.should_exit = True
            await running


def _newest(tls: ServerTls) -> ssl.SSLContext:
    """A context whose handshakes use the certificate that is in the files by then."""
    watched = WatchedTls(tls)

    def use_newest(handshake: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        handshake.context = watched.take_changes()

    context = tls.context()
    context.sni_callback = use_newest  # also called for those who name no server
    return context


@contextmanager
def _bound(listen: Address) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if listen.is_v6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((listen.host, listen.port))
        except OSError as error:
            reason = error.strerror or str(error)
            raise InvalidSetting("listen address", str(listen), reason) from None
        made.listen(BACKLOG)
        yield made
