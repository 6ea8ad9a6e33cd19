"""Servers and a Spark for whoever asks for them, and how a parallel run shares tests out.

A JVM takes seconds to start and a core to run, so two at once help nobody: all tests that start
one go to one worker.  They are known by what they ask for, the fixture ``spark`` or the marker
``java``, not by where they stand.  The marker ``xdist_group`` would say the same for each test,
but xdist 3.8 no longer sees it under pytest 9.

All others go to workers by file, so that what a file sets up once is set up once.  Files of few
tests go first: those tests are the long ones, and no worker is left alone with one at the end.

Hypothesis draws the same examples in every run, however long one of them takes: whether a change
is good must not depend on chance or on what else the machine does.  ``--hypothesis-profile
explore`` draws others each time, and so does ``make fuzz``.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections import Counter, OrderedDict
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler.loadscope import LoadScopeScheduling

from flintmq.embedded.broker import EmbeddedBroker
from support.kernels import KERNELS, using_kernel
from support.timeouts import pytest_timeout_set_timer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["pytest_timeout_set_timer"]
"""Hooks of other modules."""

NO_CLOCK: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow],
}
"""Time says nothing about an example on a machine that may be very busy."""

settings.register_profile("explore", **NO_CLOCK)
settings.register_profile("same", derandomize=True, **NO_CLOCK)
settings.load_profile("explore" if "FLINTMQ_FUZZ_EXAMPLES" in os.environ else "same")

SPARK_TIMEOUT_S = 300
"""The first test with Spark starts a JVM, on a machine that may be very busy."""

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For JVMs that end soon: code that is optimised for a long run costs more than it saves."""

JAVA = "java"
UNIT_TESTS = 32
"""Tests of one file that go to one worker: large files are shared, and the end comes for all."""

LISTED = "flintmq_java"
"""What a worker is told: the directory where it lists its tests with a JVM."""


def pytest_configure(config: pytest.Config) -> None:
    """What all programs inherit that tests start.

    A run in the background of a shell ignores Ctrl-C, and so would every one of them.
    """
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(JavaLists())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_LIVED)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if needs_spark(item) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT_S))


def pytest_collection_finish(session: pytest.Session) -> None:
    """In a worker: list the tests with a JVM for the scheduler, which knows names alone."""
    told: dict[str, str] = getattr(session.config, "workerinput", {})
    if LISTED in told:
        java = [i.nodeid for i in session.items if needs_spark(i) or i.get_closest_marker("java")]
        (Path(told[LISTED]) / told["workerid"]).write_text("\n".join(java), encoding="utf-8")


def needs_spark(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


class UnitsOfWork(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """What goes to one worker: the tests with a JVM first, then files or parts of large ones."""

    def __init__(self, config: pytest.Config, log: Any, listed: Path) -> None:
        super().__init__(config, log)
        self._listed = listed
        self._units: dict[str, str] = {}
        self._is_sorted = False

    def _split_scope(self, nodeid: str) -> str:
        if not self._units:  # every worker has collected, and so has listed, by now
            lists = [path.read_text(encoding="utf-8") for path in self._listed.iterdir()]
            self._units = units_of(self.collection, {n for each in lists for n in each.split("\n")})
        return self._units[nodeid]

    def _assign_work_unit(self, node: Any) -> None:
        if not self._is_sorted:
            units: OrderedDict[str, dict[str, bool]] = self.workqueue
            for unit in sorted(units, key=lambda unit: (unit != JAVA, len(units[unit]))):
                units.move_to_end(unit)
            self._is_sorted = True
        super()._assign_work_unit(node)


def units_of(names: Iterable[str], java: Container[str]) -> dict[str, str]:
    """Each test and its unit of work."""
    units, counted = {}, Counter[str]()
    for name in names:
        file = name.partition("::")[0]
        units[name] = JAVA if name in java else f"{file} {counted[file] // UNIT_TESTS}"
        counted[file] += 1
    return units


class JavaLists:
    """In the process that starts the workers: where they list their tests, until the end."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="flintmq-java-")

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[LISTED] = self._directory.name

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> UnitsOfWork:
        return UnitsOfWork(config, log, Path(self._directory.name))

    def pytest_unconfigure(self) -> None:
        self._directory.cleanup()


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


@pytest.fixture(scope="module", params=KERNELS)
def each_kernel(request: pytest.FixtureRequest) -> Iterator[str]:
    """The tests of a module run on both kernels; without the compiled one its half is skipped."""
    with using_kernel(request.param):
        yield request.param
