"""A listener that raises is described once in full, and then counted."""

from __future__ import annotations

from typing import Any

import pytest

from flintmq.core.group.listener_failures import (
    KINDS_MAX,
    LINES_A_MINUTE,
    Failing,
    FailureLine,
    ListenerFailures,
    is_failure,
)
from flintmq.core.group.listener_results import DeadLetter, Retry
from support.core.messages import QUEUE, received


def bill(messages: object) -> None: ...


def raised(kind: type[Exception], text: str = "boom") -> Exception:
    try:
        raise kind(text)
    except kind as error:
        return error


def failing(error: Exception, *, times: int = 0, count: int = 1, **rules: Any) -> Failing:
    messages = tuple(received(12 + n, times=times) for n in range(count))
    found = Failing("billing", bill, QUEUE, messages, error, 16)
    return found._replace(**rules)


def line(found: FailureLine | None) -> FailureLine:
    assert found is not None
    return found


def test_the_first_failure_names_message_try_and_redelivery_with_its_traceback() -> None:
    error = raised(ValueError)

    text, shown = line(ListenerFailures().line(failing(error), 0))

    assert shown is error
    assert text.startswith("listener bill of group 'billing' failed: ValueError('boom'); ")
    assert f"queue {QUEUE}, offset 12, message {received(12).message_id}" in text
    assert text.endswith("redelivered in 10 s, try 2 of 17")


@pytest.mark.parametrize(
    ("times", "rules", "end"),
    [
        (1, {}, "redelivered in 30 s, try 3 of 17"),
        (15, {}, "redelivered in 2 h, try 17 of 17"),
        (16, {}, "dead letter after 17 tries"),
        (0, {"tries_max": 0}, "dead letter after 1 try"),
        (0, {"suspend_ms": 1_000}, "its queue waits for 1000 ms, then try 2 of 17"),
        (0, {"suspend_ms": 1_000, "tries_max": 2**31 - 1}, "then try 2"),
        (0, {"is_broadcasting": True}, "dropped: broadcasting redelivers nothing"),
    ],
)
def test_what_follows_is_said(times: int, rules: dict[str, Any], end: str) -> None:
    found = ListenerFailures().line(failing(raised(ValueError), times=times, **rules), 0)

    assert line(found).text.endswith(end)


def test_the_same_error_is_counted_and_its_traceback_is_not_repeated() -> None:
    failures = ListenerFailures()
    failures.line(failing(raised(KeyError, "a")), 0)

    text, shown = line(failures.line(failing(raised(KeyError, "b")), 1))

    assert shown is None
    assert text.endswith("(this error 2 times by now)")
    assert line(failures.line(failing(raised(ValueError)), 2)).error is not None


def test_a_batch_says_how_many_failed_together() -> None:
    text, _ = line(ListenerFailures().line(failing(raised(ValueError), count=32), 0))

    assert " and 31 more of its batch" in text


def test_a_flood_has_a_few_lines_a_minute_and_loses_no_count() -> None:
    failures = ListenerFailures()
    lines = [failures.line(failing(raised(ValueError)), 0) for _ in range(500)]

    assert len([each for each in lines if each is not None]) == LINES_A_MINUTE
    text, _ = line(failures.line(failing(raised(ValueError)), 60_000))
    left_out = 500 - LINES_A_MINUTE
    assert text.endswith(f"(this error 501 times by now; {left_out} more like it were not logged)")


def test_the_kinds_of_errors_that_are_remembered_are_limited() -> None:
    failures = ListenerFailures()
    kinds = [type(f"Error{n}", (Exception,), {}) for n in range(KINDS_MAX + 1)]
    for kind in kinds:
        failures.line(failing(raised(kind)), 0)

    assert line(failures.line(failing(raised(kinds[0])), 1)).error is not None
    assert line(failures.line(failing(raised(kinds[-1])), 1)).error is None


def test_what_a_listener_asks_for_is_no_failure() -> None:
    assert is_failure(ValueError())
    assert not any(map(is_failure, (None, Retry(), DeadLetter("no order"), True)))
