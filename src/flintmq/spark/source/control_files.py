"""The control directory: how the program and the source process of its query exchange state.

Both run on the driver's machine.  Spark has no call by which the program reaches the source
process of a query, so the two exchange small JSON files in a directory:

    program ──► finish       plan no further micro-batch
    program ──► finished     the end offset of the last micro-batch that Spark finished
    source  ──► member       the client id of the query in its consumer group
    source  ──► resting      no micro-batch is planned or running any more
    source  ──► lease        until when the queue locks of the running micro-batch are valid
    source  ──► left         the query is no longer a member of its group

A run of listeners uses all of them; the program makes the directory and names it in an option.  A
plain stream uses only ``finished``: Spark reports a finished micro-batch to the source when it
plans the next one, which may be an hour later or never, while the program learns it at once from
a `StreamingQueryListener`.  There the source process makes the directory and names it in the
latest offset that it reports:

    program: `BatchEndListener` ──finished──► `FinishedBatches` :source process
        ▲                                           │
        └── progress of the query ◄── directory ────┘

Without a listener, and where the two run on different machines, the next trigger reports the
micro-batch.

When a query stops, Spark closes its connection to the source process and sends SIGTERM, twice.
Source processes ignore SIGTERM: the closed connection makes Spark's runner call `stop` of the
reader, which commits the last finished micro-batch and leaves the group.  The connection of a JVM
that was killed is closed too, so a source process outlives it only for as long as `stop` takes.

Invariant: a file is there as a whole or not at all, and only this user can read or write the
directory.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from flintmq.logs import logger
from flintmq.net.collector import ease_collector

FINISH: Final = "finish"
FINISHED: Final = "finished"
MEMBER: Final = "member"
RESTING: Final = "resting"
LEASE: Final = "lease"
LEFT: Final = "left"

DIRECTORY: Final = "tell"
"""The key under which a reported offset names the control directory of its source process."""

PREFIX: Final = "flintmq-source-"
"""How the name of a directory starts that a source process made."""

POLL_S: Final = 0.1
"""How often a source process looks for a new ``finished`` file: one stat each time."""

SOURCE_MODULE: Final = "pyspark.sql.streaming.python_streaming_source_runner"
"""The main module of the process in which Spark runs the source of a streaming query."""

_logger = logger(__name__)


def become_source_process() -> None:
    """If this is a source process that Spark started: ignore SIGTERM, collect garbage seldom.

    Elsewhere it changes nothing.  A driver of 100,000 queues has a million objects, which plans
    replace by others.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if getattr(main, "name", "") == SOURCE_MODULE:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        ease_collector()


class ControlFiles:
    """The files of one control directory.  Without a directory nothing is written or found."""

    def __init__(self, directory: str | None) -> None:
        self._directory = None if directory is None else Path(directory)
        self._seen: tuple[int, int] | None = None

    def write(self, name: str, value: Any = None) -> None:
        if self._directory is None:
            return
        temporary = self._directory / f".{name}.{os.getpid()}"
        try:
            temporary.write_text(json.dumps(value), encoding="utf-8")
            temporary.replace(self._directory / name)
        except FileNotFoundError:
            return  # the other process ended and removed the directory

    def has(self, name: str) -> bool:
        return self._directory is not None and (self._directory / name).exists()

    def read(self, name: str) -> Any:
        """The content of a file, or None where it does not exist."""
        if self._directory is None:
            return None
        try:
            return json.loads((self._directory / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def newly_finished(self) -> Any:
        """The content of ``finished`` if it was written since the last call, else None."""
        if self._directory is None:
            return None
        try:
            status = (self._directory / FINISHED).stat()
        except FileNotFoundError:
            return None
        version = status.st_ino, status.st_mtime_ns
        if version == self._seen:
            return None
        self._seen = version
        return self.read(FINISHED)


class FinishedBatches:
    """In the source process of a stream: passes on finished micro-batches, on its own thread.

    ``take`` is called with the end offset of each, as a JSON tree.
    """

    def __init__(self, take: Callable[[dict[str, Any]], None]) -> None:
        self._take = take
        self.directory = tempfile.mkdtemp(prefix=PREFIX)
        self._files = ControlFiles(self.directory)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flintmq-finished", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread and remove the directory.  To close it twice is no error."""
        self._closing.set()
        self._thread.join()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _run(self) -> None:
        while not self._closing.wait(POLL_S):
            try:
                finished = self._files.newly_finished()
                if finished is not None:
                    self._take(finished)
            except Exception as error:  # the next trigger reports the same micro-batch
                _logger.warning("the end of a batch was not understood: %s", error)
