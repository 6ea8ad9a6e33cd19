"""Topics are there from the start, made from templates, and every change is told and saved."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as with_fields

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.tables.topics import BrokerTopics
from flintmq.model.topic import AUTO_CREATE_TOPIC, SCHEDULE_TOPIC
from flintmq.protocol.bodies.topic import TopicConfig, TopicTable
from flintmq.store.files.store_config import StoreConfig, parse_delay_levels

NOW_MS = 1_700_000_000_000
GOLDEN = Path(__file__).parents[2] / "golden" / "bodies.jsonl"

SYSTEM_TOPICS = {
    "SELF_TEST_TOPIC": (1, 6),
    "TBW102": (8, 7),
    "BenchmarkTest": (1024, 6),
    "DefaultCluster": (16, 7),
    "broker-a": (1, 7),
    "OFFSET_MOVED_EVENT": (1, 6),
    "SCHEDULE_TOPIC_XXXX": (18, 6),
    "DefaultCluster_REPLY_TOPIC": (1, 6),
    "RMQ_SYS_TRANS_HALF_TOPIC": (1, 6),
    "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 6),
    "rmq_sys_wheel_timer": (1, 6),
    "rmq_sys_REVIVE_LOG_DefaultCluster": (8, 6),
}


def new(**settings: object) -> BrokerTopics:
    return BrokerTopics(replace(BrokerConfig(), **settings), None, NOW_MS)  # type: ignore[arg-type]


def saved(*topics: TopicConfig) -> TopicTable:
    return TopicTable(topic_config_table={topic.topic_name: topic for topic in topics})


# System topics


def test_a_new_broker_has_the_system_topics() -> None:
    found = {t.topic_name: (t.read_queue_nums, t.write_queue_nums, t.perm) for t in new()}

    assert found == {name: (count, count, perm) for name, (count, perm) in SYSTEM_TOPICS.items()}


def test_the_template_and_the_trace_topic_are_there_when_settings_say_so() -> None:
    topics = new(auto_create_topic=False, trace_topic=True)

    assert AUTO_CREATE_TOPIC not in topics
    assert "RMQ_SYS_TRACE_TOPIC" in topics


def test_names_of_a_broker_and_its_cluster_follow_its_settings() -> None:
    topics = new(broker_name="b", cluster="c", default_topic_queues=3)
    template = topics.find(AUTO_CREATE_TOPIC)

    assert {"b", "c", "c_REPLY_TOPIC"} <= topics.system_names
    assert template is not None
    assert template.read_queue_nums == 3


@pytest.mark.parametrize(
    ("name", "is_system"),
    [
        ("DefaultCluster", True),
        ("broker-a", True),
        ("TRANS_CHECK_MAX_TIME_TOPIC", True),
        ("rmq_sys_anything", True),
        ("TBW102", True),
        ("T", False),
        ("%RETRY%g", False),
    ],
)
def test_system_topics_are_known_by_name(name: str, is_system: bool) -> None:
    assert new().is_system(name) == is_system


def test_saved_topics_stay_as_they_were() -> None:
    own = TopicConfig(topic_name="BenchmarkTest", read_queue_nums=2, write_queue_nums=2, perm=4)
    mine = TopicConfig(topic_name="mine", perm=2)

    topics = BrokerTopics(BrokerConfig(), saved(own, mine), NOW_MS)

    assert topics.find("BenchmarkTest") == own
    assert topics.find("mine") == mine


def test_the_template_may_be_inherited_from_exactly_while_topics_may_be_made() -> None:
    template = TopicConfig(topic_name=AUTO_CREATE_TOPIC, perm=7)
    off = BrokerTopics(BrokerConfig(auto_create_topic=False), saved(template), NOW_MS)
    closed = off.find(AUTO_CREATE_TOPIC)
    assert closed is not None

    on = BrokerTopics(BrokerConfig(), off.table(), NOW_MS)
    opened = on.find(AUTO_CREATE_TOPIC)

    assert closed.perm == 6
    assert opened is not None
    assert opened.perm == 7


def test_the_schedule_topic_has_a_queue_for_every_level() -> None:
    store = StoreConfig(delay_levels_ms=parse_delay_levels("1s " * 20))
    old = TopicConfig(topic_name=SCHEDULE_TOPIC, read_queue_nums=18, write_queue_nums=18)

    more = BrokerTopics(BrokerConfig(store=store), saved(old), NOW_MS).find(SCHEDULE_TOPIC)
    fewer = BrokerTopics(
        BrokerConfig(store=StoreConfig(delay_levels_ms=(1_000,))), saved(old), NOW_MS
    ).find(SCHEDULE_TOPIC)

    assert more is not None
    assert fewer is not None
    assert (more.read_queue_nums, more.write_queue_nums) == (20, 20)
    assert fewer == old


def test_settings_may_change_while_topics_are_there() -> None:
    topics = new()

    topics.configure(BrokerConfig(auto_create_topic=False), NOW_MS)

    assert topics.create_by_send("T", AUTO_CREATE_TOPIC, 4, NOW_MS) is None
    topics.configure(BrokerConfig(), NOW_MS)
    assert topics.create_by_send("T", AUTO_CREATE_TOPIC, 4, NOW_MS) is not None


# Topics made by a first message


@pytest.mark.parametrize(("asked", "made"), [(4, 4), (8, 8), (9, 8), (0, 0), (-1, 0), (None, 8)])
def test_a_topic_gets_no_more_queues_than_its_template(asked: int | None, made: int) -> None:
    topic = new().create_by_send("T", AUTO_CREATE_TOPIC, asked, NOW_MS)

    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums) == (made, made)


def test_a_topic_takes_after_its_template() -> None:
    topics = new()
    template = TopicConfig(topic_name="mine", perm=5, topic_filter_type="MULTI_TAG", order=True)
    topics.create_or_replace(template, NOW_MS)

    topic = topics.create_by_send("T", "mine", 4, NOW_MS, unit_mode=True)

    assert topic == TopicConfig(
        topic_name="T",
        attributes={},
        perm=4,
        read_queue_nums=4,
        write_queue_nums=4,
        topic_filter_type="MULTI_TAG",
        topic_sys_flag=1,
    )
    assert topics.find("T") == topic


def test_permissions_stay_plain_numbers() -> None:
    topics = new()
    topics.create_by_send("T", None, 4, NOW_MS)

    assert {type(topic.perm) for topic in topics} == {int}


@pytest.mark.parametrize("template", ["nowhere", "SELF_TEST_TOPIC"])
def test_without_a_template_only_retry_topics_are_made(template: str) -> None:
    topics = new()

    assert topics.create_by_send("T", template, 4, NOW_MS) is None
    retry = topics.create_by_send("%RETRY%g", template, 4, NOW_MS, unit_mode=True)

    assert retry is not None
    assert (retry.read_queue_nums, retry.perm, retry.topic_sys_flag) == (1, 6, 2)


def test_a_retry_topic_of_a_template_knows_its_unit_as_well() -> None:
    retry = new().create_by_send("%RETRY%g", AUTO_CREATE_TOPIC, 4, NOW_MS, unit_mode=True)

    assert retry is not None
    assert (retry.read_queue_nums, retry.topic_sys_flag) == (4, 2)


def test_first_messages_make_only_so_many_topics() -> None:
    topics = new(topics_max=len(new()) + 1)

    assert topics.create_by_send("a", None, 4, NOW_MS) is not None
    assert topics.create_by_send("b", None, 4, NOW_MS) is None


# Changes


def test_every_change_gets_a_version_and_is_told() -> None:
    topics = new()
    topics.changed.clear()
    topics.is_dirty = False
    before = topics.version

    topics.create_or_replace(TopicConfig(topic_name="T"), NOW_MS + 1)
    topics.remove("broker-a", NOW_MS + 2)

    assert topics.version.counter == before.counter + 2
    assert topics.version.timestamp == NOW_MS + 2
    assert topics.changed == {"T", "broker-a"}
    assert topics.is_dirty


def test_what_changes_nothing_is_no_change() -> None:
    topics = new()
    topics.create_or_replace(TopicConfig(topic_name="T"), NOW_MS)
    topics.changed.clear()
    before = topics.version

    topics.create_or_replace(TopicConfig(topic_name="T"), NOW_MS + 1)
    topics.remove("nowhere", NOW_MS + 1)
    topics.ensure("T", 3, NOW_MS + 1)
    topics.mark_order_topics(["nowhere"], NOW_MS + 1)

    assert topics.version == before
    assert not topics.changed


def test_a_table_read_again_is_the_same_and_needs_no_saving() -> None:
    first = new()
    first.create_by_send("T", None, 4, NOW_MS)

    again = BrokerTopics(BrokerConfig(), first.table(), NOW_MS + 1)

    assert list(again) == list(first)
    assert again.version == first.version
    assert not again.is_dirty


def test_order_topics_are_marked_and_told() -> None:
    topics = new()
    topics.create_or_replace(TopicConfig(topic_name="T"), NOW_MS)
    topics.changed.clear()

    topics.mark_order_topics(["T", "nowhere"], NOW_MS)

    marked = topics.find("T")
    assert marked is not None
    assert marked.order
    assert topics.changed == {"T"}


def test_a_topic_that_is_there_is_not_made_again() -> None:
    topics = new()
    topic = TopicConfig(topic_name="T", read_queue_nums=7)
    topics.create_or_replace(topic, NOW_MS)

    assert topics.ensure("T", 3, NOW_MS) == topic


def test_the_topics_of_a_real_broker_are_kept() -> None:
    rows = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    texts = [row["text"].encode() for row in rows if row["kind"] == "TopicTable"]
    assert texts
    for text in texts:
        table = TopicTable.from_file(text)

        topics = BrokerTopics(BrokerConfig(), table, NOW_MS)

        for topic in table.topic_config_table.values():
            found = topics.find(topic.topic_name)
            assert found is not None
            assert with_fields(found, perm=0) == with_fields(topic, perm=0)
