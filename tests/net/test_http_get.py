"""A page of a program of ours is read within its limits; anything else is a clear error."""

from __future__ import annotations

import asyncio

import pytest

from flintmq.errors import RemoteProtocolError, Unreachable
from flintmq.net.address import Address
from flintmq.net.http_get import http_get
from flintmq.net.servers.http_listener import HttpAnswer, listen_http
from support.net.support import HERE


def ask(answer: HttpAnswer, **limits: float | int) -> bytes:
    async def whole() -> bytes:
        async def handle(_path: str, _headers: object) -> HttpAnswer:
            await asyncio.sleep(0)
            return answer

        listener = await listen_http(HERE, handle)
        try:
            return await http_get(listener.address, "/runs", **limits)  # type: ignore[arg-type]  # limits of several kinds
        finally:
            await listener.stop()

    return asyncio.run(whole())


def answered(raw: bytes) -> bytes:
    async def whole() -> bytes:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(raw)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            return await http_get(Address(*server.sockets[0].getsockname()[:2]), "/runs")

    return asyncio.run(whole())


def test_a_page_comes_as_it_is() -> None:
    assert ask(HttpAnswer(200, b"[1]")) == b"[1]"


def test_another_status_and_a_page_too_large_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="404"):
        ask(HttpAnswer(404, b""))
    with pytest.raises(RemoteProtocolError, match="more than 2 bytes"):
        ask(HttpAnswer(200, b"[1]"), bytes_max=2)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"hello\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[",
    ],
)
def test_what_is_no_answer_is_told(raw: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        answered(raw)


def test_nobody_there_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        asyncio.run(http_get(Address("127.0.0.1", 1), "/runs"))
