"""The life of a client object, and the errors for calls that come at the wrong time.

    created ──start──► running ──stop──► stopped, which is final
        │ ▲                              ▲
        ▼ │ start                        │
      failed ──────────stop──────────────┘

A start that fails leaves nothing running and may be tried again.

A client belongs to the process that made it: a child that uses a client of its parent gets
`WrongState`.  Two processes on one connection would read each other's answers, and the thread
of a client does not exist in the child.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import StrEnum

from flintmq.errors import WrongState

_generation = 0
_in_child: list[Callable[[], None]] = []


def generation() -> int:
    """A number that a fork changes in the child.  Quicker than asking for the process id."""
    return _generation


def check_generation(born: int, what: str) -> None:
    """Raise `WrongState` in a child of the process where ``born`` was read."""
    if born != _generation:
        raise WrongState(what, "forked", "it belongs to the parent process; make one of your own")


def in_every_child(forget: Callable[[], None]) -> None:
    """Have ``forget`` called in a child right after the fork.  For what a module keeps."""
    _in_child.append(forget)


def process_id() -> int:
    return os.getpid()


def _forked() -> None:
    global _generation  # noqa: PLW0603  # the process is the one thing there is one of
    _generation += 1
    for forget in _in_child:
        forget()


if hasattr(os, "register_at_fork"):  # where processes fork at all
    os.register_at_fork(after_in_child=_forked)


class State(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"


_RUNNING = State.RUNNING  # to look a member up in its class takes as long as all else of a check

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
        self._born = generation()

    def __repr__(self) -> str:
        return f"<{self.what}, {self.state}>"

    @property
    def is_running(self) -> bool:
        return self.state is _RUNNING

    def require_running(self) -> None:
        """Raise `WrongState` unless it runs, and runs in this process."""
        if self.state is not _RUNNING or self._born != _generation:
            check_generation(self._born, self.what)
            raise WrongState(self.what, self.state, _WHY_NOT[self.state])

    def begin(self) -> None:
        """A start is about to be made; end it by `succeeded` or `failed`."""
        check_generation(self._born, self.what)
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
        check_generation(self._born, self.what)
        if self._starting:
            raise WrongState(self.what, "starting", "wait for its start before stopping it")
        was_running = self.state is State.RUNNING
        self.state = State.STOPPED
        return was_running
