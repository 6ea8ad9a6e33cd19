"""Requests with their answers, as recorded, and the choice of a few that show the most.

A recording holds thousands of frames that differ in an offset or a time.  `choose` keeps one
exchange, the shortest, of everything that differs in kind: who asked whom, the request code, the
code of the answer, the form of both headers, and what the body is an example of.  Pairs of
releases that say what others have said already are left out.

Frames are read by code that is not under test.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from support.interop.ask import BINARY_FORM, split
from support.interop.proxy import RecordedFrame

PAIR_BYTES_MAX = 2_000  # of both frames; whole configurations are longer and show nothing new
MACHINE_PLACE = f"{tempfile.gettempdir()}/".encode()  # where the captured servers lived
Shape = tuple[object, ...]
RESPONSE_FLAG = 1
ONEWAY_FLAG = 2
HEARTBEAT = 34
REGISTER_BROKER = 103
PULL_CODES = (11, 361)


@dataclass(frozen=True, slots=True)
class Peek:
    """What of a frame tells it apart."""

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
    def frames(self) -> list[bytes]:
        return [self.request] if self.answer is None else [self.request, self.answer]

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.frames))


def peek(frame: bytes) -> Peek:
    header, body = split(frame)
    binary = frame[4] == BINARY_FORM
    return Peek(binary, header["code"], header["opaque"], header["flag"], body)


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
    """The shortest exchange of each kind, without what shows nothing new.

    Between a client and a server of the same generation, with JSON headers, each kind is kept.
    Of all else only what has a request or an answer with other fields than those before it.
    """
    best: dict[tuple[object, ...], Exchange] = {}
    for exchange in exchanges:
        names_place = any(MACHINE_PLACE in frame for frame in exchange.frames)
        if exchange.size_bytes > PAIR_BYTES_MAX or names_place:
            continue
        ends = (exchange.client, exchange.broker, exchange.near, exchange.far)
        key = (*ends, shows(exchange), *map(_codes, exchange.frames))
        if key not in best or exchange.size_bytes < best[key].size_bytes:
            best[key] = exchange
    seen: set[Shape] = set()
    chosen = []
    for exchange in sorted(best.values(), key=_rank):
        shapes = set(_shapes(exchange))
        if _rank(exchange)[0] == 0 or not shapes <= seen:
            chosen.append(exchange)
        seen |= shapes
    return chosen


def _rank(exchange: Exchange) -> tuple[object, ...]:
    """Exchanges in the order in which they are looked at, and written."""
    binary = peek(exchange.request).binary
    same_generation = f"-{exchange.broker[0]}." in exchange.client
    order = (same_generation, not binary)
    ends = (exchange.client, exchange.broker, exchange.near, exchange.far)
    codes = tuple(map(_codes, exchange.frames))
    return 0 if all(order) else 1 + 2 * (not same_generation) + binary, *ends, codes


def _codes(frame: bytes) -> tuple[int, int, bool]:
    seen = peek(frame)
    return seen.code, seen.flag, seen.binary


def _shapes(exchange: Exchange) -> Iterator[Shape]:
    """What of each frame is not a value: codes, header form, and the names of all fields."""
    asked = peek(exchange.request).code
    for frame in exchange.frames:
        header, body = split(frame)
        names = tuple(sorted(header.get("extFields") or ()))
        yield (asked, _codes(frame), exchange.near, names, _top_names(body), shows(exchange))


def _top_names(body: bytes) -> tuple[str, ...]:
    try:
        content = json.loads(body)
    except ValueError:
        return ("some",) if body else ()
    return tuple(sorted(content)) if isinstance(content, dict) else ("some",)


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
    """What a registration, a heartbeat or the first record of a pull is an example of."""
    code = peek(exchange.request).code
    if code == REGISTER_BROKER:
        fields = split(exchange.request)[0]["extFields"]
        return "compressed body" if fields.get("compressed") == "true" else ""
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
