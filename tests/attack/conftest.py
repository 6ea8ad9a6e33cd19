"""One arena for each family of attacks, and the table of what they cost at the end of the run."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.attack.arena import Arena, Row, now_s, table

ROWS = pytest.StashKey[list[Row]]()
START = pytest.StashKey[float]()
HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.stash[ROWS] = []
    config.stash[START] = now_s()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here is heavy, and reads /proc; first of all hooks, so that `-m` sees the mark."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.heavy)
            if sys.platform != "linux":
                item.add_marker(pytest.mark.skip(reason="the cost of a process is read in /proc"))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    rows = config.stash.get(ROWS, [])
    if rows:
        terminalreporter.section("what the attacks cost")
        for line in table(rows, now_s() - config.stash[START]):
            terminalreporter.write_line(line)


@pytest.fixture(scope="module")
def arena(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Arena]:
    """A victim of one family; what must hold at its end fails the last test of the file.

    A file that needs settings has them in ``CONFIG``, as broker.conf has them, and options of the
    command line in ``OPTIONS``.
    """
    directory = tmp_path_factory.mktemp("victim")
    config = directory / "broker.conf"
    config.write_text(getattr(request.module, "CONFIG", ""))
    options = getattr(request.module, "OPTIONS", ())
    made = Arena(directory, request.config.stash[ROWS], "--config", config, *options)
    yield made
    made.end()


@pytest.fixture
def descriptors() -> Iterator[None]:
    """As many files as the system allows: the attackers run here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
