"""Frames of the HA connection are those of real masters and slaves, however they are cut up."""

from __future__ import annotations

import pytest

from flintmq.errors import MalformedFrame
from flintmq.model.queue import LogOffset
from flintmq.protocol.replication.ha_frames import (
    TRANSFER_BYTES,
    TRANSFER_BYTES_MAX,
    Piece,
    PieceReader,
    ReportReader,
    encode_header,
    encode_report,
)
from support.replication.ha_sessions import RELEASES, ha_session


@pytest.mark.parametrize("connection", [0, 1])
@pytest.mark.parametrize("release", RELEASES)
def test_a_real_masters_stream_is_written_the_same(release: str, connection: int) -> None:
    session = ha_session(release)

    pieces = list(PieceReader().feed(session.from_master[connection]))

    frames = b"".join(encode_header(start, len(octets)) + octets for start, octets in pieces)
    assert frames == session.from_master[connection]
    expected = [
        (line["offset"], line["size"])
        for line in session.timeline
        if line["conn"] == connection and "offset" in line
    ]
    assert [(start, len(octets)) for start, octets in pieces] == expected
    assert all(len(octets) <= TRANSFER_BYTES for _, octets in pieces)


@pytest.mark.parametrize("connection", [0, 1])
@pytest.mark.parametrize("release", RELEASES)
def test_a_real_slaves_reports_are_written_the_same(release: str, connection: int) -> None:
    session = ha_session(release)

    reports = ReportReader().feed(session.from_slave[connection])

    assert b"".join(map(encode_report, reports)) == session.from_slave[connection]
    expected = [
        line["report"]
        for line in session.timeline
        if line["conn"] == connection and "report" in line
    ]
    assert reports == expected


@pytest.mark.parametrize("size", [1, 7, 11, 12, 13, 4096])
def test_a_stream_may_come_in_parts_of_any_size(size: int) -> None:
    session = ha_session("5.3.3")
    stream = session.from_master[0]
    reader = PieceReader()

    pieces = [
        piece for at in range(0, len(stream), size) for piece in reader.feed(stream[at : at + size])
    ]

    heartbeats = [start for start, octets in pieces if not octets]
    whole = session.frames(0)
    assert heartbeats == [start for start, octets in whole if not octets]
    assert b"".join(octets for _, octets in pieces) == b"".join(octets for _, octets in whole)
    end = None
    for start, octets in pieces:
        assert end is None or start == end
        end = start + len(octets)


def test_reports_may_come_in_parts() -> None:
    reader = ReportReader()
    stream = encode_report(LogOffset(1)) + encode_report(LogOffset(2))

    found = [reader.feed(stream[at : at + 3]) for at in range(0, len(stream), 3)]

    assert [each for each in found if each] == [[1], [2]]


def test_a_negative_report_is_refused() -> None:
    with pytest.raises(MalformedFrame, match="negative"):
        ReportReader().feed(b"\xff" * 8)


@pytest.mark.parametrize(
    ("start", "size_bytes"), [(-1, 0), (0, -1), (0, TRANSFER_BYTES_MAX + 1), (-(2**63), 5)]
)
def test_a_header_that_no_master_sends_is_refused(start: int, size_bytes: int) -> None:
    with pytest.raises(MalformedFrame, match="no master sends"):
        list(PieceReader().feed(encode_header(LogOffset(start), size_bytes)))


def test_a_heartbeat_is_a_piece_without_bytes() -> None:
    assert list(PieceReader().feed(encode_header(LogOffset(7), 0))) == [Piece(LogOffset(7), b"")]
