"""The life of a client object, and the errors for calls that come at the wrong time.

    created ──start──► running ──stop──► stopped, which is final
        │ ▲                              ▲
        ▼ │ start                        │
      failed ──────────stop──────────────┘

A start that fails leaves nothing running and may be tried again.
"""

from __future__ import annotations

from enum import StrEnum

from flintmq.client.engine import fork
from flintmq.errors import WrongState


class State(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"


_WHY_NOT = {
    State.CREATED: "start it first",
    State.STOPPED: "a stopped one does not come back; make a new one",
    State.FAILED: "its start failed; start it again",
}


class Life:
    """Where one object stands.  ``what`` names it in errors."""

    __slots__ = ("_born", "_starting", "state", "what")

    def __init__(self, what: str) -> None:
        self.what = what
        self.state = State.CREATED
        self._starting = False
        self._born = fork.generation()

    def __repr__(self) -> str:
        return f"<{self.what}, {self.state}>"

    @property
    def is_running(self) -> bool:
        return self.state is State.RUNNING

    def require_running(self) -> None:
        """Raise `WrongState` unless it runs, and runs in this process."""
        if self._born != fork.generation():
            fork.check_generation(self._born, self.what)
        if self.state is not State.RUNNING:
            raise WrongState(self.what, self.state, _WHY_NOT[self.state])

    def begin(self) -> None:
        """A start is about to be made; end it by `succeeded` or `failed`."""
        fork.check_generation(self._born, self.what)
        if self.state is State.RUNNING:
            raise WrongState(self.what, self.state, "it was started before")
        if self.state is State.STOPPED:
            raise WrongState(self.what, self.state, _WHY_NOT[self.state])
        if self._starting:
            raise WrongState(self.what, "starting", "another start is under way")
        self._starting = True

    def succeeded(self) -> None:
        self._starting = False
        self.state = State.RUNNING

    def failed(self) -> None:
        self._starting = False
        self.state = State.FAILED

    def end(self) -> bool:
        """Enter the state stopped; whether it was running, so that there is something to stop."""
        fork.check_generation(self._born, self.what)
        if self._starting:
            raise WrongState(self.what, "starting", "wait for its start before stopping it")
        was_running = self.state is State.RUNNING
        self.state = State.STOPPED
        return was_running
