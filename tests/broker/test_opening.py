"""A directory becomes a broker that serves all its messages, whatever a crash took."""

from __future__ import annotations

from pathlib import Path

from broker.world import World, body_of
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.pull import PullFlag, PullMessage
from flintmq.protocol.received import decode_messages


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
