"""One Spark for all tests that need it, and servers beside it.

Starting a JVM takes seconds, so one session serves every test of a run; `tests/conftest.py` sends
all of them to one worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flintmq.embedded.broker import EmbeddedBroker
from spark.support import session

TIMEOUT_S = 300
"""The first of them starts a JVM, on a machine that may be very busy."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        needs_spark = "spark" in getattr(item, "fixturenames", ())
        if needs_spark and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, no web page, workers with the Python of the tests."""
    with session(tmp_path_factory.mktemp("spark")) as made:
        yield made


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """One name server and one broker for all tests of a file: use topics of your own."""
    with EmbeddedBroker() as servers:
        yield servers


@pytest.fixture
def own_broker() -> Iterator[EmbeddedBroker]:
    """The same for one test alone, which may stop them or move their clock."""
    with EmbeddedBroker() as servers:
        yield servers


@pytest.fixture
def two_brokers() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(brokers=2) as servers:
        yield servers


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """Where a query remembers what it has done."""
    return str(tmp_path / "checkpoint")
