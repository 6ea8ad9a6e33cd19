"""However the bytes of a connection are cut, an inbox gives the frames the reader gives."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import FrameTooLarge, MalformedFrame
from flintmq.net.receive_buffer import READ_BYTES, ReceiveBuffer
from flintmq.protocol.frame import FRAME_BYTES_MAX, Frame, FrameReader, HeaderForm, frame_prefix

SIZES = st.sampled_from([0, 1, 7, 300, READ_BYTES - 20, READ_BYTES, 3 * READ_BYTES + 1])


def written(frame: Frame) -> bytes:
    form, header, body = frame
    return frame_prefix(HeaderForm(form), header, len(body)) + body


class Source:
    """Bytes that arrive in pieces of the given sizes."""

    def __init__(self, data: bytes, cuts: Iterator[int]) -> None:
        self._data = data
        self._at = 0
        self._cuts = cuts
        self.room_bytes = 0

    def recv_into(self, room: memoryview) -> int:
        self.room_bytes = max(self.room_bytes, len(room))
        count = min(next(self._cuts), len(room), len(self._data) - self._at)
        room[:count] = self._data[self._at : self._at + count]
        self._at += count
        return count


@given(
    st.lists(st.tuples(st.sampled_from([0, 1]), SIZES, SIZES), min_size=1, max_size=6),
    st.lists(st.integers(1, 2 * READ_BYTES), min_size=1, max_size=20),
)
@settings(max_examples=60, deadline=None)
def test_frames_come_out_whole_and_in_order(
    shapes: list[tuple[int, int, int]], cuts: list[int]
) -> None:
    frames = [
        (form, bytes([n]) * header_bytes, bytes([255 - n]) * body_bytes)
        for n, (form, header_bytes, body_bytes) in enumerate(shapes)
    ]
    data = b"".join(written(frame) for frame in frames)
    least = len(data) // 1_000  # tiny pieces of large frames would only take time
    source = Source(data, (max(cut, least) for cut in cycle(cuts)))
    inbox = ReceiveBuffer(FRAME_BYTES_MAX)

    found: list[Frame] = []
    while len(found) < len(frames):
        found += inbox.receive(source.recv_into)

    assert found == frames == FrameReader().feed(data)
    assert inbox.pending_bytes == 0
    assert source.room_bytes <= max(READ_BYTES, *(len(written(frame)) for frame in frames))


def test_what_was_read_survives_an_error_of_the_socket() -> None:
    data = written((0, b"{}", b"body"))
    inbox = ReceiveBuffer(FRAME_BYTES_MAX)
    source = Source(data, iter([5, 100]))

    def fail(_room: memoryview) -> int:
        raise TimeoutError

    assert inbox.receive(source.recv_into) == []
    with pytest.raises(TimeoutError):
        inbox.receive(fail)

    assert inbox.pending_bytes == 5
    assert inbox.receive(source.recv_into) == [(0, b"{}", b"body")]


def test_the_end_of_the_stream_is_told() -> None:
    with pytest.raises(EOFError):
        ReceiveBuffer(FRAME_BYTES_MAX).receive(lambda _room: 0)


def test_nothing_is_set_aside_for_a_frame_over_the_cap() -> None:
    inbox = ReceiveBuffer(1_000_000)
    source = Source((1_000_000).to_bytes(4, "big") + bytes(4), iter([8]))

    with pytest.raises(FrameTooLarge):
        inbox.receive(source.recv_into)

    assert len(inbox._buffer) == READ_BYTES


@pytest.mark.parametrize(
    "data", [b"\0\0\0\3\0\0\0\0", b"\0\0\0\x08\x02\0\0\0", b"\0\0\0\x08\0\0\0\x05"]
)
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedFrame):
        ReceiveBuffer(FRAME_BYTES_MAX).receive(Source(data, iter([8])).recv_into)
