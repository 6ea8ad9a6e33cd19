"""The event loop everything runs on: uvloop where it is installed, else asyncio's own.

No event loop policy is set: a program that uses flintmq keeps the loops it chose itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # Windows, and whoever left it out
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a loop of its own, and close that loop."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
