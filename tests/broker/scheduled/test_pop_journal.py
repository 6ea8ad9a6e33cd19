"""The journal of pops is read whatever the order of its records, also as a real broker left it."""

from __future__ import annotations

from pathlib import Path

import pytest

from flintmq.broker.scheduled.append import NewMessage, append
from flintmq.model import properties as names
from flintmq.model.topic import TIMER_TOPIC
from flintmq.protocol.bodies.body import Body
from flintmq.protocol.pop.journal import (
    PopKey,
    ack_of,
    checkpoint_of,
    revive_topic,
)
from support.broker.popping import (
    BROKER,
    GROUP,
    TOPIC,
    offset_of,
    pop,
    pop_world,
    send,
    started_again,
)
from support.broker.world import World

REVIVE = revive_topic("DefaultCluster")


@pytest.fixture(autouse=True)
def no_wait_for_the_medium(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr("os.fdatasync", lambda _: None)


def put(world: World, body: Body, tag: str, *, in_revive_topic: bool) -> None:
    """Write a record of the journal as RocketMQ does."""
    due_ms = world.now_ms + 5_000
    properties = {names.TAGS: tag, names.TIMER_DELIVER_MS: str(due_ms)}
    topic, queue_id = REVIVE, 3
    if not in_revive_topic:
        properties |= {
            names.TIMER_OUT_MS: str(due_ms // 1000 * 1000),
            names.REAL_TOPIC: REVIVE,
            names.REAL_QUEUE_ID: "3",
        }
        topic, queue_id = TIMER_TOPIC, 0
    host = world.state.host
    message = NewMessage(topic, queue_id, body.to_body(), properties, world.now_ms, host, host)
    append(world.state, message, world.now_ms)
    world.settle()


def left_by_rocketmq(directory: Path, *, ack_first: bool, in_revive_topic: bool) -> World:
    """A store in which 0, 1 and 2 were popped and 1 acknowledged; 5 s are left."""
    world = pop_world(directory)
    send(world, b"0", b"1", b"2", b"3")
    world.state.offsets.commit(GROUP, TOPIC, 0, 3, "RocketMQ")
    key = PopKey(TOPIC, GROUP, 0, 0, world.now_ms - 1_000, BROKER)
    records: list[tuple[Body, str]] = [
        (checkpoint_of(key, [0, 1, 2], 6_000), "ck"),
        (ack_of(key, [1]), "ack"),
    ]
    for body, tag in reversed(records) if ack_first else records:
        put(world, body, tag, in_revive_topic=in_revive_topic)
    return world


@pytest.mark.parametrize("in_revive_topic", [True, False])
@pytest.mark.parametrize("ack_first", [True, False])
def test_an_acknowledgement_before_its_checkpoint_counts(
    tmp_path: Path, ack_first: bool, in_revive_topic: bool
) -> None:
    world = left_by_rocketmq(tmp_path, ack_first=ack_first, in_revive_topic=in_revive_topic)
    with started_again(world, save=False) as again:
        again.state.offsets.commit(GROUP, TOPIC, 0, 3, "saved")
        assert pop(again).bodies == [b"3"]
        assert again.state.in_flight.message_count == 3
        again.advance(4_999)
        assert pop(again).code == 210
        again.advance(1)
        assert pop(again).bodies == [b"0", b"2"]


def test_a_journal_that_cannot_be_read_is_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = pop_world(tmp_path)
    send(world, b"0")
    put(
        world,
        checkpoint_of(PopKey(TOPIC, GROUP, 0, 0, 1, BROKER), [], 5),
        "ack",
        in_revive_topic=False,
    )
    world.stop()
    with World(tmp_path, world.state.config, start_ms=world.now_ms) as again:
        assert pop(again).bodies == [b"0"]
        assert offset_of(again) == 1


def test_checkpoints_of_a_topic_that_is_gone_are_passed_over(tmp_path: Path) -> None:
    world = pop_world(tmp_path)
    key = PopKey("gone", GROUP, 0, 0, world.now_ms, BROKER)
    put(world, checkpoint_of(key, [0], 5), "ck", in_revive_topic=False)
    world.stop()
    with World(tmp_path, world.state.config, start_ms=world.now_ms) as again:
        again.advance(10_000)
        assert again.state.in_flight.message_count == 0
