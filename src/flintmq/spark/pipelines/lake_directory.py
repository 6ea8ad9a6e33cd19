"""The directory of a lake, before a query writes to it: is it ours, and what did a crash leave?

    DIR/topic=orders/day=2026-11-15/part-….parquet     the rows
    DIR/_spark_metadata/                               which files count, batch by batch
    DIR/_checkpoint/                                   what was read, unless it is kept elsewhere
    DIR/_flintmq.lock                                  held while a query writes (local disks)

Spark numbers batches in both.  A batch whose number is already in ``_spark_metadata`` is not
written again; so a checkpoint that does not belong to the directory would lose messages without
a word.  It is refused here.

A driver that is killed leaves files of a batch that never counted.  Spark passes over them; other
programs do not.  On a local disk they are deleted before the next query starts, which the lock
makes safe.  Elsewhere nothing is deleted: nobody can say there that no other query is at work.
"""

from __future__ import annotations

import fcntl
import re
from pathlib import Path
from typing import IO, Any, Final

from pyspark.sql import SparkSession

from flintmq.errors import InvalidSetting, WrongState
from flintmq.spark.source.preflight import require_driver

METADATA: Final = "_spark_metadata"
CHECKPOINT: Final = "_checkpoint"
LOCK: Final = "_flintmq.lock"
DATA_FILES: Final = "topic=*/day=*/part-*.parquet"

NONE_YET: Final = -1

_NUMBERED = re.compile(r"([0-9]+)(\.compact)?")


class LakeDirectory:
    """One directory, wherever Spark's file systems reach."""

    def __init__(self, spark: SparkSession, to: str, checkpoint: str | None) -> None:
        require_driver(spark, "the directory cannot be looked at before")
        self._spark = spark
        context: Any = spark.sparkContext
        self._jvm = context._jvm  # noqa: SLF001  # Spark's way to its file systems
        self._conf = context._jsc.hadoopConfiguration()  # noqa: SLF001
        root = self._qualified("to", to)
        self.uri = str(root)
        """In full, as Spark takes it."""
        self.checkpoint = str(
            self._jvm.org.apache.hadoop.fs.Path(root, CHECKPOINT)
            if checkpoint is None
            else self._qualified("checkpoint", checkpoint)
        )
        uri = root.toUri()
        self.local = Path(uri.getPath()) if uri.getScheme() == "file" else None
        self.name = self.uri if self.local is None else str(self.local)
        """For people."""

    # Before a query

    def require_own(self) -> None:
        """`InvalidSetting` when the directory is no lake, or the checkpoint is not of this one."""
        names = self._names(self.uri)
        strange = sorted(name for name in names if not name.startswith(("_", ".")))
        if strange and METADATA not in names:
            reason = f"has {strange[0]} in it and is no lake: give an empty or a new directory"
            raise InvalidSetting("to", self.name, reason)
        written = self._newest(self.uri, METADATA)
        finished = self._newest(self.checkpoint, "commits")
        if written > self._newest(self.checkpoint, "offsets"):
            reason = (
                f"knows nothing of batch {written} in {self.name}, and new messages would be "
                "taken for old ones: give the checkpoint that the lake was written with"
            )
            raise InvalidSetting("checkpoint", self.checkpoint, reason)
        if finished > written:
            reason = f"has finished batch {finished}, which is not in {self.name}: is it another's?"
            raise InvalidSetting("checkpoint", self.checkpoint, reason)

    def lock(self) -> IO[bytes] | None:
        """Lock the directory until the result is closed; None on file systems without locks."""
        if self.local is None:
            return None
        self.local.mkdir(parents=True, exist_ok=True)
        file = (self.local / LOCK).open("wb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise WrongState(f"lake {self.name}", "in use", "another query writes to it") from None
        return file

    def sweep(self) -> int:
        """Delete the files of a batch that was never committed; how many there were.

        Only under the lock, and only when the last query ended within a batch.
        """
        planned = self._newest(self.checkpoint, "offsets")
        if self.local is None or planned <= self._newest(self.checkpoint, "commits"):
            return 0
        counted = self._counted()
        left = [path for path in self.local.glob(DATA_FILES) if path.name not in counted]
        for path in left:
            path.unlink()
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        return len(left)

    # Inside

    def _counted(self) -> set[str]:
        """Names of the committed files.  Each contains a unique id."""
        if self._newest(self.uri, METADATA) == NONE_YET:
            return set()
        frame = self._spark.read.schema("body binary, topic string, day date").parquet(self.uri)
        return {path.rpartition("/")[2] for path in frame.inputFiles()}

    def _newest(self, directory: str, name: str) -> int:
        """The highest number among file names, as Spark's logs have them."""
        found = (_NUMBERED.fullmatch(each) for each in self._names(f"{directory}/{name}"))
        return max((int(match[1]) for match in found if match), default=NONE_YET)

    def _names(self, directory: str) -> list[str]:
        path = self._jvm.org.apache.hadoop.fs.Path(directory)
        files = path.getFileSystem(self._conf)
        if not files.exists(path):
            return []
        if not files.getFileStatus(path).isDirectory():
            raise InvalidSetting("directory", directory, "is a file")
        return [status.getPath().getName() for status in files.listStatus(path)]

    def _qualified(self, setting: str, text: str) -> Any:
        """The path as the JVM writes it in full."""
        try:
            path = self._jvm.org.apache.hadoop.fs.Path(text)
            return path.getFileSystem(self._conf).makeQualified(path)
        except Exception as error:  # whatever the file system says
            said = str(getattr(error, "java_exception", error)).splitlines()[0]
            raise InvalidSetting(setting, text, said) from None
