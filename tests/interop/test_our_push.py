"""Our push consumer works with our broker and with the real ones of both releases."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from pathlib import Path

import pytest

from flintmq import DeadLetter, Message, PushConsumer, Retry
from flintmq.client.admin import Admin
from flintmq.core.admin.spans import START
from flintmq.errors import GroupConflict
from flintmq.model.message import ReceivedMessage
from support.client.push_support import Ear
from support.client.support import nothing_left, stored
from support.interop.filled import filled, new_topic, numbered, patiently, send_to, stands_at
from support.interop.ours import Served

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),  # the first test starts servers
]

CALL_MS = 15_000


def push(served: Served, group: str, ear: object, **more: object) -> PushConsumer:
    settings = {"start_from": "first", "call_timeout_ms": CALL_MS, **more}
    return PushConsumer(group, ear, namesrv=served.namesrv, **settings)  # type: ignore[arg-type]


def has(ear: Ear, count: int) -> bool:
    return len(ear.messages) >= count


def owned(consumer: PushConsumer, topic: str) -> int:
    return sum(queue.topic == topic for queue in consumer.queues())


def by_queue(messages: list[ReceivedMessage]) -> dict[int, list[int]]:
    offsets: dict[int, list[int]] = defaultdict(list)
    for message in messages:
        offsets[message.queue_id].append(message.queue_offset)
    return dict(offsets)


def offsets_at(served: Served, group: str, topic: str, queues: int) -> list[int | None]:
    return [stands_at(served, group, topic, number) for number in range(queues)]


def test_each_message_comes_once_and_a_stop_stores_how_far_it_is(each: Served) -> None:
    queues = filled(each, "pushed", numbered(100), queues=4)
    ear, next_ear = Ear(), Ear()

    with nothing_left(), push(each, "pushed", ear, batch_max=8).subscribe("pushed"):
        patiently(partial(has, ear, 100))
        send_to(each, [Message("pushed", body) for body in numbered(20, 100)], queues)
        patiently(partial(has, ear, 120))
    assert sorted(ear.bodies) == numbered(120)
    assert offsets_at(each, "pushed", "pushed", 4) == [30] * 4

    send_to(each, [Message("pushed", b"after a restart")], queues)
    with push(each, "pushed", next_ear).subscribe("pushed"):
        patiently(partial(has, next_ear, 1))
    assert next_ear.bodies == [b"after a restart"]


def test_tags_and_sql_choose_messages_of_the_backlog_and_of_what_comes(each: Served) -> None:
    tagged, priced = new_topic(each, "tagged", 2), new_topic(each, "priced", 2)
    tags, prices = Ear(), Ear()

    def send(when: str) -> None:
        # "Aa" and "BB" have the same hash, which is all that a broker compares.
        for tag in ("Aa", "BB", "c", "d"):
            send_to(each, [Message("tagged", f"{when} {tag}".encode(), tags=tag)], tagged)
        for price in ("5", "50"):
            send_to(
                each,
                [Message("priced", f"{when} {price}".encode(), properties={"price": price})],
                priced,
            )

    send("early")
    consumer = push(each, "choosing", None)
    consumer.subscribe("tagged", tags="Aa || c", listener=tags)
    consumer.subscribe("priced", sql="price > 10", listener=prices)
    with consumer:
        patiently(lambda: has(tags, 2) and has(prices, 1))
        send("late")
        patiently(lambda: has(tags, 4) and has(prices, 2))

    assert sorted(tags.bodies) == [b"early Aa", b"early c", b"late Aa", b"late c"]
    assert sorted(prices.bodies) == [b"early 50", b"late 50"]


def test_what_fails_comes_again_and_then_is_a_dead_letter(each: Served) -> None:
    filled(each, "failing", [b"heals", b"never", b"given up"], queues=1)
    ear = Ear()

    def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        ear(messages)
        (message,) = messages
        if message.body == b"given up":
            raise DeadLetter("it is broken")
        if message.body == b"never":
            raise Retry(delay_level=1)
        if message.reconsume_times == 0:
            raise ValueError("not yet")

    dead_topic = "%DLQ%failing"
    with nothing_left(), push(each, "failing", listen, retry_max=2).subscribe("failing"):
        patiently(lambda: len(stored(each, dead_topic)) == 2 and has(ear, 6))
        patiently(lambda: sum(m.body == b"heals" for m in ear.messages) == 2)

    tries = sorted((message.body, message.reconsume_times) for message in ear.messages)
    dead = {message.body: message for message in stored(each, dead_topic)}
    assert tries == [
        (b"given up", 0),
        (b"heals", 0),
        (b"heals", 1),
        (b"never", 0),
        (b"never", 1),
        (b"never", 2),
    ]
    assert {message.topic for message in ear.messages} == {"failing"}
    first = {m.body: m for m in ear.messages if m.reconsume_times == 0}
    assert set(dead) == {b"given up", b"never"}
    for body, letter in dead.items():
        assert letter.message_id == first[body].message_id
        assert letter.properties["ORIGIN_MESSAGE_ID"] == first[body].offset_message_id
        assert letter.properties["RETRY_TOPIC"] == "failing"
    assert offsets_at(each, "failing", "failing", 1) == [3]
    assert offsets_at(each, "failing", "%RETRY%failing", 1) == [3]


def test_queues_are_consumed_in_their_order_while_one_message_fails(each: Served) -> None:
    filled(each, "ordered", numbered(40), queues=4)
    ear = Ear()

    def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        ear(messages)
        if messages[0].body == b"0009" and messages[0].reconsume_times < 2:
            raise ValueError("not yet")

    consumer = push(each, "ordered", listen, ordered=True, ordered_suspend_ms=50)
    with nothing_left(), consumer.subscribe("ordered"):
        patiently(partial(has, ear, 42))
        assert all(queue.is_locked for queue in consumer.status().queues)

    expected = {queue: list(range(10)) for queue in range(4)}
    expected[1][2:3] = [2, 2, 2]
    assert by_queue(ear.messages) == expected
    assert offsets_at(each, "ordered", "ordered", 4) == [10] * 4


def test_what_fails_too_often_in_order_is_a_dead_letter_and_the_queue_goes_on(
    each: Served,
) -> None:
    filled(each, "ordered-dead", numbered(3), queues=1)
    ear = Ear(None, *[ValueError("never")] * 2)

    consumer = push(each, "ordered-dead", ear, ordered=True, ordered_suspend_ms=50, retry_max=1)
    with consumer.subscribe("ordered-dead"):
        patiently(partial(has, ear, 4))
        patiently(lambda: stored(each, "%DLQ%ordered-dead"))

    (dead,) = stored(each, "%DLQ%ordered-dead")
    assert dead.body == b"0001"
    assert ear.bodies == [b"0000", b"0001", b"0001", b"0002"]


def test_a_broadcast_reaches_every_member(each: Served, tmp_path: Path) -> None:
    queues = filled(each, "cast", numbered(10), queues=2)
    ears = [Ear(), Ear()]
    consumers = [
        push(
            each,
            "cast",
            ear,
            model="broadcasting",
            instance_name=f"member{number}",
            offsets_dir=tmp_path,
        ).subscribe("cast")
        for number, ear in enumerate(ears)
    ]
    with nothing_left(), consumers[0], consumers[1]:
        patiently(lambda: all(has(ear, 10) for ear in ears))
        send_to(each, [Message("cast", body) for body in numbered(10, 10)], queues)
        patiently(lambda: all(has(ear, 20) for ear in ears))

    assert [sorted(ear.bodies) for ear in ears] == [numbered(20)] * 2
    assert not any(offsets_at(each, "cast", "cast", 2))  # each member keeps its own in a file


@pytest.mark.parametrize("ordered", [False, True], ids=["concurrent", "ordered"])
def test_two_members_share_the_queues_and_one_takes_over(each: Served, ordered: bool) -> None:
    topic = f"shared-{ordered}"
    queues = new_topic(each, topic, 4)
    one_ear, two_ear = Ear(), Ear()

    def seen() -> int:
        return len(one_ear.messages) + len(two_ear.messages)

    with nothing_left(), push(each, topic, one_ear, ordered=ordered).subscribe(topic) as one:
        patiently(lambda: owned(one, topic) == 4)
        with push(each, topic, two_ear, ordered=ordered).subscribe(topic) as two:
            patiently(lambda: owned(one, topic) == owned(two, topic) == 2)
            held = [queue for member in (one, two) for queue in member.queues()]
            assert sorted(queue for queue in held if queue.topic == topic) == queues
            send_to(each, [Message(topic, body) for body in numbered(40)], queues)
            patiently(lambda: seen() >= 40)
            assert len(one_ear.messages) == len(two_ear.messages) == 20
        patiently(lambda: owned(one, topic) == 4)
        send_to(each, [Message(topic, body) for body in numbered(40, 40)], queues)
        patiently(lambda: seen() >= 80)

    assert sorted(one_ear.bodies + two_ear.bodies) == numbered(80)
    assert offsets_at(each, topic, topic, 4) == [20] * 4
    if ordered:
        assert all(each == sorted(each) for each in by_queue(one_ear.messages).values())


def test_members_with_other_subscriptions_are_refused_with_their_names(each: Served) -> None:
    new_topic(each, "agreed", 1)
    with push(each, "agreed", Ear()).subscribe("agreed", tags="a") as first:
        with Admin(namesrv=each.namesrv) as admin:
            patiently(lambda: admin.members("agreed"))
        with pytest.raises(GroupConflict, match=first.client_id.split("@")[1]):
            push(each, "agreed", Ear()).subscribe("agreed", tags="b").start()
        with push(each, "agreed", Ear()).subscribe("agreed", tags="a"):
            pass


def test_a_broker_sees_a_member_and_has_it_do_things(each: Served) -> None:
    """An admin asks through the broker, which asks the member over the member's connection."""
    filled(each, "asked", numbered(10), queues=2)
    ear = Ear()
    with (
        push(each, "asked", ear).subscribe("asked") as consumer,
        Admin(namesrv=each.namesrv) as admin,
    ):
        patiently(partial(has, ear, 10))
        members = admin.members("asked")
        assert members is not None
        assert [member.client_id for member in members.members] == [consumer.client_id]
        detail = admin.describe_consumer("asked", consumer.client_id, with_stacks=True)
        admin.consume_directly("asked", ear.messages[0].offset_message_id)
        patiently(partial(has, ear, 11))
        assert "asked" in repr(detail)

    assert ear.bodies[10] == ear.bodies[0]


