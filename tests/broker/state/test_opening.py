"""A directory becomes a broker that serves all its messages, whatever a crash took."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from flintmq.broker.scheduled.append import append
from flintmq.model.route import QUEUES_MAX
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.common_headers import OfTopic
from flintmq.protocol.headers.pull import PullFlag, PullMessage
from flintmq.protocol.records.received import decode_messages
from support.broker.queued import bodies, message
from support.broker.world import World, body_of


def pulled(world: World, topic: str, queue_id: int) -> list[bytes]:
    header = PullMessage(
        consumer_group="g",
        topic=topic,
        queue_id=queue_id,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=int(PullFlag.SUBSCRIPTION),
        subscription="*",
    )
    answer = world.ask(RequestCode.PULL_MESSAGE, header)
    messages = decode_messages(body_of(answer), broker="b").messages
    return [message.body for message in messages]


def test_a_topic_with_messages_and_without_settings_is_made_again(tmp_path: Path) -> None:
    with World(tmp_path) as before:  # a world saves no tables: as if it had crashed at once
        before.send("T", b"first", queue_id=2)

    with World(tmp_path) as world:
        made = world.state.topics.find("T")

        assert made is not None
        assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (3, 3, 6)
        assert pulled(world, "T", 2) == [b"first"]
        assert world.state.topics.is_dirty


def test_a_topic_that_was_deleted_stays_away(tmp_path: Path) -> None:
    with World(tmp_path) as before:
        before.send("T")
        before.state.log.delete_topic("T")

    with World(tmp_path) as world:
        assert world.state.topics.find("T") is None


# Numbers no broker would write


def strayed(world: World, topic: str, queue_id: int) -> None:
    """Store a message in a queue of any number, as earlier brokers could be made to."""
    append(world.state, message(world, topic, b"strayed", queue_id=queue_id), world.now_ms)
    world.settle()


@pytest.mark.parametrize("queue_id", [999_999_999, 2**31 - 1, QUEUES_MAX])
@pytest.mark.parametrize("kept", [0, 3])
def test_one_record_makes_no_topic_of_many_queues(
    queue_id: int, kept: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with World(tmp_path) as before:
        for number in range(kept):
            before.send("T", b"good", queue_id=number)
        strayed(before, "T", queue_id)

    with World(tmp_path) as world, caplog.at_level(logging.WARNING):
        made = world.state.topics.find("T")
        answer = world.ask(RequestCode.GET_TOPIC_STATS_INFO, OfTopic(topic="T"))

        assert (0 if made is None else made.write_queue_nums) == kept
        assert answer is not None
        assert answer.code == (0 if kept else 17)
        assert all(bodies(world, "T", number) == [b"good"] for number in range(kept))
    assert f"'T' has messages in 1 queues with ids from {queue_id} on" in caplog.text


def test_the_last_queue_a_topic_may_have_is_served(tmp_path: Path) -> None:
    with World(tmp_path) as before:
        strayed(before, "T", QUEUES_MAX - 1)

    with World(tmp_path) as world:
        assert pulled(world, "T", QUEUES_MAX - 1) == [b"strayed"]


def test_a_topic_that_was_saved_with_too_many_queues_gets_those_it_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with World(tmp_path) as before:
        before.send("T", b"good", queue_id=2)
        before.send("Ghost")
        for name in ("T", "Ghost"):
            large = TopicConfig(
                topic_name=name,
                read_queue_nums=10**9,
                write_queue_nums=10**9,
                perm=6,
            )
            before.state.topics.create_or_replace(large, before.now_ms)
        before.tables.topics.save(before.state.topics.table())
        before.state.log.delete_topic("Ghost")

    with World(tmp_path) as world, caplog.at_level(logging.WARNING):
        counts = {}
        for name in ("T", "Ghost"):
            made = world.state.topics.find(name)
            assert made is not None
            counts[name] = (made.read_queue_nums, made.write_queue_nums, made.perm)

        assert counts == {"T": (3, 3, 6), "Ghost": (1, 1, 6)}
        assert world.state.topics.is_dirty
        assert pulled(world, "T", 2) == [b"good"]
    assert "'T' was saved with 1000000000 queues" in caplog.text
