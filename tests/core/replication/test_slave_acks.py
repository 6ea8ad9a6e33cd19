"""What counts as stored by slaves: what connected slaves reported, each slave once."""

from __future__ import annotations

from flintmq.core.replication.slave_acks import (
    FALL_BEHIND_BYTES_MAX,
    REFUSALS_MAX,
    ConnectedSlave,
    SlaveAcks,
)
from flintmq.model.queue import LogOffset


def slave(host: str, acked_to: int | None) -> ConnectedSlave:
    made = ConnectedSlave(f"{host}:40000", host, 0)
    if acked_to is not None:
        made.acked_to = LogOffset(acked_to)
        made.reported_ms = 1
    return made


def test_without_slaves_nothing_is_stored() -> None:
    assert SlaveAcks().stored_to(1) == 0
    assert SlaveAcks().near_count(LogOffset(5)) == 0


def test_as_many_slaves_as_are_needed_count() -> None:
    acks = SlaveAcks()
    acks.slaves += [slave("a", 10), slave("b", 30), slave("c", 20)]

    assert [acks.stored_to(needed) for needed in (1, 2, 3, 4)] == [30, 20, 10, 0]


def test_two_connections_of_one_slave_count_once() -> None:
    acks = SlaveAcks()
    acks.slaves += [slave("a", 10), slave("a", 30)]

    assert acks.stored_to(1) == 30
    assert acks.stored_to(2) == 0


def test_an_address_with_two_slaves_counts_twice() -> None:
    acks = SlaveAcks(lambda _host: 2)
    acks.slaves += [slave("a", 10), slave("a", 30), slave("a", 40)]

    assert acks.stored_to(2) == 30
    assert acks.stored_to(3) == 0


def test_a_slave_that_has_not_reported_does_not_count() -> None:
    acks = SlaveAcks()
    acks.slaves.append(slave("a", None))

    assert acks.near_count(LogOffset(0)) == 0


def test_a_slave_that_left_has_stored_nothing() -> None:
    acks = SlaveAcks()
    acks.slaves.append(slave("a", 10))
    assert acks.stored_to(1) == 10

    acks.slaves.clear()

    assert acks.stored_to(1) == 0


def test_a_slave_far_behind_is_not_near() -> None:
    acks = SlaveAcks()
    acks.slaves.append(slave("a", 10))

    assert acks.near_count(LogOffset(10 + FALL_BEHIND_BYTES_MAX - 1)) == 1
    assert acks.near_count(LogOffset(10 + FALL_BEHIND_BYTES_MAX)) == 0


def test_the_last_refusals_are_remembered() -> None:
    acks = SlaveAcks()

    for number in range(REFUSALS_MAX + 3):
        acks.refused(f"a:{number}", "no")

    assert list(acks.refusals) == [f"a:{number}" for number in range(3, REFUSALS_MAX + 3)]
