"""A query whose source was not up in time is started again; any other failure is told as it is."""

from __future__ import annotations

from typing import Any, cast

import pytest

from flintmq.spark.environment.query_start import STARTS_MAX, start_query

TOO_SLOW = "terminated with exception: Python worker failed to connect back. SQLSTATE: XXKST"


class FakeQuery:
    """A query that initializes for two looks, then works or has failed."""

    def __init__(self, error: str | None = None) -> None:
        self._error = error
        self._looks = 0
        self.was_stopped = False

    @property
    def isActive(self) -> bool:  # noqa: N802  # Spark's name
        return self._looks < 2 or self._error is None

    @property
    def status(self) -> dict[str, str]:
        self._looks += 1
        return {"message": "Initializing sources" if self._looks < 3 else "Waiting for data"}

    def exception(self) -> Exception | None:
        return None if self._error is None else RuntimeError(self._error)

    def stop(self) -> None:
        self.was_stopped = True


class FakeWriter:
    """Starts queries that end as planned."""

    def __init__(self, *queries: FakeQuery) -> None:
        self._queries = list(queries)
        self.started: list[FakeQuery] = []

    def start(self) -> FakeQuery:
        self.started.append(self._queries.pop(0))
        return self.started[-1]


def started(writer: FakeWriter) -> FakeQuery:
    return cast(FakeQuery, start_query(cast(Any, writer)))


def test_a_query_that_works_is_started_once() -> None:
    writer = FakeWriter(FakeQuery())

    assert started(writer) is writer.started[0]
    assert len(writer.started) == 1


def test_one_whose_source_was_too_slow_is_started_again_and_that_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    writer = FakeWriter(FakeQuery(TOO_SLOW), FakeQuery())

    assert started(writer) is writer.started[1]
    assert caplog.text.count("the query is started again") == 1


def test_a_machine_that_stays_too_slow_is_told_by_the_last_query() -> None:
    writer = FakeWriter(*(FakeQuery(TOO_SLOW) for _ in range(STARTS_MAX)))

    assert started(writer).exception() is not None
    assert len(writer.started) == STARTS_MAX


def test_another_failure_is_left_to_whoever_waits_for_the_query() -> None:
    writer = FakeWriter(FakeQuery("nobody created topic 'orders'"))

    assert started(writer).exception() is not None
    assert len(writer.started) == 1


def test_a_start_that_is_interrupted_leaves_no_query() -> None:
    class Interrupted(FakeQuery):
        @property
        def status(self) -> dict[str, str]:
            raise KeyboardInterrupt

    query = Interrupted()

    with pytest.raises(KeyboardInterrupt):
        started(FakeWriter(query))
    assert query.was_stopped
