"""A heartbeat names every group of its client."""

from __future__ import annotations

from flintmq.core.group.group_introduction import heartbeat_body
from flintmq.protocol.bodies.client import ConsumerGroup, Heartbeat


def test_it_names_all_groups() -> None:
    body = heartbeat_body("me", ["sellers"], [ConsumerGroup(group_name="buyers")])

    beat = Heartbeat.from_body(body)

    assert beat.client_id == "me"
    assert [group.group_name for group in beat.producer_data_set] == ["sellers"]
    assert [group.group_name for group in beat.consumer_data_set] == ["buyers"]
    assert (beat.heartbeat_fingerprint, beat.without_sub) == (0, False)
