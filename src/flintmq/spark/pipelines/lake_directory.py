"""The directory of a lake, before a query writes to it: is it ours, and what did a crash leave?

    DIR/topic=orders/day=2026-11-15/part-….parquet     the rows
    DIR/_spark_metadata/                               which files count, batch by batch
    DIR/_delta_log/, DIR/metadata/                     the same in a lake of Delta or Iceberg
    DIR/_checkpoint/                                   what was read, unless it is kept elsewhere
    DIR/_flintmq.lock                                  held while a query writes (local disks)

Spark numbers batches in both.  A batch whose number is already in ``_spark_metadata`` is not
written again; so a checkpoint that does not belong to the directory would lose messages without
a word.  Delta and Iceberg would have them twice.  Both is refused here.

A driver that is killed leaves files of a batch that never counted.  Spark passes over them; other
programs do not.  On a local disk they are deleted before the next query starts, which the lock
makes safe; a compaction that did not end is finished then.  Elsewhere nothing is deleted: nobody
can say there that no other query is at work.
"""

from __future__ import annotations

import fcntl
import re
from pathlib import Path
from typing import IO, Any, Final

from pyspark.sql import SparkSession

from flintmq.errors import InvalidSetting, WrongState
from flintmq.spark.pipelines.lake_formats import MARKS, LakeFormat
from flintmq.spark.source.preflight import require_driver

METADATA: Final = MARKS[LakeFormat.PARQUET]
CHECKPOINT: Final = "_checkpoint"
COMPACTING: Final = "_compacting"
LOCK: Final = "_flintmq.lock"
DATA_FILES: Final = ("topic=*/day=*/part-*.parquet", "quarantined=*/topic=*/day=*/part-*.parquet")

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

    @property
    def kind(self) -> LakeFormat | None:
        """The format of the lake that is there; None when there is none yet."""
        names = self._names(self.uri)
        for kind, mark in MARKS.items():
            if mark in names and self._has_commits(kind, mark):
                return kind
        return None

    def _has_commits(self, kind: LakeFormat, mark: str) -> bool:
        """A driver may have died between the first directory of a table and its first commit."""
        if kind is LakeFormat.PARQUET:
            return True
        return any(name.endswith(".json") for name in self._names(f"{self.uri}/{mark}"))

    def require_own(self, kind: LakeFormat = LakeFormat.PARQUET) -> None:
        """`InvalidSetting` when the directory is no lake, or the checkpoint is not of this one."""
        names = self._names(self.uri)
        found = self.kind
        strange = sorted(name for name in names if not name.startswith(("_", ".")))
        if strange and found is None:
            reason = f"has {strange[0]} in it and is no lake: give an empty or a new directory"
            raise InvalidSetting("to", self.name, reason)
        if found not in (None, kind):
            raise InvalidSetting("to", self.name, f"is a lake of {found}, not of {kind}")
        if kind is LakeFormat.PARQUET:
            self._require_batches()
            return
        finished = self._newest(self.checkpoint, "commits")
        if found is not None and self._newest(self.checkpoint, "offsets") == NONE_YET:
            reason = (
                f"is new, and what is in {self.name} would be there twice: give the checkpoint "
                "that the lake was written with"
            )
            raise InvalidSetting("checkpoint", self.checkpoint, reason)
        if found is None and finished != NONE_YET:
            reason = f"has finished batch {finished}, which is not in {self.name}: is it another's?"
            raise InvalidSetting("checkpoint", self.checkpoint, reason)

    def _require_batches(self) -> None:
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
        """Delete the files of Parquet that do not count; how many there were.

        Only under the lock, and only when the last query ended within a batch, or a compaction
        before its end.
        """
        if self.local is None:
            return 0
        planned = self._newest(self.checkpoint, "offsets")
        ends_early = planned > self._newest(self.checkpoint, "commits")
        is_compacting = (self.local / COMPACTING).exists()
        if not ends_early and not is_compacting:
            return 0
        if is_compacting:
            self._forget_logs(int((self.local / COMPACTING).read_text() or NONE_YET))
        counted = {path.rpartition("/")[2] for path in self.counted_files()}
        found = [path for form in DATA_FILES for path in self.local.glob(form)]
        left = [path for path in found if path.name not in counted]
        for path in left:
            path.unlink()
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        (self.local / COMPACTING).unlink(missing_ok=True)
        return len(left)

    def newest_log(self) -> int:
        """The number of the newest batch that counts."""
        return self._newest(self.uri, METADATA)

    def counted_files(self) -> list[str]:
        """The files of Parquet that count, in full.  Each name contains a unique id."""
        if self.newest_log() == NONE_YET:
            return []
        frame = self._spark.read.schema("body binary, topic string, day date").parquet(self.uri)
        return frame.inputFiles()

    # Inside

    def _forget_logs(self, compacted: int) -> None:
        """Delete the logs before a compacted one, if that was written."""
        assert self.local is not None, "compaction is for local disks"
        logs = self.local / METADATA
        if not (logs / f"{compacted}.compact").exists():
            return
        for path in logs.iterdir():
            found = _NUMBERED.fullmatch(path.name.removeprefix(".").removesuffix(".crc"))
            if found and int(found[1]) <= compacted and path.name != f"{compacted}.compact":
                path.unlink()

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
