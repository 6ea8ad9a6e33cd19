"""One Spark for all tests that need it, and servers beside it.

Starting a JVM takes seconds, so one session serves every test of a run: all tests that ask for
it go to the same xdist worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.spark.session import spark_session

IN_ONE_WORKER = "spark"

TIMEOUT_S = 300
"""The first of them starts a JVM, on a machine that may be very busy."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "xdist_group: tests for one and the same xdist worker")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(IN_ONE_WORKER))
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, no web page, workers with the Python of the tests."""
    scratch = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": 1,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": scratch / "warehouse",
        "spark.local.dir": scratch / "local",
        "spark.ui.showConsoleProgress": False,
    }
    session = spark_session("flintmq-tests", "local[2]", **settings)
    yield session
    session.stop()


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
