"""Rows of one task that make no message: an error, a count, or a place of their own.

    fail         InvalidSetting, which names the row
    skip         counted
    quarantine   counted, and put aside as JSON: {"row": …, "reason": …, "columns": {…}}
                   a directory   DIR/WRITE.BATCH.PARTITION.jsonl, once: a task that is tried again
                                 writes the same file again
                   a topic       a message for each, at least once, under the name of its row

Bytes that are no UTF-8 are {"base64": …}.  A topic has limits too, so a long value is cut there.

Invariant: a row that is added is named by an error, or counted.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

import pyarrow as pa

from flintmq.errors import InvalidSetting
from flintmq.model.message import Message
from flintmq.printable import printable_reason
from flintmq.spark.options.sink_options import BAD_ROWS, TOPIC_PREFIX, OnBadRow, SinkOptions
from flintmq.spark.sink.row_identity import ROW_PROPERTY

REASON_PROPERTY: Final = "BAD_ROW"

VALUE_BYTES_MAX: Final = 64 * 1024
"""Of one value in a message of the quarantine topic."""

Send = Callable[[Message], None]


class BadRows:
    """The bad rows of one task, whose rows are named ``prefix`` and a number."""

    def __init__(self, options: SinkOptions, prefix: str = "", send: Send | None = None) -> None:
        self._rule = options.bad_rows
        place = options.quarantine or ""
        self._topic = place.removeprefix(TOPIC_PREFIX) if place.startswith(TOPIC_PREFIX) else None
        self._path = Path(place) / f"{prefix.rstrip('.')}.jsonl"
        self._file: IO[str] | None = None
        self._send = send
        self.skipped = 0
        self.first = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._unfinished.unlink(missing_ok=True)

    def add(self, identity: str, error: Exception, batch: pa.RecordBatch, place: int) -> None:
        """Count a row and put it aside, or raise `InvalidSetting` that names it."""
        if self._rule is OnBadRow.FAIL:
            hint = f"{BAD_ROWS.name}={OnBadRow.SKIP} leaves such rows out"
            raise InvalidSetting("row", identity, f"{error}; {hint}") from error
        self.first = self.first or f"{identity}: {error}"
        self.skipped += 1
        if self._rule is OnBadRow.QUARANTINE:
            reason = printable_reason(str(error))
            (row,) = batch.slice(place, 1).to_pylist()
            self._put(identity, reason, row)

    def finish(self) -> None:
        """Give the file its name, once every row of the task was looked at."""
        if self._file is None:
            return
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._file = None
        self._unfinished.replace(self._path)

    def _put(self, identity: str, reason: str, row: dict[str, Any]) -> None:
        most = VALUE_BYTES_MAX if self._topic else None
        columns = {name: _plain(value, most) for name, value in row.items() if value is not None}
        line = json.dumps(
            {"row": identity, "reason": reason, "columns": columns}, default=str, ensure_ascii=False
        )
        if self._topic is not None:
            assert self._send is not None, "a topic needs a producer"
            named = {ROW_PROPERTY: identity, REASON_PROPERTY: reason}
            self._send(Message(self._topic, line.encode(), properties=named))
            return
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._unfinished.open("w", encoding="utf-8")
        self._file.write(line + "\n")

    @property
    def _unfinished(self) -> Path:
        return self._path.with_name(f".{self._path.name}.{os.getpid()}")


def _plain(value: Any, most: int | None) -> Any:
    """A value as JSON has it; at most so many bytes of it."""
    if isinstance(value, bytes):
        cut = value[:most]
        try:
            return cut.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(cut).decode()}
    if isinstance(value, str):
        return value[:most]
    return value
