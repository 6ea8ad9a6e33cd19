"""The stderr of a JVM without the lines that every start of Java, log4j and py4j prints.

For commands, whose users did not ask for a JVM.  A program of a user gets its stderr as it is.

    JVM, Python workers ──stderr──► pipe ──► thread ──┬─► a line of `NOISE`: dropped
                                                      └─► any other line: stderr, as it is

The JVM keeps the pipe as its stderr for as long as it lives, and so do the workers that it starts.

Invariant: a line is dropped only if it matches `NOISE`; errors never do.
"""

from __future__ import annotations

import logging
import os
import re
import select
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

NOISE: Final = re.compile(
    rb"WARNING: Using incubator modules: "
    rb"|Using Spark's default log4j profile: "
    rb"|Setting default log level to "
    rb"|To adjust logging level use sc\.setLogLevel"
    rb"|Setting Spark log level to "
    rb"|[0-9/]+ [0-9:]+ WARN NativeCodeLoader: Unable to load native-hadoop library"
)
"""What every start of Spark prints, whatever it is started for."""

ABOUT_PANDAS: Final = "PySpark does not yet fully support pandas"
"""What pyspark 4.3 warns of where pandas 3 is installed, though no command uses pandas with it."""

CHUNK_BYTES: Final = 64 * 1024
DRAIN_S: Final = 1.0
"""How long the end of a command waits for lines that are still in the pipe."""

STDERR: Final = 2

QUIET_SETTINGS: Final = {"spark.log.level": "FATAL", "spark.ui.showConsoleProgress": "false"}
"""For sessions of commands: errors are printed as a sentence, and there are no stage bars."""


@contextmanager
def without_noise() -> Iterator[None]:
    """Start a JVM inside this block: what it and its workers print to stderr is filtered."""
    logging.getLogger("py4j").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", ABOUT_PANDAS, FutureWarning)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # pyspark's own pages
    sys.stderr.flush()
    own = os.dup(STDERR)
    reads, writes = os.pipe()
    os.dup2(writes, STDERR)
    os.close(writes)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(own, STDERR)
        threading.Thread(
            target=_pass_on, args=(reads, own), name="flintmq-stderr", daemon=True
        ).start()
        _open_pipes.append(reads)


def drain() -> None:
    """Wait until all lines that were printed so far are passed on."""
    deadline_s = time.monotonic() + DRAIN_S
    while _open_pipes and time.monotonic() < deadline_s:
        with _passing:
            if not select.select(_open_pipes, [], [], 0)[0]:
                return
        time.sleep(DRAIN_S / 100)


_open_pipes: list[int] = []
_passing = threading.Lock()
"""Held from the read of a chunk until its lines are written."""


def _pass_on(reads: int, own: int) -> None:
    rest, is_open = b"", True
    while is_open:
        select.select([reads], [], [])
        with _passing:
            chunk = os.read(reads, CHUNK_BYTES)
            is_open = bool(chunk)
            *lines, rest = (rest + chunk).split(b"\n") if is_open else (rest, b"")
            end = b"\n" if is_open else b""
            kept = b"".join(line + end for line in lines if not NOISE.match(line))
            if kept:
                os.write(own, kept)
            if not is_open:
                _open_pipes.remove(reads)
    os.close(reads)
    os.close(own)
