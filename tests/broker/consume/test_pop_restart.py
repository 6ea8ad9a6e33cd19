"""Messages in flight survive a restart: nothing is lost, and nothing acknowledged comes back."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from flintmq.broker.scheduled.timers import READ_RECORDS
from flintmq.broker.state.hand_over import hand_over
from flintmq.model import properties as names
from flintmq.model.topic import TIMER_TOPIC
from flintmq.protocol.bodies.group import GroupConfig
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.common_headers import OfTopic
from flintmq.protocol.headers.group import DeleteGroup
from flintmq.protocol.pop.journal import CheckpointRecord
from support.broker.popping import (
    GROUP,
    TOPIC,
    ack,
    change,
    change_header,
    offset_of,
    pop,
    pop_header,
    pop_world,
    saved,
    send,
    started_again,
    timer_records,
)
from support.store.failing_disk import FailingDisk


@pytest.fixture(autouse=True)
def no_wait_for_the_medium(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr("os.fdatasync", lambda _: None)


@pytest.fixture(params=[True, False], ids=["saved", "killed"])
def save(request: pytest.FixtureRequest) -> bool:
    """Whether tables are saved at the end, or a crash loses the last of them."""
    return bool(request.param)


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


def test_a_pop_that_could_not_be_written_hands_nothing_out(tmp_path: Path) -> None:
    disk = FailingDisk()
    with pop_world(tmp_path, disk=disk) as world:
        send(world, b"0", b"1")
        disk.fails_in, disk.number = "commitlog", errno.ENOSPC
        answer = world.ask(RequestCode.POP_MESSAGE, pop_header(world))
        assert answer is not None
        assert answer.code == 14
        assert world.state.in_flight.message_count == 0
        disk.number = 0
        world.advance(10_000)
        assert pop(world).bodies == [b"0", b"1"]


@pytest.mark.parametrize("count", [1, 2])
def test_an_acknowledgement_that_could_not_be_written_does_not_count(
    tmp_path: Path, count: int
) -> None:
    """One that is sent again is written, so the message stays away after a crash too."""
    disk = FailingDisk()
    world = pop_world(tmp_path, disk=disk)
    send(world, *[b"%d" % index for index in range(count)])
    handles = pop(world, invisible_time=5_000).handles
    disk.fails_in, disk.number = "commitlog", errno.ENOSPC
    assert ack(world, handles[0]).code == 14
    assert world.state.in_flight.message_count == count
    disk.number = 0
    for handle in handles:
        assert ack(world, handle).code == 0
    assert world.state.in_flight.message_count == 0

    with started_again(world, save=False) as again:
        again.advance(10_000)
        assert pop(again).code == 210


def test_changes_that_could_not_be_written_leave_the_old_handle(tmp_path: Path) -> None:
    disk = FailingDisk()
    with pop_world(tmp_path, disk=disk) as world:
        send(world, b"0")
        handle = pop(world, invisible_time=5_000).handles[0]
        disk.fails_in, disk.number = "commitlog", errno.ENOSPC
        first = change_header(handle, 60_000)
        unknown = handle._replace(pop_ms=handle.pop_ms + 1, invisible_ms=60_000)
        second = change_header(unknown, 60_000)  # of a handle that nobody was told
        for header in (first, second):
            world.submit(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
        world.settle()
        assert [pop.key.pop_ms for pop in world.state.in_flight] == [handle.pop_ms]
        assert world.state.in_flight.message_count == 1
        disk.number = 0
        assert ack(world, handle).code == 0
        assert world.state.in_flight.message_count == 0


@pytest.mark.parametrize("kind", ["topic", "group"])
def test_what_is_deleted_takes_its_messages_in_flight_with_it(tmp_path: Path, kind: str) -> None:
    world = pop_world(tmp_path)
    send(world, b"0")
    pop(world, invisible_time=1_000)
    if kind == "topic":
        deleted = world.ask(RequestCode.DELETE_TOPIC_IN_BROKER, OfTopic(topic=TOPIC))
    else:
        header = DeleteGroup(group_name=GROUP, clean_offset=True)
        deleted = world.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, header)
    assert deleted is not None
    assert deleted.code == 0
    assert world.state.in_flight.message_count == 0
    world.settle()

    with started_again(world, save=True) as again:
        again.advance(5_000)
        assert again.state.in_flight.message_count == 0
        assert "%RETRY%G_T" not in again.state.topics


def test_a_deleted_topic_takes_what_came_back_with_it(tmp_path: Path) -> None:
    """Retry topics of groups stay, even one that is named like a retry topic of pops."""
    with pop_world(tmp_path) as world:
        send(world, b"0", b"1")
        pop(world, invisible_time=1_000)
        world.advance(1_000)
        assert "%RETRY%G_T" in world.state.topics
        pop(world, max_msg_nums=1)
        pop(world, consumer_group="H", invisible_time=1_000)
        world.advance(1_000)
        world.state.groups.create_or_replace(GroupConfig(group_name="H_T"), world.now_ms)
        world.state.topics.ensure("%RETRY%G", 1, world.now_ms)

        answer = world.ask(RequestCode.DELETE_TOPIC_IN_BROKER, OfTopic(topic=TOPIC))

        assert answer is not None
        assert answer.code == 0
        left = {name for name in ("%RETRY%G_T", "%RETRY%G", "%RETRY%H_T", TOPIC)
                if name in world.state.topics}  # fmt: skip
        assert left == {"%RETRY%G", "%RETRY%H_T"}
        assert world.state.in_flight.message_count == 0
        assert offset_of(world, topic="%RETRY%G_T") == -1
        world.state.topics.ensure(TOPIC, 1, world.now_ms)
        world.advance(120_000)
        assert pop(world).code == 210


def test_what_waits_is_handed_over_at_a_stop(tmp_path: Path) -> None:
    """It is at the end of the timer topic then, each pop in one record with its acks."""
    world = pop_world(tmp_path)
    send(world, b"0", b"1")
    first = pop(world, invisible_time=10_000)
    ack(world, first.handles[1])
    timed = f"{names.TIMER_DELIVER_MS}\x01{world.now_ms + 5_000}\x02"
    world.send(TOPIC, b"later", properties=timed)
    world.advance(1)
    end = world.state.log.max_offset(TIMER_TOPIC, 0)
    hand_over(world.state, world.now_ms)
    world.settle()
    saved(world)
    *_, (tag, body) = timer_records(world)
    assert (tag, CheckpointRecord.from_body(body).bit_map) == ("ck", 2)
    progress = world.state.log.timer_progress()
    assert progress is not None
    assert (progress.queue_offset, progress.read_ms) == (end, world.now_ms)

    with started_again(world, save=False) as again:
        again.advance(5_000)
        assert [message.body for message in pop(again).messages] == [b"later"]
        again.advance(5_000)
        assert pop(again).bodies == [b"0"]


def test_nothing_comes_back_before_the_whole_journal_is_read(tmp_path: Path) -> None:
    """An acknowledgement may be far behind its checkpoint, further than one turn reads."""
    world = pop_world(tmp_path)
    for number in range(READ_RECORDS + 100):
        world.send(TOPIC, b"%d" % number)
    held = pop(world, max_msg_nums=1, invisible_time=1)
    popped = [handle for _ in range(40) for handle in pop(world, invisible_time=1).handles]
    for handle in reversed(popped):
        ack(world, handle)
    ack(world, held.handles[0])
    world.now_ms += 10_000

    with started_again(world, save=False) as again:
        again.advance(1)
        assert again.state.in_flight.message_count == 0
        assert again.state.in_flight.revived_count == 0
