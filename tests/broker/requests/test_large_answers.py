"""What grows with queues, topics, groups and members is done in parts, and no more than needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from flintmq.broker.requests.outcome import SMALL_ENTRIES, TOPICS_PER_REQUEST_MAX
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.saving import PAUSE_S_MAX, save_pause, take_names
from flintmq.broker.tables import registration
from flintmq.broker.tables.registration import register_parts
from flintmq.protocol import fastjson
from flintmq.protocol.bodies.group import GroupTable
from flintmq.protocol.bodies.register import BrokerRegistration
from flintmq.protocol.bodies.stats import ConsumeStats, TopicStats
from flintmq.protocol.bodies.topic import TopicConfig, TopicTable
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.fields import Header
from flintmq.protocol.headers.client_call import ResetOffset
from flintmq.protocol.headers.common_headers import (
    BrokerConsumeStats,
    NoFields,
    OfConsumerGroup,
    OfGroupAndTopic,
    OfTopic,
)
from flintmq.protocol.headers.group import ConsumeStatsOf
from support.broker.admin import refused
from support.broker.heartbeats import consumer, heartbeat, wants
from support.broker.world import World, body_of

QUEUES = 1_000
STEPS_MIN = 15


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A broker with a topic of many queues, as an old directory may have, and many names."""
    with World(tmp_path) as world:
        state = world.state
        wide = TopicConfig(topic_name="wide", read_queue_nums=QUEUES, write_queue_nums=QUEUES)
        state.topics.create_or_replace(wide, world.now_ms)
        for number in range(QUEUES):
            state.topics.ensure(f"topic{number}", 1, world.now_ms)
            state.groups.find_or_create(f"group{number}", world.now_ms)
            state.offsets.commit("g", "wide", number, 5, "test")
            state.offsets.commit(f"group{number}", "wide", 0, 5, "test")
            peer = Peer(f"127.0.0.1:{10_000 + number}")
            said = heartbeat(f"c{number}", consumer("g", wants("wide")), producers=("p",))
            state.clients.heartbeat(said, peer, "JAVA", 479, world.now_ms)
        state.groups.find_or_create("g", world.now_ms)
        yield world


def in_steps(world: World, code: RequestCode, header: Header | None) -> tuple[int, bytes]:
    """Ask, and count the steps until the answer is there."""
    opaque = world.submit(code, header)
    assert world.answer_to(opaque) is None
    count = 0
    while world.engine.stepping:
        world.engine.step(lambda: True)
        count += 1
    answer = world.answer_to(opaque)
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return count, body_of(answer)


CASES = {
    "202": (RequestCode.GET_TOPIC_STATS_INFO, OfTopic(topic="wide")),
    "208": (RequestCode.GET_CONSUME_STATS, ConsumeStatsOf(consumer_group="g", topic="wide")),
    "317": (RequestCode.GET_BROKER_CONSUME_STATS, BrokerConsumeStats(is_order=False)),
    "303": (RequestCode.QUERY_CONSUME_TIME_SPAN, OfGroupAndTopic(group="g", topic="wide")),
    "21": (RequestCode.GET_ALL_TOPIC_CONFIG, NoFields()),
    "201": (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, NoFields()),
    "43": (RequestCode.GET_ALL_CONSUMER_OFFSET, NoFields()),
    "203": (RequestCode.GET_CONSUMER_CONNECTION_LIST, OfConsumerGroup(consumer_group="g")),
    "328": (RequestCode.GET_ALL_PRODUCER_INFO, NoFields()),
    "222": (
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        ResetOffset(topic="wide", group="g", timestamp=-1, is_force=True),
    ),
}


@pytest.mark.parametrize(("code", "header"), CASES.values(), ids=CASES.keys())
def test_a_large_answer_takes_many_steps(world: World, code: RequestCode, header: Header) -> None:
    if code == RequestCode.GET_BROKER_CONSUME_STATS:
        for number in range(20, QUEUES):  # else there is more than a frame holds
            world.state.offsets.remove_group(f"group{number}")

    count, body = in_steps(world, code, header)

    assert count >= STEPS_MIN
    assert len(body) > 10_000


