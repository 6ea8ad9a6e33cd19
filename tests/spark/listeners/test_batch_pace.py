"""The next micro-batch is as large as fits into the time it is to take."""

from __future__ import annotations

from pathlib import Path

from flintmq.spark.listeners.batch_pace import (
    FIRST,
    GROWTH_MAX,
    BatchPace,
    PaceFile,
    report_pace,
)
from flintmq.spark.source.control_files import ControlFiles


def test_a_steady_listener_is_found_from_below_and_from_above() -> None:
    for per_second in (20, 50_000):
        pace = BatchPace(2_000)
        for _ in range(12):
            pace.ended(pace.size, 80 + pace.size * 1_000 // per_second)
        took_ms = 80 + pace.size * 1_000 / per_second
        assert 1_800 < took_ms <= 2_100, (per_second, pace.size)


def test_one_that_takes_too_long_makes_the_next_smaller_at_once() -> None:
    pace = BatchPace(1_000)
    pace.ended(FIRST, 10_000)
    assert pace.size == FIRST // 10


def test_a_small_one_that_was_quick_says_nothing_and_growth_is_limited() -> None:
    pace = BatchPace(1_000)
    pace.ended(3, 100)
    pace.ended(0, 100)
    assert pace.size == FIRST
    pace.ended(FIRST, 1)
    assert pace.size == FIRST * GROWTH_MAX


def test_there_is_always_one_message() -> None:
    pace = BatchPace(1)
    for _ in range(20):
        pace.ended(pace.size, 60_000)
    assert pace.size == 1


def test_the_report_of_the_program_counts_and_is_waited_for_if_it_took_long(
    tmp_path: Path,
) -> None:
    files, now_ms = ControlFiles(str(tmp_path)), [0]

    def clock() -> int:
        now_ms[0] += 100
        return now_ms[0]

    pace = PaceFile(files, 1_000, clock)
    assert pace.limit(None, 0) == FIRST
    assert pace.limit(10, 0) == 10
    pace.started(FIRST)
    now_ms[0] += 60_000  # the trigger comes once a minute
    report_pace(files, 1, 500, 900.0)
    assert [pace.limit(None, 1) for _ in range(3)] == [FIRST * 2] * 3
    pace.started(FIRST * 2)
    now_ms[0] += 4_000
    assert pace.limit(None, 2) == FIRST * 2, "nobody reports it"
    pace.started(FIRST * 2)
    assert pace.limit(None, 3) == FIRST * 8, "it was quick, whatever the report will say"
    assert PaceFile(files, None).limit(7, 2) == 7


def test_what_spark_needs_itself_is_not_the_time_of_listeners(tmp_path: Path) -> None:
    files = ControlFiles(str(tmp_path))
    pace = PaceFile(files, 1_000)
    pace.started(FIRST)
    report_pace(files, 1, 5_000, 500.0)
    assert pace.limit(None, 1) == FIRST * 2
