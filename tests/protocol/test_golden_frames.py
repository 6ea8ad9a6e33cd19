"""What real clients and servers said is understood, field by field, and can be said again.

``golden/frames.jsonl`` has frames of Java, Go, Node and C++ clients, of real name servers and
brokers, and of hand-made probes.  Each is decoded to its typed header, and a command made from the
typed values alone is encoded and compared with the original.
"""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec.structs import replace

from flintmq.errors import MalformedHeader
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command
from flintmq.protocol.fields import Header, header_fields, write_fields
from flintmq.protocol.frame import Frame, FrameReader, HeaderForm
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.headers.pull import PullAnswer, PullMessage
from flintmq.protocol.headers.send import SendAnswer, SendMessageV2, SendRefusal
from flintmq.protocol.version import version_number
from flintmq.protocol.wire import decode_command, encode_command
from support.protocol.answer_headers import answer_header
from support.protocol.fuzz_wire import check_frame_bytes, check_reader
from support.protocol.java_map import java_map_order

GOLDEN = Path(__file__).parents[1] / "golden" / "frames.jsonl"

EXTRAS = {
    "AccessKey",  # C++, empty without an account
    "Signature",  # C++, made with the empty secret
    "OnsChannel",  # C++, always ALIYUN
    "ReqT",  # Java pull consumers
    "ns",  # 5.x namespaces, here and below
    "nsd",
    "lo",  # 5.x static topics
    "oway",  # 5.x calls between brokers
}
"""Fields that are no part of any header class."""

UNKNOWN_CODES = {-5, 77, 9999}
"""What probes asked for to learn how unknown codes are answered."""

MALFORMED = {
    *((10, "topic"), (11, "topic"), (11, "queueId"), (15, "commitOffset"), (30, "topic")),
    *((36, "offset"), (37, "msgId"), (310, "b"), (310, "h")),
}
"""Code and first bad field of probes that no real server answered with success either."""

FAST = {SendMessageV2, SendAnswer, SendRefusal, PullMessage, PullAnswer}
"""What Java writes in a fixed order in the binary form.  All else has the order of a HashMap."""

ADDED_ALONE = {"_UNIQUE_KEY_QUERY", "__ZONE_NAME", "IS_SUPPORT_HEART_BEAT_V2", "IS_SUB_CHANGE"}
"""Fields that Java adds one by one, and 5.x to a larger map."""

PUT_FIRST = {"order"}
"""Shares a bucket with topicSysFlag, and 5.x puts it in first."""

FORWARDED = {307, 309}
"""What an admin asks a broker to pass on to a client."""

IGNORED_KEY = "serializeTypeCurrentRPC"
"""Written by Java and by us, and read by nobody."""

ABSENT_KEYS = {"code": 0, "flag": 0, "language": "JAVA", "opaque": 0, "version": 0}
"""What a key means that a probe left out; we write them all."""


class Line(NamedTuple):
    client: str
    broker: str
    code: int
    role: str
    pair: int
    direction: str
    data: bytes

    @property
    def frame(self) -> Frame:
        [frame] = FrameReader().feed(self.data)
        return frame

    @property
    def is_json(self) -> bool:
        return self.data[4] == HeaderForm.JSON

    @property
    def is_forwarded(self) -> bool:
        return self.code in FORWARDED and self.direction == "broker->client"

    def __str__(self) -> str:
        return f"{self.client} with {self.broker}, {self.role} {self.code}, pair {self.pair}"


def golden_lines() -> list[Line]:
    rows = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    return [
        Line(
            *(row["client"], row["broker"], row["code"], row["role"], row["pair"]),
            row["direction"],
            bytes.fromhex(row["frame_hex"]),
        )
        for row in rows
    ]


LINES = golden_lines()
GROUPS: dict[str, list[Line]] = defaultdict(list)
for _line in LINES:
    GROUPS[f"{_line.client}-with-{_line.broker}"].append(_line)

by_group = pytest.mark.parametrize("lines", GROUPS.values(), ids=GROUPS.keys())


def kind_of(line: Line) -> type[Header] | None:
    """The header class by the catalogue; None for codes nobody knows."""
    if line.code in UNKNOWN_CODES:
        return None
    if line.role == "answer":
        return answer_header(line.code, decode_command(line.frame).code)
    return REQUEST_HEADERS[RequestCode(line.code)]


@cache
def typed(line: Line) -> Header | None:
    """The typed header of a line, or None where there is none to expect."""
    kind = kind_of(line)
    if kind is None:
        return None
    try:
        return decode_command(line.frame).header(kind)
    except MalformedHeader as error:
        if (line.code, error.field) not in MALFORMED:
            raise
        return None


def raw_fields(line: Line) -> dict[str, str]:
    """Fields as text, read by code that is not under test."""
    _, header, _ = line.frame
    if not line.is_json:
        return raw_binary_fields(header)
    given = json.loads(header).get("extFields") or {}
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in given.items()
        if value is not None and not isinstance(value, dict | list)
    }


def raw_binary_fields(header: bytes) -> dict[str, str]:
    (remark_bytes,) = struct.unpack_from(">i", header, 13)
    at = 13 + 4 + remark_bytes + 4
    texts = []
    while at < len(header):
        for width in (2, 4):
            stop = at + width + int.from_bytes(header[at : at + width], "big")
            texts.append(header[at + width : stop].decode())
            at = stop
    return dict(zip(texts[::2], texts[1::2], strict=True))


def default_texts(kind: type[Header]) -> dict[str, str]:
    """What a typed header says of fields that were missing."""
    fields = msgspec.structs.fields(kind)
    return {
        f.encode_name: json.dumps(f.default)
        for f in fields
        if not f.required and f.default is not None
    }


