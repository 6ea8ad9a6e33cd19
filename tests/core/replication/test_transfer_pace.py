"""A slave is sent so many bytes in a second, and no more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flintmq.core.replication.transfer_pace import SECOND_MS, UNLIMITED, TransferPace


def test_without_a_limit_there_is_always_room() -> None:
    pace = TransferPace(None)

    pace.sent(2**40)

    assert pace.room(0) == UNLIMITED


def test_a_second_has_room_for_the_limit_and_the_next_one_again() -> None:
    pace = TransferPace(100)
    assert pace.room(5_000) == 100
    pace.sent(60)
    assert pace.room(5_500) == 40
    pace.sent(40)

    assert (pace.room(5_999), pace.wait_ms(5_999)) == (0, 1)
    assert pace.room(6_000) == 100


@given(
    limit=st.integers(1, 1_000),
    steps=st.lists(st.tuples(st.integers(0, 700), st.integers(1, 1_000)), max_size=60),
)
def test_no_second_has_more_than_twice_the_limit(limit: int, steps: list[tuple[int, int]]) -> None:
    """Seconds follow each other, so any stretch of one touches two of them at most."""
    pace, now_ms = TransferPace(limit), 0
    sent: list[tuple[int, int]] = []
    for pause_ms, wanted in steps:
        now_ms += pause_ms
        size = min(wanted, pace.room(now_ms))
        if size > 0:
            pace.sent(size)
            sent.append((now_ms, size))
    for began_ms, _ in sent:
        within = (size for at_ms, size in sent if began_ms <= at_ms < began_ms + SECOND_MS)
        assert sum(within) <= 2 * limit
