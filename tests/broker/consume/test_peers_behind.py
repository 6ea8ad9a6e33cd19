"""A peer that has not read gets no more messages until it has, and loses none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from flintmq import Message
from flintmq.broker.requests import peer as peers
from flintmq.broker.requests.peer import BEHIND_BYTES, BEHIND_MS, Peer
from flintmq.embedded.broker import EmbeddedBroker
from support.attack.peers import Peer as RawPeer
from support.attack.peers import frame
from support.attack.said import PULL, pull_fields
from support.broker.popping import answered, hold, pop, pop_world, send
from support.broker.world import World

MB = 1024 * 1024
LARGE = Random(0).randbytes(MB)  # a producer compresses what it can
PULLS = 96
"""Of 1 MB each: half as much again as one connection may leave unread."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with pop_world(tmp_path) as made:
        yield made


def test_a_pop_waits_until_its_peer_has_read(world: World) -> None:
    send(world, b"0")
    unread = [BEHIND_BYTES + 1]
    world.peer.unsent_bytes = lambda: unread[0]
    opaque = hold(world)
    world.advance(1_000)
    assert world.answer_to(opaque) is None

    unread[0] = BEHIND_BYTES
    world.advance(BEHIND_MS)

    assert answered(world, opaque).bodies == [b"0"]


def test_at_its_deadline_it_takes_nothing_and_the_message_stays_for_others(world: World) -> None:
    send(world, b"0")
    world.peer.unsent_bytes = lambda: BEHIND_BYTES + 1
    opaque = hold(world, poll_time=1_000)
    world.advance(1_000)
    assert answered(world, opaque).code == 210
    assert pop(world, peer=Peer("127.0.0.1:40001")).bodies == [b"0"]


def test_what_arrives_goes_to_a_peer_that_reads(world: World) -> None:
    world.peer.unsent_bytes = lambda: BEHIND_BYTES + 1
    behind = hold(world)
    reads = hold(world, peer=Peer("127.0.0.1:40001"))
    send(world, b"0")
    assert answered(world, reads).bodies == [b"0"]
    assert world.answer_to(behind) is None


def test_answers_that_wait_for_the_log_count(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One arrival wakes a pop of every group, and all of them end in one turn."""
    monkeypatch.setattr(peers, "BEHIND_BYTES", 250)
    opaques = [hold(world, consumer_group=f"g{each}") for each in range(9)]

    send(world, bytes(100))

    first = [opaque for opaque in opaques if world.answer_to(opaque) is not None]
    assert 1 <= len(first) <= 2
    world.advance(BEHIND_MS + len(opaques))
    assert [answered(world, opaque).bodies for opaque in opaques] == [[bytes(100)]] * len(opaques)
    assert world.peer.owed_bytes == 0


def test_requests_of_a_peer_that_is_behind_take_turns() -> None:
    peer = Peer("127.0.0.1:40000")
    turns = [peer.next_turn_ms(1_000) for _ in range(5)]
    assert turns == [1_000 + BEHIND_MS + each for each in range(5)]
    assert peer.next_turn_ms(2_000) == 2_000 + BEHIND_MS


def test_pulls_that_find_large_messages_at_once_all_get_them() -> None:
    with EmbeddedBroker() as broker:
        with broker.admin() as admin, broker.producer("large") as producer:
            admin.create_topic("large", queues=1)
            producer.send(Message("large", LARGE))
        with RawPeer(broker.broker) as peer:
            assert peer.say(frame(PULL, pull_fields("large")) * PULLS)
            for _ in range(PULLS):
                heard = peer.hear()
                assert heard is not None
                assert (heard.code, len(heard.body) > MB) == (0, True)
