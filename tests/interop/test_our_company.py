"""Members of ours and Java members of one group agree."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from flintmq import LitePullConsumer, Message, ReceivedMessage, Retry
from flintmq.errors import GroupConflict
from flintmq.model.group import ConsumeFromWhere
from support.client.push_support import Ear
from support.client.support import nothing_left, stored
from support.interop.beside import CALL_MS, Java, encoded, owned, push
from support.interop.filled import new_topic, numbered, patiently, send_to, stands_at
from support.interop.javaclient import JavaClient
from support.interop.ours import Served

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),  # the first test starts servers and JVMs
]

QUEUES = 4


def is_shared(ours: list[int], theirs: list[int]) -> bool:
    """Whether each queue has one of the two, and each of them its half."""
    return len(ours) == len(theirs) and sorted(ours + theirs) == list(range(QUEUES))


@pytest.mark.parametrize("ordered", [False, True], ids=["concurrent", "ordered"])
def test_every_queue_has_exactly_one_owner_while_members_come_and_go(
    each: Served, java_client: JavaClient, ordered: bool
) -> None:
    prefix = f"mixed_{ordered}_"
    topic, group = f"{prefix}t", f"{prefix}g"
    queues = new_topic(each, topic, QUEUES)
    java, ear = Java(java_client, prefix), Ear()
    batches = [[Message(topic, body) for body in numbered(40, start)] for start in (0, 40, 80)]

    java.play("join-orderly" if ordered else "join")
    patiently(lambda: java.holds() == [0, 1, 2, 3])
    send_to(each, batches[0], queues)
    patiently(lambda: len(java.seen()) >= 40)
    with nothing_left(), push(each, group, ear, ordered=ordered).subscribe(topic) as ours:
        patiently(lambda: is_shared(owned(ours, topic), java.holds()))
        send_to(each, batches[1], queues)
        patiently(lambda: len(java.seen()) + len(ear.messages) >= 80)
        from_java = java.leave()
        patiently(lambda: owned(ours, topic) == [0, 1, 2, 3])
        send_to(each, batches[2], queues)
        patiently(lambda: len(from_java) + len(ear.messages) >= 120)

    counts = Counter(from_java + ear.bodies)
    assert sorted(counts) == numbered(120)
    assert set(from_java) >= set(numbered(40))
    assert 60 == len(set(from_java) & set(numbered(80))) == len(set(from_java))
    if ordered:
        assert set(counts.values()) == {1}
    assert stands(each, group, topic) == [30] * QUEUES


def test_a_java_admin_sees_our_member_and_how_far_it_is(
    each: Served, java_client: JavaClient
) -> None:
    prefix = "seen_"
    topic, group = f"{prefix}t", f"{prefix}g"
    queues = new_topic(each, topic, QUEUES)
    ear = Ear()
    with push(each, group, ear, commit_interval_ms=100).subscribe(topic):
        send_to(each, [Message(topic, body) for body in numbered(20)], queues)
        patiently(lambda: len(ear.messages) == 20)
        patiently(lambda: stands_at(each, group, topic, QUEUES - 1) == 5)
        patiently(lambda: stands_at(each, group, topic, 0) == 5)
        progress = java_client.play("progress", prefix).all("progress")

    assert sorted((one["queue"], one["broker"], one["consumer"]) for one in progress) == [
        (number, 5, 5) for number in range(QUEUES)
    ]


def stands(served: Served, group: str, topic: str) -> list[int | None]:
    return [stands_at(served, group, topic, number) for number in range(QUEUES)]


def lite(served: Served, group: str) -> LitePullConsumer:
    return LitePullConsumer(
        group,
        namesrv=served.namesrv,
        start_from=ConsumeFromWhere.FIRST_OFFSET,
        call_timeout_ms=CALL_MS,
        auto_commit_ms=1_000,
    )


def poll(consumer: LitePullConsumer, seen: list[ReceivedMessage], count: int) -> bool:
    seen.extend(consumer.poll(100))
    return len(seen) >= count


@pytest.mark.parametrize("kind", ["join", "join-lite"])
def test_a_lite_member_of_ours_shares_with_a_java_member(
    each: Served, java_client: JavaClient, kind: str
) -> None:
    prefix = f"lite_{kind}_"
    topic, group = f"{prefix}t", f"{prefix}g"
    queues = new_topic(each, topic, QUEUES)
    java = Java(java_client, prefix)
    java.play(kind)
    seen: list[ReceivedMessage] = []
    with nothing_left(), lite(each, group) as ours:
        ours.subscribe(topic)
        patiently(lambda: is_shared([q.queue_id for q in ours.assignment], java.holds()))
        mine = sorted(queue.queue_id for queue in ours.assignment)
        send_to(each, [Message(topic, body) for body in numbered(40)], queues)
        patiently(partial(poll, ours, seen, 20))
        patiently(lambda: len(java.seen()) >= 20)
        ours.commit()
        assert [stands_at(each, group, topic, number) for number in mine] == [10, 10]
        patiently(lambda: stands(each, group, topic) == [10] * QUEUES)
        from_java = java.leave()
        patiently(lambda: len(ours.assignment) == QUEUES)
        send_to(each, [Message(topic, body) for body in numbered(40, 40)], queues)
        patiently(partial(poll, ours, seen, 60))

    assert sorted([message.body for message in seen] + from_java) == numbered(80)
    assert stands(each, group, topic) == [20] * QUEUES


def test_a_java_lite_member_hands_its_queues_to_ours_and_gets_them_back(
    each: Served, java_client: JavaClient
) -> None:
    prefix = "java_lite_"
    topic, group = f"{prefix}t", f"{prefix}g"
    queues = new_topic(each, topic, QUEUES)
    java, ear = Java(java_client, prefix), Ear()
    batches = [[Message(topic, body) for body in numbered(40, start)] for start in (0, 40, 80)]

    java.play("join-lite")
    send_to(each, batches[0], queues)
    patiently(lambda: stands(each, group, topic) == [10] * QUEUES)
    with nothing_left(), push(each, group, ear, commit_interval_ms=100).subscribe(topic) as ours:
        patiently(lambda: is_shared(owned(ours, topic), java.holds()))
        send_to(each, batches[1], queues)
        patiently(lambda: stands(each, group, topic) == [20] * QUEUES)
    patiently(lambda: java.holds() == [0, 1, 2, 3])
    send_to(each, batches[2], queues)
    patiently(lambda: stands(each, group, topic) == [30] * QUEUES)
    from_java = java.leave()

    assert len(ear.bodies) == 20
    assert sorted(from_java + ear.bodies) == numbered(120)
    assert stands(each, group, topic) == [30] * QUEUES


def test_a_message_that_failed_with_us_comes_again_to_whoever_is_there(
    each: Served, java_client: JavaClient
) -> None:
    """What we send back a Java member gets as it would from one of its own kind."""
    prefix = "handed_"
    topic, group = f"{prefix}t", f"{prefix}g"
    queues = new_topic(each, topic, 1)
    ear = Ear(ValueError("not for me"))
    java = Java(java_client, prefix)
    send_to(each, [Message(topic, b"handed over", tags="a", keys=["k"])], queues)
    with push(each, group, ear).subscribe(topic):
        patiently(lambda: ear.messages)
        patiently(lambda: stored(each, "SCHEDULE_TOPIC_XXXX"))
    java.play("join")
    patiently(java.seen)
    (again,) = java.play("leave").all("seen")

    assert (again["body"], again["topic"], again["times"]) == ("handed over", topic, 1)
    assert again["msgId"] == ear.messages[0].message_id
    assert again["properties"]["ORIGIN_MESSAGE_ID"] == ear.messages[0].offset_message_id


def test_what_fails_with_both_kinds_of_member_is_tried_and_buried_as_if_with_one(
    each: Served, java_client: JavaClient
) -> None:
    """Each message is tried three times, wherever; then it is a dead letter, once."""
    prefix = "hopeless_"
    topic, group = f"{prefix}t", f"{prefix}g"
    queues = new_topic(each, topic, QUEUES)
    java, ear = Java(java_client, prefix), Ear()
    dead_topic = f"%DLQ%{group}"

    def fail(messages: tuple[ReceivedMessage, ...]) -> None:
        ear(messages)
        raise Retry

    java.play("join-failing")
    with nothing_left(), push(each, group, fail, retry_max=2).subscribe(topic) as ours:
        patiently(lambda: is_shared(owned(ours, topic), java.holds()))
        send_to(each, [Message(topic, body) for body in numbered(8)], queues)
        patiently(lambda: len(stored(each, dead_topic)) == 8)
        told = java.play("leave").all("seen")

    tries = [(event["body"].encode(), event["times"]) for event in told]
    tries += [(message.body, message.reconsume_times) for message in ear.messages]
    assert sorted(tries) == [(body, times) for body in numbered(8) for times in range(3)]
    assert {event["topic"] for event in told} | {m.topic for m in ear.messages} == {topic}
    dead = stored(each, dead_topic)
    assert sorted(message.body for message in dead) == numbered(8)
    first = {m.body: m for m in ear.messages if m.reconsume_times == 0}
    ids = {body: m.offset_message_id for body, m in first.items()}
    assert len(ids) == 4
    origins = {m.body: m.properties["ORIGIN_MESSAGE_ID"] for m in dead}
    assert ids.items() <= origins.items()
    assert stands(each, group, topic) == [2] * QUEUES
    assert stands_at(each, group, f"%RETRY%{group}") == 16


def test_a_namespace_is_the_same_to_both(each: Served, java_client: JavaClient) -> None:
    prefix = "spaced_"
    topic, group = f"{prefix}t", f"{prefix}g"
    queues = new_topic(each, f"ns%{topic}", QUEUES)
    java, ear = Java(java_client, prefix), Ear()
    java.play("join-namespaced")
    with push(each, group, ear, namespace="ns").subscribe(topic) as ours:
        patiently(lambda: is_shared(owned(ours, topic), java.holds()))
        send_to(each, [Message(f"ns%{topic}", body) for body in numbered(40)], queues)
        patiently(lambda: len(java.seen()) == len(ear.messages) == 20)
        told = java.play("leave")

    assert sorted(encoded(told) + ear.bodies) == numbered(40)
    assert {message.topic for message in ear.messages} == {topic}
    assert {event["topic"] for event in told.all("seen")} == {topic}
    assert [stands_at(each, f"ns%{group}", f"ns%{topic}", n) for n in range(QUEUES)] == [10] * 4


def test_a_broadcasting_member_goes_on_from_the_file_of_the_other(
    each: Served, java_client: JavaClient, tmp_path: Path
) -> None:
    """Both keep their offsets in one place in one format; each takes its turn under one id."""
    prefix = "turns_"
    topic, group = f"{prefix}t", f"{prefix}g"
    queues = new_topic(each, topic, QUEUES)
    java, ear = Java(java_client, prefix), Ear()
    batches = [[Message(topic, body) for body in numbered(8, start)] for start in (0, 8, 16)]
    settings = {
        "model": "broadcasting",
        "client_ip": "127.0.0.1",
        "instance_name": "caster",
        "offsets_dir": java_client.directory / "offsets",
    }

    java.play("join-broadcast")
    send_to(each, batches[0], queues)
    patiently(lambda: len(java.seen()) == 8)
    first = java.leave()
    send_to(each, batches[1], queues)
    with nothing_left(), push(each, group, ear, **settings).subscribe(topic):
        patiently(lambda: len(ear.messages) >= 8)
    send_to(each, batches[2], queues)
    java.play("join-broadcast")
    patiently(lambda: len(java.seen()) >= 8)
    second = java.leave()

    assert sorted(first) == numbered(8)
    assert sorted(ear.bodies) == numbered(8, 8)
    assert sorted(second) == numbered(8, 16)


def test_a_java_member_with_another_subscription_is_named(
    each: Served, java_client: JavaClient
) -> None:
    prefix = "disagreeing_"
    topic, group = f"{prefix}t", f"{prefix}g"
    new_topic(each, topic, 1)
    java_id = java_client.play("join", prefix).one("joined")["id"]
    try:
        with pytest.raises(GroupConflict) as caught:
            push(each, group, Ear()).subscribe(topic, tags="a").start()
        assert java_id in str(caught.value)
    finally:
        java_client.play("leave", prefix)
