"""Rates, lag and the time that is left are what Spark's own progress says, for people and plots."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from flintmq.errors import InvalidSetting
from flintmq.model.queue import QueueOffset, QueueRef, Span
from flintmq.reports.report_output import require_plots
from flintmq.spark.listeners.progress import (
    Figures,
    LiveLine,
    log_batch,
    plot,
    progress_text,
    read_figures,
)
from flintmq.spark.source.stream_offset import StreamOffset

QUEUE = QueueRef("orders", "broker-a", 0)


def progress(
    batch_id: int, messages: int, stop: int, reaches: int, spent_ms: int = 500
) -> dict[str, Any]:
    """What Spark tells of one batch."""
    return {
        "batchId": batch_id,
        "timestamp": f"2026-11-16T07:00:{batch_id:02}.000Z",
        "numInputRows": messages,
        "durationMs": {"triggerExecution": spent_ms},
        "sources": [
            {
                "endOffset": json.dumps(offset(stop)),
                "latestOffset": json.dumps(offset(reaches)),
            }
        ],
    }


def offset(stop: int) -> dict[str, Any]:
    return StreamOffset((Span(QUEUE, QueueOffset(0), QueueOffset(stop)),)).to_json()


def test_figures_add_up_over_batches_and_each_batch_counts_once() -> None:
    figures = Figures()

    assert len(figures.add([progress(0, 100, 100, 400)])) == 1
    (new,) = figures.add([progress(0, 100, 100, 400), progress(1, 200, 300, 400)])

    assert new.batch_id == 1
    assert (figures.batches, figures.messages, figures.lag) == (2, 300, 100)
    assert figures.per_second == 300
    assert figures.left_s == pytest.approx(1 / 3)
    assert figures.end == offset(300)


def test_an_idle_query_tells_its_lag_and_makes_no_batch() -> None:
    figures = Figures()

    assert figures.add([progress(0, 0, 5, 5)]) == []

    assert (figures.batches, figures.lag, figures.left_s) == (0, 0, None)


def test_progress_of_something_else_is_no_figure() -> None:
    assert read_figures({"sources": []}) is None
    assert read_figures({"sources": [{"endOffset": None}]}) is None


def test_the_line_says_rate_lag_and_time_left(caplog: pytest.LogCaptureFixture) -> None:
    figures = Figures()
    batches = figures.add([progress(0, 1_000, 1_000, 121_000)])
    with caplog.at_level(logging.INFO):
        log_batch("billing", batches[0])

    text = progress_text("billing", figures)

    assert text == "billing  1 batches  1,000 messages  2,000/s  lag 120,000  1 min 0 s left"
    assert "batch 0, 1000 messages in 500 ms, 2000 a second, lag 120000" in caplog.text


def test_bad_records_are_counted_where_there_are_some(caplog: pytest.LogCaptureFixture) -> None:
    figures = Figures()
    counted = [{"flintmq": {"bad_records": count}} for count in (2, 0, 3)]
    batches = figures.add(
        progress(n, 10, 10 * (n + 1), 30) | {"observedMetrics": told}
        for n, told in enumerate(counted)
    )
    with caplog.at_level(logging.INFO):
        for batch in batches:
            log_batch("billing", batch)

    assert figures.bad_records == 5
    assert "30 messages  20/s  5 bad records  lag 0" in progress_text("billing", figures)
    assert [text.partition("lag ")[2] for text in caplog.messages] == [
        "20, 2 bad records",
        "10",
        "0, 3 bad records",
    ]


def test_the_line_is_drawn_on_a_terminal_only() -> None:
    figures = Figures()
    figures.add([progress(0, 10, 10, 10)])
    drawn, silent = io.StringIO(), io.StringIO()

    for file, is_terminal in ((drawn, True), (silent, False)):
        console = Console(file=file, force_terminal=is_terminal, width=100)
        with LiveLine("billing", console) as line:
            line.show(figures)

    assert "10 messages" in drawn.getvalue()
    assert silent.getvalue() == ""


def test_a_plot_is_a_picture(tmp_path: Path) -> None:
    figures = Figures()
    figures.add([progress(n, 100, 100 * n, 1_000) for n in range(5)])
    path = tmp_path / "run.png"

    plot(list(figures.points), str(path), "billing")
    plot([], str(tmp_path / "empty.png"), "nothing")

    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_plot_that_cannot_be_made_is_told_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidSetting, match="there is no directory"):
        require_plots(str(tmp_path / "nowhere" / "run.png"))

    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(InvalidSetting, match="pip install matplotlib"):
        require_plots(str(tmp_path / "run.png"))
