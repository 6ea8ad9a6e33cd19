"""Our admin sees and changes our broker and the real ones of both releases."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import pytest

from flintmq import DeadLetter, Message, PullConsumer, PushConsumer
from flintmq.client.admin import Admin
from flintmq.core.admin.dead_letters import ReplayTo
from flintmq.core.admin.spans import END, START, ToOffset, ToTime
from flintmq.core.admin.topics import TopicKind
from flintmq.errors import BrokerRefused, NoRoute
from flintmq.model.queue import QueueOffset
from support.client.push_support import Ear
from support.client.support import stored
from support.interop.filled import filled, new_topic, numbered, patiently, send_to, stands_at
from support.interop.ours import Kind, Served

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),  # the first test starts servers
]

CALL_MS = 15_000


@pytest.fixture
def admin(each: Served) -> Iterator[Admin]:
    with Admin(namesrv=each.namesrv, call_timeout_ms=CALL_MS) as opened:
        yield opened


def listed(admin: Admin) -> dict[str, TopicKind]:
    return {topic.name: topic.kind for topic in admin.topics()}


def test_a_cluster_and_its_brokers_are_described(admin: Admin, each: Served) -> None:
    assert admin.cluster().masters() == {"broker-a": each.broker}
    patiently(lambda: _figures(admin))
    figures = _figures(admin)
    settings = admin.broker_settings("broker-a")

    assert int(figures["bootTimestamp"]) > 0
    assert settings["brokerName"] == "broker-a"
    admin.change_broker_settings("broker-a", {"deleteWhen": "07"})
    assert admin.broker_settings("broker-a")["deleteWhen"] == "07"


def _figures(admin: Admin) -> Mapping[str, str]:
    """Nothing while a broker is so young that it has counted nothing: 4.9 then fails."""
    try:
        return admin.broker_figures("broker-a")
    except BrokerRefused:
        return {}


def test_a_topic_lives_from_its_making_to_its_deletion(admin: Admin) -> None:
    admin.create_topic("made", queues=3)
    patiently(lambda: listed(admin).get("made") is TopicKind.NORMAL)
    (detail,) = admin.describe_topic("made").brokers
    admin.update_topic("made", write_queues=1)
    (changed,) = admin.describe_topic("made").brokers
    admin.delete_topic("made")

    assert (detail.read_queues, detail.write_queues) == (3, 3)
    assert (changed.read_queues, changed.write_queues) == (3, 1)
    patiently(lambda: "made" not in listed(admin))
    with pytest.raises(NoRoute):
        admin.describe_topic("made")


def test_messages_are_found_in_every_way(admin: Admin, each: Served) -> None:
    queues = new_topic(each, "found", 2)
    send_to(each, [Message("found", b"%d" % n, keys=[f"k-{n}", "all"]) for n in range(6)], queues)
    patiently(lambda: len(admin.messages_by_key("found", "all")) == 6)  # the index comes later

    (by_key,) = admin.messages_by_key("found", "k-3")
    (by_id,) = admin.messages_by_id("found", by_key.message_id)
    by_place = admin.message_at(by_key.offset_message_id)
    by_time = admin.messages_by_time("found", by_key.store_ms, by_key.store_ms + 1)
    read = sorted(m.body for span in admin.locate_spans("found") for m in admin.read(span))

    assert by_key.body == by_id.body == b"3"
    assert by_place is not None
    assert by_place.body == b"3"
    assert b"3" in {message.body for message in by_time}
    assert read == [b"%d" % n for n in range(6)]
    assert sum(stats.count for stats in admin.topic_stats("found")) == 6


def test_a_group_is_moved_and_its_lag_follows(admin: Admin, each: Served) -> None:
    queues = filled(each, "lagging", numbered(10), queues=2)
    time.sleep(0.05)  # no message may share the millisecond that divides them
    between_ms = time.time_ns() // 1_000_000
    time.sleep(0.05)
    send_to(each, [Message("lagging", body) for body in numbered(10, 10)], queues)
    admin.create_group("laggards")
    with PullConsumer("laggards", namesrv=each.namesrv) as consumer:
        for queue in queues:
            consumer.commit(queue, 4)
    assert "laggards" in {group.name for group in admin.groups()}
    assert admin.lag("laggards").lag == 12

    admin.apply_reset(admin.plan_reset("laggards", "lagging", END))
    assert (admin.lag("laggards").lag, stands_at(each, "laggards", "lagging", 1)) == (0, 10)
    plan = admin.plan_reset("laggards", "lagging", ToTime(between_ms))
    assert sum(move.again for move in plan.moves) in (10, 11, 12)  # 4.9 takes the one before
    admin.apply_reset(plan)
    assert admin.lag("laggards").lag == sum(move.again for move in plan.moves)
    admin.apply_reset(admin.plan_reset("laggards", "lagging", ToOffset(QueueOffset(9)), queue_id=1))
    assert stands_at(each, "laggards", "lagging", 1) == 9
    admin.apply_reset(admin.plan_reset("laggards", "lagging", START))
    assert admin.lag("laggards").lag == 20

    assert admin.clone_offsets("laggards", "followers") == ("lagging",)
    assert stands_at(each, "followers", "lagging", 0) == 0
    admin.delete_group("laggards")
    patiently(lambda: "laggards" not in {group.name for group in admin.groups()})
    if each.kind is not Kind.REAL_4_9:
        assert set(admin.offsets("laggards", "lagging").values()) == {None}


def test_dead_letters_are_listed_and_sent_again(admin: Admin, each: Served) -> None:
    filled(each, "mortal", [b"hopeless"], queues=1)
    ear = Ear(DeadLetter("broken"))
    other = Ear()
    consumer = PushConsumer(
        "mortals", ear, namesrv=each.namesrv, start_from="first", call_timeout_ms=CALL_MS
    )
    others = PushConsumer(
        "others", other, namesrv=each.namesrv, start_from="first", call_timeout_ms=CALL_MS
    )
    with consumer.subscribe("mortal"), others.subscribe("mortal"):
        patiently(lambda: stored(each, "%DLQ%mortals"))
        (letter,) = admin.dead_letters("mortals")
        first = ear.messages[0]
        assert letter.message.body == b"hopeless"
        assert letter.origin_topic == "mortal"
        assert letter.origin_message_id == first.offset_message_id

        admin.replay("mortals", letter)
        patiently(lambda: len(ear.messages) == 2)
        assert len(other.messages) == 1  # nobody else gets it
        admin.replay("mortals", letter, to=ReplayTo.TOPIC)
        patiently(lambda: len(ear.messages) == 3 and len(other.messages) == 2)

    assert {message.topic for message in ear.messages} == {"mortal"}
    assert {message.message_id for message in ear.messages} == {first.message_id}
    assert admin.dead_letters("others") == ()
