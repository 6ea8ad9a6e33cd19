"""A signed send that is like one before passes without being decoded, and only with a right
signature.
"""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.access.known_sends import REFIT_AFTER, KnownSends
from flintmq.access.rules import RuleSet, User
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import request
from flintmq.protocol.frame import Frame, FrameReader
from flintmq.protocol.headers.send import SendMessageV2
from flintmq.protocol.headers.send_cut import CUT_BYTES_MAX, strip_signature
from flintmq.protocol.signature import SigningKey, is_signed_by, sign
from flintmq.protocol.wire import decode_command, encode_command

ALICE = User("alice", "alicepw1")
RULES = RuleSet({"alice": ALICE})


def a_send(
    number: int,
    body: bytes = b"hello",
    topic: str = "orders",
    secret: str = "alicepw1",
    keys: str = "",
) -> Frame:
    header = SendMessageV2(
        producer_group="p",
        topic=topic,
        queue_id=1,
        sys_flag=0,
        born_timestamp=1_700_000_000_000 + number,
        flag=0,
        properties=f"TAGS\x01ü-tag\x02{keys}UNIQ_KEY\x01AB{number:030d}\x02WAIT\x01true\x02",
    )
    command = request(RequestCode.SEND_MESSAGE_V2, header, body, opaque=number + 1)
    (frame,) = FrameReader().feed(encode_command(sign(command, "alice", secret)))
    return frame


def knowing(frame: Frame) -> KnownSends:
    known = KnownSends()
    for _ in range(2):
        assert known.check(frame, RULES) is None
        known.learn(frame, decode_command(frame), ALICE, RULES)
    return known


def test_a_send_like_the_one_before_passes_without_its_signature() -> None:
    known = knowing(a_send(0))

    passed = known.check(a_send(1, b"another body"), RULES)

    assert passed is not None
    header, user = passed
    assert b"Signature" not in header
    assert user is ALICE
    assert _fields(header) == _unsigned_fields(a_send(1))


@pytest.mark.parametrize("keys", ["KEYS\x01order-1\x02", 'KEYS\x01Grüße \\ " \U0001f600\x02', ""])
def test_properties_may_differ_from_send_to_send(keys: str) -> None:
    """Keys are another text in every message; what can be read only as a whole is checked so."""
    known = knowing(a_send(0))
    frame = a_send(1, keys=keys)

    passed = known.check(frame, RULES)

    assert (passed is None) == ('"' in keys)
    assert passed is None or _fields(passed[0]) == _unsigned_fields(frame)


@given(st.text())
def test_a_known_header_has_the_signature_that_the_full_check_computes(keys: str) -> None:
    keys = keys.encode("utf-8", "replace").decode()
    frame = a_send(1, keys=f"KEYS\x01{keys}\x02")
    forged = a_send(1, keys=f"KEYS\x01{keys}\x02", secret="guessed12")
    known = knowing(a_send(0))

    passed = known.check(frame, RULES)

    assert is_signed_by("alicepw1", decode_command(frame).field_texts(), frame[2], 479)
    assert passed is None or _fields(passed[0]) == _unsigned_fields(frame)
    assert passed is not None or b"\\" in frame[1].replace(rb"\u000", b"")
    assert known.check(forged, RULES) is None


def test_sends_pass_whether_their_properties_change_always_or_now_and_then() -> None:
    """What is expected of the next send follows the ones before; no send is refused for it."""
    known = knowing(a_send(0))
    for number in range(1, 4 * REFIT_AFTER):
        keys = f"KEYS\x01k{number if number % 3 else 'same'}\x02"
        frame = a_send(number, keys=keys)

        passed = known.check(frame, RULES)

        assert passed is not None
        assert _fields(passed[0]) == _unsigned_fields(frame)
        assert known.check(a_send(number, keys=keys, secret="guessed12"), RULES) is None


def test_a_long_header_is_never_known() -> None:
    """Known headers are kept; what a connection can make a broker keep has a limit."""
    frame = a_send(0, keys=f"KEYS\x01{'k' * CUT_BYTES_MAX}\x02")
    known = KnownSends()
    for _ in range(3):
        known.learn(frame, decode_command(frame), ALICE, RULES)

        assert known.check(frame, RULES) is None


def test_sends_to_topics_with_names_of_any_length_are_known_side_by_side() -> None:
    known = KnownSends()
    frames = [a_send(number, topic=topic) for number in range(3) for topic in ("orders", "t", "o2")]
    for frame in frames[:6]:
        assert known.check(frame, RULES) is None
        known.learn(frame, decode_command(frame), ALICE, RULES)

    assert [known.check(frame, RULES) is not None for frame in frames[6:]] == [True] * 3


def _fields(header: bytes) -> dict[str, str]:
    return decode_command((0, header, b"")).field_texts()


def _unsigned_fields(frame: Frame) -> dict[str, str]:
    fields = decode_command(frame).field_texts()
    del fields["Signature"]
    return fields


@pytest.mark.parametrize(
    "frame",
    [
        a_send(1, secret="guessed12"),
        a_send(1, topic="others"),
        (a_send(1)[0], a_send(1)[1], b"changed"),
        (a_send(1)[0], a_send(1)[1].replace(b"1700000000001", b"1700000000002"), a_send(1)[2]),
        (a_send(1)[0], a_send(1)[1].replace(b'"Signature":"', b'"Signature":"A'), a_send(1)[2]),
        (a_send(1)[0], strip_signature(a_send(1)[1])[0], a_send(1)[2]),  # type: ignore[index]  # it has one
    ],
)
def test_what_differs_or_is_not_signed_is_left_to_the_full_check(frame: Frame) -> None:
    assert knowing(a_send(0)).check(frame, RULES) is None


def test_other_rules_forget_what_was_known() -> None:
    known = knowing(a_send(0))

    assert known.check(a_send(1), RuleSet({"alice": ALICE})) is None


@given(st.text(), st.binary())
def test_a_signing_key_computes_what_the_standard_library_computes(
    secret: str, content: bytes
) -> None:
    secret = secret.encode("utf-8", "replace").decode()
    expected = hmac.digest(secret.encode(), content, hashlib.sha1)

    assert SigningKey(secret).digest(content) == expected


SIGNATURE = b"e9gtq0+TsbL6NPRCBdUdJS14nvU="


@pytest.mark.parametrize(
    ("header", "rest"),
    [
        (b'{"extFields":{"AccessKey":"k","Signature":"%b","b":"t"}}', b',"b":"t"}}'),
        (b'{"extFields":{"AccessKey":"k","Signature":"%b"}}', b"}}"),
    ],
)
def test_a_signature_is_cut_out_wherever_it_stands(header: bytes, rest: bytes) -> None:
    found = strip_signature(header % SIGNATURE)

    assert found == (b'{"extFields":{"AccessKey":"k"' + rest, SIGNATURE + b'"')


@pytest.mark.parametrize("text", [b"abc", SIGNATURE[:-1], SIGNATURE + b"A", b""])
def test_a_signature_of_another_length_passes_nowhere(text: bytes) -> None:
    form, header, body = a_send(1)
    good = decode_command(a_send(1)).field_texts()["Signature"].encode()

    assert knowing(a_send(0)).check((form, header.replace(good, text), body), RULES) is None
