"""The future of one send on threads: a `concurrent.futures.Future` that is cheap to make.

Most futures of sends are never waited for, or only after their end, and the lock and the waiting
line of a future cost more to make than all else of it.  This one makes them when somebody looks.

Invariant: before its condition is made nobody is inside it, because making it takes the same lock
as `settle`.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from concurrent.futures._base import FINISHED, PENDING
from typing import Any

from flintmq.core.producer.receipt import SendReceipt

_making = threading.Lock()


class SendFuture(Future[SendReceipt]):
    """How one send ended."""

    def __init__(self) -> None:
        self._own: threading.Condition | None = None
        self._state = PENDING
        self._result: SendReceipt | None = None
        self._exception: BaseException | None = None
        self._waiters: list[Any] = []
        self._done_callbacks: list[Any] = []

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]  # made when it is asked for
        own = self._own
        if own is None:
            with _making:
                own = self._own = self._own or threading.Condition()
        return own

    def settle(self, outcome: SendReceipt | BaseException) -> None:
        """End it, unless it was cancelled."""
        if self._own is None:
            with _making:
                if self._own is None:
                    if isinstance(outcome, BaseException):
                        self._exception = outcome
                    else:
                        self._result = outcome
                    self._state = FINISHED
                    return
        if self.set_running_or_notify_cancel():
            if isinstance(outcome, BaseException):
                self.set_exception(outcome)
            else:
                self.set_result(outcome)
