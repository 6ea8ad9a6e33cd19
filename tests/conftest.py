"""How a parallel run shares tests out: all that start a JVM go to one worker.

A JVM takes seconds to start and a core to run, so two at once help nobody; the others mostly wait
for sockets and disks.  The marker
``xdist_group`` would say the same for each test, but xdist 3.8 no longer sees it under pytest 9.
"""

from __future__ import annotations

import signal
from typing import Any

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

WITH_JAVA = (
    "tests/spark/",
    "tests/test_examples.py",
    "tests/cli/test_demo.py",
    "tests/cli/test_lake.py",
    "tests/cli/test_run_spark.py",
)


def pytest_configure() -> None:
    """A run in the background of a shell ignores Ctrl-C, and so would every program it starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class JavaInOneWorker(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """Every test is a unit of work of its own, but for those with Java."""

    def _split_scope(self, nodeid: str) -> str:
        return "java" if nodeid.startswith(WITH_JAVA) else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> JavaInOneWorker:
    return JavaInOneWorker(config, log)
