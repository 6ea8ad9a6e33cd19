"""Answers that are computed in parts: they are complete, fair to others and end with the peer."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker.requests.outcome import Answer, Outcome, Refusal, Steps
from flintmq.broker.requests.peer import Peer
from flintmq.broker.stepping import WAITING_MAX
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import request
from support.broker.servers import connected, serving
from support.broker.world import World
from support.net.support import until

CODE = RequestCode.GET_BROKER_RUNTIME_INFO
STEPS = 50


class Counted:
    """A processor that answers in parts and counts them."""

    def __init__(self, steps: int = STEPS) -> None:
        self.steps = steps
        self.done: list[Peer] = []
        self.closed = 0

    def __call__(self, _request: Any, _state: Any, peer: Peer, _now_ms: int) -> Outcome:
        return Steps(self._work(peer))

    def _work(self, peer: Peer) -> Generator[None, None, Outcome]:
        try:
            for _ in range(self.steps):
                self.done.append(peer)
                yield
        except GeneratorExit:
            self.closed += 1
            raise
        return Answer(body=b"%d" % self.steps)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as made:
        yield made


def served_by(world: World, processor: Any) -> None:
    world.engine._processors = {**world.engine._processors, CODE: processor}


def test_an_answer_in_parts_comes_after_its_last_part(world: World) -> None:
    counted = Counted(3)
    served_by(world, counted)

    opaque = world.submit(CODE)
    told = []
    while world.engine.stepping:
        told.append(world.answer_to(opaque))
        world.engine.step(lambda: True)

    assert told == [None, None, None, None]
    assert world.answer_to(opaque) == Answer(body=b"3")


def test_connections_take_turns_and_one_answer_of_each_is_at_work(world: World) -> None:
    counted = Counted(4)
    served_by(world, counted)
    greedy, modest = world.peer, Peer("127.0.0.1:50000")
    for _ in range(10):
        world.submit(CODE, peer=greedy)
    opaque = world.submit(CODE, peer=modest)

    while world.answer_to(opaque) is None:
        world.engine.step(lambda: True)

    assert counted.done.count(modest) == 4
    assert counted.done.count(greedy) <= 5


def test_an_error_and_a_refusal_in_a_part_are_answers(world: World) -> None:
    def broken(*_: Any) -> Outcome:
        def work() -> Generator[None, None, Outcome]:
            yield
            raise KeyError("gone")

        return Steps(work())

    def refused(*_: Any) -> Outcome:
        def work() -> Generator[None, None, Outcome]:
            yield
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, "no such topic")

        return Steps(work())

    served_by(world, broken)
    failure = world.ask(CODE)
    served_by(world, refused)
    refusal = world.ask(CODE)

    assert failure is not None
    assert failure.code == ResponseCode.SYSTEM_ERROR
    assert refusal is not None
    assert refusal.code == ResponseCode.TOPIC_NOT_EXIST


def test_a_connection_that_is_lost_gives_its_work_up(world: World) -> None:
    counted = Counted()
    served_by(world, counted)
    world.submit(CODE)
    world.engine.step(lambda: True)

    world.engine.lost(world.peer, world.now_ms)

    assert not world.engine.stepping
    assert counted.closed == 1


def test_a_connection_waits_for_so_many_large_answers_and_no_more(world: World) -> None:
    served_by(world, Counted())
    for _ in range(WAITING_MAX):
        world.submit(CODE)

    refused = world.answer_to(world.submit(CODE))

    assert refused is not None
    assert refused.code == ResponseCode.SYSTEM_BUSY
    assert len(world.engine.stepping) == WAITING_MAX


def test_a_broker_that_stops_answers_what_it_did_not_finish(world: World) -> None:
    served_by(world, Counted())
    opaque = world.submit(CODE)

    world.engine.release_holds(world.now_ms)

    answer = world.answer_to(opaque)
    assert answer is not None
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert not world.engine.stepping


def test_others_are_served_between_two_parts(tmp_path: Path) -> None:
    """The long answer never ends by itself: only its caller's leaving ends it."""

    async def main() -> None:
        async with serving(tmp_path) as broker:

            def endless(*_: Any) -> Outcome:
                def work() -> Generator[None, None, Outcome]:
                    while True:
                        yield

                return Steps(work())

            served = broker.engine._processors
            broker.engine._processors = {**served, CODE: endless}
            asking, other = await connected(broker), await connected(broker)
            waiting = asyncio.ensure_future(asking.call(request(CODE), 60_000))
            await until(lambda: broker.engine.stepping)

            reply = await other.call(request(RequestCode.GET_ALL_TOPIC_CONFIG), 10_000)

            assert reply.code == ResponseCode.SUCCESS
            assert broker.engine.stepping
            waiting.cancel()
            await asking.close()
            await until(lambda: not broker.engine.stepping)
            await other.close()

    asyncio.run(main())
