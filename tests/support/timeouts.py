"""A test that outlives its timeout is ended, even where it caught the first alarm.

pytest-timeout raises once, in whatever runs on the main thread.  A callback of an event loop or a
server that stops in order may catch that, and the test would wait for ever.  With this plugin the
alarm comes again, each time after as long as the test's timeout, until the test is over.
"""

from __future__ import annotations

import signal
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer() -> Generator[None, object, object]:
    result = yield
    wait_s, _ = signal.getitimer(signal.ITIMER_REAL)
    if wait_s > 0:  # it is 0 where a thread keeps the time
        signal.setitimer(signal.ITIMER_REAL, wait_s, wait_s)
    return result
