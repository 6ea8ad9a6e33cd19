"""One word, time or offset means the same start in every consumer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from flintmq.errors import InvalidSetting
from flintmq.model.group import ConsumeFromWhere
from flintmq.model.start_point import END, OFFSET_MAX, StartPoint, read_start, start_point

AT_MS = 1_794_803_628_010
AT = datetime.fromtimestamp(AT_MS / 1000, UTC)


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        (("first", "earliest", "start", " First "), ConsumeFromWhere.FIRST_OFFSET),
        (("last",), ConsumeFromWhere.LAST_OFFSET),
        (("end", "latest", "LATEST"), END),
        (("timestamp",), ConsumeFromWhere.TIMESTAMP),
        (tuple(ConsumeFromWhere)[:1], ConsumeFromWhere.LAST_OFFSET),
    ],
)
def test_words(words: tuple[str, ...], meaning: object) -> None:
    assert {read_start(word) for word in words} == {meaning}


@pytest.mark.parametrize(
    "value",
    [
        AT,
        AT.astimezone(timezone(timedelta(hours=8))),
        AT.astimezone().replace(tzinfo=None),
        AT.isoformat(),
        AT.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        AT_MS,
        str(AT_MS),
    ],
)
def test_times(value: object) -> None:
    assert read_start(value) == StartPoint(ConsumeFromWhere.TIMESTAMP, time_ms=AT_MS)


@pytest.mark.parametrize("value", [0, 1_500, "1500", OFFSET_MAX - 1])
def test_offsets(value: object) -> None:
    found = read_start(value)

    assert isinstance(found, StartPoint)
    assert (found.offset, found.time_ms) == (int(str(value)), None)


@pytest.mark.parametrize("value", ["", "soon", "2026-13-01", -1, True, 1.5, None, "-3", 2**70])
def test_anything_else_is_refused_with_what_may_be_given(value: object) -> None:
    with pytest.raises(InvalidSetting, match=r"end .latest., timestamp, a datetime"):
        read_start(value)


def test_the_starts_of_rocketmq_follow_its_rule_for_young_queues_and_ours_do_not() -> None:
    assert not any(start_point(each).is_exact for each in ConsumeFromWhere)
    exact = [read_start(each) for each in ("end", 5, AT)]
    assert all(isinstance(each, StartPoint) and each.is_exact for each in exact)
    assert [str(each) for each in exact] == ["end", "offset 5", AT.isoformat()]
