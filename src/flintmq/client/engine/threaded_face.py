"""The threaded face of a client: its asyncio client runs on the loop thread of the process.

    any thread ─► method of the face ─► coroutine on the loop thread ─► result, back on that thread

Every method may be called from any thread and returns when it is done.  The loop's own thread is
refused: it would wait for itself.

Invariant: the face holds a `Lease` of the loop exactly while its client runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from flintmq.client.engine.async_client import AsyncClient
from flintmq.client.engine.direct_line import Runner
from flintmq.client.engine.event_log import Event
from flintmq.client.engine.lifecycle import State
from flintmq.client.engine.loop_thread import Lease
from flintmq.errors import WrongState

C = TypeVar("C", bound=AsyncClient)
T = TypeVar("T")


class ThreadedFace(Generic[C]):
    """Start, stop and calls of a client that lives on the loop of the process."""

    def __init__(self, inner: C) -> None:
        self._inner = inner
        self._what = f"{type(self).__name__} {inner.group!r}"
        self._lease: Lease | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<{self._what}, {self.state}>"

    @property
    def group(self) -> str:
        return self._inner.group

    @property
    def state(self) -> State:
        return self._inner.state

    @property
    def client_id(self) -> str:
        return self._inner.client_id

    def events(self, kind: str | None = None) -> list[Event]:
        """The last errors and changes of this client, oldest first."""
        return self._inner.events(kind)

    def start(self) -> Self:
        """Start the client.  A start that fails leaves nothing running and may be tried again."""
        with self._lock:
            lease = self._lease or Lease(self._what)
            try:
                lease.run(self._inner.start())
            except BaseException:
                if self._lease is None:
                    lease.give_back()
                raise
            self._lease = lease
            self._started(lease)
        return self

    def stop(self) -> object:
        """Finish, leave the brokers, close.  Stopping twice is no error."""
        return self._end(self._inner.stop)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _started(self, lease: Lease) -> None:
        """Called when the client runs on this loop."""

    def _stopping(self) -> None:
        """Called before the client is stopped."""

    def _end(self, stop: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run ``stop`` on the loop and give the loop back."""
        with self._lock:
            lease, self._lease = self._lease or Lease(self._what), None
            try:
                self._stopping()
                return lease.run(stop())
            finally:
                lease.give_back()

    def _require(self) -> Lease:
        self._inner.require_running()
        lease = self._lease
        if lease is None:  # another thread is just stopping it
            raise WrongState(self._what, State.STOPPED, "make a new one")
        return lease

    def _runner(self) -> Runner:
        """What runs the coroutines of this face."""
        return self._require()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            runner = self._runner()
        except BaseException:
            work.close()
            raise
        return runner.run(work)

    def _call(self, act: Callable[[], T]) -> T:
        """Call a plain function on the loop of a running client."""
        return self._run(_call(act))

    def _do(self, act: Callable[[], T]) -> T:
        """Call a plain function on the loop, or here before the start."""
        return act() if self._lease is None else self._call(act)


async def _call(act: Callable[[], T]) -> T:
    return act()
