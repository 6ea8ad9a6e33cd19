"""A stream of bytes is cut into the same frames however it arrives, and never past the cap."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import FrameTooLarge, LocalProtocolError, MalformedFrame
from flintmq.protocol.frame import (
    FRAME_BYTES_MAX,
    HEADER_BYTES_MAX,
    PREFIX_BYTES,
    Frame,
    FrameReader,
    HeaderForm,
    frame_prefix,
    read_prefix,
)
from support.protocol.fuzz_wire import check_frame_bytes
from support.strategies import spoilt_streams

LENGTH_MAX = 16_777_212  # the largest length value, which does not count itself


def framed(header: bytes = b"{}", body: bytes = b"", form: int = 0) -> bytes:
    return announced(4 + len(header) + len(body), len(header), form) + header + body


def announced(length: int, header_bytes: int = 2, form: int = 0) -> bytes:
    """The first eight bytes of a frame, whatever they promise."""
    return length.to_bytes(4, "big", signed=True) + bytes([form]) + header_bytes.to_bytes(3, "big")


THREE = [(0, b"{}", b""), (1, b"\x00" * 21, b"body"), (0, b'{"code":1}', b"\xff" * 300)]
STREAM = b"".join(framed(header, body, form) for form, header, body in THREE)


def test_the_worked_example_of_the_protocol_is_cut_as_described() -> None:
    """A header of 96 bytes and a body of two make 106 bytes in all."""
    header = (
        b'{"code":34,"flag":0,"language":"JAVA","opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON","version":401}'
    )
    data = bytes.fromhex("0000006600000060") + header + b"{}"

    frames = FrameReader().feed(data)

    assert len(data) == 106
    assert frames == [(HeaderForm.JSON, header, b"{}")]


def test_many_frames_of_one_read_come_out_in_order() -> None:
    assert FrameReader().feed(STREAM) == THREE


def test_a_frame_may_arrive_a_byte_at_a_time() -> None:
    reader = FrameReader()

    frames = [frame for at in range(len(STREAM)) for frame in reader.feed(STREAM[at : at + 1])]

    assert frames == THREE
    assert reader.pending_bytes == 0


def test_a_stream_may_be_cut_anywhere() -> None:
    for cut in range(len(STREAM) + 1):
        reader = FrameReader()

        frames = reader.feed(STREAM[:cut]) + reader.feed(STREAM[cut:])

        assert frames == THREE, f"cut at {cut}"


def test_what_is_incomplete_is_held_and_counted() -> None:
    reader = FrameReader()

    reader.feed(framed() + framed()[:-1])

    assert reader.pending_bytes == len(framed()) - 1


def test_an_empty_read_changes_nothing() -> None:
    reader = FrameReader()
    reader.feed(STREAM[:5])

    assert reader.feed(b"") == []
    assert reader.feed(STREAM[5:]) == THREE


def test_the_largest_length_is_accepted() -> None:
    reader = FrameReader()
    body = bytes(LENGTH_MAX - 4 - 2)

    frames = reader.feed(announced(LENGTH_MAX) + b"{}" + body)

    assert frames == [(0, b"{}", body)]


def test_a_length_of_one_more_is_refused_before_anything_is_held() -> None:
    reader = FrameReader()

    with pytest.raises(FrameTooLarge) as caught:
        reader.feed(announced(LENGTH_MAX + 1))

    assert (caught.value.size_bytes, caught.value.limit_bytes) == (16_777_217, 16_777_216)
    assert reader.pending_bytes == 0


def test_four_bytes_are_enough_to_refuse_a_length() -> None:
    reader = FrameReader()
    length = announced(LENGTH_MAX + 1)[:4]
    reader.feed(length[:3])

    with pytest.raises(FrameTooLarge):
        reader.feed(length[3:])
    with pytest.raises(FrameTooLarge):
        FrameReader().feed(length)


@pytest.mark.parametrize("length", [0, 3, -1, -(2**31)])
def test_a_length_that_leaves_no_room_is_refused(length: int) -> None:
    for data in (announced(length, 0), announced(length, 0)[:4]):
        with pytest.raises(MalformedFrame, match="impossible"):
            FrameReader().feed(data)


def test_a_header_longer_than_its_frame_is_refused() -> None:
    with pytest.raises(MalformedFrame, match="does not fit"):
        FrameReader().feed(announced(10, 7))


def test_a_header_that_fills_its_frame_is_accepted() -> None:
    assert FrameReader().feed(announced(6, 2) + b"{}") == [(0, b"{}", b"")]


@pytest.mark.parametrize("form", [2, 0x7F, 0xFF])
def test_an_unknown_header_form_is_refused(form: int) -> None:
    with pytest.raises(MalformedFrame, match=f"form {form} "):
        FrameReader().feed(announced(6, 2, form))


def test_a_fault_after_good_frames_is_found() -> None:
    with pytest.raises(MalformedFrame):
        FrameReader().feed(framed() + announced(0, 0))


def test_the_cap_can_be_lowered_and_holds_to_the_byte() -> None:
    fits = framed(b"{}", bytes(90))

    assert len(FrameReader(len(fits)).feed(fits)) == 1
    with pytest.raises(FrameTooLarge):
        FrameReader(len(fits) - 1).feed(fits)


def test_a_cap_below_a_prefix_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="at least 8"):
        FrameReader(PREFIX_BYTES - 1)


def test_a_prefix_can_be_read_alone() -> None:
    data = framed(b"header", b"body", form=1)

    assert read_prefix(data[:8]) == (HeaderForm.BINARY, 6, 4)
    assert read_prefix(announced(LENGTH_MAX)) == (HeaderForm.JSON, 2, LENGTH_MAX - 6)


@pytest.mark.parametrize(
    ("prefix", "kind"),
    [
        (announced(LENGTH_MAX + 1), FrameTooLarge),
        (announced(0, 0), MalformedFrame),
        (announced(-1, 0), MalformedFrame),
        (announced(10, 7), MalformedFrame),
        (announced(6, 2, form=2), MalformedFrame),
    ],
)
def test_a_prefix_read_alone_is_refused_like_any_other(
    prefix: bytes, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        read_prefix(prefix)


def test_a_frame_is_written_as_it_is_read() -> None:
    data = frame_prefix(HeaderForm.BINARY, b"header", 4) + b"body"

    assert FrameReader().feed(data) == [(HeaderForm.BINARY, b"header", b"body")]


def test_a_frame_over_the_cap_is_not_written() -> None:
    assert frame_prefix(HeaderForm.JSON, b"{}", LENGTH_MAX - 6)
    with pytest.raises(LocalProtocolError, match="16777217 bytes"):
        frame_prefix(HeaderForm.JSON, b"{}", LENGTH_MAX - 5)


def test_a_header_whose_length_needs_more_than_24_bits_is_not_written() -> None:
    cap = 2 * FRAME_BYTES_MAX

    assert frame_prefix(HeaderForm.JSON, bytes(HEADER_BYTES_MAX), 0, cap)
    with pytest.raises(LocalProtocolError):
        frame_prefix(HeaderForm.JSON, bytes(HEADER_BYTES_MAX + 1), 0, cap)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0, 1]), st.binary(), st.binary())), st.data())
def test_frames_survive_any_cutting(frames: list[Frame], data: st.DataObject) -> None:
    stream = b"".join(framed(header, body, form) for form, header, body in frames)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6))
    edges = [0, *sorted(cuts), len(stream)]
    reader = FrameReader()

    out = [frame for start, stop in pairwise(edges) for frame in reader.feed(stream[start:stop])]

    assert out == frames


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_nothing_foreign(data: bytes) -> None:
    check_frame_bytes(data)


@settings(max_examples=300, deadline=None)
@given(spoilt_streams())
def test_spoilt_frames_raise_nothing_foreign(stream: bytes) -> None:
    check_frame_bytes(stream)
