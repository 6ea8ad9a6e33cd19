"""How the source of a stream learns that a batch is done while Spark does not ask it anything.

Spark tells a source of a finished batch when it plans the next one, which may be an hour later or
never.  The program that started the query is told at once, by a listener for queries; so it
passes the news on, to the source process on the same machine.

    program: `TellSources` ──end of the batch──► `HeardEnds` :source process
        ▲                                             │
        └── progress of the query ◄── its address ────┘ in the latest offset that it reports

Without a listener, and where the two are on different machines, nothing is heard, and the next
batch tells.

Invariant: only who may read a directory of this user can tell a source anything.
"""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from flintmq.logs import logger

ADDRESS: Final = "tell"
"""Where a reported offset has the address of its source process."""

NEWS_BYTES_MAX: Final = 64 * 1024 * 1024
"""An offset of a hundred thousand queues has a tenth of it."""

TELL_S: Final = 1.0
"""How long telling may take: whoever tells holds up the events of all queries."""

_logger = logger(__name__)


class HeardEnds:
    """In the source process: hears of finished batches, on a thread of its own."""

    def __init__(self, take: Callable[[dict[str, Any]], None]) -> None:
        self._take = take
        self._directory = tempfile.mkdtemp(prefix="flintmq-")
        self.address = str(Path(self._directory, "ends"))
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.address)
        self._socket.listen()
        threading.Thread(target=self._live, name="flintmq-ends", daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):  # it was not connected, which is as well
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _live(self) -> None:
        while True:
            try:
                told, _ = self._socket.accept()
            except OSError:
                return
            with told:
                try:
                    told.settimeout(TELL_S)
                    with told.makefile("rb") as file:
                        self._take(json.loads(file.read(NEWS_BYTES_MAX)))
                except Exception as error:  # the next batch tells
                    _logger.warning("the end of a batch was not understood: %s", error)
