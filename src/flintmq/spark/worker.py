"""What the tasks of one Python worker share; Spark uses a worker for many tasks, one by one.

Spark has the worker collect its garbage after every task.  That looks at every object there is,
of all modules too, and takes tens of milliseconds: longer than a small task.  So what is there
when the first task begins is set apart once.
"""

from __future__ import annotations

import gc

_is_ready = False


def make_ready() -> None:
    """Call it in a task, when everything it needs is loaded.  Does something once a process."""
    global _is_ready  # noqa: PLW0603  # a fact of the process
    if not _is_ready:
        _is_ready = True
        gc.collect()
        gc.freeze()
