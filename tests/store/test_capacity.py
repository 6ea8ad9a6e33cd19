"""The capacity of a store is computed from the bytes that a store really writes."""

from __future__ import annotations

import pytest

from flintmq import EmbeddedBroker, Message
from flintmq.store.capacity import Capacity, Load, capacity, record_bytes
from flintmq.store.files.store_config import StoreConfig

GIB = 1024**3


def test_a_record_is_as_large_as_the_one_a_broker_stores() -> None:
    with EmbeddedBroker() as broker, broker.producer("shop") as producer:
        message = Message(
            "orders", b"x" * 100, tags="paid", keys=["o-1", "o-2"], properties={"a": "b"}
        )
        producer.send(message)
        (stored,) = broker.messages("orders")

    load = Load(
        messages_per_s=1,
        body_bytes=100,
        topic_characters=len("orders"),
        tag_characters=len("paid"),
        keys=2,
        key_characters=3,
        property_bytes=len("a\x01b\x02"),
    )
    assert record_bytes(load) == stored.stored_bytes


def test_messages_are_held_a_day_and_a_file_longer_than_their_retention() -> None:
    need = of(messages_per_s=1_000, body_bytes=1_000, retention_hours=72)

    assert 96 < need.held_hours < 97
    assert need.held_messages == pytest.approx(1_000 * 3_600 * need.held_hours)
    assert need.log_bytes >= need.held_messages * need.record_bytes
    assert need.log_bytes == need.log_files * GIB


def test_the_disk_stays_below_the_use_from_which_files_go_early() -> None:
    need = of(messages_per_s=500, body_bytes=100)

    held = need.log_bytes + need.queue_bytes + need.index_bytes
    assert held <= need.disk_bytes * StoreConfig().clean_percent / 100 + 1


def test_each_queue_has_files_of_its_own_and_each_key_an_entry() -> None:
    few = of(messages_per_s=100, body_bytes=10, keys=0, queues=1)
    many = of(messages_per_s=100, body_bytes=10, keys=9, queues=1_000)

    assert few.queue_bytes >= 20 * few.held_messages
    assert many.queue_files >= 1_000
    assert many.index_files >= 9 * few.index_files


def test_replicas_multiply_the_disk_of_all_and_of_nothing_else() -> None:
    one, three = of(replicas=1), of(replicas=3)

    assert three.disk_bytes_of_all == 3 * one.disk_bytes_of_all
    assert three.disk_bytes == one.disk_bytes


def test_a_tiny_load_needs_the_files_that_a_store_creates() -> None:
    need = of(messages_per_s=0.001, body_bytes=1)

    assert (need.log_files, need.index_files) == (1, 1)


def of(**load: float) -> Capacity:
    return capacity(Load(**{"messages_per_s": 10, "body_bytes": 1_000, **load}))  # type: ignore[arg-type]  # numbers of both kinds
