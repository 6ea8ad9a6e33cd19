"""Heartbeats for tests: made by hand, and those that real clients sent."""

from __future__ import annotations

import json
from pathlib import Path

from flintmq.model.group import ConsumeFromWhere, ConsumeType, MessageModel
from flintmq.protocol.bodies.client import ConsumerGroup, Heartbeat, ProducerGroup, Subscription

GOLDEN = Path(__file__).parents[2] / "golden" / "bodies.jsonl"


def golden_heartbeats() -> list[tuple[str, bytes]]:
    """Origin and body of every heartbeat that was recorded."""
    rows = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    return [
        (row["origin"].partition(",")[0], row["text"].encode())
        for row in rows
        if row["kind"] == "Heartbeat"
    ]


def wants(topic: str, text: str = "*", *, version: int = 1, sql: bool = False) -> Subscription:
    kind = "SQL92" if sql else "TAG"
    return Subscription(topic=topic, sub_string=text, sub_version=version, expression_type=kind)


def consumer(
    group: str,
    *subscriptions: Subscription,
    model: MessageModel = MessageModel.CLUSTERING,
    unit_mode: bool = False,
) -> ConsumerGroup:
    return ConsumerGroup(
        group_name=group,
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        consume_type=ConsumeType.PUSH,
        message_model=model,
        subscription_data_set=subscriptions,
        unit_mode=unit_mode,
    )


def heartbeat(
    client_id: str,
    *consumers: ConsumerGroup,
    producers: tuple[str, ...] = (),
    fingerprint: int = 0,
    without_sub: bool = False,
) -> Heartbeat:
    return Heartbeat(
        client_id=client_id,
        consumer_data_set=consumers,
        producer_data_set=tuple(ProducerGroup(group_name=name) for name in producers),
        heartbeat_fingerprint=fingerprint,
        without_sub=without_sub,
    )
