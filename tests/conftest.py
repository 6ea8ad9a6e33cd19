"""Servers and a Spark for whoever asks for them, and how a parallel run shares tests out.

A JVM takes seconds to start and a core to run, so two at once help nobody: all tests that start
one go to one worker.  They are known by what they ask for, the fixture ``spark`` or the marker
``java``, not by where they stand.  The marker ``xdist_group`` would say the same for each test,
but xdist 3.8 no longer sees it under pytest 9.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

from flintmq.embedded.broker import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_TIMEOUT_S = 300
"""The first test with Spark starts a JVM, on a machine that may be very busy."""

JAVA = "@java"
"""What is added to the name of a test with a JVM, for the scheduler, which knows names alone."""


def pytest_configure() -> None:
    """A run in the background of a shell ignores Ctrl-C, and so would every program it starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        needs_spark = "spark" in getattr(item, "fixturenames", ())
        if needs_spark and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT_S))
        if hasattr(config, "workerinput") and (needs_spark or item.get_closest_marker("java")):
            item._nodeid += JAVA  # type: ignore[attr-defined]  # as xdist does for its groups


class JavaInOneWorker(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """Every test is a unit of work of its own, but for those with a JVM."""

    def _split_scope(self, nodeid: str) -> str:
        return "java" if nodeid.endswith(JAVA) else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> JavaInOneWorker:
    return JavaInOneWorker(config, log)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests: two cores, no web page, workers with the Python of the tests."""
    from support.spark.support import session

    with session(tmp_path_factory.mktemp("spark")) as made:
        yield made


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """Where a query of Spark keeps its checkpoint."""
    return str(tmp_path / "checkpoint")


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """One name server and one broker for all tests of a file: use topics of your own."""
    with EmbeddedBroker() as servers:
        yield servers


@pytest.fixture
def own_broker() -> Iterator[EmbeddedBroker]:
    """A name server and a broker for one test alone, which may stop them or move their clock."""
    with EmbeddedBroker() as servers:
        yield servers


@pytest.fixture
def two_brokers() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(brokers=2) as servers:
        yield servers
