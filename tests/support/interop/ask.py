"""One hand-made request to a server, and the reading of headers in both forms.

For what no client would send, and for code that must not share a bug with what it judges:
nothing of ``flintmq`` is used here.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

ASK_TIMEOUT_S = 5.0
CLIENT_VERSION = 401  # acts as 4.9.4
BINARY_FORM = 1
ANSWER = 1  # the bit of the flag
BINARY_START = struct.Struct(">hBhiii")  # code, language, version, opaque, flag, remark length


def ask(
    address: str,
    code: int,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    version: int = CLIENT_VERSION,
    tls: ssl.SSLContext | None = None,
) -> tuple[dict[str, Any], bytes]:
    """Send one request with a JSON header over a connection of its own, plain or with TLS.

    The answer comes as its header, in the spelling of the JSON form, and its body.  An IPv6
    address is written without brackets, as RocketMQ writes it.
    """
    header = {
        "code": code,
        "flag": 0,
        "language": "JAVA",
        "opaque": 1,
        "version": version,
        "extFields": dict(fields or {}),
    }
    encoded = json.dumps(header).encode()
    host, _, port = address.rpartition(":")
    plain = socket.create_connection((host, int(port)), ASK_TIMEOUT_S)
    with tls.wrap_socket(plain, server_hostname=host) if tls else plain as connection:
        size = struct.pack(">II", 4 + len(encoded) + len(body), len(encoded))
        connection.sendall(size + encoded + body)
        with connection.makefile("rb") as frames:
            while True:
                length = _exactly(frames, 4)
                answer = split(length + _exactly(frames, int.from_bytes(length, "big")))
                if answer[0]["flag"] & ANSWER:  # else the server tells or asks something first
                    return answer


def split(frame: bytes) -> tuple[dict[str, Any], bytes]:
    """The header and the body of a whole frame."""
    form, length = frame[4], int.from_bytes(frame[5:8], "big")
    header, body = frame[8 : 8 + length], frame[8 + length :]
    return _binary_header(header) if form == BINARY_FORM else json.loads(header), body


def _binary_header(header: bytes) -> dict[str, Any]:
    code, language, version, opaque, flag, length = BINARY_START.unpack_from(header)
    at = BINARY_START.size + length
    remark = header[BINARY_START.size : at].decode()
    fields = {}
    at += 4  # the size of all fields together
    while at < len(header):
        key, at = _text(header, at, 2)
        fields[key], at = _text(header, at, 4)
    return {
        "code": code,
        "language": language,
        "version": version,
        "opaque": opaque,
        "flag": flag,
        "remark": remark,
        "extFields": fields,
    }


def _text(header: bytes, at: int, width: int) -> tuple[str, int]:
    start = at + width
    stop = start + int.from_bytes(header[at:start], "big")
    return header[start:stop].decode(), stop


def _exactly(stream: BinaryIO, count: int) -> bytes:
    got = stream.read(count)
    if len(got) < count:
        raise ConnectionError("the connection was closed inside an answer")
    return got
