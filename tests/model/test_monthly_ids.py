"""Ids know the month they are made in, differ, and come without a clock."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.model.host import Host
from flintmq.model.message_id import MonthlyIds, UniqueIds, month_of

HOST = Host.parse("10.0.0.2:10911")
NOW_MS = 1_700_000_000_000


def ids_of(process_id: int, started_ms: int) -> MonthlyIds:
    return MonthlyIds(UniqueIds(HOST.packed, process_id, started_ms))


def test_an_id_starts_with_address_and_process() -> None:
    made = ids_of(1234, NOW_MS).make(NOW_MS)

    assert len(made) == 32
    assert made.startswith("0A00000204D2")


def test_ids_differ_in_one_moment_and_between_starts() -> None:
    ids, later = ids_of(1, NOW_MS), ids_of(1, NOW_MS + 1)

    made = [ids.make(NOW_MS), ids.make(NOW_MS), later.make(NOW_MS)]

    assert len(set(made)) == 3


def test_the_same_calls_give_the_same_ids() -> None:
    assert ids_of(1, NOW_MS).make(NOW_MS) == ids_of(1, NOW_MS).make(NOW_MS)


@settings(deadline=None)
@given(st.integers(0, 4_000_000_000_000))
def test_an_id_tells_how_old_the_month_was(now_ms: int) -> None:
    made = ids_of(1, 0).make(now_ms)

    assert int(made[20:28], 16) == now_ms - month_of(now_ms).start


@settings(deadline=None)
@given(st.integers(0, 4_000_000_000_000))
def test_a_time_lies_in_its_month(now_ms: int) -> None:
    month = month_of(now_ms)

    assert now_ms in month
    assert 27 < len(month) / 86_400_000 < 32  # a change to summer time takes an hour


def test_ids_go_on_when_the_month_ends() -> None:
    stop = month_of(NOW_MS).stop
    ids = ids_of(1, NOW_MS)

    made = [ids.make(ms) for ms in (stop - 1, stop, stop + 1)]

    ages = [int(each[20:28], 16) for each in made]
    assert ages[0] > 27 * 86_400_000
    assert [b - a for a, b in pairwise(ages[1:])] == [1]
    assert ages[1] < 3_600_000 + 1
