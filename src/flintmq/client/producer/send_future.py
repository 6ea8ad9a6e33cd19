"""The future of one send on threads: a `concurrent.futures.Future` that is cheap to make.

Most futures of sends are never waited for, or only after their end, and the lock and the waiting
line of a future cost more to make than all else of it.  This one takes them over from a plain
future as soon as anybody reads an attribute that it lacks.  So it is all that a future is, for
`concurrent.futures.wait` and `asyncio.wrap_future` too, and knows none of a future's fields.

Invariant: what a plain future has is taken over at once and whole, after which this is one.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TypeAlias

from flintmq.core.producer.receipt import SendReceipt

Outcome: TypeAlias = SendReceipt | BaseException

_making = threading.Lock()


class SendFuture(Future[SendReceipt]):
    """How one send ended."""

    _early: Outcome | None = None
    """How it ended, where that was before anybody looked."""
    _is_whole = False

    def __init__(self) -> None:  # `_make_whole` does the rest
        pass

    def settle(self, outcome: Outcome) -> None:
        """End it, unless it was cancelled."""
        with _making:
            if not self._is_whole:
                self._early = outcome
                return
        if self.set_running_or_notify_cancel():
            _end(self, outcome)

    def __getattr__(self, name: str) -> object:
        if not self._is_whole:
            self._make_whole()
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}") from None

    def _make_whole(self) -> None:
        with _making:
            if not self._is_whole:
                plain = Future[SendReceipt]()
                if self._early is not None:
                    _end(plain, self._early)
                vars(self).update(vars(plain), _is_whole=True)


def _end(future: Future[SendReceipt], outcome: Outcome) -> None:
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
