"""Every request code with fields that are missing, wrong, huge, or made to be logged.

Finding 14 (newline, escape and NUL of peers in the log) is judged by `Victim.check_log` after
every attack; the names here are made for it.  Finding 25 (remarks with absolute paths) is here.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from support.attack.arena import Arena
from support.attack.peers import CUT, asked, flood, frame

FORGED = "a\n2026-01-01 00:00:00,000 ERROR forged\x1b[2J\x1b]0;owned\x07\x00\r\x7f\x9b31m"
TEXTS = ("", "abc", "9" * 100_000, "-9223372036854775808", "2147483648", FORGED, "x" * 70_000)
BODIES = (
    b"{}",
    b"null",
    b"\xff\x00\xfe",
    b"[" * 5_000,
    b'{"a":' * 5_000,
    b"x" * 300_000,
    b'{"groupName":"\\n\\u001b[2J","clientID":"\\u0000\\n","topicConfigList":[{"topicName":"\\n"}]}',
    b'{"consumerGroup":"\\n\\u001b[2J","clientId":"\\u0007\\n","mqSet":[]}',
)


def names_of(code: RequestCode) -> list[str]:
    kind = REQUEST_HEADERS.get(code)
    if kind is None:
        return ["topic", "group"]
    return [field.encode_name for field in msgspec.structs.fields(kind)]


def plain(code: RequestCode) -> dict[str, str]:
    """Fields that can be read; ``1`` is a number, a text and no truth."""
    return dict.fromkeys(names_of(code), "1")


def requests(code: RequestCode) -> Iterator[tuple[dict[str, str], bytes]]:
    right = plain(code)
    yield {}, b""
    yield right, b""
    for name in right:
        yield {each: text for each, text in right.items() if each != name}, b""
        for text in TEXTS:
            yield {**right, name: text}, b""
    yield dict.fromkeys(right, FORGED), b""
    for body in BODIES:
        yield right, body


@pytest.mark.parametrize("where", ["broker", "namesrv"])
def test_every_code_is_answered_whatever_it_carries(arena: Arena, where: str) -> None:
    address = getattr(arena, where)
    with arena.attack(f"codes: all {len(RequestCode)} of them, {where}", cpu_s=60, grow_mb=200):
        for code in RequestCode:
            frames = [
                frame(code, fields, body, opaque=number)
                for number, (fields, body) in enumerate(requests(code))
            ]
            answers = flood(address, frames, limit_s=20)
            assert CUT not in answers, (code, answers)


def test_no_answer_tells_where_files_are(arena: Arena) -> None:
    told = asked(arena.broker, RequestCode.VIEW_MESSAGE_BY_ID, {"msgId": "0" * 32})
    assert str(arena.victim.data) not in told.remark
