"""What may not be sent is refused in RocketMQ's order, with its codes and in its words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.model.sys_flag import INNER_BATCH
from flintmq.model.topic import NOT_FOR_PRODUCERS, SCHEDULE_TOPIC
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.headers.send import SendAnswer, SendRefusal
from support.broker.sends import ask, change, configured, last_record
from support.broker.world import SMALL_STORE, START_MS, World, header_of


class Case(NamedTuple):
    """A send that is refused, and how that reads."""

    name: str
    code: int
    remark: str
    topic: str = "T"
    send: dict[str, Any] | None = None
    arrange: Callable[[World], None] = lambda world: None


def order_topic(world: World) -> None:
    world.state.topics.create_or_replace(TopicConfig(topic_name="T", order=True), START_MS)
    change(world, permission=4)


def no_write_queues(world: World) -> None:
    topic = TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=0, attributes={})
    world.state.topics.create_or_replace(topic, START_MS)


def stopping(world: World) -> None:
    world.state.is_stopping = True


def no_groups(world: World) -> None:
    world.state.groups = type(world.state.groups)(
        replace(world.state.config, auto_create_group=False), None, START_MS
    )


def many_unsynced(world: World) -> None:
    world.state.unsynced_count = world.state.config.unsynced_sends_max


def large_unsynced(world: World) -> None:
    world.state.unsynced_bytes = world.state.config.unsynced_bytes_max


ILLEGAL = (
    "the message is illegal, maybe msg body or properties length not matched. "
    "msg body length limit 1000B, msg properties length limit 32KB."
)
CASES = [
    Case(
        "stopping",
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "service not available now. The broker is about to stop.",
        arrange=stopping,
    ),
    Case(
        "too many sends wait",
        ResponseCode.SYSTEM_BUSY,
        "[OVERLOAD]100000 sends wait for the medium already (unsynced_sends_max), try again later",
        arrange=many_unsynced,
    ),
    Case(
        "too many bytes wait",
        ResponseCode.SYSTEM_BUSY,
        "[OVERLOAD]268435456 bytes wait for the medium already (unsynced_bytes_max), "
        "try again later",
        arrange=large_unsynced,
    ),
    Case("empty body", ResponseCode.SYSTEM_ERROR, "the message has no body", send={"body": b""}),
    Case(
        "broker not writable, order topic",
        ResponseCode.NO_PERMISSION,
        "the broker[127.0.0.1] sending message is forbidden",
        arrange=order_topic,
    ),
    Case("blank", ResponseCode.INVALID_PARAMETER, "The specified topic is blank.", topic=" "),
    Case("empty", ResponseCode.INVALID_PARAMETER, "The specified topic is blank.", topic=""),
    Case(
        "characters",
        ResponseCode.INVALID_PARAMETER,
        "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        topic="../T",
    ),
    Case(
        "characters before length",
        ResponseCode.INVALID_PARAMETER,
        "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        topic="ü" * 128,
    ),
    Case(
        "length",
        ResponseCode.INVALID_PARAMETER,
        "The specified topic is longer than topic max length.",
        topic="t" * 128,
    ),
    *(
        Case(
            f"not for producers: {topic}",
            ResponseCode.NO_PERMISSION,
            f"Sending message to topic[{topic}] is forbidden.",
            topic=topic,
        )
        for topic in sorted({*NOT_FOR_PRODUCERS, "rmq_sys_wheel_timer"})
    ),
    Case(
        "light message queue",
        ResponseCode.NO_PERMISSION,
        "Sending message to topic[%LMQ%x] is forbidden. No light queue is a topic.",
        topic="%LMQ%x",
    ),
    Case(
        "no such template",
        ResponseCode.TOPIC_NOT_EXIST,
        "topic[T] not exist, apply first please!",
        send={"default_topic": "nowhere"},
    ),
    Case(
        "template that may not be inherited from",
        ResponseCode.TOPIC_NOT_EXIST,
        "topic[T] not exist, apply first please!",
        send={"default_topic": "BenchmarkTest"},
    ),
    Case(
        "queue id at the count",
        ResponseCode.INVALID_PARAMETER,
        "request queueId[4] is illegal, TopicConfig [topicName=T, readQueueNums=4, "
        "writeQueueNums=4, perm=RW-, topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, "
        "attributes={}] Producer: 127.0.0.1:40000",
        send={"queue_id": 4},
    ),
    Case(
        "created without queues",
        ResponseCode.INVALID_PARAMETER,
        "request queueId[0] is illegal, TopicConfig [topicName=T, readQueueNums=0, "
        "writeQueueNums=0, perm=RW-, topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, "
        "attributes={}] Producer: 127.0.0.1:40000",
        send={"default_topic_queue_nums": 0},
    ),
    Case(
        "any queue of none",
        ResponseCode.INVALID_PARAMETER,
        "request queueId[-1] is illegal, TopicConfig [topicName=T, readQueueNums=2, "
        "writeQueueNums=0, perm=RW-, topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, "
        "attributes={}] Producer: 127.0.0.1:40000",
        send={"queue_id": -1},
        arrange=no_write_queues,
    ),
    Case(
        "unknown group of a retry topic",
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        "subscription group not exist, g",
        topic="%RETRY%g",
        arrange=no_groups,
    ),
    Case(
        "transactions rejected",
        ResponseCode.NO_PERMISSION,
        "the broker[127.0.0.1] sending transaction message is forbidden",
        send={"properties": "TRAN_MSG\x01TRUE\x02"},
        arrange=lambda world: change(world, reject_transactions=True),
    ),
    Case("body", ResponseCode.MESSAGE_ILLEGAL, ILLEGAL, send={"body": b"x" * 1001}),
    Case(
        "properties",
        ResponseCode.MESSAGE_ILLEGAL,
        ILLEGAL,
        send={"properties": f"a\x01{'x' * 32_765}\x02"},
    ),
    Case("inner batch flag", ResponseCode.MESSAGE_ILLEGAL, ILLEGAL, send={"sys_flag": INNER_BATCH}),
    Case(
        "inner batch property",
        ResponseCode.MESSAGE_ILLEGAL,
        ILLEGAL,
        send={"properties": "INNER_NUM\x013\x02"},
    ),
    Case(
        "delay that is no number",
        ResponseCode.SYSTEM_ERROR,
        'NumberFormatException: For input string: "soon"',
        send={"properties": "DELAY\x01soon\x02"},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_may_not_be_sent_is_refused_with_its_code_and_remark(
    case: Case, tmp_path: Path
) -> None:
    small = replace(SMALL_STORE, message_bytes_max=1_000)
    with World(tmp_path, BrokerConfig(store=small)) as world:
        case.arrange(world)

        answer = ask(world, case.topic, **case.send or {})

        assert (answer.code, answer.remark) == (case.code, case.remark)
        header = header_of(answer, SendRefusal)
        assert (header.region, header.trace_on) == ("DefaultRegion", "true")
        assert world.state.log.end_offset == 0


def test_checks_come_in_their_order(tmp_path: Path) -> None:
    wrong: dict[str, Any] = {
        "queue_id": 99,
        "default_topic": "nowhere",
        "properties": "DELAY\x01soon\x02",
    }
    with World(tmp_path) as world:
        seen = []
        stopping(world)
        many_unsynced(world)
        change(world, accept_sends_from_ms=START_MS + 1)

        mends: list[Callable[[], None]] = [
            lambda: setattr(world.state, "is_stopping", False),
            lambda: setattr(world.state, "unsynced_count", 0),
            lambda: change(world, accept_sends_from_ms=START_MS),
            lambda: wrong.update(default_topic="TBW102"),
            lambda: wrong.update(queue_id=0),
            lambda: wrong.update(properties=""),
        ]
        for mend in mends:
            seen.append(ask(world, "T", **wrong).code)
            mend()
        seen.append(ask(world, "T", **wrong).code)

    assert seen == [14, 2, 1, 17, 29, 1, 0]


def test_a_name_nobody_may_send_to_is_seen_before_the_topic_is_looked_up(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        answer = ask(world, SCHEDULE_TOPIC, queue_id=99)

    assert answer.code == ResponseCode.NO_PERMISSION


def test_a_broker_may_wait_before_it_takes_sends(tmp_path: Path) -> None:
    with World(tmp_path, configured(accept_sends_from_ms=START_MS + 1)) as world:
        answer = ask(world, "T")
        world.now_ms += 1
        later = ask(world, "T")

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark is not None
    assert answer.remark.startswith("broker unable to service, until 2023-11-")
    assert answer.remark.endswith(",001")
    assert later.code == ResponseCode.SUCCESS


def test_a_broker_that_is_not_writable_takes_what_needs_no_order(tmp_path: Path) -> None:
    with World(tmp_path, configured(permission=4)) as world:
        answer = ask(world, "T")

    assert answer.code == ResponseCode.SUCCESS


def test_the_write_permission_of_the_topic_itself_is_not_checked(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.state.topics.create_or_replace(TopicConfig(topic_name="T", perm=4), START_MS)

        answer = ask(world, "T")

    assert answer.code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    "topic", ["TBW102", "BenchmarkTest", "DefaultCluster", "broker-a", "%DLQ%g", "rmq_sys_other"]
)
def test_other_system_names_take_messages(topic: str, tmp_path: Path) -> None:
    with World(tmp_path) as world:
        answer = ask(world, topic)

    assert answer.code == ResponseCode.SUCCESS


def test_the_largest_body_passes(tmp_path: Path) -> None:
    small = replace(SMALL_STORE, message_bytes_max=1_000)
    with World(tmp_path, BrokerConfig(store=small)) as world:
        answer = ask(world, "T", b"x" * 1_000)

        assert answer.code == ResponseCode.SUCCESS
        assert last_record(world, "T").body == b"x" * 1_000


def test_a_queue_id_may_be_one_that_is_only_read(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        topic = TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=2)
        world.state.topics.create_or_replace(topic, START_MS)

        assert ask(world, "T", queue_id=3).code == ResponseCode.SUCCESS
        assert ask(world, "T", queue_id=4).code == ResponseCode.INVALID_PARAMETER


def test_a_negative_queue_id_lets_the_broker_choose_one_it_writes_to(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        topic = TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=3)
        world.state.topics.create_or_replace(topic, START_MS)

        chosen = {header_of(ask(world, "T", queue_id=-1), SendAnswer).queue_id for _ in range(50)}

    assert chosen == {0, 1, 2}


# Topics made by a first message


def test_a_first_message_makes_its_topic_from_the_template(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        ask(world, "T", default_topic_queue_nums=16)

        made = world.state.topics.find("T")
        assert made is not None
        assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (8, 8, 6)
        assert world.announced == [{"T"}]


def test_no_topic_is_made_when_that_is_off(tmp_path: Path) -> None:
    with World(tmp_path, configured(auto_create_topic=False)) as world:
        answer = ask(world, "T")

        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
        assert "T" not in world.state.topics


def test_a_retry_topic_is_made_all_the_same(tmp_path: Path) -> None:
    with World(tmp_path, configured(auto_create_topic=False)) as world:
        answer = ask(world, "%RETRY%g", unit_mode=True)

        made = world.state.topics.find("%RETRY%g")
        assert answer.code == ResponseCode.SUCCESS
        assert made is not None
        assert (made.read_queue_nums, made.perm, made.topic_sys_flag) == (1, 6, 2)
