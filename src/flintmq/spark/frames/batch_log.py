"""The checkpoint of `for_each_batch`: which batches were planned, and which are finished.

    directory/offsets/N    the offset of batch N, written before the batch runs
    directory/commits/N    written when it is finished
    directory/lock         held by the loop that uses the directory

The offset is that of a stream (`flintmq.spark.source.stream_offset`), so a batch that was planned
and not finished runs again with the same ranges.  Old files are removed.

The directory is on a file system of this machine, which may be a mounted one: no object store, no
HDFS.

Invariant: a file is there as a whole or not at all, and outlives a power cut once `plan` or
`finish` has returned.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from flintmq.errors import DiskFailed, InvalidSetting, WrongState

KEPT: Final = 100
"""Batches whose files stay, for those who look what was read; Spark keeps as many."""

CHECKPOINT: Final = "checkpoint"


@dataclass(frozen=True, slots=True)
class Planned:
    """The last batch of a log."""

    number: int
    offset: dict[str, Any]
    is_finished: bool


class BatchLog:
    """The files of one checkpoint.  Make it with `open_log`."""

    def __init__(self, directory: Path) -> None:
        self._offsets = directory / "offsets"
        self._commits = directory / "commits"

    def last(self) -> Planned | None:
        """The batch that was planned last; None in a new checkpoint."""
        numbers = sorted(_numbers(self._offsets))
        if not numbers:
            return None
        number = numbers[-1]
        path = self._offsets / str(number)
        try:
            tree = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            reason = f"{path} cannot be read ({error}): start with a new checkpoint"
            raise InvalidSetting(CHECKPOINT, str(path.parent.parent), reason) from None
        return Planned(number, tree, (self._commits / str(number)).exists())

    def plan(self, number: int, offset: dict[str, Any]) -> None:
        """Note the range of a batch, before it runs."""
        _write(self._offsets / str(number), json.dumps(offset))

    def finish(self, number: int) -> None:
        """Note that a batch is finished, and remove the files of old ones."""
        _write(self._commits / str(number), "{}")
        for directory in (self._offsets, self._commits):
            for old in _numbers(directory):
                if old <= number - KEPT:
                    (directory / str(old)).unlink(missing_ok=True)


@contextmanager
def open_log(checkpoint: str | os.PathLike[str]) -> Iterator[BatchLog]:
    """The log in a directory, made where it is missing; `WrongState` while another loop has it."""
    text = os.fspath(checkpoint).removeprefix("file://")
    if "://" in text or text.startswith(("hdfs:", "s3:", "dbfs:")):
        reason = "a directory of this machine is needed; it may be mounted"
        raise InvalidSetting(CHECKPOINT, text, reason)
    directory = Path(text)
    try:
        for each in ("offsets", "commits"):
            (directory / each).mkdir(parents=True, exist_ok=True)
        lock = (directory / "lock").open("wb")
    except OSError as error:
        raise _failed(directory, "open", error) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            reason = "another loop uses it: a checkpoint is for one at a time"
            raise WrongState(f"the checkpoint {directory}", "locked", reason) from None
        yield BatchLog(directory)


def _numbers(directory: Path) -> Iterator[int]:
    """The batches that have a file in a directory."""
    return (int(path.name) for path in directory.iterdir() if path.name.isdecimal())


def _write(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}")
    try:
        with fresh.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _failed(path, "write", error) from None


def _failed(path: Path, verb: str, error: OSError) -> DiskFailed:
    return DiskFailed(str(path), verb, error.strerror or str(error), error.errno or 0)
