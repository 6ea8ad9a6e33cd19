"""The last thousand events are kept, and every one is logged."""

from __future__ import annotations

import logging

import pytest

from flintmq.client.engine.event_log import EVENTS_MAX, EventLog


def test_the_oldest_goes_first() -> None:
    events = EventLog(lambda: 5)
    for number in range(EVENTS_MAX + 3):
        events.add("retry", "topic", str(number))

    kept = events.latest()
    assert len(events) == len(kept) == EVENTS_MAX == 1_000
    assert (kept[0].text, kept[-1].text) == ("3", str(EVENTS_MAX + 2))
    assert kept[0].at_ms == 5
    assert repr(events) == "<EventLog, 1000 events>"


def test_they_can_be_asked_for_by_kind_and_number() -> None:
    events = EventLog(lambda: 0)
    for kind in ("retry", "route", "retry"):
        events.add(kind, "t", kind)

    assert [event.kind for event in events.latest(kind="retry")] == ["retry", "retry"]
    assert [event.kind for event in events.latest(2)] == ["route", "retry"]
    assert events.latest(0) == []
    assert str(events.latest(1)[0]) == "retry t: retry"


def test_every_event_is_logged_at_its_level(caplog: pytest.LogCaptureFixture) -> None:
    events = EventLog(lambda: 0)
    with caplog.at_level(logging.INFO, "flintmq.client"):
        events.add("retry", "topic", "again")
        events.add("check", "topic", "late", logging.WARNING)

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "retry topic: again"),
        ("WARNING", "check topic: late"),
    ]
