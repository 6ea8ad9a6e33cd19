"""Topics that were deleted, and where the log ended then.

Their records stay in the log until their file goes, and recovery reads them again.  What
lies before a topic's mark is passed over, so a deleted topic stays deleted, and one that was
made anew begins anew.

The file is ours alone; other brokers ignore it.  It is replaced as a whole and has a checksum,
for a mark that is too high would hide messages.  One that cannot be read is told and taken for
empty: then deleted topics may come back, but nothing is lost.
"""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import msgspec

from flintmq.model.queue import LogOffset
from flintmq.store.files.disk import Disk
from flintmq.store.files.layout import CONFIG_DIRECTORY

FILE_NAME = "flintmqDeletedTopics.json"


class _File(msgspec.Struct):
    marks: dict[str, int]
    checksum: int


class Tombstones:
    """Call `load` before anything else."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._path = directory / CONFIG_DIRECTORY / FILE_NAME
        self._marks: dict[str, int] = {}

    def load(self) -> list[str]:
        """Read the file; tell what is wrong with it."""
        self._marks = {}
        if not self._disk.is_file(self._path):
            return []
        try:
            held = msgspec.json.decode(self._disk.read_all(self._path), type=_File)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return [f"{self._path}: cannot be read ({error}); deleted topics may come back"]
        if held.checksum != _checksum(held.marks):
            return [f"{self._path}: its checksum is wrong; deleted topics may come back"]
        self._marks = held.marks
        return []

    def mark(self, topic: str) -> LogOffset:
        """Records of a topic before this place do not count."""
        return LogOffset(self._marks.get(topic, 0))

    def mark_deleted(self, topic: str, log_end: LogOffset) -> None:
        """Remember that a topic was deleted when the log ended there."""
        self._save({**self._marks, topic: log_end})

    def forget_before(self, log_min: LogOffset) -> None:
        """Forget marks that no record of the log lies before."""
        kept = {topic: mark for topic, mark in self._marks.items() if mark > log_min}
        if kept != self._marks:
            self._save(kept)

    def _save(self, marks: dict[str, int]) -> None:
        self._disk.make_directory(self._path.parent)
        self._disk.replace(self._path, msgspec.json.encode(_File(marks, _checksum(marks))))
        self._marks = marks


def _checksum(marks: dict[str, int]) -> int:
    return crc32(msgspec.json.encode(marks, order="sorted"))
