"""A store's settings are RocketMQ's by default, and none that cannot work comes into being."""

from __future__ import annotations

from typing import Any

import pytest

from flintmq.store.files.store_config import Flush, StoreConfig, TransferLimits, parse_delay_levels


def test_defaults_are_those_of_rocketmq_but_for_the_flush() -> None:
    config = StoreConfig()

    assert config.commit_log_file_bytes == 1 << 30
    assert config.queue_file_bytes == 6_000_000
    assert config.extension_file_bytes == 48 << 20
    assert (config.index_slots, config.index_entries) == (5_000_000, 20_000_000)
    assert config.message_bytes_max == 4 << 20
    assert config.transfer == TransferLimits(262_144, 32, 65_536, 8)
    assert config.scan_bytes_max == 16_000
    assert (config.retention_hours, config.in_memory_percent) == (72, 40)
    assert (config.clean_percent, config.clean_forced_percent, config.refuse_percent) == (
        75,
        85,
        90,
    )
    assert config.flush is Flush.SYNC


def test_there_are_eighteen_delay_levels_from_a_second_to_two_hours() -> None:
    levels = StoreConfig().delay_levels_ms

    assert len(levels) == 18
    assert levels[:3] == (1_000, 5_000, 10_000)
    assert levels[4] == 60_000
    assert levels[-1] == 7_200_000


def test_a_delayed_message_is_due_its_level_after_it_was_stored() -> None:
    config = StoreConfig()

    assert config.deliver_ms(3, 1_700_000_000_001) == 1_700_000_010_001


@pytest.mark.parametrize("level", [0, -1, 19])
def test_an_unknown_level_is_due_after_a_second(level: int) -> None:
    assert StoreConfig().deliver_ms(level, 5) == 1_005


def test_delay_levels_count_seconds_minutes_hours_and_days() -> None:
    assert parse_delay_levels("2s 3m 4h  5d") == (2_000, 180_000, 14_400_000, 432_000_000)


@pytest.mark.parametrize("text", ["5", "s", "1w", "1s -2s", "1.5s"])
def test_a_delay_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="is no delay"):
        parse_delay_levels(text)


@pytest.mark.parametrize(
    "settings",
    [
        {"commit_log_file_bytes": 98},
        {"queue_file_bytes": 0},
        {"queue_file_bytes": 30},
        {"extension_file_bytes": 23},
        {"index_slots": 0},
        {"index_entries": 1},
        {"message_bytes_max": 0},
        {"delay_levels_ms": ()},
        {"retention_hours": -1},
        {"clean_percent": 86},
        {"refuse_percent": 101},
        {"clean_percent": 0},
        {"in_memory_percent": 101},
    ],
)
def test_a_setting_that_cannot_work_is_refused_with_its_name(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        StoreConfig(**settings)


def test_the_largest_record_fits_in_a_file_with_its_filler() -> None:
    assert StoreConfig(commit_log_file_bytes=1024).record_bytes_max == 1016
    assert StoreConfig().record_bytes_max == (4 << 20) + 65_536
