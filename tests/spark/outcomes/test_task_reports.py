"""What fails in tasks is a warning on the driver: the traceback once, and then a count."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from flintmq.client.admin import Admin
from flintmq.core.group.app import App
from flintmq.core.group.listener_failures import LINES_A_MINUTE
from flintmq.core.group.listener_results import DeadLetter
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.spark.outcomes.outcome_rows import REPORT
from flintmq.spark.outcomes.task_reports import DEAD_MAX, DriverReports, TaskReports
from flintmq.spark.tasks.listener_task import listen
from flintmq.spark.tasks.packed_app import read_program
from spark.tasks.test_listener_task import part_of
from support.spark.support import create_topic, send


def reports_of(servers: EmbeddedBroker, app: App, topic: str, count: int) -> Iterator[str]:
    """The reports in the rows of a task that consumes a topic."""
    with Admin(namesrv=servers.namesrv) as admin:
        admin.create_group(app.group)
    send(servers, create_topic(servers, topic), [f"{number}" for number in range(count)])
    for batch in listen(read_program(app), part_of(servers, topic, count)):
        yield from filter(None, batch.column(REPORT).to_pylist())


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings of the driver, with their tracebacks; the log is empty then."""
    found = [caplog.handler.format(each) for each in caplog.records if each.name == "flintmq.spark"]
    caplog.clear()
    return found


def test_a_listener_that_raises_is_one_warning_with_message_try_and_traceback(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    app = App("reporting", namesrv=broker.namesrv, retry_max=4)

    @app.listener("reporting")
    def bill(messages: Any) -> None:
        raise KeyError("customer")

    driver = DriverReports()
    with caplog.at_level(logging.WARNING):
        driver.log_all(reports_of(broker, app, "reporting", 30))
    (text,) = warnings(caplog)
    assert "bill of group 'reporting' failed: KeyError('customer')" in text
    assert "offset 0" in text
    assert "redelivered in 10 s, try 2 of 5" in text
    assert "(and 29 times more)" in text
    assert 'raise KeyError("customer")\n' in text, "the traceback"

    with caplog.at_level(logging.WARNING):
        driver.log_all(reports_of(broker, app, "reporting", 30))
    (text,) = warnings(caplog)
    assert "(this error 60 times by now)" in text
    assert "Traceback" not in text


def test_dead_letters_are_warnings_with_their_reasons(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    app = App("burying", namesrv=broker.namesrv)

    @app.listener("burying")
    def bury(messages: Any) -> DeadLetter:
        return DeadLetter("no order")

    with caplog.at_level(logging.WARNING):
        DriverReports().log_all(reports_of(broker, app, "burying", 15))

    texts = warnings(caplog)
    assert len(texts) == DEAD_MAX
    assert all("is a dead letter of group 'burying': no order" in text for text in texts)
    assert "(15 dead letters by now)" in texts[-1]


def test_a_result_that_means_nothing_is_reported(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    app = App("returning", namesrv=broker.namesrv)
    app.listener("returning")(lambda messages: True)  # type: ignore[type-var]  # wrong

    with caplog.at_level(logging.WARNING):
        DriverReports().log_all(reports_of(broker, app, "returning", 3))

    (text,) = warnings(caplog)
    assert "listener of topic 'returning': True is no result" in text
    assert "(and 2 times more)" in text


def test_a_listener_that_always_fails_has_a_limited_number_of_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver, task = DriverReports(), TaskReports()

    with caplog.at_level(logging.WARNING):
        for _ in range(3 * LINES_A_MINUTE):
            task.add_fault("orders", "wrong")
            reported = task.drain()
            assert reported is not None
            driver.log_all([reported])

    assert task.drain() is None
    assert LINES_A_MINUTE <= len(warnings(caplog)) <= 2 * LINES_A_MINUTE, "a minute may end"
