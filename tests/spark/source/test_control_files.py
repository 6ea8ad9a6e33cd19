"""A source learns that a micro-batch is finished from the program that started the query."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryProgressEvent

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.spark.source.batch_end_listener import BatchEndListener
from flintmq.spark.source.control_files import (
    DIRECTORY,
    FINISHED,
    ControlFiles,
    FinishedBatches,
)
from support.spark.support import Sink, create_topic, lag, read_stream, send, start, wait_for


@pytest.fixture
def finished() -> Iterator[tuple[FinishedBatches, list[dict[str, Any]]]]:
    taken: list[dict[str, Any]] = []
    batches = FinishedBatches(taken.append)
    yield batches, taken
    batches.close()
    assert not Path(batches.directory).exists()


def progress(*sources: dict[str, str | None]) -> QueryProgressEvent:
    found = [SimpleNamespace(**each) for each in sources]
    return cast("QueryProgressEvent", SimpleNamespace(progress=SimpleNamespace(sources=found)))


def test_the_end_of_a_batch_reaches_the_source(
    finished: tuple[FinishedBatches, list[dict[str, Any]]], tmp_path: Path
) -> None:
    batches, taken = finished
    reported = json.dumps({"v": 1, DIRECTORY: batches.directory})
    ours = {"latestOffset": reported, "endOffset": '{"v": 1}'}
    others: list[dict[str, str | None]] = [
        {"latestOffset": None, "endOffset": "7"},
        {"latestOffset": f'"{DIRECTORY}"', "endOffset": "7"},
        {"latestOffset": json.dumps({DIRECTORY: 3}), "endOffset": "7"},
        {"latestOffset": DIRECTORY, "endOffset": "7"},
        {"latestOffset": json.dumps({DIRECTORY: "/nowhere/at/flintmq-source-x"}), "endOffset": "7"},
        {"latestOffset": json.dumps({DIRECTORY: str(tmp_path)}), "endOffset": "7"},
        {"latestOffset": reported, "endOffset": "no JSON"},
    ]

    BatchEndListener().onQueryProgress(progress(*others, {**ours}))

    wait_for(lambda: taken)
    assert taken == [{"v": 1}]
    assert not list(tmp_path.iterdir()), "a directory that no source process of ours made"


def test_a_file_that_cannot_be_read_is_logged_and_the_next_one_is_taken(
    finished: tuple[FinishedBatches, list[dict[str, Any]]], caplog: pytest.LogCaptureFixture
) -> None:
    batches, taken = finished
    with caplog.at_level(logging.WARNING):
        Path(batches.directory, FINISHED).write_text("{", encoding="utf-8")
        wait_for(lambda: "was not understood" in caplog.text)
    ControlFiles(batches.directory).write(FINISHED, {"a": 1})

    wait_for(lambda: taken)
    assert taken == [{"a": 1}]


def test_each_finished_batch_is_read_once(
    tmp_path: Path,
) -> None:
    source, program = ControlFiles(str(tmp_path)), ControlFiles(str(tmp_path))
    assert source.newly_finished() is None
    program.write(FINISHED, {"n": 1})
    assert source.newly_finished() == {"n": 1}
    assert source.newly_finished() is None
    program.write(FINISHED, {"n": 2})
    assert source.newly_finished() == {"n": 2}


def test_only_the_user_can_use_the_directory_of_a_source(
    finished: tuple[FinishedBatches, list[dict[str, Any]]],
) -> None:
    assert Path(finished[0].directory).stat().st_mode & 0o077 == 0


def test_a_source_process_ignores_sigterm_and_collects_seldom_and_no_other_does() -> None:
    script = (
        "import gc, signal, sys; from types import SimpleNamespace as S;"
        "from flintmq.spark.source.control_files import SOURCE_MODULE, become_source_process;"
        "become_source_process(); print(signal.getsignal(signal.SIGTERM).name);"
        "sys.modules['__main__'].__spec__ = S(name=SOURCE_MODULE);"
        "print(gc.get_threshold()[0] > 10_000); become_source_process();"
        "print(signal.getsignal(signal.SIGTERM).name, gc.get_threshold()[0] > 10_000)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["SIG_DFL", "False", "SIG_IGN", "True"]


@pytest.mark.parametrize("is_stopped_at_once", [False, True])
def test_the_group_knows_of_a_batch_whose_query_has_no_further_trigger(
    spark: SparkSession, broker: EmbeddedBroker, checkpoint: str, is_stopped_at_once: bool
) -> None:
    topic = create_topic(broker, f"hourly{is_stopped_at_once}")
    send(broker, topic, ["one", "two"])
    frame = read_stream(
        spark, broker, subscribe=topic, startingOffsets="earliest", consumerGroup=topic
    )
    sink = Sink()

    query = start(frame, checkpoint, sink, processingTime="1 hour")
    try:
        sink.wait_for(2)
        wait_for(lambda: query.lastProgress is not None)
        if not is_stopped_at_once:
            wait_for(lambda: lag(broker, topic) == 0)
    finally:
        query.stop()

    wait_for(lambda: lag(broker, topic) == 0)
