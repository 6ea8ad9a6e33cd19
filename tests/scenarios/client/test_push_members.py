"""Members of a group share its queues, take over from each other, and agree or are told."""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from flintmq import PushConsumer, QueueRef
from flintmq.client.offsets.offset_file import read_offsets
from flintmq.core.group.actions import QueuesChanged
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import GroupConflict
from flintmq.model.message import ReceivedMessage
from support.client.push_support import Ear, committed, filled, numbered, send
from support.client.support import create_topic, nothing_left, wait_for


def consumer_of(
    servers: EmbeddedBroker, group: str, topic: str, ear: object, **more: object
) -> PushConsumer:
    settings = {"start_from": "first", **more}
    made = PushConsumer(group, ear, namesrv=servers.namesrv, **settings)  # type: ignore[arg-type]
    return made.subscribe(topic)


def owned(consumer: PushConsumer, topic: str) -> int:
    return sum(queue.topic == topic for queue in consumer.queues())


def test_two_members_share_the_queues_and_one_takes_over_from_the_other(
    broker: EmbeddedBroker,
) -> None:
    create_topic(broker, "shared")
    one_ear, two_ear = Ear(), Ear()
    with nothing_left(), consumer_of(broker, "sharers", "shared", one_ear) as one:
        wait_for(lambda: owned(one, "shared") == 4)
        with consumer_of(broker, "sharers", "shared", two_ear) as two:
            wait_for(lambda: owned(one, "shared") == owned(two, "shared") == 2)
            assert not set(one.queues()) & {q for q in two.queues() if q.topic == "shared"}
            send(broker, "shared", numbered(40))
            wait_for(lambda: len(one_ear.messages) + len(two_ear.messages) >= 40)
            assert one_ear.messages
            assert two_ear.messages
        wait_for(lambda: owned(one, "shared") == 4)
        send(broker, "shared", numbered(40, 40))
        wait_for(lambda: len(one_ear.messages) + len(two_ear.messages) >= 80)

    assert sorted(one_ear.bodies + two_ear.bodies) == numbered(80)


def test_changes_of_queues_are_told(broker: EmbeddedBroker) -> None:
    create_topic(broker, "told")
    changes: list[QueuesChanged] = []
    with consumer_of(broker, "told-readers", "told", Ear(), on_queues=changes.append):
        wait_for(lambda: any(change.topic == "told" for change in changes))

    change = next(change for change in changes if change.topic == "told")
    assert change.queues == change.own == tuple(QueueRef("told", "broker-a", n) for n in range(4))


@pytest.mark.parametrize(
    ("batch_max", "ordered"), [(1, False), (4, False), (1, True), (4, True)], ids=str
)
def test_a_stop_while_listeners_finish_in_time_leaves_no_duplicate(
    broker: EmbeddedBroker, batch_max: int, ordered: bool
) -> None:
    topic = group = f"no-duplicates-{batch_max}-{ordered}"
    filled(broker, topic, numbered(400))
    heard: Counter[bytes] = Counter()
    lock = threading.Lock()

    def slow(messages: tuple[ReceivedMessage, ...]) -> None:
        threading.Event().wait(0.002)
        with lock:
            heard.update(message.body for message in messages)

    while sum(heard.values()) < 400:
        enough = min(400, sum(heard.values()) + 60)
        consumer = consumer_of(
            broker, group, topic, slow, batch_max=batch_max, ordered=ordered, threads_max=8
        )
        with consumer:
            wait_for(partial(_has, heard, enough))

    assert max(heard.values()) == 1
    assert sorted(heard) == numbered(400)


def _has(heard: Counter[bytes], count: int) -> bool:
    return sum(heard.values()) >= count


def test_a_listener_that_does_not_end_in_time_is_named_and_its_message_comes_again(
    broker: EmbeddedBroker,
) -> None:
    filled(broker, "endless", [b"endless"], queues=1)
    gate = threading.Event()
    entered = threading.Event()

    def never_ends(_messages: tuple[ReceivedMessage, ...]) -> None:
        entered.set()
        gate.wait(60)

    with nothing_left():
        consumer = consumer_of(broker, "endless-readers", "endless", never_ends).start()
        assert entered.wait(60)
        (left,) = consumer.stop(timeout_s=0.1)
        gate.set()

    assert "never_ends" in left.stack
    assert "never_ends" in consumer.events("stop")[0].text
    again = Ear()
    with consumer_of(broker, "endless-readers", "endless", again):
        again.wait_for(1)


