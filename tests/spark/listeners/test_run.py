"""An app runs on Spark as on threads: each message once per attempt, retries, order, no lag."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import DataFrame, SparkSession

import flintmq.spark
from flintmq.client.admin import Admin
from flintmq.core.group.app import App
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import InvalidSetting, WrongState
from flintmq.net.clock import wall_ms
from flintmq.spark.listeners.batch_checks import check_lease
from flintmq.spark.listeners.listener_run import Run
from flintmq.spark.source import control_files as names
from flintmq.spark.source.control_files import ControlFiles
from support.spark.support import PATIENCE_S, create_topic, lag, send, wait_for


def numbered(start: int, stop: int) -> list[str]:
    return [f"{number:04}" for number in range(start, stop)]


def app_of(servers: EmbeddedBroker, name: str, **settings: Any) -> App:
    return App(name, namesrv=servers.namesrv, start_from="first", **settings)


class Diary:
    """What listeners wrote down: they run in other processes."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def write(self, *words: object) -> None:
        with open(self.path, "a") as file:  # noqa: PTH123  # it travels, and a text is enough
            file.write(" ".join(map(str, words)) + "\n")

    @property
    def lines(self) -> list[str]:
        path = Path(self.path)
        return path.read_text().splitlines() if path.exists() else []


