"""A small HTTP listener on the loop, for pages that monitoring asks for.

    connection ─► one request, GET or HEAD ─► answer ─► closed

It reads no body, keeps no connection open and speaks HTTP/1.1 without TLS.  Limits: so many
connections at once, so many bytes of a request, so long until it is read and answered.  Above
them a peer is cut off.  What a handler raises is logged and answered with 500.

Invariant: a peer costs at most `REQUEST_BYTES_MAX` and is gone after `EXCHANGE_S`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias

from flintmq.errors import InvalidSetting
from flintmq.logs import logger
from flintmq.net.address import Address
from flintmq.net.reasons import why

log = logger(__name__)

CONNECTIONS_MAX = 16
"""A scraper, its twin, and probes; whoever comes beyond that is closed."""

REQUEST_BYTES_MAX = 16_384
"""Of a request's head.  A scraper's has some hundred."""

EXCHANGE_S = 30.0
"""From the first byte to the last: three times as long as Prometheus waits by default."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Status, body and type of an answer."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Handler: TypeAlias = Callable[[str, Mapping[str, str]], Awaitable[HttpAnswer]]
"""Answers a path; the headers' names are in lower case."""


class HttpListener:
    """A listening socket.  `listen_http` makes one."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> Address:
        """Where it really listens, when port 0 was asked for."""
        assert self._server is not None
        return Address(*self._server.sockets[0].getsockname()[:2])

    @property
    def connection_count(self) -> int:
        return len(self._tasks)

    async def listen(self, where: Address) -> None:
        try:
            self._server = await asyncio.start_server(
                self._accept, where.host, where.port, limit=REQUEST_BYTES_MAX
            )
        except OSError as error:
            raise InvalidSetting("metrics address", str(where), why(error)) from None

    async def stop(self) -> None:
        """Accept no more, and cut what is under way."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= CONNECTIONS_MAX:
            writer.transport.abort()
            return
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(EXCHANGE_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answer(head))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a peer that went away, or is none of ours
        finally:
            writer.transport.abort()

    async def _answer(self, head: bytes) -> bytes:
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _encoded(HttpAnswer(400, b"this is no HTTP/1.1 request\n"))
        method, target, _ = words
        if method not in ("GET", "HEAD"):
            return _encoded(HttpAnswer(405, b"only GET is served\n"))
        headers = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if colon:
                headers[name.strip().lower()] = value.strip()
        try:
            answer = await self._handler(target.partition("?")[0], headers)
        except Exception:
            log.exception("%s failed", target[:100])
            answer = HttpAnswer(500, b"it failed; the log says why\n")
        return _encoded(answer, has_body=method == "GET")


def _encoded(answer: HttpAnswer, *, has_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        f"Cache-Control: no-store\r\n"
        f"X-Content-Type-Options: nosniff\r\n"
        + ("Allow: GET, HEAD\r\n" if answer.status == 405 else "")
        + "Connection: close\r\n\r\n"
    )
    return head.encode() + (answer.body if has_body else b"")


async def listen_http(where: Address, handler: Handler) -> HttpListener:
    """Listen.  Raises `InvalidSetting` when the address cannot be had."""
    listener = HttpListener(handler)
    await listener.listen(where)
    return listener
