"""Pops are answered as 5.3.3 answers them, and what is not acknowledged comes back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flintmq.model import properties as names
from flintmq.model.queue import QueueOffset
from flintmq.model.topic import Permission
from flintmq.protocol.bodies.group import GroupConfig
from flintmq.protocol.bodies.pop import BatchAck, BatchAcks, pack_bits
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.pop import AckMessage, InvisibleTimeAnswer
from flintmq.protocol.pop.receipts import ReceiptHandle
from support.broker.admin import done, new_topic
from support.broker.popping import (
    BROKER,
    GROUP,
    TOPIC,
    ack,
    answered,
    change,
    change_header,
    hold,
    offset_of,
    pop,
    pop_header,
    pop_world,
    send,
    timer_records,
)
from support.broker.pulling import add_topic, store
from support.broker.world import World, header_of

ONE_QUEUE = "topic:[T] topicConfig.readQueueNums:[1] consumer:[/127.0.0.1:40000]"


@pytest.fixture(autouse=True)
def no_wait_for_the_medium(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is about crashes, and many stores are opened."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr("os.fdatasync", lambda _: None)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with pop_world(tmp_path) as made:
        yield made


def test_the_worked_example(world: World) -> None:
    """Strings, offsets, checkpoints and acknowledgements are those seen on a real broker."""
    send(world, b"0", b"1", b"2", b"3")
    popped = pop(world, max_msg_nums=3, invisible_time=6_000)
    at = world.now_ms

    assert (popped.code, popped.remark) == (0, "FOUND")
    header = popped.header
    assert (header.start_offset_info, header.msg_offset_info) == ("0 0 0", "0 0 0,1,2")
    assert (header.pop_time, header.invisible_time) == (at, 6_000)
    assert (header.rest_num, header.revive_qid, header.order_count_info) == (1, 0, None)
    assert offset_of(world) == 3
    assert popped.handles[0].text == f"0 {at} 6000 0 0 broker-a 0 0"

    assert ack(world, popped.handles[0]).code == 0
    batch = BatchAcks(
        broker_name=BROKER,
        acks=(
            BatchAck(
                bits=pack_bits([1]), consumer_group=GROUP, invisible_ms=6_000, pop_time_ms=at,
                queue_id=0, retry="0", revive_queue_id=0, start_offset=0, topic=TOPIC,
            ),
        ),
    )  # fmt: skip
    done = world.ask(RequestCode.BATCH_ACK_MESSAGE, None, batch.to_body())
    assert done is not None
    assert done.code == 0
    assert timer_records(world) == [
        (
            "ck",
            b'{"bm":0,"bn":"broker-a","c":"G","d":[0,1,2],"it":6000,"n":3,"pt":%d,"q":0,'
            b'"reviveTime":%d,"ro":0,"so":0,"t":"T"}' % (at, at + 6_000),
        ),
        ("ack", b'{"ao":0,"bn":"broker-a","c":"G","pt":%d,"q":0,"so":0,"t":"T"}' % at),
        ("ack", b'{"ao":1,"bn":"broker-a","c":"G","pt":%d,"q":0,"so":0,"t":"T"}' % at),
    ]
    assert world.state.in_flight.count_of((TOPIC, GROUP, 0)) == 1

    world.advance(6_000)
    topic = world.state.topics.find("%RETRY%G_T")
    assert topic is not None
    assert (topic.read_queue_nums, topic.perm) == (1, 6)

    again = pop(world, invisible_time=30_000)
    assert again.bodies == [b"3", b"2"]
    back = again.messages[1]
    assert (back.topic, back.reconsume_times) == (TOPIC, 1)
    assert back.properties[names.FIRST_POP_TIME] == str(at)
    assert back.properties[names.POP_CK] == f"0 {world.now_ms} 30000 1 1 broker-a 0 0"
    assert again.header.start_offset_info == "0 0 3;1 0 0"
    assert ack(world, again.handles[1]).code == 0
    assert ack(world, again.handles[0]).code == 0
    world.advance(60_000)
    assert pop(world).code == 210
    assert len(world.state.in_flight) == 0


def test_nothing_found_is_210_with_empty_texts(world: World) -> None:
    popped = pop(world)
    assert (popped.code, popped.remark) == (210, "NO_MESSAGE_IN_QUEUE")
    assert (popped.header.start_offset_info, popped.header.msg_offset_info) == ("", "")


CASES = [
    ("late", {"born_time": 1}, 210, "the broker[127.0.0.1] pop message is timeout too much"),
    (
        "many",
        {"max_msg_nums": 33},
        29,
        "the broker[127.0.0.1] pop message's num is greater than 32",
    ),
    ("topic", {"topic": "X"}, 17, "topic[X] not exist, apply first please! "),
    (
        "queue",
        {"queue_id": 1},
        29,
        f"queueId[1] is illegal, {ONE_QUEUE}",
    ),
    ("tags", {"exp": "||"}, 23, "parse the consumer's subscription failed"),
    ("sql", {"exp": "a >", "exp_type": "SQL92"}, 23, "parse the consumer's subscription failed"),
    ("hidden", {"topic": "hidden"}, 16, "the topic[hidden] peeking message is forbidden"),
    ("group", {"consumer_group": "off"}, 16, "subscription group no permission, off"),
]


@pytest.mark.parametrize(("fields", "code", "remark"), [case[1:] for case in CASES],
                         ids=[case[0] for case in CASES])  # fmt: skip
def test_a_failed_check_is_the_answer(
    world: World, fields: dict[str, Any], code: int, remark: str
) -> None:
    add_topic(world, "hidden", perm=int(Permission.WRITE))
    off = GroupConfig(group_name="off", consume_enable=False)
    world.state.groups.create_or_replace(off, world.now_ms)

    popped = pop(world, **fields)

    assert (popped.code, popped.remark) == (code, remark)
    header = popped.header
    assert (header.pop_time, header.invisible_time, header.revive_qid, header.rest_num) == (0,) * 4


def test_a_broker_that_may_not_be_read_refuses_pops(world: World) -> None:
    world.state.config = replace(world.state.config, permission=int(Permission.WRITE))
    popped = pop(world)
    assert (popped.code, popped.remark) == (16, "the broker[127.0.0.1] pop message is forbidden")


def test_a_group_is_made_only_where_that_is_allowed(world: World) -> None:
    world.state.config = replace(world.state.config, auto_create_group=False)
    world.state.groups.configure(world.state.config)
    popped = pop(world, consumer_group="new")
    assert (popped.code, popped.remark) == (26, "subscription group [new] does not exist, ")


def test_tags_and_sql_choose_and_pass_over_the_others(world: World) -> None:
    send(world, b"a", properties="TAGS\x01A\x02")
    send(world, b"b", properties="TAGS\x01B\x02n\x015\x02")

    assert pop(world, exp="B").bodies == [b"b"]
    assert offset_of(world) == 2
    sql = pop(world, consumer_group="S", exp="n > 3", exp_type="SQL92")
    assert sql.bodies == [b"b"]
    assert (sql.header.start_offset_info, sql.header.msg_offset_info) == ("0 0 0", "0 0 1")
    assert pop(world, consumer_group="N", exp="C").code == 210
    assert offset_of(world, group="N") == 2


def test_a_group_that_starts_at_the_end_gets_all_of_a_young_queue(world: World) -> None:
    send(world, b"0", b"1")
    assert pop(world, init_mode=1).bodies == [b"0", b"1"]


def test_an_offset_outside_the_queue_is_moved_into_it(world: World) -> None:
    send(world, b"0", b"1")
    world.state.offsets.commit(GROUP, TOPIC, 0, 9, "test")
    popped = pop(world)
    assert popped.code == 210
    assert offset_of(world) == 2


def test_revive_queues_take_turns(world: World) -> None:
    send(world, *[b"m"] * 9)
    used = [pop(world, max_msg_nums=1).header.revive_qid for _ in range(9)]
    assert used == [0, 1, 2, 3, 4, 5, 6, 7, 0]


def test_all_queues_are_read_and_the_rest_is_counted(world: World) -> None:
    add_topic(world, "W", 4)
    for queue_id in range(4):
        world.send("W", b"%d" % queue_id, queue_id=queue_id)
    popped = pop(world, topic="W", max_msg_nums=3)
    assert len(popped.bodies) == 3
    assert popped.header.rest_num == 1
    assert sorted(popped.bodies + pop(world, topic="W").bodies) == [b"0", b"1", b"2", b"3"]


ACK_CASES = [
    ("topic", {"topic": "X"}, 17, "topic[X] not exist, apply first please! "),
    (
        "queue",
        {"queue_id": -1},
        13,
        f"queueId[-1] is illegal, {ONE_QUEUE}",
    ),
    ("offset", {"offset": 5}, 208, "offset is illegal, key:T@0, commit:5, store:0~1"),
    (
        "handle",
        {"extra_info": "1 2"},
        1,
        "IllegalArgumentException: getBrokerName fail, extraInfoStrs length 2",
    ),
    ("end", {"offset": 1}, 0, None),
    ("other handle", {"extra_info": "0 1 2 3 0 broker-a 0 0"}, 0, None),
]


@pytest.mark.parametrize(("fields", "code", "remark"), [case[1:] for case in ACK_CASES],
                         ids=[case[0] for case in ACK_CASES])  # fmt: skip
def test_what_an_ack_is_answered(
    world: World, fields: dict[str, Any], code: int, remark: str | None
) -> None:
    send(world, b"0")
    popped = pop(world)
    answer = ack(world, popped.handles[0], **fields)
    assert (answer.code, answer.remark) == (code, remark)
    assert world.state.in_flight.message_count == 1


def test_an_empty_batch_of_acks_is_208(world: World) -> None:
    for body in (b"", b'{"brokerName":"b","acks":[]}'):
        answer = world.ask(RequestCode.BATCH_ACK_MESSAGE, None, body)
        assert answer is not None
        assert (answer.code, answer.remark) == (208, None)


def test_an_ack_after_the_message_is_back_changes_nothing(world: World) -> None:
    send(world, b"0")
    first = pop(world, invisible_time=1_000)
    world.advance(1_000)
    assert ack(world, first.handles[0]).code == 0
    assert pop(world).bodies == [b"0"]


def test_a_changed_message_has_a_new_handle_and_the_old_one_does_nothing(world: World) -> None:
    send(world, b"0", b"1")
    first = pop(world, invisible_time=5_000)
    world.advance(1_000)
    new = change(world, first.handles[1], 10_000)
    assert new.text == f"1 {world.now_ms} 10000 0 0 broker-a 0 1"
    assert ack(world, first.handles[1]).code == 0
    assert ack(world, first.handles[0]).code == 0
    world.advance(9_999)
    assert pop(world).code == 210
    world.advance(1)
    assert pop(world).bodies == [b"1"]


def test_a_message_that_is_changed_often_never_gets_an_old_handle_again(world: World) -> None:
    """Not even within a millisecond: an acknowledgement in the log would name both."""
    send(world, b"0")
    old = pop(world).handles
    for _ in range(4):
        old.append(change(world, old[-1], 60_000))
    assert len({(handle.start_offset, handle.pop_ms) for handle in old}) == len(old)
    new = old.pop()
    for handle in old:
        ack(world, handle)
        assert world.state.in_flight.message_count == 1
    ack(world, new)
    assert world.state.in_flight.message_count == 0


def test_a_change_that_is_asked_for_twice_at_once_hides_the_message_once(world: World) -> None:
    """A client that asks again while the first request is not written yet."""
    send(world, b"0")
    handle = pop(world).handles[0]
    header = change_header(handle, 5_000)
    numbers = [world.submit(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header) for _ in range(2)]
    world.settle()
    answers = [header_of(world.answer_to(number), InvisibleTimeAnswer) for number in numbers]
    assert world.state.in_flight.message_count == 1
    ack(world, handle.renewed(answers[0]))
    assert world.state.in_flight.message_count == 0


def test_a_change_after_the_ack_does_not_bring_the_message_back(world: World) -> None:
    """RocketMQ hides it again and so delivers it once more."""
    send(world, b"0")
    first = pop(world)
    ack(world, first.handles[0])
    change(world, first.handles[0], 10)
    world.advance(100)
    assert pop(world).code == 210


def test_a_message_that_fails_again_stays_in_its_retry_topic(world: World) -> None:
    send(world, b"0")
    pop(world, invisible_time=1_000)
    for times in range(1, 4):
        world.advance(1_000)
        popped = pop(world, invisible_time=1_000)
        assert [message.reconsume_times for message in popped.messages] == [times]
        assert popped.header.msg_offset_info == f"1 0 {times - 1}"
    assert "%RETRY%G_%RETRY%G_T" not in world.state.topics


def test_the_newer_retry_topic_is_used_where_that_is_set(world: World) -> None:
    pops = replace(world.state.config.pop, retry_topic_v2=True)
    world.state.config = replace(world.state.config, pop=pops)
    send(world, b"0")
    pop(world, invisible_time=1_000)
    world.advance(1_000)
    again = pop(world)
    assert again.header.msg_offset_info == "2 0 0"
    assert ack(world, again.handles[0]).code == 0
    world.advance(60_000)
    assert pop(world).code == 210


def test_a_moved_group_pops_from_its_new_offset(world: World) -> None:
    send(world, b"0", b"1")
    for handle in pop(world).handles:
        ack(world, handle)
    world.state.offsets.reset(GROUP, TOPIC, 0, QueueOffset(1))
    assert pop(world).bodies == [b"1"]


# Holding


def test_a_held_pop_gets_what_arrives(world: World) -> None:
    opaque = hold(world)
    world.now_ms += 7
    send(world, b"0")
    popped = answered(world, opaque)
    assert popped.bodies == [b"0"]
    assert popped.header.pop_time == world.now_ms


def test_a_held_pop_is_run_once_more_at_its_deadline(world: World) -> None:
    opaque = hold(world, poll_time=1_000)
    world.advance(949)
    assert world.answer_to(opaque) is None
    world.advance(1)
    popped = answered(world, opaque)
    assert (popped.code, popped.remark) == (210, "NO_MESSAGE_IN_QUEUE")


def test_one_arrival_wakes_one_pop_and_what_it_leaves_the_next(world: World) -> None:
    first, second = hold(world, max_msg_nums=1), hold(world, max_msg_nums=1)
    send(world, b"0")
    assert answered(world, first).bodies == [b"0"]
    assert world.answer_to(second) is None
    third = hold(world, max_msg_nums=1)
    store(world, b"1", b"2", topic=TOPIC)
    assert answered(world, second).bodies == [b"1"]
    assert answered(world, third).bodies == [b"2"]


def test_an_arrival_with_another_tag_wakes_nobody(world: World) -> None:
    opaque = hold(world, exp="B")
    send(world, b"a", properties="TAGS\x01A\x02")
    assert world.answer_to(opaque) is None
    send(world, b"b", properties="TAGS\x01B\x02")
    assert answered(world, opaque).bodies == [b"b"]


def test_a_pop_with_sql_waits_for_its_message(world: World) -> None:
    opaque = hold(world, exp="n > 3", exp_type="SQL92")
    send(world, b"a", properties="n\x011\x02")
    assert world.answer_to(opaque) is None
    send(world, b"b", properties="n\x019\x02")
    assert answered(world, opaque).bodies == [b"b"]


def test_a_message_that_comes_back_wakes_a_held_pop(world: World) -> None:
    """RocketMQ lets it wait for the next pop."""
    send(world, b"0")
    pop(world, invisible_time=1_000)
    opaque = hold(world)
    world.advance(1_000)
    assert answered(world, opaque).bodies == [b"0"]


def test_too_many_held_pops_are_209(world: World) -> None:
    pops = replace(world.state.config.pop, holds_per_key_max=1)
    world.state.config = replace(world.state.config, pop=pops)
    hold(world)
    hold(world)
    popped = pop(world, poll_time=15_000)
    assert (popped.code, popped.remark) == (209, "NO_MESSAGE_IN_QUEUE")
    hold(world, queue_id=0)


def test_a_lost_connection_takes_its_held_pops_with_it(world: World) -> None:
    opaque = hold(world)
    world.engine.lost(world.peer, world.now_ms)
    send(world, b"0")
    assert world.answer_to(opaque) is None
    assert pop(world).bodies == [b"0"]


def test_a_stopping_broker_answers_held_pops(world: World) -> None:
    opaque = hold(world)
    world.state.is_stopping = True
    world.engine.release_holds(world.now_ms)
    assert answered(world, opaque).code == 210


def test_a_handle_of_eight_fields_is_enough_and_six_are_read(world: World) -> None:
    send(world, b"0")
    handle = pop(world).handles[0]
    short = " ".join(handle.text.split(" ")[:6])
    header = AckMessage(consumer_group=GROUP, topic=TOPIC, queue_id=0, extra_info=short, offset=0)
    answer = world.ask(RequestCode.ACK_MESSAGE, header)
    assert answer is not None
    assert answer.code == 0
    assert world.state.in_flight.message_count == 0
    assert ReceiptHandle.parse(handle.text) == handle


def test_a_pop_without_numbers_takes_nothing(world: World) -> None:
    send(world, b"0")
    assert pop(world, max_msg_nums=0).code == 210
    assert pop_header(world).max_msg_nums == 32


def test_a_topic_that_keeps_batches_is_not_popped(world: World) -> None:
    done(
        world,
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        new_topic("B", attributes="+queue.type=BatchCQ"),
    )
    popped = pop(world, topic="B")
    assert popped.code == 16
    assert popped.remark == "the topic[B] is not popped: its messages share records"


def test_both_retry_topics_are_read(world: World) -> None:
    """Whichever is looked at first, and never both in one answer."""
    for is_v2 in (False, True):
        pops = replace(world.state.config.pop, retry_topic_v2=is_v2)
        world.state.config = replace(world.state.config, pop=pops)
        send(world, b"v2" if is_v2 else b"v1")
        pop(world, invisible_time=1_000)
        world.advance(1_000)
    found = [pop(world) for _ in range(2)]
    assert sorted(popped.bodies[0] for popped in found) == [b"v1", b"v2"]
    assert sorted(popped.header.msg_offset_info or "" for popped in found) == ["1 0 1", "2 0 0"]
