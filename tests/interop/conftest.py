"""What the tests against real systems share: skips, the broker under test, output in reports."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from support.interop import ours, real
from support.interop.guarded_brokers import AUTH, PLAIN, Guarded, start
from support.interop.javaclient import NEW, OLD, JavaClient, MqAdmin
from support.interop.ours import Kind, Served, chosen_kind, serving
from support.interop.skipping import skip_without


@pytest.fixture(scope="session")
def java() -> None:
    """Ask for this fixture to be skipped, with the reason, where Java or Maven is missing."""
    skip_without("java", "mvn")


@pytest.fixture(scope="session", params=["sync", "async"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """The broker under test, in both ways of flushing.  One is up at a time."""
    if chosen_kind() is not Kind.OURS:
        skip_without("java", "mvn")
    with serving(tmp_path_factory.mktemp("served"), flush=request.param) as up:
        yield up


@pytest.fixture(scope="module", params=list(Kind))
def each(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Our broker, then the real ones: for what a client of ours must do with all of them."""
    kind: Kind = request.param
    if kind is not Kind.OURS:
        skip_without("java", "mvn")
    with serving(tmp_path_factory.mktemp(kind), kind=kind) as up:
        yield up


@pytest.fixture(scope="session", params=[OLD, NEW])
def version(request: pytest.FixtureRequest, java: None) -> str:
    """A release of the Java client and its tools."""
    release: str = request.param
    if release == NEW and chosen_kind() is Kind.REAL_4_9:
        pytest.skip("tools of 5.x ask a broker for codes 351 and 361, which 4.9 does not know")
    return release


@pytest.fixture(scope="session")
def client(
    served: Served, version: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaClient]:
    with JavaClient(version, served.namesrv, tmp_path_factory.mktemp("client")) as up:
        yield up


@pytest.fixture(scope="session")
def mqadmin(
    served: Served, version: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MqAdmin]:
    with MqAdmin(version, served.namesrv, tmp_path_factory.mktemp("mqadmin")) as up:
        yield up


@pytest.fixture(scope="module")
def java_client(
    java: None, each: Served, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaClient]:
    """A client of the release that belongs to the broker."""
    release = OLD if each.kind is Kind.REAL_4_9 else NEW
    with JavaClient(release, each.namesrv, tmp_path_factory.mktemp("beside")) as up:
        yield up


@pytest.fixture(
    scope="module",
    params=[("ours", PLAIN), ("ours", AUTH), ("real", PLAIN), ("real", AUTH)],
    ids="-".join,
)
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    """Our broker with accounts of each dialect, then the real ones."""
    whose, acl = request.param
    if whose != "ours":
        skip_without("java", "mvn")
    with start(whose, acl, tmp_path_factory.mktemp(whose)) as up:
        yield up


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections += [("real servers", rocketmq.output()) for rocketmq in real.running]
        report.sections += [("our server", served.output()) for served in ours.running]
    return report