def test_a_group_that_is_reset_while_it_runs_follows(each: Served) -> None:
    filled(each, "moved", numbered(10), queues=2)
    ear = Ear()
    consumer = push(each, "moved", ear, commit_interval_ms=100).subscribe("moved")
    with consumer, Admin(namesrv=each.namesrv) as admin:
        patiently(partial(has, ear, 10))
        patiently(lambda: offsets_at(each, "moved", "moved", 2) == [5, 5])
        admin.apply_reset(admin.plan_reset("moved", "moved", START))
        patiently(partial(has, ear, 20))
        patiently(lambda: offsets_at(each, "moved", "moved", 2) == [5, 5])

    assert sorted(ear.bodies[10:]) == numbered(10)


@pytest.mark.parametrize(("start_from", "expected"), [("end", 0), ("last", 8), (1, 6)])
def test_the_end_is_the_end_also_of_a_young_topic(
    each: Served, start_from: str | int, expected: int
) -> None:
    topic = f"young-{start_from}"
    queues = filled(each, topic, numbered(8), queues=2)
    ear = Ear()

    with push(each, topic, ear, start_from=start_from).subscribe(topic) as consumer:
        patiently(lambda: owned(consumer, topic) == 2)
        patiently(lambda: all(q.next_offset is not None for q in consumer.status().queues))
        send_to(each, [Message(topic, b"later")] * 4, queues)
        patiently(lambda: ear.bodies.count(b"later") == 4 and len(ear.bodies) >= expected + 4)
    assert len(ear.bodies) == expected + 4

    with push(each, topic, ear, start_from=start_from).subscribe(topic) as consumer:
        send_to(each, [Message(topic, b"again")], queues)
        patiently(lambda: b"again" in ear.bodies)
    assert len(ear.bodies) == expected + 5
