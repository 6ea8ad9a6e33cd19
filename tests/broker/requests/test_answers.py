"""An answer's bytes are a JSON frame that every client reads; a large body is not copied."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.broker.requests.answers import JOINED_BYTES_MAX, encode_answer
from flintmq.broker.requests.outcome import Answer
from flintmq.protocol.fields import write_header
from flintmq.protocol.frame import FRAME_BYTES_MAX, FrameReader, HeaderForm
from flintmq.protocol.headers.offset import OffsetAnswer
from flintmq.protocol.wire import decode_command


@settings(max_examples=100, deadline=None)
@given(
    code=st.integers(-(2**31), 2**31 - 1),
    opaque=st.integers(-(2**31), 2**31 - 1),
    remark=st.none() | st.text(max_size=50),
    offset=st.none() | st.integers(-(2**63), 2**63 - 1),
    body=st.binary(max_size=100),
    cut=st.integers(0, 100),
    is_raw=st.booleans(),
)
def test_every_answer_is_read_back_as_it_was_given(
    code: int,
    opaque: int,
    remark: str | None,
    offset: int | None,
    body: bytes,
    cut: int,
    is_raw: bool,
) -> None:
    header = None if offset is None else OffsetAnswer(offset=offset)
    views = [memoryview(body[:cut]), memoryview(body[cut:])]
    given_header = write_header(header) if header and is_raw else header

    whole = b"".join(encode_answer(opaque, Answer(code, given_header, body, remark)))
    pieces = b"".join(encode_answer(opaque, Answer(code, given_header, views, remark)))

    assert pieces == whole
    (frame,) = FrameReader().feed(whole)
    command = decode_command(frame)
    assert frame[0] == HeaderForm.JSON
    assert (command.code, command.opaque, command.flag, command.body) == (code, opaque, 1, body)
    assert command.remark == remark
    if header is not None:
        assert command.header(OffsetAnswer) == header


def test_a_remark_with_half_a_character_is_still_sent() -> None:
    (data,) = encode_answer(1, Answer(1, remark="topic \udc80"))

    (frame,) = FrameReader().feed(bytes(data))
    assert decode_command(frame).remark == "topic ?"


def test_large_views_are_passed_on_and_not_copied() -> None:
    views = [memoryview(bytes(JOINED_BYTES_MAX)), memoryview(b"record")]

    chunks = encode_answer(1, Answer(body=views))

    assert chunks[1] is views[0]
    assert chunks[2] is views[1]


def test_small_views_leave_in_one_piece() -> None:
    views = [memoryview(b"record")] * 3

    (whole,) = encode_answer(1, Answer(body=views))

    assert bytes(whole).endswith(b"record" * 3)


def test_an_answer_too_large_for_a_frame_says_so_instead() -> None:
    body = bytes(FRAME_BYTES_MAX)

    data = b"".join(encode_answer(7, Answer(body=body)))

    (frame,) = FrameReader().feed(data)
    command = decode_command(frame)
    assert (command.code, command.opaque) == (1, 7)
    assert "over the limit" in (command.remark or "")
