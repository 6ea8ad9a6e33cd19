"""The only way into a broker: it keeps what clients asked and what the broker answered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from support.golden.exchange import ONEWAY_FLAG, RESPONSE_FLAG
from support.interop.ask import split
from support.interop.proxy import RecordedFrame, RecordingProxy


class Reply(NamedTuple):
    """The answer to a request of this code."""

    request: int
    code: int
    remark: str

    def __str__(self) -> str:
        return f"{self.code} {self.remark}"


class Door:
    """A recording proxy that tells what one client after the other was answered."""

    def __init__(self, proxy: RecordingProxy) -> None:
        self._proxy = proxy
        self._before = 0
        self._frames: list[RecordedFrame] = []

    @property
    def address(self) -> str:
        return self._proxy.address

    def next_client(self) -> None:
        """From now on only connections count that are made later."""
        self._before = self._proxy.connection_count
        self._frames.clear()

    def replies(self, *codes: int) -> list[Reply]:
        """The answers to requests of these codes, or of all, in the order they came."""
        self._frames += self._proxy.take()
        asked: dict[tuple[int, int], int] = {}
        found = []
        for recorded in self._frames:
            if recorded.connection <= self._before:
                continue
            header, _ = split(recorded.frame)
            key = recorded.connection, header["opaque"]
            if recorded.to_server:
                if not header["flag"] & (RESPONSE_FLAG | ONEWAY_FLAG):
                    asked[key] = header["code"]
            elif header["flag"] & RESPONSE_FLAG and key in asked:
                reply = Reply(asked[key], header["code"], header.get("remark") or "")
                if not codes or reply.request in codes:
                    found.append(reply)
        return found


@contextmanager
def door_to(broker: str) -> Iterator[Door]:
    with RecordingProxy(broker) as proxy:
        yield Door(proxy)
