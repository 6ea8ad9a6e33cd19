"""A pull that comes alone takes part in a turn only when it leaves something to do for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from flintmq.broker.client_session import BrokerSession
from flintmq.net.channels.channel import Channel
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import request
from flintmq.protocol.frame import Frame, FrameReader
from flintmq.protocol.wire import encode_command
from support.broker.pulling import GROUP, SUBSCRIPTION, SUSPEND, add_topic, pull_header, store
from support.broker.surroundings import Surroundings
from support.broker.world import World


class Line(Surroundings):
    """A connection to a world with one message; it counts the turns that are asked for."""

    peer = "127.0.0.1:60000"

    def __init__(self, directory: Path) -> None:
        self.world = World(directory)
        self.turns = 0
        self.session = BrokerSession(self, cast(Channel, self))
        add_topic(self.world)
        store(self.world, b"one")
        self.pull()  # its group is new
        self.settle()

    def pull(
        self,
        offset: int = 0,
        sys_flag: int = SUBSCRIPTION,
        group: str = GROUP,
        hold_ms: int = 1_000,
    ) -> Frame:
        header = pull_header(
            queue_offset=offset,
            sys_flag=sys_flag,
            suspend_timeout_millis=hold_ms,
            consumer_group=group,
        )
        (frame,) = FrameReader().feed(
            encode_command(request(RequestCode.PULL_MESSAGE, header, opaque=1))
        )
        self.session.frames([frame])
        return frame

    def settle(self) -> None:
        """A turn ended, its names are saved and its timer is set."""
        self.world.settle()
        self.engine.tick(self.world.now_ms)
        self.world.state.topics.is_dirty = self.world.state.groups.is_dirty = False
        self.turns = 0

    def turn_is_due(self) -> None:
        self.turns += 1

    def write(self, answer: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    found = Line(tmp_path)
    yield found
    found.world.stop()


def test_one_that_is_answered_asks_for_no_turn(line: Line) -> None:
    line.pull()

    assert line.turns == 0


def test_one_that_is_held_for_long_waits_for_the_deadlines_there_are(line: Line) -> None:
    line.pull(1, SUBSCRIPTION | SUSPEND, hold_ms=60_000)

    assert len(line.world.state.held) == 1
    assert line.turns == 0


def test_one_that_is_held_for_less_than_anything_else_moves_a_deadline(line: Line) -> None:
    line.pull(1, SUBSCRIPTION | SUSPEND, hold_ms=60_000)
    line.pull(1, SUBSCRIPTION | SUSPEND, hold_ms=10)

    assert len(line.world.state.held) == 2
    assert line.turns == 1
    assert line.engine.next_due_ms(line.world.now_ms) == line.world.now_ms + 10


def test_one_of_a_new_group_has_its_name_saved(line: Line) -> None:
    line.pull(group="strangers")

    assert line.turns == 1


def test_one_while_a_turn_is_open_leaves_it_open(line: Line) -> None:
    line.world.state.after_write.append(lambda _: None)

    line.pull()

    assert line.turns == 1


def test_one_that_comes_with_other_frames_is_part_of_their_turn(line: Line) -> None:
    frame = line.pull()

    line.session.frames([frame, frame])

    assert line.turns == 1
