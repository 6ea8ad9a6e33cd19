"""A session of ours has settings that fit, and what the user says is kept."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Self

import pytest
from pyspark.sql import SparkSession

from flintmq.spark import session
from flintmq.spark.session import (
    CHECKPOINT_FILES,
    PUSHDOWN,
    SHUFFLE_PARTITIONS,
    is_local,
    settings_for,
    spark_session,
)

PYTHONS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


class Recorder:
    """Takes what a builder is told."""

    def __init__(self) -> None:
        self.conf: dict[str, str] = {}
        self.told: list[tuple[str, str]] = []

    def appName(self, name: str) -> Self:  # noqa: N802  # Spark's name
        self.told.append(("appName", name))
        return self

    def master(self, master: str) -> Self:
        self.told.append(("master", master))
        return self

    def remote(self, url: str) -> Self:
        self.told.append(("remote", url))
        return self

    def config(self, name: str, value: str) -> Self:
        self.conf[name] = value
        return self

    def getOrCreate(self) -> str:  # noqa: N802  # Spark's name
        return "a session"


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(SparkSession, "builder", recorder)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(session, "use_java", lambda: None)
    for name in (*PYTHONS, "PYSPARK_GATEWAY_PORT", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return recorder


def made(*args: str, **conf: Any) -> Any:
    return spark_session(*args, **conf)


def test_a_local_session_stays_on_this_machine(builder: Recorder) -> None:
    assert made("shop") == "a session"

    assert builder.told == [("appName", "shop"), ("master", "local[*]")]
    assert builder.conf["spark.driver.host"] == "127.0.0.1"
    assert builder.conf["spark.driver.bindAddress"] == "127.0.0.1"
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert builder.conf["spark.ui.enabled"] == "false"
    assert builder.conf[PUSHDOWN] == "true"
    assert CHECKPOINT_FILES in builder.conf
    assert "spark.sql.session.timeZone" not in builder.conf


def test_workers_run_the_python_of_the_driver_unless_told_otherwise(
    builder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    made("shop")
    assert [os.environ[name] for name in PYTHONS] == [sys.executable] * 2

    monkeypatch.setenv("PYSPARK_PYTHON", "/other/python")
    made("shop")
    assert os.environ["PYSPARK_PYTHON"] == "/other/python"

    monkeypatch.delenv("PYSPARK_PYTHON")
    made("shop", **{"spark.pyspark.python": "/third/python"})
    assert "PYSPARK_PYTHON" not in os.environ


def test_what_the_user_sets_is_kept(builder: Recorder) -> None:
    made("shop", "local[2]", **{"spark.ui.enabled": True, "spark.ui.port": 4050, PUSHDOWN: False})

    assert builder.conf["spark.ui.enabled"] == "true"
    assert builder.conf["spark.ui.port"] == "4050"
    assert builder.conf[PUSHDOWN] == "false"


def test_a_cluster_has_to_reach_the_driver(builder: Recorder) -> None:
    made("shop", "spark://host:7077")

    assert ("master", "spark://host:7077") in builder.told
    assert "spark.driver.host" not in builder.conf
    assert "SPARK_LOCAL_IP" not in os.environ
    assert CHECKPOINT_FILES not in builder.conf


def test_a_connect_server_needs_no_java_here(
    builder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "use_java", lambda: pytest.fail("no Java is needed"))

    made("shop", "sc://host:15002")

    assert builder.told == [("remote", "sc://host:15002")]
    assert builder.conf == {PUSHDOWN: "true"}


def test_a_session_of_spark_submit_is_used_as_it_is(
    builder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1234")

    made("shop", **{"spark.a": 1})

    assert builder.told == []
    assert builder.conf == {"spark.a": "1"}


@pytest.mark.parametrize(
    ("master", "partitions"),
    [
        ("local", "1"),
        ("local[2]", "2"),
        ("local[3,4]", "3"),
        ("local[*]", str(os.cpu_count())),
        ("local-cluster[2,3,1024]", "6"),
        ("spark://host:7077", None),
    ],
)
def test_a_local_master_has_a_shuffle_partition_for_each_core(
    builder: Recorder, master: str, partitions: str | None
) -> None:
    made("shop", master)
    assert builder.conf.get(SHUFFLE_PARTITIONS) == partitions

    made("shop", master, **{SHUFFLE_PARTITIONS: 12})
    assert builder.conf[SHUFFLE_PARTITIONS] == "12"


def test_the_guide_lists_every_setting_of_a_session() -> None:
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")
    changed = settings_for("local[2]")

    assert [name for name in changed if f"| `{name}` |" not in page] == []


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local-cluster[2,1,512]", True),
        ("spark://a:1", False),
        ("yarn", False),
        ("locally", False),
    ],
)
def test_local_masters_are_known(master: str, local: bool) -> None:
    assert is_local(master) is local


def test_a_session_that_exists_is_taken(spark: SparkSession) -> None:
    assert spark_session("another", "local[7]").sparkContext is spark.sparkContext


def test_the_checkpoint_files_are_written_by_a_class_that_spark_has(spark: SparkSession) -> None:
    name = session.LOCAL_SETTINGS[CHECKPOINT_FILES]
    jvm: Any = spark.sparkContext._jvm

    assert jvm.org.apache.spark.util.Utils.classForName(name, True, False).getName() == name
