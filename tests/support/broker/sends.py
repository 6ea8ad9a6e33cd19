"""Sends to a `World` field by field, and what came of them in its log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.requests.outcome import Answer
from flintmq.model.queue import QueueOffset
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.send import SendMessage
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.record import Record, decode_record
from support.broker.world import SMALL_STORE, World


def ask(world: World, topic: str, body: bytes = b"hello", **fields: Any) -> Answer:
    """A send in the long form of the header, code 10."""
    given: dict[str, Any] = {
        "producer_group": "producers",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": world.now_ms,
        "flag": 0,
    }
    version = fields.pop("version", 479)
    header = SendMessage(**given | fields)
    answer = world.ask(RequestCode.SEND_MESSAGE, header, body, version=version)
    assert answer is not None
    return answer


def last_record(world: World, topic: str, queue_id: int = 0) -> Record:
    """The newest record of a queue, read back from the log."""
    offset = QueueOffset(world.state.log.max_offset(topic, queue_id) - 1)
    views = world.state.log.read(topic, queue_id, offset, 1).views
    return decode_record(b"".join(views))


def stored_properties(world: World, topic: str, queue_id: int = 0) -> dict[str, str]:
    return parse_properties(last_record(world, topic, queue_id).properties)


def configured(**settings: Any) -> BrokerConfig:
    return BrokerConfig(store=SMALL_STORE, **settings)


def change(world: World, **settings: Any) -> None:
    world.state.config = replace(world.state.config, **settings)
