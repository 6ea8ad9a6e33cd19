"""Requests with their answers, as recorded, and the choice of a few that show the most.

A recording holds thousands of frames that differ in an offset or a time.  `choose` keeps one
exchange, the shortest, of everything that differs in kind: who asked whom, the request code, the
code of the answer, the form of both headers, and what the body is an example of.

Only the few header fields that tell frames apart are read here, by code that is not under test.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from interop.proxy import RecordedFrame

PAIR_BYTES_MAX = 3_000  # of both frames; whole configurations are longer and show nothing new
RESPONSE_FLAG = 1
ONEWAY_FLAG = 2
HEARTBEAT = 34
PULL_CODES = (11, 361)
BINARY_FIXED = struct.Struct(">hBhii")  # code, language, version, opaque, flag


@dataclass(frozen=True, slots=True)
class Peek:
    """What is read of a frame: where its body starts, and four fields of its header."""

    binary: bool
    code: int
    opaque: int
    flag: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer; the answer is None when none came."""

    client: str
    broker: str
    near: str  # who sent the request: client, broker, namesrv
    far: str
    request: bytes
    answer: bytes | None = None

    @property
    def size_bytes(self) -> int:
        return len(self.request) + len(self.answer or b"")


def peek(frame: bytes) -> Peek:
    form, *length = frame[4:8]
    start, stop = 8, 8 + int.from_bytes(bytes(length), "big")
    if form == 1:
        code, _, _, opaque, flag = BINARY_FIXED.unpack_from(frame, start)
        return Peek(True, code, opaque, flag, frame[stop:])
    header = json.loads(frame[start:stop])
    return Peek(False, header["code"], header["opaque"], header["flag"], frame[stop:])


def pair_up(
    frames: Iterable[RecordedFrame], client: str, broker: str, near: str, far: str
) -> Iterator[Exchange]:
    """Match answers to requests by connection and opaque, in both directions of each connection."""
    waiting: dict[tuple[int, bool, int], Exchange] = {}
    for recorded in frames:
        seen = peek(recorded.frame)
        if not seen.flag & RESPONSE_FLAG:
            ends = (near, far) if recorded.to_server else (far, near)
            exchange = Exchange(client, broker, *ends, recorded.frame)
            if seen.flag & ONEWAY_FLAG:
                yield exchange
            else:
                waiting[recorded.connection, recorded.to_server, seen.opaque] = exchange
            continue
        asked = waiting.pop((recorded.connection, not recorded.to_server, seen.opaque), None)
        if asked is not None:
            yield replace(asked, answer=recorded.frame)
    yield from waiting.values()


def choose(exchanges: Iterable[Exchange]) -> list[Exchange]:
    """The shortest exchange of each kind."""
    best: dict[tuple[object, ...], Exchange] = {}
    for exchange in exchanges:
        if exchange.size_bytes > PAIR_BYTES_MAX:
            continue
        request = peek(exchange.request)
        answer = peek(exchange.answer) if exchange.answer else None
        key = (
            *(exchange.client, exchange.broker, exchange.near, exchange.far),
            *(request.code, request.binary, request.flag, shows(exchange)),
            *((answer.code, answer.binary) if answer else ()),
        )
        if key not in best or exchange.size_bytes < best[key].size_bytes:
            best[key] = exchange
    return [best[key] for key in sorted(best, key=repr)]


def lines(exchanges: Iterable[Exchange], first_pair: int) -> Iterator[dict[str, object]]:
    """The lines of the golden file, in the order of its fields."""
    for pair, exchange in enumerate(exchanges, first_pair):
        code = peek(exchange.request).code
        for role, frame in (("request", exchange.request), ("answer", exchange.answer)):
            if frame is None:
                continue
            ends = (exchange.near, exchange.far)
            yield {
                "client": exchange.client,
                "broker": exchange.broker,
                "code": code,
                "direction": "->".join(ends if role == "request" else reversed(ends)),
                "pair": pair,
                "role": role,
                "kind": kind(exchange, frame),
                "frame_hex": frame.hex(),
            }


def kind(exchange: Exchange, frame: bytes) -> str:
    """What a line is an example of, in words."""
    seen = peek(frame)
    if seen.flag & RESPONSE_FLAG:
        words = f"answered {seen.code}"
    elif exchange.answer is not None:
        words = "asked"
    else:
        words = "oneway" if seen.flag & ONEWAY_FLAG else "unanswered"
    form = ", binary header" if seen.binary else ""
    extra = shows(exchange)
    return words + form + (f", {extra}" if extra else "")


def shows(exchange: Exchange) -> str:
    """What the body of a heartbeat, or the first record of a pull, is an example of."""
    code = peek(exchange.request).code
    if code == HEARTBEAT:
        return _heartbeat(peek(exchange.request).body)
    if code in PULL_CODES and exchange.answer is not None:
        return _record(peek(exchange.answer).body)
    return ""


def _heartbeat(body: bytes) -> str:
    beat = json.loads(body)
    subscriptions = [
        subscription
        for consumer in beat.get("consumerDataSet") or []
        for subscription in consumer["subscriptionDataSet"]
    ]
    if any(subscription.get("expressionType") == "SQL92" for subscription in subscriptions):
        return "sql92"
    if any(subscription.get("tagsSet") for subscription in subscriptions):
        return "tag"
    return "consumer" if subscriptions else "producer"


def _record(body: bytes) -> str:
    if not body:
        return ""
    sys_flag = int.from_bytes(body[36:40], "big")
    marks = (
        (sys_flag & 0x701 == 0x101, "lz4 body"),
        (sys_flag & 0x701 == 0x201, "zstd body"),
        (bool(sys_flag & 1), "zlib body"),
        (b"%DLQ%" in body, "dead letter"),
        (b"%RETRY%" in body, "retry"),
        (b"TRAN_MSG\x01true" in body, "transaction"),
        (b"DELAY\x01" in body, "delayed"),
    )
    return next((words for marked, words in marks if marked), "")
