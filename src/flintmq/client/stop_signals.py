"""SIGTERM and SIGINT ask a program to stop; service managers and Ctrl-C send them.

    with StopSignals(stop): ...
        first signal  ──► stop(), once
        second signal ──► what it did before by default: the process ends at once

The handlers that were there before are put back at the end.  Only the main thread of Python's main
interpreter can have handlers; on any other thread nothing is installed.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final, Self

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """The handlers of one run."""

    def __init__(self, stop: Callable[[], object]) -> None:
        self._stop = stop
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for each in SIGNALS:
                self._before[each] = signal.signal(each, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for each, handler in self._before.items():
            # None is a handler that was not installed from Python, which cannot be put back
            signal.signal(each, signal.SIG_DFL if handler is None else handler)
        self._before.clear()

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        self._stop()
