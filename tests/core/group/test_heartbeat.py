"""Every broker hears of all groups of a client every 30 s, and at once when something changed."""

from __future__ import annotations

from flintmq.core.group.heartbeat import HeartbeatClock, heartbeat_addresses, heartbeat_body
from flintmq.protocol.bodies.client import ConsumerGroup, Heartbeat

BROKERS = {"a": {0: "a:1", 1: "a:2"}, "b": {0: "b:1"}, "c": {1: "c:2"}}


def test_the_first_is_due_after_a_second_and_then_every_30() -> None:
    clock = HeartbeatClock(100)

    assert not clock.take(1_099)
    assert clock.take(1_100)
    assert clock.due_ms == 31_100
    assert not clock.take(31_099)
    assert clock.take(31_100)


def test_one_that_is_woken_is_due_now_and_starts_the_interval_again() -> None:
    clock = HeartbeatClock(0)
    clock.take(1_000)

    clock.wake(5_000)

    assert clock.take(5_000)
    assert clock.due_ms == 35_000


def test_it_names_all_groups() -> None:
    body = heartbeat_body("me", ["sellers"], [ConsumerGroup(group_name="buyers")])

    beat = Heartbeat.from_body(body)

    assert beat.client_id == "me"
    assert [group.group_name for group in beat.producer_data_set] == ["sellers"]
    assert [group.group_name for group in beat.consumer_data_set] == ["buyers"]
    assert (beat.heartbeat_fingerprint, beat.without_sub) == (0, False)


def test_slaves_hear_only_of_consumers() -> None:
    assert heartbeat_addresses(BROKERS, has_consumers=False) == ["a:1", "b:1"]
    assert heartbeat_addresses(BROKERS, has_consumers=True) == ["a:1", "a:2", "b:1", "c:2"]
    twice = {"a": {0: "x:1"}, "b": {0: "x:1"}}
    assert heartbeat_addresses(twice, has_consumers=True) == ["x:1"]
