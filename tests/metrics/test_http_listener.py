"""The listener for monitoring serves GET, one request for each connection, within its limits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from flintmq.errors import InvalidSetting
from flintmq.net.address import Address
from flintmq.net.servers import http_listener
from flintmq.net.servers.http_listener import HttpAnswer, HttpListener, listen_http

HERE = Address("127.0.0.1", 0)


async def hello(path: str, headers: Mapping[str, str]) -> HttpAnswer:
    await asyncio.sleep(0)
    if path == "/broken":
        raise RuntimeError("a defect")
    return HttpAnswer(200, f"{path} {headers.get('accept', '')}".encode())


async def exchange(listener: HttpListener, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.address.port)
    try:
        writer.write(request)
        await writer.drain()
        async with asyncio.timeout(60):
            return await reader.read()
    finally:
        writer.close()


def answers(*requests: bytes) -> list[bytes]:
    async def run() -> list[bytes]:
        listener = await listen_http(HERE, hello)
        try:
            return [await exchange(listener, each) for each in requests]
        finally:
            await listener.stop()

    return asyncio.run(run())


def test_a_get_is_answered_and_the_connection_closed() -> None:
    (answer,) = answers(b"GET /page?x=1 HTTP/1.1\r\nHost: x\r\nACCEPT: text/plain\r\n\r\n")

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nContent-Length: 16\r\n" in head
    assert head.endswith(b"\r\nConnection: close")
    assert body == b"/page text/plain"


def test_a_head_has_the_length_and_no_body() -> None:
    (answer,) = answers(b"HEAD /page HTTP/1.1\r\n\r\n")

    assert b"\r\nContent-Length: 6\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST / HTTP/1.1\r\n\r\n", b"405 Method Not Allowed"),
        (b"DELETE / HTTP/1.1\r\n\r\n", b"405 Method Not Allowed"),
        (b"GET /\r\n\r\n", b"400 Bad Request"),
        (b"\x00\x01\x02\r\n\r\n", b"400 Bad Request"),
        (b"GET /broken HTTP/1.1\r\n\r\n", b"500 Internal Server Error"),
    ],
)
def test_what_is_not_served_is_refused_with_a_status(request_: bytes, status: bytes) -> None:
    (answer,) = answers(request_)

    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"a defect" not in answer


def test_a_head_without_end_is_cut_off() -> None:
    endless = b"GET / HTTP/1.1\r\n" + b"x" * (2 * http_listener.REQUEST_BYTES_MAX)

    assert answers(endless, b"GET /next HTTP/1.1\r\n\r\n")[1].endswith(b"/next ")


def test_a_peer_that_says_nothing_is_cut_off_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_listener, "EXCHANGE_S", 0.05)

    assert answers(b"GET / HT") == [b""]


def test_more_connections_than_the_limit_are_closed_and_the_others_served() -> None:
    async def run() -> tuple[bytes, bytes]:
        listener = await listen_http(HERE, hello)
        port = listener.address.port
        silent = [
            await asyncio.open_connection("127.0.0.1", port)
            for _ in range(http_listener.CONNECTIONS_MAX)
        ]
        try:
            async with asyncio.timeout(60):
                while listener.connection_count < http_listener.CONNECTIONS_MAX:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    refused = await reader.read()
                except ConnectionError:
                    refused = b""
                writer.close()
                silent[0][1].write(b"GET /first HTTP/1.1\r\n\r\n")
                served = await silent[0][0].read()
        finally:
            for _, each in silent:
                each.close()
            await listener.stop()
        return refused, served

    refused, served = asyncio.run(run())

    assert refused == b""
    assert served.endswith(b"/first ")


def test_an_address_that_is_in_use_is_named() -> None:
    async def run() -> None:
        listener = await listen_http(HERE, hello)
        try:
            await listen_http(listener.address, hello)
        finally:
            await listener.stop()

    with pytest.raises(InvalidSetting, match="metrics address"):
        asyncio.run(run())
