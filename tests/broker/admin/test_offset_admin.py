"""Offsets of groups are shown, moved, cloned and compared, as with RocketMQ 5.3 and 4.9."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.bodies.client_call import ConsumerStatusTable, ResetOffsets
from flintmq.protocol.bodies.group import GroupConfig
from flintmq.protocol.bodies.offset import (
    ConsumerOffsets,
    ConsumeTimeSpans,
    CorrectionOffsets,
    DelayOffsets,
)
from flintmq.protocol.bodies.stats import ConsumeStats, ConsumeStatsList, QueueProgress
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.headers import client_call
from flintmq.protocol.headers.client_call import ResetOffset
from flintmq.protocol.headers.common_headers import BrokerConsumeStats, OfGroupAndTopic
from flintmq.protocol.headers.group import CloneGroupOffset, ConsumeStatsOf, CorrectionOffset
from support.broker.admin import done, join, make_topic, refused
from support.broker.popping import GROUP, TOPIC, ack, pop, pop_world, send
from support.broker.world import SMALL_STORE, World

RESET = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
STATUS = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
LONG_MAX = 2**63 - 1


def queue(queue_id: int, topic: str = "T") -> QueueRef:
    return QueueRef(topic, "broker-a", queue_id)


def fill(world: World, count: int = 3, topic: str = "T") -> None:
    """A topic of two queues with messages a second apart in the first, and a group "g"."""
    make_topic(world, topic)
    world.state.groups.create_or_replace(GroupConfig(group_name="g"), world.now_ms)
    for _ in range(count):
        world.send(topic)
        world.now_ms += 1_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        fill(world)
        yield world


@pytest.fixture
def old_world(tmp_path: Path) -> Iterator[World]:
    """A broker that lets the clients reset, as 4.9 does."""
    with World(tmp_path, BrokerConfig(store=SMALL_STORE, server_side_reset=False)) as world:
        fill(world)
        for queue_id in (0, 1):
            world.state.offsets.commit("g", "T", queue_id, 2, "test")
        yield world


# Progress


def progress(world: World, header: ConsumeStatsOf) -> ConsumeStats:
    return ConsumeStats.from_body(done(world, RequestCode.GET_CONSUME_STATS, header))


def test_the_lag_of_a_group_is_told_by_queue(world: World) -> None:
    start_ms = world.now_ms - 3_000
    world.state.offsets.commit("g", "T", 0, 2, "test")
    world.state.offsets.note_pull("g", "T", 0, 3)

    found = progress(world, ConsumeStatsOf(consumer_group="g"))

    assert found.offset_table == {
        queue(0): QueueProgress(
            broker_offset=3, consumer_offset=2, last_timestamp=start_ms + 1_000, pull_offset=3
        ),
        queue(1): QueueProgress(pull_offset=0),
    }
    assert found.lag == 1


def test_an_offset_that_is_ahead_of_the_pull_counts_as_pulled(world: World) -> None:
    world.state.offsets.note_pull("g", "T", 0, 1)
    world.state.offsets.commit("g", "T", 0, 2, "test")

    assert (
        progress(world, ConsumeStatsOf(consumer_group="g")).offset_table[queue(0)].pull_offset == 2
    )


def test_topics_the_online_group_does_not_want_are_left_out(world: World) -> None:
    make_topic(world, "U")
    for topic in ("T", "U"):
        world.state.offsets.commit("g", topic, 0, 1, "test")
    join(world, "g", "T")

    mine = progress(world, ConsumeStatsOf(consumer_group="g"))
    asked_for = progress(world, ConsumeStatsOf(consumer_group="g", topic="U"))
    listed = progress(world, ConsumeStatsOf(consumer_group="g", topic_list="T;U;nope;"))

    assert {at.topic for at in mine.offset_table} == {"T"}
    assert asked_for.offset_table == {}
    assert {at.topic for at in listed.offset_table} == {"T", "U"}


def popped_progress(world: World) -> dict[str, tuple[int, int]]:
    """Lag and messages in flight of the group that pops, by topic."""
    table = progress(world, ConsumeStatsOf(consumer_group=GROUP)).offset_table
    return {
        at.topic: (it.lag, (it.pull_offset or 0) - it.consumer_offset) for at, it in table.items()
    }


def test_popped_messages_are_in_flight_until_they_are_acknowledged(tmp_path: Path) -> None:
    with pop_world(tmp_path) as world:
        send(world, b"0", b"1", b"2", b"3")
        popped = pop(world, max_msg_nums=3, invisible_time=6_000)
        assert popped_progress(world) == {TOPIC: (1, 3)}

        ack(world, popped.handles[0])
        assert popped_progress(world) == {TOPIC: (1, 2)}


def test_popped_messages_that_come_back_are_lag_of_their_retry_topic(tmp_path: Path) -> None:
    retry = f"%RETRY%{GROUP}_{TOPIC}"
    with pop_world(tmp_path) as world:
        join(world, GROUP, TOPIC)  # nobody subscribes to the retry topic of pops
        send(world, b"0", b"1")
        pop(world, invisible_time=6_000)
        world.advance(10_000)
        assert popped_progress(world) == {TOPIC: (0, 0), retry: (2, 0)}

        again = pop(world, max_msg_nums=1, invisible_time=6_000)
        assert popped_progress(world) == {TOPIC: (0, 0), retry: (1, 1)}
        ack(world, again.handles[0])
        assert popped_progress(world) == {TOPIC: (0, 0), retry: (1, 0)}


def test_an_ordered_batch_is_in_flight_and_still_behind(tmp_path: Path) -> None:
    with pop_world(tmp_path) as world:
        send(world, b"0", b"1", b"2", b"3")
        popped = pop(world, max_msg_nums=3, invisible_time=6_000, order=True)
        assert popped_progress(world) == {TOPIC: (4, 3)}

        ack(world, popped.handles[0])
        assert popped_progress(world) == {TOPIC: (3, 2)}
        world.advance(6_000)
        assert popped_progress(world) == {TOPIC: (3, 0)}


def test_an_unknown_group_has_no_progress(world: World) -> None:
    body = done(world, RequestCode.GET_CONSUME_STATS, ConsumeStatsOf(consumer_group="nope"))

    assert body == b'{"consumeTps":0.0,"offsetTable":{}}'


def test_the_lag_of_all_groups_is_summed(world: World) -> None:
    make_topic(world, "ordered", order=True)
    world.send("ordered")
    world.state.offsets.commit("g", "T", 0, 1, "test")
    world.state.offsets.commit("g", "ordered", 0, 0, "test")
    code = RequestCode.GET_BROKER_CONSUME_STATS

    every = ConsumeStatsList.from_body(done(world, code, BrokerConsumeStats(is_order=False)))
    ordered = ConsumeStatsList.from_body(done(world, code, BrokerConsumeStats(is_order=True)))

    assert (every.broker_addr, every.total_diff) == (world.state.address, 3)
    (mine,) = (listed["g"] for listed in every.consume_stats_list if "g" in listed)
    assert sorted(next(iter(stats.offset_table)).topic for stats in mine) == ["T", "ordered"]
    assert ordered.total_diff == 1


def test_times_of_what_a_group_has_read_and_has_yet_to_read(world: World) -> None:
    start_ms = world.now_ms - 3_000
    world.state.offsets.commit("g", "T", 0, 2, "test")

    body = done(world, RequestCode.QUERY_CONSUME_TIME_SPAN, OfGroupAndTopic(group="g", topic="T"))

    full, empty = ConsumeTimeSpans.from_body(body).consume_time_span_set
    assert full.message_queue == queue(0)
    assert (full.min_time_stamp, full.max_time_stamp) == (start_ms, start_ms + 2_000)
    assert (full.consume_time_stamp, full.delay_time) == (start_ms + 1_000, 1_000)
    assert full.min_time_stamp_str == "2023-11-14#22:13:20:000"
    assert (empty.min_time_stamp, empty.max_time_stamp, empty.delay_time) == (-1, -1, 0)
    assert refused(
        world, RequestCode.QUERY_CONSUME_TIME_SPAN, OfGroupAndTopic(group="g", topic="nope")
    ) == (17, "topic[nope] not exist")


# Correction and cloning


def correction(world: World, header: CorrectionOffset) -> dict[int, int]:
    body = done(world, RequestCode.QUERY_CORRECTION_OFFSET, header)
    return CorrectionOffsets.from_body(body).correction_offsets


def test_the_least_offsets_of_all_groups_are_found(world: World) -> None:
    world.state.offsets.commit("a", "T", 0, 1, "test")
    world.state.offsets.commit("b", "T", 0, 2, "test")
    world.state.offsets.commit("b", "T", 1, 0, "test")

    every = correction(world, CorrectionOffset(topic="T", compare_group="b"))
    without = correction(world, CorrectionOffset(topic="T", compare_group="x", filter_groups="a,y"))
    behind = correction(world, CorrectionOffset(topic="T", compare_group="a", filter_groups="a"))

    assert every == {0: 1, 1: 0}
    assert without == {0: 2, 1: 0}
    assert behind == {0: LONG_MAX, 1: 0}
    assert world.state.offsets.query("a", "T", 0) == 1  # nothing was forgotten


@pytest.mark.parametrize("topic", ["T", None])
def test_a_group_is_put_where_another_one_stands(world: World, topic: str | None) -> None:
    make_topic(world, "U")
    for name in ("T", "U", "gone"):
        world.state.offsets.commit("g", name, 0, 2, "test")

    done(
        world,
        RequestCode.CLONE_GROUP_OFFSET,
        CloneGroupOffset(src_group="g", dest_group="h", topic=topic),
    )

    assert world.state.offsets.query("h", "T", 0) == 2
    assert world.state.offsets.query("h", "U", 0) == (None if topic else 2)
    assert world.state.offsets.query("h", "gone", 0) is None


def test_cloning_skips_what_the_group_no_longer_wants_unless_told_it_is_offline(
    world: World,
) -> None:
    world.state.offsets.commit("g", "T", 0, 2, "test")
    join(world, "g", "U")
    code = RequestCode.CLONE_GROUP_OFFSET

    done(world, code, CloneGroupOffset(src_group="g", dest_group="h"))
    assert world.state.offsets.query("h", "T", 0) is None
    done(world, code, CloneGroupOffset(src_group="g", dest_group="h", offline=True))

    assert world.state.offsets.query("h", "T", 0) == 2


def test_slaves_get_the_offset_tables(world: World) -> None:
    world.state.offsets.commit("g", "T", 0, 2, "test")

    offsets = ConsumerOffsets.from_body(done(world, RequestCode.GET_ALL_CONSUMER_OFFSET))
    delays = DelayOffsets.from_body(done(world, RequestCode.GET_ALL_DELAY_OFFSET))

    assert offsets.offset_table == {"T@g": {0: 2}}
    assert delays == world.state.delays.table()


# Resetting here


def moved(world: World, header: ResetOffset) -> dict[QueueRef, int]:
    return ResetOffsets.from_body(done(world, RESET, header)).offset_table


def to(
    timestamp: int = 0,
    *,
    group: str = "g",
    topic: str = "T",
    force: bool = True,
    queue_id: int | None = None,
    offset: int | None = None,
) -> ResetOffset:
    return ResetOffset(
        group=group,
        topic=topic,
        timestamp=timestamp,
        is_force=force,
        queue_id=queue_id,
        offset=offset,
    )


def test_a_group_is_moved_to_a_time_and_its_next_pulls_are_sent_there(world: World) -> None:
    world.state.offsets.commit("g", "T", 0, 3, "test")

    table = moved(world, to(world.now_ms - 2_000))

    assert table == {queue(0): 1, queue(1): 0}
    assert world.state.offsets.query("g", "T", 0) == 1
    assert world.state.offsets.take_reset("g", "T", 0) == QueueOffset(1)


@pytest.mark.parametrize(("timestamp", "offset"), [(0, 0), (-1, 3), (LONG_MAX, 3)])
def test_times_before_and_after_everything(world: World, timestamp: int, offset: int) -> None:
    assert moved(world, to(timestamp))[queue(0)] == offset


def test_one_queue_is_moved_by_time(world: World) -> None:
    assert moved(world, to(world.now_ms - 1_000, queue_id=0, offset=-1)) == {queue(0): 2}
    assert not world.state.offsets.has_reset("g", "T", 1)


@pytest.mark.parametrize("offset", [0, 2, 3, 4])
def test_one_queue_is_moved_to_an_offset(world: World, offset: int) -> None:
    assert moved(world, to(queue_id=0, offset=offset)) == {queue(0): offset}


@pytest.mark.parametrize("offset", [-2, 5, LONG_MAX])
def test_an_offset_outside_the_queue_is_refused(world: World, offset: int) -> None:
    assert refused(world, RESET, to(queue_id=0, offset=offset)) == (
        1,
        f"Target offset {offset} not in consume queue range [0-3]",
    )
    assert not world.state.offsets.has_reset("g", "T", 0)


def test_a_reset_of_what_is_not_there_is_refused(world: World) -> None:
    make_topic(world, "none", 0)

    assert refused(world, RESET, to(topic="nope")) == (17, "Topic nope does not exist")
    assert refused(world, RESET, to(group="nope")) == (26, "Group nope does not exist")
    assert refused(world, RESET, to(topic="none")) == (1, "No queues to reset.")
    assert refused(world, RESET, to(queue_id=2))[0] == ResponseCode.INVALID_PARAMETER


# Resetting by the clients


def test_clients_are_told_to_move_before_the_admin_is_answered(old_world: World) -> None:
    world = old_world
    peers = [join(world, "g", "T", client_id=f"c@{n}", port=50_000 + n) for n in (1, 2)]
    world.told.clear()

    answer = world.ask(RESET, to(world.now_ms - 2_000))

    assert answer is not None
    assert answer.remark == "not set any response code"
    assert isinstance(answer.body, bytes)
    assert ResetOffsets.from_body(answer.body).offset_table == {queue(0): 1, queue(1): 0}
    assert [told.peer for told in world.told] == peers
    command = world.told[0].request
    assert (command.code, command.is_oneway) == (220, True)
    assert command.field_texts() == {
        "topic": "T",
        "group": "g",
        "timestamp": str(world.now_ms - 2_000),
        "isForce": "false",
    }
    assert command.body == answer.body
    assert world.state.offsets.query("g", "T", 0) == 2  # the clients commit


def test_without_force_nobody_moves_forward(old_world: World) -> None:
    join(old_world, "g", "T")

    table = moved(old_world, to(-1, force=False))

    assert table == {queue(0): 2, queue(1): 0}


def test_cpp_clients_are_told_by_a_list(old_world: World) -> None:
    join(old_world, "g", "T")
    old_world.told.clear()

    body = done(old_world, RESET, to(0), language="CPP")

    listed = b'{"brokerName":"broker-a","offset":0,"queueId":%d,"topic":"T"}'
    assert old_world.told[0].request.body == (
        b'{"offsetTable":[' + listed % 0 + b"," + listed % 1 + b"]}"
    )
    assert body.startswith(b'{"offsetTable":{{')


def test_a_reset_by_clients_needs_a_topic_offsets_and_clients(old_world: World) -> None:
    world = old_world

    assert refused(world, RESET, to(topic="nope")) == (
        1,
        "[reset-offset] reset offset failed, no topic in this broker. topic=nope",
    )
    assert refused(world, RESET, to(group="nope")) == (1, "THe consumer group <nope> not exist")
    assert refused(world, RESET, to()) == (
        206,
        "Consumer not online, so can not reset offset, Group: g Topic: T Timestamp: 0",
    )


def test_clients_that_are_too_old_are_not_told(old_world: World) -> None:
    join(old_world, "g", "T", version=27)
    old_world.told.clear()

    assert refused(old_world, RESET, to()) == (
        1,
        "the client does not support this feature. version=V3_0_6",
    )
    assert old_world.told == []


# What clients say


def status(client_addr: str | None = "") -> client_call.ConsumerStatusRequest:
    return client_call.ConsumerStatusRequest(group="g", topic="T", client_addr=client_addr)


def say(table: dict[QueueRef, int]) -> Command:
    return Command(body=ConsumerStatusTable(message_queue_table=table).to_body())


def test_each_client_is_asked_how_far_it_is(world: World) -> None:
    join(world, "g", "T", client_id="c@1", port=50_001)
    join(world, "g", "T", client_id="c@2", port=50_002)

    opaque = world.submit(STATUS, status())
    assert world.answer_to(opaque) is None
    asked = world.asked.pop()
    assert (asked.request.code, asked.timeout_ms) == (221, 5_000)
    assert asked.request.field_texts() == {"topic": "T", "group": "g"}
    asked.then(say({queue(0): 7}))
    world.asked.pop().then(say({}))

    answer = world.answer_to(opaque)
    assert answer is not None
    assert answer.code == 0
    assert answer.body == (
        b'{"consumerTable":{"c@1":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:7},"c@2":{}},'
        b'"messageQueueTable":{}}'
    )


def test_clients_that_say_nothing_or_nonsense_are_left_out(world: World) -> None:
    for number in range(4):
        join(world, "g", "T", client_id=f"c@{number}", port=50_000 + number)

    opaque = world.submit(STATUS, status(None))
    world.asked.pop().then(None)
    world.asked.pop().then(Command(body=b"nonsense"))
    world.asked.pop().then(Command(code=1, remark="no"))
    world.asked.pop().then(say({queue(1): 3}))

    answer = world.answer_to(opaque)
    assert answer is not None
    assert isinstance(answer.body, bytes)
    assert ConsumerStatusTable.from_body(answer.body).consumer_table == {"c@3": {queue(1): 3}}


def test_one_client_is_asked_if_it_is_named(world: World) -> None:
    join(world, "g", "T", client_id="c@1", port=50_001)
    other = join(world, "g", "T", client_id="c@2", port=50_002)

    world.submit(STATUS, status("c@2"))

    assert [asked.peer for asked in world.asked] == [other]


def test_a_group_without_clients_cannot_be_asked(world: World) -> None:
    assert refused(world, STATUS, status()) == (
        1,
        "No Any Consumer online in the consumer group: [g]",
    )
