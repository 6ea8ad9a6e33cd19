"""A Spark session with settings that fit, for those who have none: the command and the examples.

What a user says is kept.  A session that exists already, or a program that spark-submit started,
is used as it is.  The time zone is left alone: our columns are instants, and how they are shown
is the user's matter.  docs/spark.md lists every setting that is changed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from flintmq.spark.environment.java import use_java
from flintmq.spark.environment.requirements import (
    OLDEST,
    SOURCES_SINCE,
    pyspark_version,
    require_pyspark,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
CHECKPOINT_FILES: Final = "spark.sql.streaming.checkpointFileManagerClass"
CHECKPOINT_PACKAGE: Final = "org.apache.spark.sql.execution.streaming"
CHECKPOINT_CLASS: Final = "FileSystemBasedCheckpointFileManager"
CHECKPOINT_MOVED: Final = (4, 1)
"""Since this version the class is in a package of its own."""

SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"

LOOPBACK: Final = "127.0.0.1"

SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    PUSHDOWN: "true",
}

LOCAL_SETTINGS: Final = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    # Spark's own choice costs each batch of a stream some 150 ms more: it runs programs to learn
    # about links.  On a local disk both look whether a file is there and then rename, so this one
    # keeps the same promises; elsewhere the other may keep more, so it is for local masters only.
    CHECKPOINT_FILES: f"{CHECKPOINT_PACKAGE}.checkpointing.{CHECKPOINT_CLASS}",
}
"""On this machine alone, where nobody else has to reach the driver."""

CONNECT: Final = "sc://"

_LOCAL_CORES = re.compile(r"local\[([0-9]+|\*)(?:,[0-9]+)?\]")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[([0-9]+),([0-9]+),[0-9]+\]")


def spark_session(app_name: str, master: str = "local[*]", **conf: object) -> SparkSession:
    """A session, made if there is none.  ``conf`` are settings of Spark, by their full names."""
    require_pyspark(OLDEST, "a session")
    from pyspark.sql import SparkSession

    given = {name: _text(value) for name, value in conf.items()}
    builder = SparkSession.builder
    if is_given():
        settings = given
    elif master.startswith(CONNECT):
        builder = builder.remote(master)
        settings = {PUSHDOWN: SETTINGS[PUSHDOWN], **given}
    else:
        use_java()
        _choose_python(given)
        if is_local(master):
            os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        builder = builder.appName(app_name).master(master)
        settings = {**settings_for(master), **given}
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    if pyspark_version() >= SOURCES_SINCE:
        from flintmq.spark.source.batch_end_listener import report_batch_ends

        report_batch_ends(made)
    return made


def is_given() -> bool:
    """Whether there is a session already, or a JVM that spark-submit started for the program."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def settings_for(master: str) -> dict[str, str]:
    """The settings that a session has which is made for a master, unless they are given."""
    if not is_local(master):
        return dict(SETTINGS)
    settings = {**SETTINGS, **LOCAL_SETTINGS}
    if pyspark_version() < CHECKPOINT_MOVED:
        settings[CHECKPOINT_FILES] = f"{CHECKPOINT_PACKAGE}.{CHECKPOINT_CLASS}"
    return {**settings, SHUFFLE_PARTITIONS: str(local_cores(master))}


def local_cores(master: str) -> int:
    """The cores of a local master.

    One shuffle partition for each is enough there.  Spark's default of 200 is for clusters: every
    micro-batch with a state or a join runs 200 tasks, however few its rows are.
    """
    if cluster := _LOCAL_CLUSTER.fullmatch(master):
        return max(1, int(cluster[1]) * int(cluster[2]))
    cores = _LOCAL_CORES.fullmatch(master)
    if cores is None:
        return 1
    return os.cpu_count() or 1 if cores[1] == "*" else max(1, int(cores[1]))


def is_local(master: str) -> bool:
    """Whether the tasks run on this machine."""
    return master == "local" or master.startswith(("local[", "local-cluster["))


def _choose_python(conf: Mapping[str, str]) -> None:
    """Workers run the Python of the driver unless settings or environment say otherwise."""
    if "spark.pyspark.python" not in conf:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "spark.pyspark.driver.python" not in conf:
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
