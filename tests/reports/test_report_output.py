"""The times below a picture are told for every span, without a complaint of matplotlib's."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flintmq.reports.report_output import day_axis, figure_of, time_axis

pytest.importorskip("matplotlib")

START = datetime(2026, 3, 7, 13, 59, tzinfo=UTC)
MINUTE, HOUR, DAY = 60, 3_600, 86_400


@pytest.mark.parametrize(
    ("make_axis", "span_s"),
    [(time_axis, span_s) for span_s in (1, 30, 200, 240, 299, 10 * MINUTE, HOUR, 4 * HOUR)]
    + [(time_axis, days * DAY) for days in (1, 3, 4, 5, 40, 400, 4_000)]
    + [(day_axis, days * DAY) for days in (1, 3, 5, 11, 40, 400)],
)
def test_times_are_told_for_every_span(make_axis: Callable[[Any], None], span_s: int) -> None:
    figure, (axis,) = figure_of(1, 1, (8, 3))
    make_axis(axis)

    axis.plot([START, START + timedelta(seconds=span_s)], [0, 1])
    figure.savefig(io.BytesIO())  # a warning is an error here

    low, high = axis.get_xlim()
    labels = [
        label.get_text()
        for place, label in zip(axis.get_xticks(), axis.get_xticklabels(), strict=True)
        if low <= place <= high
    ]
    assert 1 <= len(labels) <= 12
    assert all(labels)
