"""A setting out of range is refused under its own name, with the range; defaults are RocketMQ's."""

from __future__ import annotations

from typing import Any

import pytest

from flintmq.core.group.consumer_settings import BACKLOG_MS, RETRY_MAX, UNLIMITED, ConsumerSettings
from flintmq.errors import InvalidName, InvalidSetting
from flintmq.model.group import ConsumeFromWhere, MessageModel

RANGES = {
    "batch_max": (1, 1_024),
    "threads_min": (1, 1_000),
    "threads_max": (20, 1_000),
    "span_max": (1, 65_535),
    "queue_count_max": (1, 65_535),
    "queue_mib_max": (1, 1_024),
    "topic_count_max": (1, 6_553_500),
    "topic_mib_max": (1, 102_400),
    "pull_interval_ms": (0, 65_535),
    "pull_batch_max": (1, 1_024),
    "pull_error_delay_ms": (10, 86_400_000),
    "ordered_suspend_ms": (10, 30_000),
}


def made(**changes: Any) -> ConsumerSettings:
    return ConsumerSettings(**{"group": "billing", **changes})


def test_defaults_are_those_of_rocketmq() -> None:
    settings = made()

    assert (settings.model, settings.ordered) == (MessageModel.CLUSTERING, False)
    assert settings.start_from is ConsumeFromWhere.LAST_OFFSET
    assert (settings.threads_min, settings.threads_max) == (20, 20)
    assert (settings.span_max, settings.queue_count_max, settings.queue_mib_max) == (
        2000,
        1000,
        100,
    )
    assert (settings.topic_count_max, settings.topic_mib_max) == (None, None)
    assert (settings.batch_max, settings.pull_batch_max) == (1, 32)
    assert (settings.pull_bytes_max, settings.pull_interval_ms) == (262_144, 0)
    assert settings.pull_error_delay_ms == 3_000
    assert (settings.ordered_suspend_ms, settings.consume_timeout_ms) == (1_000, 15 * 60_000)
    assert (settings.commit_interval_ms, settings.rebalance_interval_ms) == (5_000, 20_000)
    assert not settings.sends_subscription


@pytest.mark.parametrize("name", RANGES)
def test_a_number_is_taken_within_its_range_and_refused_outside(name: str) -> None:
    low, high = RANGES[name]
    if name == "threads_min":
        high = 20

    made(**{name: low})
    made(**{name: high})
    for value in (RANGES[name][0] - 1 if name != "threads_max" else 0, RANGES[name][1] + 1):
        with pytest.raises(InvalidSetting, match="out of range") as caught:
            made(**{name: value})
        assert (caught.value.setting, caught.value.value) == (name, str(value))
        assert str(RANGES[name][1]) in caught.value.reason


@pytest.mark.parametrize("value", ["5", 1.5, True])
def test_only_whole_numbers_are_numbers(value: object) -> None:
    with pytest.raises(InvalidSetting, match="whole number"):
        made(batch_max=value)


def test_a_limit_that_must_be_cannot_be_none() -> None:
    with pytest.raises(InvalidSetting, match="whole number"):
        made(queue_count_max=None)


def test_fewer_threads_at_most_than_at_least_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="larger than threads_max, which is 5"):
        made(threads_min=6, threads_max=5)


@pytest.mark.parametrize("group", ["", "  ", "a b", "x" * 256, "DEFAULT_CONSUMER"])
def test_a_group_that_no_broker_takes_is_refused(group: str) -> None:
    with pytest.raises(InvalidName):
        made(group=group)


@pytest.mark.parametrize(("name", "value"), [("model", "CLUSTERED"), ("start_from", None)])
def test_a_choice_is_one_of_those_there_are(name: str, value: object) -> None:
    with pytest.raises(InvalidSetting):
        made(**{name: value})


def test_a_message_comes_again_16_times_or_without_end_in_order() -> None:
    assert made().tries_max(ordered=False) == RETRY_MAX == 16
    assert made().tries_max(ordered=True) == UNLIMITED == 2**31 - 1
    assert made(retry_max=3).tries_max(ordered=True) == 3


def test_names_on_the_wire_have_the_namespace() -> None:
    settings = made(namespace="shop")

    assert settings.wire_group == "shop%billing"
    assert settings.retry_topic == "%RETRY%shop%billing"


def test_a_start_by_time_without_a_time_is_half_an_hour_ago() -> None:
    assert made().starts_at_ms(BACKLOG_MS + 5) == 5
    assert made(start_at_ms=7).starts_at_ms(BACKLOG_MS) == 7
