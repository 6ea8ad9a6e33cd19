"""Peeks take nothing, notifications wait for something to pop, and held pops are counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq.broker.requests.outcome import Answer
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.pop import (
    AwaitAnswer,
    AwaitMessage,
    PeekMessage,
    PollingAnswer,
    PollingOf,
    PopAnswer,
)
from flintmq.protocol.records.received import decode_messages
from support.broker.popping import BROKER, GROUP, TOPIC, ack, hold, pop, pop_world, send
from support.broker.world import World, body_of, header_of


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with pop_world(tmp_path) as made:
        yield made


def peek(world: World, count: int = 32, topic: str = TOPIC) -> Answer:
    header = PeekMessage(consumer_group=GROUP, topic=topic, queue_id=-1, max_msg_nums=count)
    answer = world.ask(RequestCode.PEEK_MESSAGE, header)
    assert answer is not None
    return answer


def notify(world: World, *, poll_ms: int = 15_000, order: bool = False) -> int:
    header = AwaitMessage(
        consumer_group=GROUP,
        topic=TOPIC,
        queue_id=-1,
        poll_time=poll_ms,
        born_time=world.now_ms,
        order=order,
    )
    opaque = world.submit(RequestCode.NOTIFICATION, header)
    world.settle()
    return opaque


def has_message(world: World, opaque: int) -> bool:
    answer = world.answer_to(opaque)
    assert answer is not None
    assert (answer.code, answer.remark) == (0, "not set any response code")
    return header_of(answer, AwaitAnswer).has_msg


def test_a_peek_reads_and_leaves_everything_where_it_is(world: World) -> None:
    send(world, b"0", b"1", b"2")
    for _ in range(2):
        answer = peek(world, 2)
        header = header_of(answer, PopAnswer)
        assert (answer.code, header.pop_time, header.rest_num) == (0, 0, 1)
        messages = decode_messages(body_of(answer), broker=BROKER).messages
        assert [message.body for message in messages] == [b"0", b"1"]
    assert pop(world).bodies == [b"0", b"1", b"2"]
    assert peek(world).code == 19
    assert peek(world, topic="X").code == 17
    assert peek(world, 33).code == 29


def test_a_notification_waits_for_something_to_pop(world: World) -> None:
    opaque = notify(world)
    assert world.answer_to(opaque) is None
    send(world, b"0")
    assert has_message(world, opaque)
    assert has_message(world, notify(world))
    for handle in pop(world).handles:
        ack(world, handle)
    late = notify(world, poll_ms=1_000)
    world.advance(950)
    assert not has_message(world, late)
    assert not has_message(world, notify(world, poll_ms=0))


def test_a_notification_for_an_ordered_queue_waits_until_it_is_free(world: World) -> None:
    send(world, b"0", b"1")
    first = pop(world, order=True, max_msg_nums=1)
    opaque = notify(world, order=True)
    assert world.answer_to(opaque) is None
    ack(world, first.handles[0])
    assert has_message(world, opaque)


def test_held_pops_are_counted_by_what_they_asked_for(world: World) -> None:
    hold(world)
    hold(world)
    hold(world, queue_id=0)
    counts = []
    for queue_id in (-1, 0):
        header = PollingOf(consumer_group=GROUP, topic=TOPIC, queue_id=queue_id)
        answer = world.ask(RequestCode.POLLING_INFO, header)
        counts.append(header_of(answer, PollingAnswer).polling_num)
    assert counts == [2, 1]
