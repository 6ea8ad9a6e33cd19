"""Hostile peers: bytes as anybody can write them, without our own codecs.

`Peer(address).ask(11, {...})` is one request and one answer, or None when it was cut off;
`flood(address, frames)` is many requests in a row, and how they were answered.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from support.interop.ask import ANSWER, split

WAIT_S = 30.0
CUT = -1
"""In place of the code of an answer: the connection was closed."""

_READ_BYTES = 1 << 20
_ONEWAY = 2


class Heard(NamedTuple):
    code: int
    remark: str
    fields: dict[str, str]
    body: bytes


def header(code: int, fields: Mapping[str, object] | None = None, **more: object) -> bytes:
    """A JSON header; what a peer may say in it is free."""
    said = {"code": code, "flag": 0, "language": "JAVA", "opaque": 1, "version": 401}
    return json.dumps({**said, "extFields": dict(fields or {}), **more}).encode()


def packed(head: bytes, body: bytes = b"", form: int = 0) -> bytes:
    """A frame that tells the truth about its lengths."""
    return struct.pack(">II", 4 + len(head) + len(body), form << 24 | len(head)) + head + body


def frame(
    code: int,
    fields: Mapping[str, object] | None = None,
    body: bytes = b"",
    *,
    opaque: int = 1,
    oneway: bool = False,
) -> bytes:
    return packed(header(code, fields, opaque=opaque, flag=_ONEWAY if oneway else 0), body)


def binary_frame(code: int, fields: Iterable[tuple[bytes, bytes]], body: bytes = b"") -> bytes:
    """A frame with RocketMQ's own header form, which can carry a field in seven bytes."""
    pairs = b"".join(
        len(name).to_bytes(2, "big") + name + len(text).to_bytes(4, "big") + text
        for name, text in fields
    )
    head = struct.pack(">hBhiii", code, 0, 401, 1, 0, 0) + len(pairs).to_bytes(4, "big") + pairs
    return packed(head, body, form=1)


class Peer:
    """One connection of somebody who means no good."""

    def __init__(self, address: str, *, source: str | None = None) -> None:
        host, _, port = address.rpartition(":")
        here = None if source is None else (source, 0)
        self.socket = socket.create_connection((host, int(port)), WAIT_S, here)
        self._got = b""

    def say(self, data: bytes) -> bool:
        """Send bytes; False when the victim closed the connection before it had them all."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def ask(
        self, code: int, fields: Mapping[str, object] | None = None, body: bytes = b""
    ) -> Heard | None:
        return self.tell(frame(code, fields, body))

    def tell(self, data: bytes) -> Heard | None:
        """Send a whole frame and wait for an answer."""
        return self.hear() if self.say(data) else None

    def hear(self, wait_s: float = WAIT_S) -> Heard | None:
        """The next answer; None when there is none, or will never be."""
        self.socket.settimeout(wait_s)
        while True:
            try:
                found = self._take()
                while found is None:
                    got = self.socket.recv(_READ_BYTES)
                    if not got:
                        return None
                    self._got += got
                    found = self._take()
            except OSError:
                return None
            head, body = found
            if head["flag"] & ANSWER:
                fields = head.get("extFields") or {}
                return Heard(head["code"], head.get("remark") or "", fields, body)

    def is_cut(self, wait_s: float = WAIT_S) -> bool:
        """Whether the victim closes the connection within the time."""
        self.socket.settimeout(wait_s)
        try:
            while self.socket.recv(_READ_BYTES):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def close(self) -> None:
        self.socket.close()

    def _take(self) -> tuple[dict[str, Any], bytes] | None:
        size = 4 + int.from_bytes(self._got[:4], "big")
        if len(self._got) < max(size, 8):
            return None
        whole, self._got = self._got[:size], self._got[size:]
        return split(whole)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def asked(
    address: str, code: int, fields: Mapping[str, object] | None = None, body: bytes = b""
) -> Heard:
    """One request over a connection of its own that must be answered."""
    with Peer(address) as peer:
        heard = peer.ask(code, fields, body)
    assert heard is not None, f"{code} was not answered"
    return heard


def flood(
    address: str, frames: Iterable[bytes], limit_s: float = 60.0, *, idle_s: float = 20.0
) -> Counter[int]:
    """Send all frames over one connection, as fast as it goes, and count the answers by code.

    It ends when each frame was answered, the victim hangs up, or nothing came for some time.
    """
    answers: Counter[int] = Counter()
    todo = iter(frames)
    waiting = memoryview(b"")
    sent = 0
    got = bytearray()
    deadline = time.monotonic() + limit_s
    with Peer(address) as peer:
        peer.socket.setblocking(False)
        more = True
        while (more or answers.total() < sent) and time.monotonic() < deadline:
            if not waiting and more:
                following = next(todo, None)
                more = following is not None
                waiting = memoryview(following or b"")
                sent += more
            wish = [peer.socket] if waiting else []
            readable, writable, _ = select.select([peer.socket], wish, [], min(idle_s, limit_s))
            if not readable and not writable:
                break
            try:
                if writable:
                    waiting = waiting[peer.socket.send(waiting) :]
                if readable:
                    read = peer.socket.recv(_READ_BYTES)
                    if not read:
                        raise ConnectionResetError
                    got += read
            except BlockingIOError:
                continue
            except OSError:
                answers[CUT] += 1
                break
            _count(got, answers)
    return answers


def _count(got: bytearray, answers: Counter[int]) -> None:
    at = 0
    while len(got) - at >= 4 and len(got) - at >= (
        size := 4 + int.from_bytes(got[at : at + 4], "big")
    ):
        head, _ = split(bytes(got[at : at + size]))
        if head["flag"] & ANSWER:
            answers[head["code"]] += 1
        at += size
    del got[:at]