def test_parts_make_up_the_whole(world: World) -> None:
    _, extents = in_steps(world, *CASES["202"])
    _, progress = in_steps(world, *CASES["208"])
    _, topics = in_steps(world, *CASES["21"])
    _, groups = in_steps(world, *CASES["201"])

    assert len(TopicStats.from_body(extents).offset_table) == QUEUES
    assert len(ConsumeStats.from_body(progress).offset_table) == QUEUES
    assert ConsumeStats.from_body(progress).lag == -5 * QUEUES
    assert topics == world.state.topics.table().to_body()
    assert groups == world.state.groups.table().to_body()
    assert TopicTable.from_body(topics).topic_config_table.keys() == {
        topic.topic_name for topic in world.state.topics
    }
    assert len(GroupTable.from_body(groups).subscription_group_table) == len(world.state.groups)


def test_a_small_answer_comes_at_once(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.state.topics.ensure("few", SMALL_ENTRIES, world.now_ms)
        opaque = world.submit(RequestCode.GET_TOPIC_STATS_INFO, OfTopic(topic="few"))

        assert world.answer_to(opaque) is not None


def test_a_request_names_so_many_topics_only(world: World) -> None:
    names = ";".join(f"topic{number}" for number in range(TOPICS_PER_REQUEST_MAX + 1))
    header = ConsumeStatsOf(consumer_group="g", topic_list=names)

    code, remark = refused(world, RequestCode.GET_CONSUME_STATS, header)

    assert code == ResponseCode.INVALID_PARAMETER
    assert str(TOPICS_PER_REQUEST_MAX) in str(remark)


# Name servers


def test_many_topics_are_told_in_parts_each_with_a_version_of_its_own(world: World) -> None:
    parts = list(register_parts(world.state, None, world.now_ms))

    tables = [
        BrokerRegistration.from_body(part.body).topic_config_serialize_wrapper for part in parts
    ]
    told = [name for table in tables for name in table.topic_config_table]
    versions = {msgspec.json.encode(table.data_version.counter) for table in tables}
    assert sorted(told) == sorted(topic.topic_name for topic in world.state.topics)
    assert max(len(table.topic_config_table) for table in tables) == registration.PART_TOPICS
    assert len(versions) == len(parts) > 1


def test_one_new_topic_among_many_is_told_alone_and_so_is_one_that_is_gone(world: World) -> None:
    new = list(register_parts(world.state, {"wide"}, world.now_ms))
    gone = list(register_parts(world.state, {"gone"}, world.now_ms))

    for (part,), names in ((new, ["wide"]), (gone, ["SELF_TEST_TOPIC"])):
        table = BrokerRegistration.from_body(part.body).topic_config_serialize_wrapper
        assert list(table.topic_config_table) == names
        assert table.data_version.counter <= world.state.topics.version.counter


# Saving


def test_a_save_writes_only_names_that_changed_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[object] = []
    memo_keep = fastjson._Writer._object

    def counted(self: fastjson._Writer, fields: object, depth: int) -> str:
        written.append(fields)
        return memo_keep(self, fields, depth)  # type: ignore[arg-type]

    monkeypatch.setattr(fastjson._Writer, "_object", counted)
    take_names(world.state, world.tables).save()
    first = len(written)
    world.state.topics.ensure("one_more", 1, world.now_ms)
    world.state.groups.find_or_create("one_more", world.now_ms)
    written.clear()

    take_names(world.state, world.tables).save()

    assert first > 2 * QUEUES
    assert len(written) < 10
    saved = world.tables.topics.load()
    assert saved is not None
    assert saved.topic_config_table == world.state.topics.table().topic_config_table


def test_saving_names_without_end_is_a_tenth_of_what_the_broker_does() -> None:
    assert save_pause(0.02) == pytest.approx(0.18)
    assert save_pause(60) == PAUSE_S_MAX
