"""A pull is answered as RocketMQ answers it: every check, every status, every side effect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker.requests.hooks import Pulled
from flintmq.broker.tables.broker_stats import (
    GROUP_GET_FALL_SIZE,
    GROUP_GET_NUMS,
    GROUP_GET_SIZE,
    MINUTE,
)
from flintmq.broker.tables.filters import ConsumerFilters
from flintmq.model import properties as names
from flintmq.model.group import MessageModel, retry_topic
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.model.topic import OFFSET_MOVED_TOPIC, Permission
from flintmq.protocol.bodies.client import SQL92
from flintmq.protocol.bodies.group import GroupConfig
from flintmq.protocol.bodies.offset import OffsetMovedEvent
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.pull import PullAnswer, PullRefusal
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.record import decode_record
from support.broker.pulling import (
    CLASS_FILTER,
    COMMIT,
    GROUP,
    SUBSCRIPTION,
    SUSPEND,
    TOPIC,
    add_topic,
    beat,
    bodies_of,
    broker_config,
    pull,
    store,
    subscription,
)
from support.broker.world import SMALL_STORE, World, body_of, header_of

LITE = RequestCode.LITE_PULL_MESSAGE
UPLOADED = (
    "The broker does not support consumer to filter message by class: it runs no uploaded code"
)


@pytest.fixture(autouse=True)
def no_wait_for_the_medium(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is about crashes, and many stores are opened."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr("os.fdatasync", lambda _: None)


def nothing(world: World) -> None:
    """Leave the broker as it is."""


def group_is(**changes: Any) -> Callable[[World], None]:
    def arrange(world: World) -> None:
        world.state.groups.create_or_replace(GroupConfig(group_name=GROUP, **changes), world.now_ms)

    return arrange


def says(*args: Any, **more: Any) -> Callable[[World], None]:
    """The group sent a heartbeat with one subscription."""
    return lambda world: beat(world, subscription(*args, **more))


def broadcasts(world: World) -> None:
    group_is(consume_broadcast_enable=False)(world)
    beat(world, subscription(), model=MessageModel.BROADCASTING)


def may_not_read(world: World) -> None:
    beat(world, subscription())
    world.state.groups.allow_reading(GROUP, TOPIC, world.now_ms, allowed=False)


def topic_is_hidden(world: World) -> None:
    add_topic(world, "hidden", perm=int(Permission.WRITE))


def falls_behind(world: World) -> None:
    """The subscription is newer than its filter."""
    beat(world, subscription("a > 1", 6, expression_type=SQL92))
    world.state.filters = ConsumerFilters(None, world.now_ms)
    older = subscription("a > 1", 5, expression_type=SQL92)
    world.state.filters.register(GROUP, [older], world.now_ms)


@dataclass(frozen=True)
class Case:
    """A pull that fails one check."""

    name: str
    code: int
    remark: str
    forbidden_by: int | None = None
    arrange: Callable[[World], None] = nothing
    fields: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    request: RequestCode = RequestCode.PULL_MESSAGE


REGISTERED = {"sys_flag": 0, "sub_version": 5}

CASES = [
    Case(
        "broker may not be read",
        16,
        "the broker[127.0.0.1] pulling message is forbidden",
        1,
        config={"permission": int(Permission.WRITE)},
    ),
    Case(
        "lite pull is off",
        16,
        "the broker[127.0.0.1] for lite pull consumer is forbidden",
        1,
        config={"lite_pull": False},
        request=LITE,
    ),
    Case(
        "no such group",
        26,
        "subscription group [readers] does not exist, ",
        config={"auto_create_group": False},
    ),
    Case(
        "no name for a group",
        26,
        "subscription group [a b] does not exist, ",
        fields={"consumer_group": "a b"},
    ),
    Case(
        "group is off",
        16,
        "subscription group no permission, readers",
        2,
        arrange=group_is(consume_enable=False),
    ),
    Case(
        "no such topic",
        17,
        "topic[nope] not exist, apply first please! ",
        fields={"topic": "nope"},
    ),
    Case(
        "a light queue",
        16,
        "the topic[%LMQ%a] pulling message is forbidden: this broker has no light message queues",
        3,
        fields={"topic": "%LMQ%a"},
    ),
    Case(
        "topic may not be read",
        16,
        "the topic[hidden] pulling message is forbidden",
        3,
        arrange=topic_is_hidden,
        fields={"topic": "hidden"},
    ),
    *(
        Case(
            f"queue {queue_id}",
            29,
            f"queueId[{queue_id}] is illegal, topic:[orders] topicConfig.readQueueNums:[2] "
            "consumer:[/127.0.0.1:40000]",
            fields={"queue_id": queue_id},
        )
        for queue_id in (-1, 2)
    ),
    Case(
        "tags that are none",
        23,
        "parse the consumer's subscription failed",
        fields={"subscription": "||"},
    ),
    Case(
        "sql that is none",
        23,
        "parse the consumer's subscription failed",
        fields={"expression_type": SQL92},
    ),
    Case(
        "uploaded code",
        1,
        UPLOADED,
        fields={"sys_flag": SUBSCRIPTION | CLASS_FILTER, "subscription": "com.example.Filter"},
    ),
    Case("no heartbeat", 24, "the consumer's group info not exist", fields=REGISTERED),
    Case(
        "broadcasting is off",
        16,
        "the consumer group[readers] can not consume by broadcast way",
        4,
        arrange=broadcasts,
        fields=REGISTERED,
    ),
    Case(
        "topic is forbidden for the group",
        16,
        "the consumer group[readers] is forbidden for topic[orders]",
        5,
        arrange=may_not_read,
        fields=REGISTERED,
    ),
    Case(
        "other subscription",
        24,
        "the consumer's subscription not exist",
        arrange=says(topic="bills"),
        fields=REGISTERED,
    ),
    Case(
        "older subscription",
        25,
        "the consumer's subscription not latest",
        arrange=says("*", 4),
        fields=REGISTERED,
    ),
    Case(
        "uploaded code of a heartbeat",
        1,
        UPLOADED,
        arrange=says("com.example.Filter", 5, class_filter_mode=True),
        fields=REGISTERED,
    ),
    Case(
        "uploaded code by the flag alone",
        1,
        UPLOADED,
        arrange=says("*", 5),
        fields=REGISTERED | {"sys_flag": CLASS_FILTER},
    ),
    Case(
        "filter that did not compile",
        27,
        "The broker's consumer filter data is not exist!Your expression may be wrong!",
        arrange=says("a >", 5, expression_type=SQL92),
        fields=REGISTERED,
    ),
    Case(
        "filter of a kind nobody knows",
        27,
        "The broker's consumer filter data is not exist!Your expression may be wrong!",
        arrange=says("a", 5, expression_type="GROOVY"),
        fields=REGISTERED,
    ),
    Case(
        "older filter",
        28,
        "the consumer's consumer filter data not latest",
        arrange=falls_behind,
        fields=REGISTERED | {"sub_version": 6},
    ),
    Case(
        "filters are off",
        1,
        "The broker does not support consumer to filter message by SQL92",
        arrange=says("a > 1", 5, expression_type=SQL92),
        fields=REGISTERED,
        config={"property_filter": False},
    ),
    Case(
        "filters are off for a pull that brings one",
        1,
        "The broker does not support consumer to filter message by SQL92",
        fields={"subscription": "a > 1", "expression_type": SQL92},
        config={"property_filter": False},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_failed_check_is_the_answer(case: Case, tmp_path: Path) -> None:
    with World(tmp_path, broker_config(**case.config)) as world:
        add_topic(world)
        case.arrange(world)

        answer = pull(world, case.request, **case.fields)

        assert answer is not None
        assert (answer.code, answer.remark) == (case.code, case.remark)
        if case.forbidden_by is not None:
            assert header_of(answer, PullRefusal).forbidden_type == case.forbidden_by
        assert world.state.log.max_offset(OFFSET_MOVED_TOPIC, 0) == 0


def test_the_first_check_that_fails_counts(tmp_path: Path) -> None:
    """A pull that fails every check, put right one by one from the top."""
    config = broker_config(
        permission=int(Permission.WRITE),
        lite_pull=False,
        auto_create_group=False,
        property_filter=False,
    )
    fields: dict[str, Any] = {"queue_id": 5, "sys_flag": 0, "sub_version": 5}
    other = MessageModel.BROADCASTING
    with World(tmp_path, config) as world:
        state = world.state
        answers = []

        def try_it() -> None:
            answer = pull(world, LITE, **fields)
            assert answer is not None
            by = header_of(answer, PullRefusal).forbidden_type if answer.code == 16 else None
            answers.append((answer.code, by))

        try_it()
        state.config = replace(state.config, permission=6)
        try_it()
        state.config = replace(state.config, lite_pull=True)
        try_it()
        group_is(consume_enable=False, consume_broadcast_enable=False)(world)
        try_it()
        group_is(consume_broadcast_enable=False)(world)
        try_it()
        add_topic(world, perm=int(Permission.WRITE))
        try_it()
        state.topics.remove(TOPIC, world.now_ms)
        add_topic(world)
        try_it()
        fields["queue_id"] = 0
        try_it()
        beat(world, subscription(topic="bills"), model=other)
        state.groups.allow_reading(GROUP, TOPIC, world.now_ms, allowed=False)
        try_it()
        group_is()(world)
        try_it()
        state.groups.allow_reading(GROUP, TOPIC, world.now_ms, allowed=True)
        try_it()
        beat(world, subscription("a >", 4, expression_type=SQL92))
        try_it()
        beat(world, subscription("a >", 5, expression_type=SQL92))
        try_it()
        falls_behind(world)
        fields["sub_version"] = 6
        try_it()
        beat(world, subscription("a > 1", 7, expression_type=SQL92))
        try_it()
        state.config = replace(state.config, property_filter=True)
        try_it()

        assert answers == [
            (16, 1), (16, 1), (26, None), (16, 2), (17, None), (16, 3), (29, None), (24, None),
            (16, 4), (16, 5), (24, None), (25, None), (27, None), (28, None), (1, None),
            (19, None),
        ]  # fmt: skip


# Statuses


@dataclass(frozen=True)
class Status:
    """A read of queue 0, which has offsets [0, 5), or of queue 1, which has none."""

    name: str
    code: int
    offset: int
    next_offset: int
    text: str = "*"
    queue_id: int = 0


STATUSES = [
    Status("FOUND", 0, 0, 5),
    Status("FOUND", 0, 4, 5),
    Status("FOUND", 0, 0, 5, text="A"),
    Status("NO_MATCHED_MESSAGE", 20, 1, 5, text="B"),
    Status("NO_MATCHED_MESSAGE", 20, 0, 5, text=" "),
    Status("OFFSET_OVERFLOW_ONE", 19, 5, 5),
    Status("OFFSET_OVERFLOW_BADLY", 21, 6, 5),
    Status("OFFSET_OVERFLOW_BADLY", 21, 2**63 - 1, 5),
    Status("OFFSET_TOO_SMALL", 21, -1, 0),
    Status("NO_MESSAGE_IN_QUEUE", 19, 0, 0, queue_id=1),
    Status("NO_MESSAGE_IN_QUEUE", 21, 1, 0, queue_id=1),
    Status("NO_MESSAGE_IN_QUEUE", 21, -1, 0, queue_id=1),
]


@pytest.mark.parametrize(
    "case", STATUSES, ids=lambda case: f"{case.name} {case.offset} {case.text}"
)
@pytest.mark.parametrize("request_code", [RequestCode.PULL_MESSAGE, LITE])
def test_a_status_becomes_its_code(case: Status, request_code: RequestCode, tmp_path: Path) -> None:
    with World(tmp_path, broker_config()) as world:
        add_topic(world, sys_flag=2)
        world.state.groups.create_or_replace(
            GroupConfig(group_name=GROUP, group_sys_flag=3), world.now_ms
        )
        store(world, *[b"x"] * 5, TAGS="A")

        answer = pull(
            world,
            request_code,
            queue_offset=case.offset,
            queue_id=case.queue_id,
            subscription=case.text,
        )

        assert answer is not None
        assert (answer.code, answer.remark) == (case.code, case.name)
        assert header_of(answer, PullAnswer) == PullAnswer(
            suggest_which_broker_id=0,
            next_begin_offset=case.next_offset,
            min_offset=0,
            max_offset=0 if case.queue_id else 5,
            topic_sys_flag=2,
            group_sys_flag=3,
        )
        count = case.next_offset - case.offset if case.code == 0 else 0
        assert bodies_of(answer) == [b"x"] * count
        moved = world.state.log.max_offset(OFFSET_MOVED_TOPIC, 0)
        assert moved == (1 if case.code == 21 else 0)


def test_an_answer_with_records_is_views_of_the_log(tmp_path: Path) -> None:
    with World(tmp_path, broker_config()) as world:
        add_topic(world)
        store(world, b"one", b"two")

        answer = pull(world)

        assert answer is not None
        assert isinstance(answer.body, list)
        assert all(isinstance(view, memoryview) for view in answer.body)
        assert bodies_of(answer) == [b"one", b"two"]


def test_a_moved_offset_is_written_down(tmp_path: Path) -> None:
    with World(tmp_path, broker_config(broker_name="b1")) as world:
        add_topic(world)
        store(world, b"x")

        pull(world, queue_offset=7)
        event = pull(world, topic=OFFSET_MOVED_TOPIC, subscription=GROUP)

        record = decode_record(body_of(event), 0)
        assert OffsetMovedEvent.from_body(bytes(record.body)) == OffsetMovedEvent(
            consumer_group=GROUP,
            message_queue=QueueRef(TOPIC, "b1", 0),
            offset_new=1,
            offset_request=7,
        )
        assert parse_properties(record.properties) == {
            names.TAGS: GROUP,
            names.KEYS: GROUP,
            names.DELAY: "0",
        }
        assert (record.born_host, record.queue_id) == (world.state.host, 0)


def test_an_event_that_cannot_be_stored_does_not_spoil_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with World(tmp_path, broker_config()) as world:
        add_topic(world)
        monkeypatch.setattr("flintmq.store.message_log.TURN_BYTES_MAX", -1)

        answer = pull(world, queue_offset=7)

        assert answer is not None
        assert answer.code == 21
        assert "not told" in caplog.text


# Where the subscription comes from


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        (None, None, [b"1", b"2", b"3"]),
        ("", None, [b"1", b"2", b"3"]),
        ("A", None, [b"1"]),
        ("A || B", "TAG", [b"1", b"2"]),
        ("A", "", [b"1"]),
        ("a > 1", SQL92, [b"2"]),
        ("a >", SQL92, [b"1", b"2", b"3"]),
        ("a > 1", "GROOVY", [b"1", b"2", b"3"]),
    ],
)
def test_a_pull_may_bring_its_subscription(
    text: str | None, kind: str | None, found: list[bytes], tmp_path: Path
) -> None:
    with World(tmp_path, broker_config()) as world:
        add_topic(world)
        store(world, b"1", TAGS="A", a="1")
        store(world, b"2", TAGS="B", a="2")
        store(world, b"3")

        answer = pull(world, subscription=text, expression_type=kind)

        assert bodies_of(answer) == found


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (subscription("*"), [b"1", b"2"]),
        (subscription("B", code_set=(0,)), [b"2"]),
        (subscription("||"), []),
        (subscription("a > 1", expression_type=SQL92), [b"2"]),
    ],
    ids=["all", "wrong hashes", "no tag", "sql"],
)
def test_else_the_heartbeat_counts_and_not_what_the_pull_says(
    said: Any, found: list[bytes], tmp_path: Path
) -> None:
    with World(tmp_path, broker_config()) as world:
        add_topic(world)
        store(world, b"1", TAGS="A", a="1")
        store(world, b"2", TAGS="B", a="2")
        beat(world, said)

        answer = pull(world, sys_flag=0, subscription="nothing", expression_type="TAG")

        assert bodies_of(answer) == found
        assert answer is not None
        assert answer.code == (0 if found else 20)


@pytest.mark.parametrize(("on", "found"), [(True, [b"2"]), (False, [b"1", b"2"])])
@pytest.mark.parametrize("sys_flag", [0, SUBSCRIPTION])
def test_a_retry_topic_may_be_filtered_as_the_topic_it_came_from(
    on: bool, sys_flag: int, found: list[bytes], tmp_path: Path
) -> None:
    with World(tmp_path, broker_config(filter_supports_retry=on)) as world:
        retry = retry_topic(GROUP)
        beat(
            world,
            subscription("a > 1", expression_type=SQL92),
            subscription("a > 0", topic=retry, expression_type=SQL92),
        )
        add_topic(world, retry, 1)
        store(world, b"1", topic=retry, RETRY_TOPIC=TOPIC, a="1")
        store(world, b"2", topic=retry, RETRY_TOPIC=TOPIC, a="2")

        answer = pull(
            world, topic=retry, sys_flag=sys_flag, subscription="a > 0", expression_type=SQL92
        )

        assert bodies_of(answer) == found


def test_bit_maps_answer_for_messages_stored_since_the_filter_was_born(tmp_path: Path) -> None:
    config = broker_config(store=replace(SMALL_STORE, extended_queues=True), bit_map_filter=True)
    with World(tmp_path, config) as world:
        add_topic(world)
        store(world, b"old 2", a="2")
        world.now_ms += 1
        beat(world, subscription("a > 1", expression_type=SQL92))
        store(world, b"same 2", a="2")
        world.now_ms += 1
        store(world, b"new 1", a="1")
        store(world, b"new 2", a="2")
        looked_at: list[bytes] = []
        kept = world.state.filters._topics[TOPIC][GROUP]
        test_record = kept.wanted_by_bits.record
        assert test_record is not None

        def spy(record: memoryview) -> bool:
            looked_at.append(bytes(decode_record(record, 0).body))
            return test_record(record)

        kept.wanted_by_bits = replace(kept.wanted_by_bits, record=spy)
        answer = pull(world, sys_flag=0)

        assert bodies_of(answer) == [b"old 2", b"same 2", b"new 2"]
        assert looked_at == [b"old 2", b"same 2", b"new 2"]


# How much


@pytest.mark.parametrize(
    ("count_max", "bytes_max", "count"),
    [
        (0, None, 1),
        (-1, None, 1),
        (1, None, 1),
        (32, None, 32),
        (1_000, None, 32),
        (2**31 - 1, 262_144, 32),
        (32, 2**31 - 1, 32),
        (10, 2**31 - 1, 10),
        (50, 2**31 - 1, 50),
        (1_000, 2**31 - 1, 60),
        (32, 1, 1),
        (32, 0, 32),
        (32, -1, 32),
    ],
)
def test_how_many_records_an_answer_has(
    count_max: int, bytes_max: int | None, count: int, tmp_path: Path
) -> None:
    """Java clients get what RocketMQ gives; who asks for more and says it takes more, more."""
    with World(tmp_path, broker_config(large_pull_count_max=60)) as world:
        add_topic(world)
        store(world, *[b"x" * 20] * 100)

        answer = pull(world, max_msg_nums=count_max, max_msg_bytes=bytes_max)

        assert len(bodies_of(answer)) == count


@pytest.mark.parametrize(
    ("bytes_max", "size_max"), [(300_000, 300_000), (2**31 - 1, 4 * 1024 * 1024), (None, 262_144)]
)
def test_how_many_bytes_an_answer_has(bytes_max: int | None, size_max: int, tmp_path: Path) -> None:
    with World(tmp_path, broker_config()) as world:
        add_topic(world)
        store(world, *[bytes(50_000)] * 100)

        answer = pull(world, max_msg_nums=1_000, max_msg_bytes=bytes_max)

        assert size_max - 60_000 < len(body_of(answer)) <= size_max


# Side effects


@pytest.mark.parametrize(
    ("offset", "text", "code"), [(0, "*", 0), (0, "B", 20), (9, "*", 21), (1, "*", None)]
)
@pytest.mark.parametrize("commits", [True, False])
def test_a_pull_commits_the_offset_it_brings_if_it_says_so(
    offset: int, text: str, code: int | None, commits: bool, tmp_path: Path
) -> None:
    with World(tmp_path, broker_config()) as world:
        add_topic(world)
        store(world, b"x", TAGS="A")
        flags = SUBSCRIPTION | SUSPEND | (COMMIT if commits else 0)

        answer = pull(
            world,
            sys_flag=flags,
            queue_offset=offset,
            subscription=text,
            commit_offset=77,
            suspend_timeout_millis=1_000,
        )

        assert (None if answer is None else answer.code) == code
        assert world.state.offsets.query(GROUP, TOPIC, 0) == (77 if commits else None)
        assert world.state.offsets.pulled(GROUP, TOPIC, 0) == 1


def test_a_pending_reset_is_told_once_and_not_overwritten(tmp_path: Path) -> None:
    with World(tmp_path, broker_config()) as world:
        add_topic(world)
        store(world, b"0", b"1", b"2")
        world.state.offsets.reset(GROUP, TOPIC, 0, QueueOffset(1))

        told = pull(world, queue_offset=3, sys_flag=SUBSCRIPTION | COMMIT, commit_offset=3)
        after = pull(world, queue_offset=1)

        assert told is not None
        assert (told.code, told.remark, body_of(told)) == (21, "OFFSET_RESET", b"")
        header = header_of(told, PullAnswer)
        assert (header.next_begin_offset, header.min_offset, header.max_offset) == (1, 0, 3)
        assert world.state.offsets.query(GROUP, TOPIC, 0) == 1
        assert bodies_of(after) == [b"1", b"2"]


def test_without_resets_of_the_broker_none_is_told(tmp_path: Path) -> None:
    with World(tmp_path, broker_config(server_side_reset=False)) as world:
        add_topic(world)
        store(world, b"0")
        world.state.offsets.reset(GROUP, TOPIC, 0, QueueOffset(1))

        assert bodies_of(pull(world)) == [b"0"]


@pytest.mark.parametrize(
    ("slave_read", "offset", "suggested"),
    [(False, 0, 0), (True, 0, 7), (True, 19, 5), (True, 20, 5)],
)
def test_a_reader_far_behind_is_sent_to_a_slave(
    slave_read: bool, offset: int, suggested: int, tmp_path: Path
) -> None:
    config = broker_config(
        slave_read=slave_read, store=replace(SMALL_STORE, in_memory_bytes=10_000)
    )
    with World(tmp_path, config) as world:
        add_topic(world)
        world.state.groups.create_or_replace(
            GroupConfig(group_name=GROUP, broker_id=5, which_broker_when_consume_slowly=7),
            world.now_ms,
        )
        store(world, *[bytes(1_000)] * 20)

        answer = pull(world, queue_offset=offset, max_msg_nums=1)

        assert header_of(answer, PullAnswer).suggest_which_broker_id == suggested


def test_hooks_see_what_was_found_and_what_was_not(tmp_path: Path) -> None:
    with World(tmp_path, broker_config()) as world:
        add_topic(world)
        store(world, b"one", b"two")
        seen: list[Pulled] = []
        world.state.hooks.on_pull.append(seen.append)

        found = pull(world)
        pull(world, queue_offset=2)
        pull(world, queue_offset=2, sys_flag=SUBSCRIPTION | SUSPEND)

        size_bytes = len(body_of(found))
        assert seen == [
            Pulled(world.peer, GROUP, TOPIC, 0, 0, 2, size_bytes),
            Pulled(world.peer, GROUP, TOPIC, 0, 19, 0, 0),
        ]


def test_answers_are_counted(tmp_path: Path) -> None:
    with World(tmp_path, broker_config()) as world:
        add_topic(world)
        store(world, b"one", b"two", b"three")

        found = pull(world, max_msg_nums=2)
        pull(world, queue_offset=3)

        stats, now_ms = world.state.stats, world.now_ms
        key = f"{TOPIC}@{GROUP}"
        nums = stats.growth(GROUP_GET_NUMS, key, MINUTE, now_ms)
        sizes = stats.growth(GROUP_GET_SIZE, key, MINUTE, now_ms)
        behind = stats.growth(GROUP_GET_FALL_SIZE, f"0@{key}", MINUTE, now_ms)
        assert nums is not None
        assert sizes is not None
        assert behind is not None
        assert nums.sum == 2
        assert sizes.sum == len(body_of(found))
        assert behind.sum == world.state.log.end_offset - len(body_of(found))
        assert (stats.found.sum, stats.missed.sum) == (1, 1)
