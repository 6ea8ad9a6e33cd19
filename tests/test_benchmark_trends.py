"""The soak tells a leak from noise, and growth takes medians of points that took turns."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.growth import Work, medians
from benchmarks.soak import slope, trends


def samples(values: list[float]) -> dict[str, list[dict[str, float]]]:
    """Memory every ten seconds; nothing else moves."""
    rest = {"descriptors": 20.0, "threads": 4.0, "cpu_percent": 1.0}
    rows = [{"at_s": 10.0 * n, "private_mib": each, **rest} for n, each in enumerate(values, 1)]
    return {"broker": rows}


def verdict(values: list[float]) -> str:
    (memory, *_) = trends(samples(values))
    return str(memory["verdict"])


def test_a_slope_is_told_by_the_second() -> None:
    (rows,) = samples([50.0 + 0.1 * n for n in range(30)]).values()

    assert round(slope(rows, "private_mib"), 6) == 0.01


def test_noise_around_a_level_is_flat() -> None:
    chance = Random(1)

    assert verdict([60 + chance.uniform(-0.2, 0.2) for _ in range(60)]) == "flat"


def test_what_grows_in_the_first_half_only_is_flat() -> None:
    assert verdict([min(60.0, 30.0 + n) for n in range(60)]) == "flat"


def test_what_comes_and_goes_is_flat() -> None:
    assert verdict([60.0 + 3.0 * (n % 6 >= 4) for n in range(60)]) == "flat"


def test_a_slow_leak_under_the_noise_grows() -> None:
    chance = Random(1)  # 36 MiB an hour

    values = [60 + 0.1 * n + chance.uniform(-0.5, 0.5) for n in range(60)]

    assert verdict(values) == "**grows**"


def test_descriptors_that_are_left_open_grow() -> None:
    rows = samples([60.0] * 60)
    for number, row in enumerate(rows["broker"]):
        row["descriptors"] += number // 12

    assert [each["verdict"] for each in trends(rows)] == ["flat", "**grows**", "flat"]


def test_only_memory_descriptors_and_threads_have_a_trend() -> None:
    found = trends(samples([60.0] * 10))

    assert [each["what"] for each in found] == [
        "broker: private memory, MiB",
        "broker: open descriptors",
        "broker: threads",
    ]


def test_points_take_turns_and_the_first_turn_does_not_count() -> None:
    calls: list[int] = []

    def work(point: int) -> tuple[float, float]:
        calls.append(point)
        turn = calls.count(point)
        return (1_000.0 if turn == 1 else float(turn)), 10.0 * point

    works: dict[int, dict[str, Work]] = {point: {"send": partial(work, point)} for point in (1, 2)}
    panel = medians("things", "pieces", works, rounds=3)

    assert calls == [1, 2] * 4
    assert panel.lines == {"send": [(1, 3.0, 10.0), (2, 3.0, 20.0)]}
