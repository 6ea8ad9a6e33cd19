"""What a fork does to clients: a child that uses a client of its parent gets a clear error.

Two processes on one connection would read each other's answers, and the thread a client lives
on does not exist in the child.  So every client remembers the process it was made in; a child
makes clients of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from flintmq.errors import WrongState

_generation = 0
_in_child: list[Callable[[], None]] = []


def generation() -> int:
    """A number that a fork changes in the child.  Quicker than asking for the process id."""
    return _generation


def check_generation(born: int, what: str) -> None:
    """Raise `WrongState` in a child of the process where ``born`` was taken."""
    if born != _generation:
        raise WrongState(what, "forked", "it belongs to the parent process; make one of your own")


def in_every_child(forget: Callable[[], None]) -> None:
    """Have ``forget`` called in a child right after the fork.  For what a module keeps."""
    _in_child.append(forget)


def process_id() -> int:
    return os.getpid()


def _forked() -> None:
    global _generation  # noqa: PLW0603  # the one fact of this module
    _generation += 1
    for forget in _in_child:
        forget()


if hasattr(os, "register_at_fork"):  # where processes fork at all
    os.register_at_fork(after_in_child=_forked)
