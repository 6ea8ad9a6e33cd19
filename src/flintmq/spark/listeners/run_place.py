"""The machine of a run's driver: here, or that of a Spark Connect server.

The source process of a query is the member of the group, and runs beside the driver.  So do the
functions of `foreachBatch`.  They exchange small files with the program, in a control directory on
the driver's machine (`flintmq.spark.source.control_files`).  A program that is only connected
reaches that directory through Spark: planning a read runs Python on the driver's machine.

    program ──► RemoteFiles ──read of `rocketmq-control`──► ControlSource ──► the directory
                    ◄───────────── a row with the answer ──────┘

Each access is a small job of Spark.  Servers that no longer answer are as files that are not there;
a client of Spark tries each call for minutes, so one that is known to be lost is asked no more.

Invariant: an access that Spark plans twice does the same as once.
"""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, assert_never

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from flintmq.errors import LocalProtocolError
from flintmq.logs import logger
from flintmq.spark.source.control_files import ControlFiles

log = logger("flintmq.spark")

NAME: Final = "rocketmq-control"

PREFIX: Final = "flintmq-run-"
"""How the name of a control directory starts; no other directory is made or removed."""

CORES_MAX: Final = 100_000
"""Rows that are spread over the cores of a cluster to count them."""


class Access(StrEnum):
    """What is done on the driver's machine."""

    OPEN = "open"
    CLOSE = "close"
    WRITE = "write"
    READ = "read"


def is_connected(spark: object) -> bool:
    """Whether a session is one of Spark Connect, whose driver is elsewhere."""
    return not isinstance(spark, SparkSession)


def setting(spark: SparkSession, name: str, default: str) -> str:
    """A setting of the cluster."""
    if is_connected(spark):
        return str(spark.conf.get(name, default))
    return str(spark.sparkContext.getConf().get(name, default))


@dataclass(frozen=True)
class RunPlace:
    """What a run has on the machine of its driver."""

    directory: str
    checkpoint: str
    files: ControlFiles
    """How this program reaches the control directory."""
    cores: int

    @property
    def there(self) -> ControlFiles:
        """The same for functions that run on the machine itself."""
        return ControlFiles(self.directory)


def open_place(spark: SparkSession, checkpoint: str | None, cleanup: ExitStack) -> RunPlace:
    """Make the control directory, and one for a checkpoint if none is given."""
    if is_connected(spark):
        spark.dataSource.register(ControlSource)
        files = RemoteFiles(spark, f"{PREFIX}{uuid.uuid4()}")
        directory = files.open()
        cleanup.callback(files.close)
        return RunPlace(directory, checkpoint or f"{directory}/checkpoint", files, _cores(spark))
    directory = cleanup.enter_context(tempfile.TemporaryDirectory(prefix=PREFIX))
    if checkpoint is None:
        made = tempfile.TemporaryDirectory(prefix="flintmq-", ignore_cleanup_errors=True)
        checkpoint = cleanup.enter_context(made)
    cores = spark.sparkContext.defaultParallelism
    return RunPlace(directory, checkpoint, ControlFiles(directory), cores)


def _cores(spark: SparkSession) -> int:
    """How many tasks the cluster of a server runs at once, by how it cuts a range."""
    parts = spark.range(CORES_MAX).select(f.spark_partition_id().alias("part"))
    (row,) = parts.agg(f.max("part")).collect()
    return int(row[0]) + 1


class RemoteFiles(ControlFiles):
    """The files of a control directory on the machine of a Spark Connect server."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        super().__init__(None)
        self._spark = spark
        self._name = name
        self._numbers = itertools.count()
        self._is_lost = False

    def open(self) -> str:
        """Make the directory; where it is."""
        return str(self._ask(Access.OPEN))

    def close(self) -> None:
        """Remove the directory."""
        self._try(Access.CLOSE)

    def lose(self) -> None:
        self._is_lost = True

    def write(self, name: str, value: Any = None) -> None:
        self._try(Access.WRITE, name, value)

    def has(self, name: str) -> bool:
        answer = self._try(Access.READ, name)
        return answer is not None and bool(answer["is_there"])

    def read(self, name: str) -> Any:
        answer = self._try(Access.READ, name)
        return None if answer is None else answer["value"]

    def _try(self, do: Access, name: str = "", value: Any = None) -> Any:
        if self._is_lost:
            return None
        try:
            return self._ask(do, name, value)
        except Exception:  # the server, or the session, has ended; other calls to Spark raise that
            log.debug("no answer to %s %s", do, name, exc_info=True)
            return None

    def _ask(self, do: Access, name: str = "", value: Any = None) -> Any:
        reader = self._spark.read.format(NAME).options(
            do=do.value,
            directory=self._name,
            file=name,
            value=json.dumps(value),
            number=next(self._numbers),  # a server keeps plans that are alike
        )
        (row,) = reader.load().collect()
        return json.loads(row[0])


class ControlSource(DataSource):
    """Answers with one row.  Not for users."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return "answer STRING"

    def reader(self, schema: StructType) -> ControlReader:
        del schema
        return ControlReader(dict(self.options))


@dataclass(frozen=True)
class Answer(InputPartition):
    """What came of an access, as JSON."""

    text: str


class ControlReader(DataSourceReader):
    """Does what its options say when Spark plans the read."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def partitions(self) -> list[Answer]:
        given = self._options
        do = Access(given["do"])
        answer = act(do, given["directory"], given["file"], given["value"])
        return [Answer(json.dumps(answer))]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        assert isinstance(partition, Answer)
        yield (partition.text,)


def act(do: Access, directory: str, name: str, value: str) -> Any:
    """On the driver's machine: make, remove, write or read."""
    is_ours = directory.startswith(PREFIX) and Path(directory).name == directory
    if not is_ours or Path(name).name != name or name == "..":
        raise LocalProtocolError(f"{directory}/{name} is no control file")
    place = Path(tempfile.gettempdir()) / directory
    files = ControlFiles(str(place))
    match do:
        case Access.OPEN:
            place.mkdir(mode=0o700, exist_ok=True)
            return str(place)
        case Access.CLOSE:
            shutil.rmtree(place, ignore_errors=True)
            return None
        case Access.WRITE:
            files.write(name, json.loads(value))
            return None
        case Access.READ:
            return {"is_there": files.has(name), "value": files.read(name)}
        case _:
            assert_never(do)
