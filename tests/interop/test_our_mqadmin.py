"""mqadmin of both releases sees members of ours, and moves them, as it does Java's."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from flintmq import Message, Producer, ReceivedMessage, Retry
from support.client.push_support import Ear
from support.interop.beside import push
from support.interop.filled import filled, new_topic, numbered, patiently, send_to, stands_at
from support.interop.javaclient import NEW, OLD, MqAdmin
from support.interop.ours import Kind, Served, serving

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),  # the first test starts servers and JVMs
]

QUEUES = 4


class Place(NamedTuple):
    """A broker, and a release of the tools that knows how to ask it."""

    served: Served
    mqadmin: MqAdmin


@pytest.fixture(
    scope="module",
    params=[(Kind.OURS, OLD), (Kind.OURS, NEW), (Kind.REAL_4_9, OLD), (Kind.REAL_5_3, NEW)],
    ids=lambda pair: f"{pair[0]}-tools-{pair[1]}",
)
def place(
    request: pytest.FixtureRequest, java: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    kind, version = request.param
    with (
        serving(tmp_path_factory.mktemp("asked"), kind=kind) as served,
        MqAdmin(version, served.namesrv, tmp_path_factory.mktemp("mqadmin")) as mqadmin,
    ):
        yield Place(served, mqadmin)


def rows(printed: str, start: str) -> list[list[str]]:
    """The rows of a table whose first column is this."""
    split = [line.split() for line in printed.splitlines()]
    return [words for words in split if words and words[0] == start]


def rates(printed: str, topic: str) -> dict[str, float]:
    """The line of a topic in the table of rates."""
    table = printed[printed.index("#Consumer RT&TPS#") :]
    (row,) = rows(table, topic)
    names = ("pull_ms", "pulls_per_s", "consume_ms", "ok_per_s", "failed_per_s", "failed")
    return dict(zip(names, map(float, row[1:]), strict=True))


def test_statistics_tell_of_a_known_load(place: Place) -> None:
    """200 messages that take 10 ms each, of which 10 fail once."""
    served, mqadmin = place
    topic, group = "counted", "counting"
    queues = filled(served, topic, numbered(200), queues=QUEUES)
    ear = Ear()

    def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        time.sleep(0.01)
        ear(messages)
        if messages[0].reconsume_times == 0 and messages[0].body < b"0010":
            raise Retry(delay_level=1)

    start_s = time.monotonic()
    with push(served, group, listen).subscribe(topic) as consumer:
        patiently(lambda: len(ear.messages) == 210)
        patiently(lambda: consumer.status().rates[f"%RETRY%{group}"].ok == 10)
        printed = mqadmin("consumerStatus", "-g", group, "-i", consumer.client_id)
        spent_s = time.monotonic() - start_s
        every = mqadmin("consumerStatus", "-g", group)

    seen, again = rates(printed, topic), rates(printed, f"%RETRY%{group}")
    # Rates are of the last minute, or of ten seconds while there is less to tell of.
    least_s, most_s = 10.0, max(10.0, spent_s) + 1
    assert 200 / most_s <= seen["pulls_per_s"] <= 200 / least_s
    assert 190 / most_s - 0.01 <= seen["ok_per_s"] <= 190 / least_s
    assert 10 / most_s - 0.01 <= seen["failed_per_s"] <= 10 / least_s
    assert (seen["failed"], again["failed"]) == (10, 0)
    assert 10 / most_s - 0.01 <= again["ok_per_s"] <= 10 / least_s
    assert 10 <= seen["consume_ms"] < 200
    assert 10 <= again["consume_ms"] < 200
    assert 0 < seen["pull_ms"] < 15_000
    assert len(queues) == len(re.findall(rf"^{topic} .*ProcessQueueInfo", printed, re.MULTILINE))
    stamps = re.findall(rf"^{topic} .*lastConsumeTimestamp=(\d{{4}})", printed, re.MULTILINE)
    assert stamps == [time.strftime("%Y")] * QUEUES
    assert consumer.client_id in every
    assert "Same subscription in the same group of consumer" in every
    assert "Rebalance OK" in every
    assert "blocked" not in every


def test_the_stack_of_a_listener_that_hangs_is_shown(place: Place) -> None:
    served, mqadmin = place
    topic, group = "hanging", "hanged"
    filled(served, topic, [b"x"], queues=1)
    gate, ear = threading.Event(), Ear()

    def hang_in_here(messages: tuple[ReceivedMessage, ...]) -> None:
        ear(messages)
        gate.wait(60)

    with push(served, group, hang_in_here).subscribe(topic) as consumer:
        of_one = ("consumerStatus", "-g", group, "-i", consumer.client_id)
        patiently(lambda: ear.messages)
        hanging = mqadmin(*of_one, "-s")
        without = mqadmin(*of_one)
        gate.set()
        patiently(lambda: stands_at(served, group, topic) == 1)
        idle = mqadmin(*of_one, "-s")

    (message,) = ear.messages
    stack = hanging[hanging.index("#Consumer jstack#") :]
    assert "in hang_in_here" in stack
    assert message.message_id in stack
    assert "hang_in_here" not in without
    assert "no listener is running" in idle


def test_our_clients_are_listed_with_what_they_want(place: Place) -> None:
    served, mqadmin = place
    topic, group = "listed", "listing"
    filled(served, topic, numbered(8), queues=QUEUES)
    ear = Ear()
    consumer = push(served, group, ear, commit_interval_ms=100).subscribe(topic, tags="a || b")
    with consumer, Producer("listed-producers", namesrv=served.namesrv) as producer:
        producer.send(Message(topic, b"wanted", tags="a"), timeout_ms=15_000)
        patiently(lambda: ear.bodies == [b"wanted"])
        patiently(lambda: sum(stands_at(served, group, topic, n) or 0 for n in range(QUEUES)) == 9)
        consumers = mqadmin("consumerConnection", "-g", group)
        producers = mqadmin("producerConnection", "-g", "listed-producers", "-t", topic)
        progress = mqadmin("consumerProgress", "-g", group)

    (row,) = rows(consumers, consumer.client_id)
    assert row[2] == "PYTHON"
    assert rows(consumers, topic) == [[topic, "a", "||", "b"]]
    assert "ConsumeType: CONSUME_PASSIVELY" in consumers
    assert "ConsumeFromWhere: CONSUME_FROM_FIRST_OFFSET" in consumers
    assert producer.client_id in producers
    assert sum(int(row[3]) for row in rows(progress, topic)) == 9
    assert {row[5] for row in rows(progress, topic)} == {"0"}


def test_a_group_of_ours_is_moved_and_copied(place: Place) -> None:
    served, mqadmin = place
    topic, group, copy = "shifted", "shifting", "shifted-too"
    queues = new_topic(served, topic, QUEUES)
    send_to(served, [Message(topic, body) for body in numbered(40)], queues)
    ear = Ear()

    def stands(group: str) -> list[int | None]:
        return [stands_at(served, group, topic, number) for number in range(QUEUES)]

    with push(served, group, ear, commit_interval_ms=100).subscribe(topic):
        patiently(lambda: stands(group) == [10] * QUEUES)
        moved = mqadmin("resetOffsetByTime", "-g", group, "-t", topic, "-s", "0")
        patiently(lambda: len(ear.messages) == 80)
        patiently(lambda: stands(group) == [10] * QUEUES)
    mqadmin("updateSubGroup", "-b", served.broker, "-g", copy)  # 5.x clones to what is there
    mqadmin("cloneGroupOffset", "-s", group, "-d", copy, "-t", topic)

    assert sorted(row[1:3] for row in rows(moved, "broker-a")) == [[str(n), "0"] for n in range(4)]
    assert sorted(ear.bodies) == sorted(numbered(40) * 2)
    assert stands(copy) == [10] * QUEUES


def test_a_message_is_consumed_again_by_hand(place: Place) -> None:
    served, mqadmin = place
    topic, group = "by-hand", "handy"
    filled(served, topic, [b"x"], queues=1)
    ear = Ear()
    of_topic = () if mqadmin.version == OLD else ("-t", topic)
    with push(served, group, ear).subscribe(topic) as consumer:
        patiently(lambda: ear.messages)
        (message,) = ear.messages
        printed = mqadmin(
            *("queryMsgById", *of_topic, "-i", message.offset_message_id),
            *("-g", group, "-d", consumer.client_id),
        )

    assert "consumeResult=CR_SUCCESS" in printed
    assert ear.bodies == [b"x", b"x"]
