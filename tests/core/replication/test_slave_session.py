"""A slave takes only what continues its log, and finds out when its master's log is another."""

from __future__ import annotations

import pytest

from flintmq.core.replication.slave_session import SlaveSession
from flintmq.errors import LogMismatch
from flintmq.model.queue import LogOffset
from flintmq.protocol.replication.ha_frames import Piece

END = LogOffset(1_000)
TAIL = bytes(range(100))


def piece(start: int, octets: bytes = b"") -> Piece:
    return Piece(LogOffset(start), octets)


def session() -> SlaveSession:
    return SlaveSession(END, TAIL)


def test_it_asks_for_its_last_bytes_again_and_takes_what_is_behind() -> None:
    slave = session()

    assert slave.report(END) == 900
    assert slave.receive(piece(900, TAIL[:60])) == b""
    assert slave.report(END) == 960
    assert slave.receive(piece(960, TAIL[60:] + b"new")) == b"new"
    assert slave.report(END) == 1_000
    assert slave.receive(piece(1_003, b"er")) == b"er"
    assert slave.report(LogOffset(1_005)) == 1_005


def test_an_empty_slave_reports_0_and_begins_where_the_master_does() -> None:
    slave = SlaveSession(LogOffset(0), b"")

    assert slave.report(LogOffset(0)) == 0
    assert slave.receive(piece(131_072)) == b""
    assert slave.position == 131_072
    assert slave.receive(piece(131_072, b"abc")) == b"abc"


def test_a_slave_whose_whole_log_is_compared_does_not_report_0() -> None:
    slave = SlaveSession(LogOffset(4), b"abcd")

    assert slave.report(LogOffset(4)) == 1
    assert slave.receive(piece(1, b"bcde")) == b"e"


@pytest.mark.parametrize("at", [0, 1, 50, 99])
def test_other_bytes_are_found_and_named(at: int) -> None:
    theirs = bytearray(TAIL + b"new")
    theirs[at] ^= 1

    with pytest.raises(LogMismatch, match="diverged") as caught:
        session().receive(piece(900, bytes(theirs)))

    assert caught.value.position == 900 + at


def test_a_master_that_sends_from_elsewhere_is_refused() -> None:
    with pytest.raises(LogMismatch, match="900 is what follows"):
        session().receive(piece(901, TAIL))


def test_a_gap_in_what_follows_is_refused() -> None:
    slave = session()
    slave.receive(piece(900, TAIL))

    with pytest.raises(LogMismatch, match="1000 is what follows"):
        slave.receive(piece(1_001, b"x"))


def test_one_heartbeat_before_the_data_is_what_4_9_sends() -> None:
    slave = session()

    assert slave.receive(piece(900)) == b""
    assert slave.receive(piece(900, TAIL + b"n")) == b"n"


def test_a_second_heartbeat_without_data_says_that_the_master_has_nothing_there() -> None:
    slave = session()
    slave.receive(piece(900, TAIL[:10]))
    slave.receive(piece(910))

    with pytest.raises(LogMismatch, match="shorter, or retention has removed") as caught:
        slave.receive(piece(910))

    assert caught.value.position == 910


def test_heartbeats_of_a_master_that_has_nothing_new_are_fine() -> None:
    slave = session()
    slave.receive(piece(900, TAIL))

    for _ in range(5):
        assert slave.receive(piece(1_000)) == b""
