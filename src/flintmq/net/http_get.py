"""One question over HTTP/1.1, without TLS: for pages that programs of ours serve.

Refuses redirections, encodings and answers above a limit; follows nothing.

Invariant: it is over after `timeout_s`, and keeps `bytes_max` at most.
"""

from __future__ import annotations

import asyncio
from typing import Final

from flintmq.errors import RemoteProtocolError, Unreachable
from flintmq.net.address import Address
from flintmq.net.reasons import why

HEAD_BYTES_MAX: Final = 16_384


async def http_get(
    where: Address, path: str, *, timeout_s: float = 5.0, bytes_max: int = 4 * 1024 * 1024
) -> bytes:
    """The body of a page.  Raises `Unreachable`, or `RemoteProtocolError` for another answer."""
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(
                where.host, where.port, limit=HEAD_BYTES_MAX
            )
            try:
                writer.write(
                    f"GET {path} HTTP/1.1\r\nHost: {where}\r\nConnection: close\r\n\r\n".encode()
                )
                head = await reader.readuntil(b"\r\n\r\n")
                return await _body(reader, head, bytes_max)
            finally:
                writer.transport.abort()
    except OSError as error:  # a time-out is one
        raise Unreachable(str(where), why(error)) from None
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise RemoteProtocolError(f"{where} does not speak HTTP") from None


async def _body(reader: asyncio.StreamReader, head: bytes, bytes_max: int) -> bytes:
    line, *lines = head.decode("latin-1").split("\r\n")
    words = line.split(" ")
    if not line.startswith("HTTP/1.") or len(words) < 2:
        raise RemoteProtocolError("the peer does not speak HTTP")
    if words[1] != "200":
        raise RemoteProtocolError(f"the page is not there: {line[:80]}")
    lengths = [
        each.partition(":")[2].strip()
        for each in lines
        if each.lower().startswith("content-length:")
    ]
    if len(lengths) != 1 or not lengths[0].isdigit() or int(lengths[0]) > bytes_max:
        raise RemoteProtocolError(f"the page has no length, or more than {bytes_max} bytes")
    return await reader.readexactly(int(lengths[0]))
