"""A new group misses nothing of a young queue; a commit needs a group and a topic that exist."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.requests.outcome import Answer
from flintmq.broker.scheduled.append import NewMessage, append
from flintmq.model.host import Host
from flintmq.model.queue import QueueOffset
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.offset import (
    OffsetAnswer,
    QueryConsumerOffset,
    UpdateConsumerOffset,
)
from support.broker.world import SMALL_STORE, World, header_of

BOOT_FIRST = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path, BrokerConfig(store=replace(SMALL_STORE, in_memory_bytes=4_096))) as world:
        world.state.topics.ensure("T", 4, world.now_ms)
        world.state.groups.find_or_create("G", world.now_ms)
        yield world


def store(world: World, body: bytes, topic: str = "T") -> None:
    host = Host.parse("127.0.0.1:1")
    message = NewMessage(topic, 0, body, {}, world.now_ms, host, world.state.host)
    append(world.state, message, world.now_ms)
    world.settle()


def query(world: World, topic: str = "T", queue_id: int = 0, zero: bool | None = None) -> Answer:
    header = QueryConsumerOffset(
        consumer_group="G", topic=topic, queue_id=queue_id, set_zero_if_not_found=zero
    )
    answer = world.ask(RequestCode.QUERY_CONSUMER_OFFSET, header)
    assert answer is not None
    return answer


def commit(
    world: World, offset: int, *, group: str = "G", topic: str = "T", queue_id: int = 0
) -> Answer:
    header = UpdateConsumerOffset(
        consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
    )
    answer = world.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)
    assert answer is not None
    return answer


# Asking


def test_a_committed_offset_is_told(world: World) -> None:
    commit(world, 42)

    assert query(world) == Answer(header=OffsetAnswer(offset=42))


@pytest.mark.parametrize(("topic", "queue_id"), [("T", 0), ("T", 99), ("unknown", 0), ("T", -1)])
def test_a_queue_without_messages_is_young_as_in_4_9(
    world: World, topic: str, queue_id: int
) -> None:
    assert query(world, topic, queue_id) == Answer(header=OffsetAnswer(offset=0))


def test_a_queue_whose_first_message_is_in_memory_is_young(world: World) -> None:
    store(world, b"first")

    assert header_of(query(world), OffsetAnswer).offset == 0


def test_a_queue_whose_first_message_left_memory_is_old(world: World) -> None:
    store(world, b"first")
    store(world, b"x" * 5_000, "another")

    assert query(world) == Answer(22, remark=BOOT_FIRST)


def test_a_queue_that_no_longer_begins_at_0_is_old(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(world.state.log), "min_offset", lambda *_: QueueOffset(3))

    assert query(world) == Answer(22, remark=BOOT_FIRST)


def test_a_committed_offset_is_told_of_an_old_queue_too(world: World) -> None:
    store(world, b"first")
    store(world, b"x" * 5_000, "another")
    commit(world, 0)

    assert header_of(query(world), OffsetAnswer).offset == 0


def test_who_does_not_want_a_zero_is_told_that_there_is_none(world: World) -> None:
    answer = query(world, zero=False)

    assert answer == Answer(22, remark="Not found, do not set to zero, maybe this group boot first")
    assert query(world, zero=True).code == 0


def test_a_committed_minus_one_counts_as_none(world: World) -> None:
    commit(world, -1)

    assert header_of(query(world), OffsetAnswer).offset == 0
    assert query(world, zero=False).code == 22


# Committing


def test_a_commit_is_answered_with_nothing_but_its_code(world: World) -> None:
    assert commit(world, 5) == Answer()
    assert world.state.offsets.is_dirty


def test_queue_and_offset_are_not_judged(world: World) -> None:
    commit(world, 2**62, queue_id=77)

    assert world.state.offsets.query("G", "T", 77) == 2**62


def test_a_smaller_offset_is_stored_and_logged_with_the_client(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    commit(world, 9)

    answer = commit(world, 4)

    assert answer == Answer()
    assert world.state.offsets.query("G", "T", 0) == 4
    assert world.state.offsets.backward_count == 1
    assert world.peer.address in caplog.text


def test_a_group_that_is_not_there_cannot_commit(world: World) -> None:
    answer = commit(world, 5, group="nobody", topic="unknown")

    assert answer == Answer(26, remark="Group nobody not exist!")
    assert "nobody" not in world.state.groups


def test_nobody_commits_in_a_topic_that_is_not_there(world: World) -> None:
    answer = commit(world, 5, topic="unknown")

    assert answer == Answer(17, remark="Topic unknown not exist!")
    assert world.state.offsets.topics_of("G") == []


def test_while_a_reset_waits_commits_are_not_stored(world: World) -> None:
    commit(world, 50)
    world.state.offsets.reset("G", "T", 0, QueueOffset(10))

    answer = commit(world, 51)

    assert answer == Answer(remark="Offset has been previously reset")
    assert header_of(query(world), OffsetAnswer).offset == 10
    world.state.offsets.take_reset("G", "T", 0)
    assert commit(world, 11) == Answer()
    assert header_of(query(world), OffsetAnswer).offset == 11
