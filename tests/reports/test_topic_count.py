"""A report that is counted in this process says what is in the messages, exactly."""

from __future__ import annotations

import pytest

from flintmq.reports.topic_count import CountedMessage, RetriedMessage, count_topics
from flintmq.reports.topic_figures import ALL, NOTHING, NameCount, RetryCount

HOUR_MS = 3_600_000


def message(
    topic: str = "orders",
    stored_ms: int = 0,
    *,
    latency_ms: int | None = 1,
    size: int | None = 10,
    tags: str | None = None,
    keys: tuple[str, ...] = (),
) -> CountedMessage:
    return CountedMessage(topic, stored_ms, latency_ms, size, tags, keys)


def test_all_together_comes_before_each_topic() -> None:
    found = count_topics([message("orders"), message("mails"), message("orders")])

    assert [(each.topic, each.messages) for each in found.summary] == [
        (ALL, 3),
        ("mails", 1),
        ("orders", 2),
    ]
    assert found.total.body_bytes == 30


def test_quantiles_are_values_that_occur() -> None:
    found = count_topics([message(size=size, latency_ms=-size) for size in range(1, 101)])

    assert found.total.sizes == (50, 90, 99, 100)
    assert found.total.latencies_ms == (-51, -11, -2, -1)
    assert found.total.clock_ahead == 100


def test_what_cannot_be_decoded_is_counted_and_has_no_size() -> None:
    found = count_topics([message(size=None), message(size=7)])

    assert (found.total.bad_records, found.total.body_bytes) == (1, 7)
    assert found.total.sizes == (7, 7, 7, 7)


def test_no_message_at_all_is_a_report_too() -> None:
    found = count_topics([])

    assert found.summary == (NOTHING,)
    assert not any((found.steps, found.tags, found.keys, found.retries))
    assert next(table for table in found.tables() if table.name == "summary").rows


def test_steps_have_the_messages_of_their_time() -> None:
    found = count_topics([message(stored_ms=at) for at in (0, 1, 2 * HOUR_MS)], step_ms=HOUR_MS)

    together = [each for each in found.steps if each.numbers.topic == ALL]
    assert [(each.start_ms, each.numbers.messages) for each in together] == [
        (0, 2),
        (2 * HOUR_MS, 1),
    ]


def test_names_are_sorted_by_how_many_have_them() -> None:
    found = count_topics(
        [
            message(tags="b", keys=("x", "y")),
            message(tags="a", keys=("y",)),
            message("mails"),
        ]
    )

    assert found.tags[:3] == tuple(NameCount(ALL, name, 1) for name in (None, "a", "b"))
    assert [each for each in found.keys if each.topic == "orders"] == [
        NameCount("orders", "y", 2),
        NameCount("orders", "x", 1),
    ]
    assert (found.total.untagged, found.total.without_key) == (1, 1)


def test_retries_are_those_of_the_topics_since_their_first_message() -> None:
    found = count_topics(
        [message(stored_ms=1_000)],
        [
            RetriedMessage("%RETRY%billing", "orders", 1_500),
            RetriedMessage("%DLQ%billing", "orders", 2_500),
            RetriedMessage("%RETRY%billing", "orders", 10),
            RetriedMessage("%RETRY%billing", "elsewhere", 1_500),
            RetriedMessage("%RETRY%billing", None, 1_500),
        ],
        step_ms=1_000,
    )

    assert found.retries == (
        RetryCount(1_000, "orders", "billing", "retry", 1),
        RetryCount(2_000, "orders", "billing", "dead letter", 1),
    )


@pytest.mark.parametrize(("count", "span_ms"), [(500, 900), (1, 0), (7, 60_000)])
def test_the_peak_is_never_below_the_average(count: int, span_ms: int) -> None:
    found = count_topics([message(stored_ms=span_ms * n // count) for n in range(count)])

    summary = next(table for table in found.tables() if table.name == "summary")
    for line in summary.facts():
        average, peak = line["per_second"], line["peak_per_second"]
        assert isinstance(peak, float)
        assert peak >= float(str(average or 0))
