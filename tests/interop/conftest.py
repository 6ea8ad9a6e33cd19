"""What the tests against real systems share: skips, and the output of servers in reports."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from interop.real import missing_tools, running


@pytest.fixture(scope="session")
def java() -> None:
    """Ask for this fixture to be skipped, with the reason, where Java or Maven is missing."""
    reason = missing_tools("java", "mvn")
    if reason is not None:
        pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections += [("real servers", rocketmq.output()) for rocketmq in running]
    return report