def same_text(kind: type[Header], name: str, ours: str, theirs: str) -> bool:
    """Equal, but for booleans: those of C++ are 0 and 1, and both are false to Java."""
    [field] = [f for f in msgspec.structs.fields(kind) if f.encode_name == name]
    if bool in (field.type, *getattr(field.type, "__args__", ())):
        return ours == ("true" if theirs.lower() == "true" else "false")
    return ours == theirs


def said_again(line: Line) -> Command:
    """The command once more, from typed values and the extras of its sender."""
    command, header = decode_command(line.frame), typed(line)
    assert header is not None
    theirs = raw_fields(line)
    extras = {name: text for name, text in theirs.items() if name in EXTRAS}
    fields = extras | header_fields(header)
    if not line.is_json:
        fields |= {name: "" for name, text in theirs.items() if text == ""}  # same as absent
        fields = {name: fields[name] for name in binary_order(line, type(header), fields)}
    return replace(command, fields=write_fields(fields))


def binary_order(line: Line, kind: type[Header], names: Iterable[str]) -> list[str]:
    """The order in which a Java peer writes these fields in the binary form."""
    own = [name for name in kind.__struct_encode_fields__ if name in names]
    added = [name for name in names if name not in own]
    if kind in FAST:
        return own + java_map_order(added)
    if decode_command(line.frame).version < version_number("V5_0_0"):
        return java_map_order(added + own)
    first = [name for name in own if name in PUT_FIRST]
    buckets = 16
    if line.is_forwarded:
        buckets = 128  # the map that the broker had read
    elif added or ADDED_ALONE & set(own):
        buckets = 256  # the map made for fields that are added one by one
    return java_map_order(added + first + own, buckets)


def test_there_is_enough_to_learn_from() -> None:
    kinds = {(line.code, line.role) for line in LINES}
    clients = {line.client for line in LINES}

    binary = {(line.code, line.role) for line in LINES if not line.is_json}

    assert len(kinds) >= 40
    assert len(binary) >= 40
    assert clients >= {"java-4.9.8", "java-5.3.3", "go-2.1.2", "node-ali-ons-3.12.0"}


@by_group
def test_every_frame_is_a_command(lines: list[Line]) -> None:
    for line in lines:
        command = decode_command(line.frame)

        assert command.is_answer == (line.role == "answer"), line
        assert line.role == "answer" or command.code == line.code, line
        check_frame_bytes(line.data)


@by_group
def test_every_field_is_known_and_says_what_it_said(lines: list[Line]) -> None:
    for line in lines:
        header = typed(line)
        if header is None:
            continue
        ours, theirs = header_fields(header), raw_fields(line)

        strangers = theirs.keys() - set(header.__struct_encode_fields__) - EXTRAS
        assert not strangers, f"{line}: {strangers}"
        for name in theirs.keys() - EXTRAS:
            if theirs[name] == "" and not line.is_json:
                assert name not in ours, f"{line}: {name}"
            else:
                assert same_text(type(header), name, ours[name], theirs[name]), f"{line}: {name}"


@by_group
def test_a_missing_field_has_its_default(lines: list[Line]) -> None:
    for line in lines:
        header = typed(line)
        if header is None:
            continue
        ours, theirs = header_fields(header), raw_fields(line)

        added = {name: ours[name] for name in ours.keys() - theirs.keys()}
        assert added.items() <= default_texts(type(header)).items(), line


@by_group
def test_the_reader_of_servers_reads_the_same(lines: list[Line]) -> None:
    for line in lines:
        check_reader(line.frame)


@by_group
def test_a_json_frame_can_be_said_again_from_typed_values(lines: list[Line]) -> None:
    """Equal as JSON objects, with all field values as text and what was missing at its default."""
    for line in lines:
        header = typed(line)
        if header is None or not line.is_json:
            continue

        [(_, again, body)] = FrameReader().feed(encode_command(said_again(line)))

        ours, theirs = json.loads(again), json.loads(line.frame[1])
        assert _comparable(ours) == _comparable(theirs), line
        assert body == line.frame[2], line
        assert _fields_agree(type(header), ours, raw_fields(line)), line


@by_group
def test_a_binary_frame_can_be_said_again_to_the_byte(lines: list[Line]) -> None:
    for line in lines:
        if typed(line) is None or line.is_json:
            continue

        assert encode_command(said_again(line), HeaderForm.BINARY) == line.data, line


def test_what_we_cannot_read_no_real_server_could() -> None:
    answers = {
        (line.client, line.broker, line.pair): decode_command(line.frame).code
        for line in LINES
        if line.role == "answer"
    }
    for line in LINES:
        if line.role == "request" and line.code not in UNKNOWN_CODES and typed(line) is None:
            assert answers[line.client, line.broker, line.pair] != 0, line


def _comparable(header: dict[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in header.items() if value is not None}
    return ABSENT_KEYS | {k: v for k, v in given.items() if k not in ("extFields", IGNORED_KEY)}


def _fields_agree(kind: type[Header], header: dict[str, Any], theirs: dict[str, str]) -> bool:
    ours = header.get("extFields", {})
    assert all(isinstance(value, str) for value in ours.values())
    missing = theirs.keys() - ours.keys()
    added = {name: ours[name] for name in ours.keys() - theirs.keys()}
    return (
        not missing
        and added.items() <= default_texts(kind).items()
        and all(
            ours[name] == text if name in EXTRAS else same_text(kind, name, ours[name], text)
            for name, text in theirs.items()
        )
    )
