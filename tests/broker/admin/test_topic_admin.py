"""Admins make, show and delete topics as with RocketMQ 5.3; system topics stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flintmq.broker.config.broker_config import TOPIC_QUEUES_MAX
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.client import GroupSubscription
from flintmq.protocol.bodies.group import GroupList
from flintmq.protocol.bodies.stats import QueueExtent, TopicStats
from flintmq.protocol.bodies.topic import TopicConfig, TopicConfigList, TopicList, TopicTable
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.common_headers import GroupHeader, OfTopic
from flintmq.protocol.headers.group import SubscriptionOf
from flintmq.protocol.headers.topic import CreateTopic, TopicConfigOf
from support.broker.admin import code_of, done, join, make_topic, new_topic, refused, submit_send
from support.broker.world import World, body_of
from support.store.refusing_disk import RefusingDisk

CREATE = RequestCode.UPDATE_AND_CREATE_TOPIC
DELETE = RequestCode.DELETE_TOPIC_IN_BROKER


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        yield world


# Making


def test_a_topic_is_made_as_asked_for(world: World) -> None:
    header = new_topic("T", 3, read_queue_count=4, perm=4, filter_type="MULTI_TAG", order=True)

    answer = world.ask(CREATE, header)

    assert answer is not None
    assert (answer.code, answer.remark) == (0, "not set any response code")
    assert world.state.topics.find("T") == TopicConfig(
        attributes={},
        topic_name="T",
        read_queue_nums=4,
        write_queue_nums=3,
        perm=4,
        topic_filter_type="MULTI_TAG",
        topic_sys_flag=0,
        order=True,
    )


def test_the_name_servers_hear_of_a_new_topic(world: World) -> None:
    make_topic(world, "T")

    assert world.announced == [{"T"}]


def test_who_makes_a_topic_is_answered_when_the_name_servers_know_it(world: World) -> None:
    waiting: list[Callable[[], None]] = []

    def announce(topics: set[str], then: Callable[[], None]) -> None:
        assert topics == {"T"}
        waiting.append(then)

    world.announce = announce  # type: ignore[method-assign]

    opaque = world.submit(CREATE, new_topic("T", 1))
    world.settle()
    before = world.answer_to(opaque)
    (known,) = waiting
    known()

    assert before is None
    assert world.answer_to(opaque) is not None


def test_the_same_topic_again_changes_nothing(world: World) -> None:
    make_topic(world, "T")
    version = world.state.topics.version
    world.now_ms += 1

    make_topic(world, "T")

    assert world.state.topics.version == version


@pytest.mark.parametrize(
    ("name", "remark"),
    [
        ("", "The specified topic is blank."),
        (" ", "The specified topic is blank."),
        (
            "a.b",
            "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        ),
        ("t" * 128, "The specified topic is longer than topic max length."),
        ("TBW102", "The topic[TBW102] is conflict with system topic."),
        ("rmq_sys_x", "The topic[rmq_sys_x] is conflict with system topic."),
        ("broker-a", "The topic[broker-a] is conflict with system topic."),
    ],
)
def test_a_name_that_may_not_be_is_refused(world: World, name: str, remark: str) -> None:
    assert refused(world, CREATE, new_topic(name)) == (ResponseCode.INVALID_PARAMETER, remark)


@pytest.mark.parametrize(
    "header",
    [
        new_topic("T", -1),
        new_topic("T", TOPIC_QUEUES_MAX + 1),
        new_topic("T", read_queue_count=2**31 - 1),
        new_topic("T", perm=-1),
        new_topic("T", perm=8),
        new_topic("T", filter_type="NO_TAG"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(world: World, header: CreateTopic) -> None:
    refused(world, CREATE, header)

    assert world.state.topics.find("T") is None


def test_attributes_are_added_changed_and_removed(world: World) -> None:
    done(world, CREATE, new_topic("T", attributes="+message.type=FIFO,+queue.type=SimpleCQ"))
    made = world.state.topics.find("T")
    done(world, CREATE, new_topic("T", attributes="+message.type=NORMAL"))
    changed = world.state.topics.find("T")
    done(world, CREATE, new_topic("T", attributes="-message.type"))
    removed = world.state.topics.find("T")
    done(world, CREATE, new_topic("T"))

    assert made is not None
    assert made.attributes == {"message.type": "FIFO", "queue.type": "SimpleCQ"}
    assert changed is not None
    assert changed.attributes == {"message.type": "NORMAL", "queue.type": "SimpleCQ"}
    assert removed is not None
    assert removed.attributes == {"queue.type": "SimpleCQ"}
    assert world.state.topics.find("T") == removed


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ("message.type=FIFO", "add/alter attribute format is wrong: message.type"),
        ("message.type", "delete attribute format is wrong: message.type"),
        ("+message.type=FIFO,+message.type=FIFO", "key duplication: +message.type"),
        ("-message.type", "attempt to delete a nonexistent key: message.type"),
        ("+colour=red", "unsupported key: colour"),
        ("+=x", "kv string format wrong."),
        ("++a=x", "kv string format wrong."),
        ("-queue.type", "attempt to update an unchangeable attribute. key: queue.type"),
        ("+queue.type=BatchCQ", "attempt to update an unchangeable attribute. key: queue.type"),
    ],
)
def test_attributes_that_cannot_change_so_are_refused(
    world: World, changes: str, remark: str
) -> None:
    done(world, CREATE, new_topic("T", attributes="+queue.type=SimpleCQ"))

    assert refused(world, CREATE, new_topic("T", attributes=changes)) == (1, remark)


def test_a_new_topic_has_no_attributes_to_remove_and_takes_only_known_values(world: World) -> None:
    _, cannot_remove = refused(world, CREATE, new_topic("T", attributes="-message.type"))
    _, not_served = refused(world, CREATE, new_topic("T", attributes="+cleanup.policy=COMPACTION"))

    assert cannot_remove == (
        "only add attribute is supported while creating topic. key: message.type"
    )
    assert not_served == "value is not in set: [DELETE], key: cleanup.policy"


def test_several_topics_are_made_together_or_not_at_all(world: World) -> None:
    code = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
    one, two, bad = (TopicConfig(topic_name=name, attributes={}) for name in ("a", "b", "c.d"))

    refused(world, code, None, TopicConfigList(topic_config_list=(one, bad)).to_body())
    assert "a" not in world.state.topics
    done(world, code, None, TopicConfigList(topic_config_list=(one, two)).to_body())

    assert world.state.topics.find("a") == one
    assert world.state.topics.find("b") == two


# Deleting


def test_deleting_a_topic_takes_its_queues_and_offsets_along(world: World) -> None:
    make_topic(world, "T")
    make_topic(world, "other")
    world.send("T")
    world.send("other")
    world.state.offsets.commit("g", "T", 0, 1, "test")
    world.state.offsets.commit("g", "other", 0, 1, "test")

    done(world, DELETE, OfTopic(topic="T"))

    assert "T" not in world.state.topics
    assert world.state.log.max_offset("T", 0) == 0
    assert world.state.offsets.query("g", "T", 0) is None
    assert world.state.log.max_offset("other", 0) == 1
    assert world.state.offsets.query("g", "other", 0) == 1


def test_a_topic_can_be_made_again_and_starts_empty(world: World) -> None:
    make_topic(world, "T")
    world.send("T", b"old")

    done(world, DELETE, OfTopic(topic="T"))
    make_topic(world, "T")
    world.send("T", b"new")

    assert world.state.log.max_offset("T", 0) == 1
    assert b"new" in bytes(
        world.state.log.read("T", 0, world.state.log.min_offset("T", 0), 1).views[0]
    )


def test_a_topic_is_deleted_after_the_records_of_its_turn(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        make_topic(world, "T")
        make_topic(world, "U")
        sent = submit_send(world, "T")
        deleted = world.submit(DELETE, OfTopic(topic="T"))
        assert world.answer_to(deleted) is None

        world.settle()

        assert code_of(world, sent) == code_of(world, deleted) == 0
        assert "T" not in world.state.topics
        assert [span.topic for span in world.state.log.queues()] == []
    with World(tmp_path) as world:
        assert [span.topic for span in world.state.log.queues()] == []


def test_nothing_is_deleted_in_a_turn_that_could_not_be_written(tmp_path: Path) -> None:
    disk = RefusingDisk()
    with World(tmp_path, disk=disk) as world:
        make_topic(world, "T")
        world.send("T")
        disk.changes_left = 0
        submit_send(world, "T")
        deleted = world.submit(DELETE, OfTopic(topic="T"))
        world.settle()
        disk.changes_left = None

        assert code_of(world, deleted) == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "T" in world.state.topics
        assert world.state.log.max_offset("T", 0) == 1


def test_an_unknown_topic_is_gone_already(world: World) -> None:
    done(world, DELETE, OfTopic(topic="nope"))


@pytest.mark.parametrize(
    ("name", "remark"),
    [
        ("", "The specified topic is blank."),
        ("TBW102", "The topic[TBW102] is conflict with system topic."),
        (
            "SCHEDULE_TOPIC_XXXX",
            "The topic[SCHEDULE_TOPIC_XXXX] is conflict with system topic.",
        ),
    ],
)
def test_system_topics_are_not_deleted(world: World, name: str, remark: str) -> None:
    assert refused(world, DELETE, OfTopic(topic=name)) == (29, remark)


def test_queues_without_a_topic_are_cleaned(world: World) -> None:
    make_topic(world, "T")
    make_topic(world, "U")
    world.send("T")
    world.send("U")
    world.state.topics.remove("T", world.now_ms)

    done(world, RequestCode.CLEAN_UNUSED_TOPIC)

    assert {span.topic for span in world.state.log.queues()} == {"U"}


# Showing


def test_the_topic_table_is_shown_as_it_is_saved(world: World) -> None:
    make_topic(world, "T")

    body = done(world, RequestCode.GET_ALL_TOPIC_CONFIG)

    assert TopicTable.from_body(body) == world.state.topics.table()


def test_a_topic_that_has_more_queues_than_may_be_made_keeps_them(world: World) -> None:
    """A directory of RocketMQ may have one, and so may one of an older release of ours."""
    many = 4 * TOPIC_QUEUES_MAX
    old = TopicConfig(topic_name="old", read_queue_nums=many, write_queue_nums=many)
    world.state.topics.create_or_replace(old, world.now_ms)

    done(world, CREATE, new_topic("old", many - 1))
    code, remark = refused(world, CREATE, new_topic("old", many))

    assert code == ResponseCode.INVALID_PARAMETER
    assert "topicQueuesMax" in str(remark)
    found = world.state.topics.find("old")
    assert found is not None
    assert found.write_queue_nums == many - 1


def test_one_topic_is_shown_as_real_brokers_show_it(world: World) -> None:
    make_topic(world, "5at", 1)

    body = done(world, RequestCode.GET_TOPIC_CONFIG, TopicConfigOf(topic="5at", is_logical=True))

    assert body == (
        b'{"attributes":{},"order":false,"perm":6,"readQueueNums":1,'
        b'"topicFilterType":"SINGLE_TAG","topicName":"5at","topicSysFlag":0,"writeQueueNums":1}'
    )
    assert refused(world, RequestCode.GET_TOPIC_CONFIG, TopicConfigOf(topic="nope")) == (
        ResponseCode.TOPIC_NOT_EXIST,
        "No topic in this broker. topic: nope",
    )


def test_stats_of_a_topic_have_every_queue(world: World) -> None:
    make_topic(world, "T")
    world.send("T")
    world.now_ms += 5
    world.send("T")

    stats = TopicStats.from_body(done(world, RequestCode.GET_TOPIC_STATS_INFO, OfTopic(topic="T")))

    assert stats.offset_table == {
        QueueRef("T", "broker-a", 0): QueueExtent(
            last_update_timestamp=world.now_ms, max_offset=2, min_offset=0
        ),
        QueueRef("T", "broker-a", 1): QueueExtent(),
    }
    assert stats.topic_put_tps == 2.0
    assert refused(world, RequestCode.GET_TOPIC_STATS_INFO, OfTopic(topic="nope")) == (
        ResponseCode.TOPIC_NOT_EXIST,
        "topic[nope] not exist",
    )


def test_groups_of_a_topic_are_those_online_and_those_with_offsets(world: World) -> None:
    make_topic(world, "T")
    join(world, "online", "T")
    join(world, "elsewhere", "U", client_id="c@2", port=50_001)
    world.state.offsets.commit("offline", "T", 0, 1, "test")

    body = done(world, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, OfTopic(topic="T"))

    assert sorted(GroupList.from_body(body).group_list) == ["offline", "online"]


def test_system_topics_are_listed(world: World) -> None:
    body = done(world, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)

    names = TopicList.from_body(body).topic_list
    assert {"TBW102", "broker-a", "DefaultCluster", "SCHEDULE_TOPIC_XXXX"} <= set(names)
    assert all(map(world.state.topics.is_system, names))


def test_topics_and_subscriptions_of_a_group_are_shown(world: World) -> None:
    join(world, "g", "T")
    world.state.offsets.commit("g", "U", 0, 1, "test")

    topics = done(world, RequestCode.QUERY_TOPICS_BY_CONSUMER, GroupHeader(group="g"))
    wanted = done(
        world,
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
        SubscriptionOf(group="g", topic="T"),
    )
    unknown = done(
        world, RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, SubscriptionOf(group="g", topic="x")
    )

    assert TopicList.from_body(topics) == TopicList(
        broker_addr=world.state.address, topic_list=("U",)
    )
    found = GroupSubscription.from_body(wanted).subscription_data
    assert found is not None
    assert (found.topic, found.sub_string) == ("T", "*")
    assert unknown == b'{"group":"g","topic":"x"}'


def test_a_first_message_makes_a_topic_that_admins_see(world: World) -> None:
    world.send("auto")

    answer = world.ask(RequestCode.GET_TOPIC_CONFIG, TopicConfigOf(topic="auto"))

    assert TopicConfig.from_body(body_of(answer)).write_queue_nums == 4