class Rows:
    """A sink that remembers rows in this process, and looks at each batch more than once."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def __call__(self, frame: DataFrame, _batch_id: int) -> None:
        rows = frame.collect()
        assert frame.count() == len(rows)
        self.rows += rows

    @property
    def outcomes(self) -> list[str]:
        return [row.outcome for row in self.rows]


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    return Diary(tmp_path / "diary")


def until_end(run: Run) -> None:
    assert run.await_termination(PATIENCE_S), "the run did not end"


def test_two_looks_at_a_batch_run_each_listener_once_and_the_group_has_no_lag(
    spark: SparkSession, broker: EmbeddedBroker, diary: Diary, tmp_path: Path
) -> None:
    create_topic(broker, "run-once", 4)
    send(broker, "run-once", numbered(0, 100), queue_id=None)
    app = app_of(broker, "run-once")

    @app.listener("run-once", batch_max=8)
    def note(messages: Any) -> None:
        for message in messages:
            diary.write(message.body.decode())

    sink, picture = Rows(), tmp_path / "run.png"
    run = flintmq.spark.run(
        app,
        spark,
        sink=[sink, {"format": "json", "path": str(tmp_path / "rows")}],
        available_now=True,
        plot=str(picture),
    )
    until_end(run)

    assert sorted(diary.lines) == numbered(0, 100)
    assert sink.outcomes == ["consumed"] * 100
    assert spark.read.json(str(tmp_path / "rows")).count() == 100
    assert lag(broker, "run-once") == 0
    assert run.status().messages == 100
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_message_that_fails_comes_again_and_ends_as_a_dead_letter(
    spark: SparkSession,
    own_broker: EmbeddedBroker,
    diary: Diary,
    caplog: pytest.LogCaptureFixture,
) -> None:
    create_topic(own_broker, "run-poison", 2)
    send(own_broker, "run-poison", ["good", "bad"])
    app = app_of(own_broker, "run-poison", retry_max=1)

    @app.listener("run-poison")
    def judge(messages: Any) -> None:
        diary.write(messages[0].body.decode(), messages[0].reconsume_times)
        if messages[0].body == b"bad":
            raise ValueError("bad as ever")

    sink = Rows()
    with flintmq.spark.run(app, spark, sink=sink) as run:
        wait_for(lambda: len(sink.rows) == 2 or not run.query.isActive)
        own_broker.advance(60)
        wait_for(lambda: len(sink.rows) == 3 or not run.query.isActive)
        assert run.client_id is not None

    assert sorted(diary.lines[:2]) == ["bad 0", "good 0"], "they may be in two queues"
    assert diary.lines[2:] == ["bad 1"]
    assert Counter(sink.outcomes) == {"consumed": 1, "sent back": 1, "dead": 1}
    assert sink.rows[-1].queue_topic == "%RETRY%run-poison"
    assert sink.rows[-1].error == "ValueError: bad as ever"
    assert lag(own_broker, "run-poison") == 0
    with Admin(namesrv=own_broker.namesrv) as admin:
        assert [each.count for each in admin.topic_stats("%DLQ%run-poison")] == [1]
        assert admin.members("run-poison") is None, "the query has left its group"
    told = "\n".join(caplog.handler.format(each) for each in caplog.records)
    assert "judge of group 'run-poison' failed: ValueError('bad as ever')" in told
    assert "redelivered in 10 s, try 2 of 2" in told
    assert told.count('raise ValueError("bad as ever")') == 1, "the traceback comes once"
    assert "is a dead letter of group 'run-poison'" in told
    assert "report" not in sink.rows[0], "that is between task and driver"


def test_messages_of_a_queue_are_consumed_in_order_and_tried_in_place(
    spark: SparkSession, broker: EmbeddedBroker, diary: Diary
) -> None:
    create_topic(broker, "run-order", 2)
    for queue_id in (0, 1):
        send(broker, "run-order", numbered(10 * queue_id, 10 * queue_id + 5), queue_id=queue_id)
    app = app_of(broker, "run-order", ordered=True, ordered_suspend_ms=10)

    @app.listener("run-order")
    def note(messages: Any) -> None:
        (message,) = messages
        diary.write(message.queue_id, message.body.decode(), message.reconsume_times)
        if message.body == b"0002" and message.reconsume_times < 2:
            raise ValueError("not yet")

    until_end(flintmq.spark.run(app, spark, available_now=True))

    first = [line.split()[1:] for line in diary.lines if line.startswith("0 ")]
    second = [line.split()[1] for line in diary.lines if line.startswith("1 ")]
    assert [body for body, _ in first] == ["0000", "0001", "0002", "0002", "0002", "0003", "0004"]
    assert [times for body, times in first if body == "0002"] == ["0", "1", "2"]
    assert second == numbered(10, 15)
    assert lag(broker, "run-order") == 0


def test_a_restart_goes_on_where_the_last_batch_ended_with_each_outcome_once(
    spark: SparkSession, broker: EmbeddedBroker, checkpoint: str, tmp_path: Path
) -> None:
    create_topic(broker, "run-again", 2)
    app = app_of(broker, "run-again")
    app.listener("run-again", batch_max=4)(_nothing)
    files = str(tmp_path / "outcomes")

    for start in (0, 10):
        send(broker, "run-again", numbered(start, start + 10), queue_id=None)
        run = flintmq.spark.run(
            app,
            spark,
            sink={"format": "parquet", "path": files},
            checkpoint=checkpoint,
            available_now=True,
            messages_max=6,
        )
        until_end(run)

    rows = spark.read.parquet(files).select("queue_id", "queue_offset", "outcome").collect()
    assert sorted((row.queue_id, row.queue_offset) for row in rows) == [
        (queue_id, offset) for queue_id in (0, 1) for offset in range(10)
    ]
    assert lag(broker, "run-again") == 0


def _nothing(_messages: object) -> None:
    """Consume."""


@pytest.mark.heavy
@pytest.mark.timeout(300)
def test_a_batch_whose_driver_stood_still_is_not_committed(
    spark: SparkSession, broker: EmbeddedBroker, diary: Diary
) -> None:
    create_topic(broker, "run-paused")
    send(broker, "run-paused", ["one"])
    app = app_of(broker, "run-paused", ordered=True)

    @app.listener("run-paused")
    def slow(messages: Any) -> None:
        import time

        diary.write(messages[0].body.decode())
        time.sleep(40)

    run = flintmq.spark.run(app, spark)
    wait_for(lambda: diary.lines)
    process = int(str(run.client_id).split("@")[1].split("#")[0])
    os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(Exception, match="not renewed in time"):
            run.query.awaitTermination(200)
    finally:
        os.kill(process, signal.SIGCONT)
    run.stop()

    assert diary.lines == ["one"]
    assert lag(broker, "run-paused") in (None, 1)


# Without Spark


def test_a_stop_between_two_triggers_does_not_wait_for_the_next(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    create_topic(broker, "run-hourly")
    send(broker, "run-hourly", numbered(0, 5))
    app = app_of(broker, "run-hourly")

    @app.listener("run-hourly")
    def consume(messages: Any) -> None: ...

    run = flintmq.spark.run(app, spark, trigger="1 hour")
    wait_for(lambda: run.status().messages == 5)

    assert run.stop(timeout_s=20), "no micro-batch runs"
    assert lag(broker, "run-hourly") == 0


def test_what_cannot_run_is_refused_before_anything_starts(broker: EmbeddedBroker) -> None:
    session = Mock(spec=SparkSession)
    session.sparkContext.getConf().get.return_value = "true"
    ordered = app_of(broker, "refused", ordered=True)
    ordered.listener("t")(_nothing)
    spoken = app_of(broker, "refused", model="broadcasting")
    spoken.listener("t")(_nothing)
    traced = app_of(broker, "refused", trace=True)
    traced.listener("t")(_nothing)

    with pytest.raises(InvalidSetting, match=r"spark\.speculation"):
        flintmq.spark.run(ordered, session)
    with pytest.raises(InvalidSetting, match="checkpoint"):
        flintmq.spark.run(spoken, session)
    with pytest.raises(InvalidSetting, match="trace"):
        flintmq.spark.run(traced, session)
    with pytest.raises(InvalidSetting, match="no listeners"):
        flintmq.spark.run(app_of(broker, "refused"), session)
    with pytest.raises(InvalidSetting, match="sink"):
        flintmq.spark.run(spoken, session, sink="everywhere")
    with pytest.raises(InvalidSetting, match="names no format"):
        flintmq.spark.run(spoken, session, sink={"path": "p"})
    with pytest.raises(InvalidSetting, match="not both"):
        flintmq.spark.run(spoken, session, checkpoint="c", trigger="1 second", available_now=True)
    with pytest.raises(InvalidSetting, match="Spark Connect"):
        flintmq.spark.run(spoken, Mock(), checkpoint="c", sink="console")


def test_a_listener_that_cannot_travel_is_refused_by_its_name(broker: EmbeddedBroker) -> None:
    from flintmq.spark.tasks.packed_app import pack, read_program

    app = app_of(broker, "refused")
    lock = threading.Lock()

    @app.listener("t")
    def holds_a_lock(messages: object) -> None:
        lock.acquire()

    with pytest.raises(InvalidSetting, match=r"holds_a_lock.*cannot be sent to executors"):
        pack(read_program(app))


def test_a_batch_is_committed_only_while_its_locks_hold(tmp_path: Path) -> None:
    files = ControlFiles(str(tmp_path))
    check_lease(files)

    for until_ms in (None, wall_ms() + 60_000):
        files.write(names.LEASE, {"until_ms": until_ms, "broken": []})
        check_lease(files)
    files.write(names.LEASE, {"until_ms": wall_ms() - 1, "broken": []})
    with pytest.raises(WrongState, match="not renewed in time"):
        check_lease(files)
    files.write(names.LEASE, {"until_ms": None, "broken": ["t/b/0"]})
    with pytest.raises(WrongState, match="the lock of t/b/0 is lost"):
        check_lease(files)