def test_a_broker_that_is_restarted_is_gone_back_to(own_broker: EmbeddedBroker) -> None:
    filled(own_broker, "restarted", numbered(20))
    ear = Ear()
    with nothing_left():
        consumer = consumer_of(
            own_broker, "restart-readers", "restarted", ear, pull_error_delay_ms=50
        )
        with consumer:
            ear.wait_for(20)
            own_broker.stop_broker("broker-a")
            wait_for(lambda: consumer.events("pull"))
            own_broker.start_broker("broker-a")
            wait_for(lambda: _sent(own_broker, numbered(20, 20)))
            ear.wait_for(40)

    assert sorted(set(ear.bodies)) == numbered(40)
    assert committed(own_broker, "restart-readers", "restarted") == dict.fromkeys(range(4), 10)


def _sent(servers: EmbeddedBroker, bodies: list[bytes]) -> bool:
    send(servers, "restarted", bodies)
    return True


# Broadcasting


def test_in_broadcasting_every_member_gets_every_message_and_remembers_where_it_was(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    filled(broker, "everybody", numbered(8))
    more = {"model": "broadcasting", "offsets_dir": tmp_path}

    ears = [Ear(), Ear()]
    with (
        nothing_left(),
        consumer_of(broker, "hearers", "everybody", ears[0], **more, instance_name="one") as one,
        consumer_of(broker, "hearers", "everybody", ears[1], **more, instance_name="two"),
    ):
        for ear in ears:
            ear.wait_for(8)
    assert [sorted(ear.bodies) for ear in ears] == [numbered(8)] * 2

    later = Ear()
    send(broker, "everybody", [b"new"])
    with consumer_of(broker, "hearers", "everybody", later, **more, instance_name="one"):
        later.wait_for(1)
    assert later.bodies == [b"new"]
    offsets = read_offsets(tmp_path / one.client_id / "hearers" / "offsets.json")
    assert sum(offsets.values()) == 9


def test_in_broadcasting_a_client_id_is_stable_and_taken_by_one(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    create_topic(broker, "stable")
    one = consumer_of(
        broker, "stable-ids", "stable", Ear(), model="broadcasting", offsets_dir=tmp_path
    )
    two = consumer_of(
        broker, "stable-ids", "stable", Ear(), model="broadcasting", offsets_dir=tmp_path
    )

    assert one.client_id == two.client_id
    with one, pytest.raises(GroupConflict, match="another live consumer"):
        two.start()


def test_a_message_that_fails_in_broadcasting_is_dropped_and_told(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    filled(broker, "dropped", numbered(2), queues=1)
    ear = Ear(ValueError("no"))
    consumer = consumer_of(
        broker, "droppers", "dropped", ear, model="broadcasting", offsets_dir=tmp_path
    )
    with consumer:
        ear.wait_for(2)
        wait_for(lambda: consumer.events("broadcasting"))

    assert sorted(ear.bodies) == numbered(2)
    assert "dropped" in consumer.events("broadcasting")[0].text


# Conflicts


def test_a_member_that_wants_something_else_is_told_who_wants_what(broker: EmbeddedBroker) -> None:
    create_topic(broker, "disputed")
    one = PushConsumer("disputers", Ear(), namesrv=broker.namesrv)
    one.subscribe("disputed", tags="b || a")
    same = PushConsumer("disputers", Ear(), namesrv=broker.namesrv)
    same.subscribe("disputed", tags="a||b")
    other = PushConsumer("disputers", Ear(), namesrv=broker.namesrv)
    other.subscribe("disputed", tags="c")
    warned = PushConsumer("disputers", Ear(), namesrv=broker.namesrv, on_conflict="warn")
    warned.subscribe("disputed", sql="x > 1")

    with nothing_left(), one, same:
        with pytest.raises(GroupConflict) as refused:
            other.start()
        with warned:
            told = warned.events("conflict")

    text = str(refused.value)
    assert f"{other.client_id} (this one) wants disputed [c]" in text
    assert f"{one.client_id} wants disputed [a || b]" in text
    assert "disputed [SQL92: x > 1]" in told[0].text


def test_a_member_that_broadcasts_in_a_group_that_shares_is_refused(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    create_topic(broker, "mixed")
    other = consumer_of(
        broker, "mixers", "mixed", Ear(), model="broadcasting", offsets_dir=tmp_path
    )

    with (
        consumer_of(broker, "mixers", "mixed", Ear()),
        pytest.raises(GroupConflict, match="by CLUSTERING, this member by BROADCASTING"),
    ):
        other.start()
