"""Messages in flight survive a restart: nothing is lost, and nothing acknowledged comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq.model.topic import TIMER_TOPIC
from support.broker.popping import (
    GROUP,
    TOPIC,
    ack,
    change,
    offset_of,
    pop,
    pop_world,
    saved,
    send,
    started_again,
)


@pytest.fixture(autouse=True)
def no_wait_for_the_medium(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr("os.fdatasync", lambda _: None)


@pytest.fixture(params=[True, False], ids=["saved", "killed"])
def save(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether tables are saved at the end, or a crash loses the last of them."""
    yield request.param


def test_in_flight_goes_on_with_its_time(tmp_path: Path, save: bool) -> None:
    world = pop_world(tmp_path)
    saved(world)
    send(world, b"0", b"1", b"2", b"3")
    first = pop(world, max_msg_nums=3, invisible_time=10_000)
    ack(world, first.handles[1])
    world.advance(4_000)

    with started_again(world, save=save) as again:
        rest = pop(again)
        assert rest.bodies == [b"3"]
        assert again.state.in_flight.message_count == 3
        ack(again, first.handles[0])
        ack(again, rest.handles[0])
        again.advance(5_999)
        assert pop(again).code == 210
        again.advance(1)
        assert pop(again).bodies == [b"2"]


def test_what_was_acknowledged_before_any_save_stays_away(tmp_path: Path, save: bool) -> None:
    world = pop_world(tmp_path)
    saved(world)
    send(world, b"0", b"1")
    for handle in pop(world).handles:
        ack(world, handle)

    with started_again(world, save=save) as again:
        assert pop(again).code == 210
        assert offset_of(again) == 2


def test_what_came_back_does_not_come_back_twice(tmp_path: Path, save: bool) -> None:
    world = pop_world(tmp_path)
    saved(world)
    send(world, b"0")
    pop(world, invisible_time=1_000)
    world.advance(1_000)
    back = pop(world, invisible_time=60_000)
    assert back.bodies == [b"0"]
    ack(world, back.handles[0])

    with started_again(world, save=save) as again:
        again.advance(120_000)
        assert pop(again).code == 210


def test_a_changed_handle_counts_after_a_restart_and_the_old_one_does_not(
    tmp_path: Path, save: bool
) -> None:
    world = pop_world(tmp_path)
    saved(world)
    send(world, b"0", b"1")
    first = pop(world, invisible_time=2_000)
    new = change(world, first.handles[0], 30_000)
    ack(world, first.handles[1])

    with started_again(world, save=save) as again:
        assert again.state.in_flight.message_count == 0  # read with the first request
        assert pop(again).code == 210
        assert again.state.in_flight.message_count == 1
        again.advance(20_000)
        assert pop(again).code == 210
        ack(again, first.handles[0])
        assert again.state.in_flight.message_count == 1
        ack(again, new)
        assert again.state.in_flight.message_count == 0


def test_a_group_that_was_moved_back_stays_there(tmp_path: Path) -> None:
    """Checkpoints tell how far a group is only where its saved offset does not know them."""
    world = pop_world(tmp_path)
    send(world, b"0", b"1")
    first = pop(world)
    ack(world, first.handles[0])
    world.state.offsets.commit(GROUP, TOPIC, 0, 0, "an admin")
    world.advance(1)
    saved(world)
    change(world, first.handles[1], 60_000)

    with started_again(world, save=False) as again:
        assert pop(again).bodies == [b"0", b"1"]


def test_the_journal_is_not_read_from_its_beginning_for_ever(tmp_path: Path) -> None:
    world = pop_world(tmp_path)
    for number in range(1_500):
        world.send(TOPIC, b"%d" % number)
    while (popped := pop(world)).code == 0:
        for handle in popped.handles:
            ack(world, handle)
    world.advance(1)
    table = world.state.timers.table()
    assert table is not None
    assert table.low_offset == table.next_offset == world.state.log.max_offset(TIMER_TOPIC, 0)
    world.stop()
