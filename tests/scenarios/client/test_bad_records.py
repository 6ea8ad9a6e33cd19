"""A message that cannot be decoded never stops a queue: what is behind it comes, and it is told."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

import flintmq.aio
from flintmq import (
    Admin,
    App,
    ConsumeFromWhere,
    LitePullConsumer,
    PullConsumer,
    PushConsumer,
    QueueRef,
    ScheduledPull,
)
from flintmq.client.engine import broker_calls
from flintmq.client.push.push_status import QueueStatus
from flintmq.core.bad_record_rule import FRAME_TRIES, OnBadRecord
from flintmq.core.consumer import settle_bad_records
from flintmq.core.group.pull_answers import MessagesFound, PullAnswer, Unreadable, read_pull_answer
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import InvalidSetting, MalformedRecord, UndecodableRecord
from flintmq.model.group import dead_letter_topic
from flintmq.model.message import ReceivedMessage
from flintmq.model.sys_flag import Compression
from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.compression import pack
from flintmq.protocol.headers.pull import PullMessage
from flintmq.protocol.records.record import decode_record
from support.client.push_support import Ear, committed, send
from support.client.support import create_topic, nothing_left, run, wait_for
from support.poison import LZ4, POISONS, poison, send_raw

BROKER = "broker-a"
FIRST = ConsumeFromWhere.FIRST_OFFSET
GOOD = [b"%d" % number for number in range(6)]
KINDS = list(POISONS)


def poisoned(servers: EmbeddedBroker, topic: str, kinds: list[str] = KINDS) -> list[int]:
    """One queue: a good message, the bad ones, five good ones.  The offsets of the bad ones."""
    create_topic(servers, topic, 1)
    send(servers, topic, GOOD[:1], queue=0)
    offsets = [poison(servers.brokers[0], topic, kind).queue_offset for kind in kinds]
    send(servers, topic, GOOD[1:], queue=0)
    return offsets


def reader(servers: EmbeddedBroker, group: str, ear: object, **more: Any) -> PushConsumer:
    settings = {"start_from": "first", "pull_error_delay_ms": 20, **more}
    return PushConsumer(group, ear, namesrv=servers.namesrv, **settings)  # type: ignore[arg-type]


def raw_bodies(servers: EmbeddedBroker, topic: str) -> list[tuple[bytes, int]]:
    """Body and flag of every record of a topic's only queue, as they are stored."""
    header = PullMessage(
        consumer_group="readers",
        topic=topic,
        queue_id=0,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
    )
    with BlockingChannels() as channels:
        command = request(RequestCode.PULL_MESSAGE, header)
        octets = channels.call(servers.brokers[0], command, 15_000).body
    found, at = [], 0
    while at < len(octets):
        record = decode_record(octets, at)
        found.append((record.body, record.sys_flag))
        at += int.from_bytes(octets[at : at + 4], "big")
    return found


def own(consumer: PushConsumer | LitePullConsumer, topic: str) -> QueueStatus:
    """The only queue of a topic, once it is ours; the retry topic of the group has others."""
    wait_for(lambda: any(each.queue.topic == topic for each in consumer.status().queues))
    return next(each for each in consumer.status().queues if each.queue.topic == topic)


def dead(servers: EmbeddedBroker, group: str) -> int:
    return servers.call(
        lambda inside: next(iter(inside.brokers.values())).state.log.max_offset(
            dead_letter_topic(group), 0
        )
    )


# Push


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_behind_a_poison_message_is_delivered_and_it_is_a_dead_letter_byte_for_byte(
    broker: EmbeddedBroker, kind: str
) -> None:
    number = KINDS.index(kind)
    topic, group, ear = f"poison-{number}", f"poisoned-{number}", Ear()
    [offset] = poisoned(broker, topic, [kind])

    with nothing_left(), reader(broker, group, ear).subscribe(topic) as consumer:
        ear.wait_for(len(GOOD))
        wait_for(lambda: dead(broker, group) == 1)
        wait_for(lambda: own(consumer, topic).settled_to == 7)
        [event] = consumer.events("bad record")
        counts = consumer.status().bad_count, own(consumer, topic).bad_count

    assert sorted(ear.bodies) == GOOD
    assert event.subject == f"{topic}/{BROKER}/0"
    assert f"at {offset} cannot be decoded: " in event.text
    assert "dead letters" in event.text
    assert counts == (1, 1)
    assert committed(broker, group, topic) == {0: 7}
    assert [tuple(POISONS[kind])] == raw_bodies(broker, dead_letter_topic(group))


def test_ordered_consumption_keeps_its_order_around_bad_records(broker: EmbeddedBroker) -> None:
    ear = Ear()
    poisoned(broker, "poison-ordered")

    with reader(broker, "poisoned-ordered", ear, ordered=True).subscribe("poison-ordered") as one:
        ear.wait_for(len(GOOD))
        wait_for(lambda: dead(broker, "poisoned-ordered") == len(KINDS))
        wait_for(lambda: own(one, "poison-ordered").settled_to == len(GOOD) + len(KINDS))

    assert ear.bodies == GOOD
    assert committed(broker, "poisoned-ordered", "poison-ordered") == {0: len(GOOD) + len(KINDS)}


def test_a_queue_of_nothing_but_bad_records_is_consumed_to_its_end(broker: EmbeddedBroker) -> None:
    create_topic(broker, "poison-only", 1)
    for kind in KINDS * 2:
        poison(broker.brokers[0], "poison-only", kind)

    with reader(broker, "poisoned-only", Ear()).subscribe("poison-only") as consumer:
        wait_for(lambda: own(consumer, "poison-only").settled_to == 2 * len(KINDS))

    assert committed(broker, "poisoned-only", "poison-only") == {0: 2 * len(KINDS)}
    assert dead(broker, "poisoned-only") == 2 * len(KINDS)


def test_broadcasting_skips_bad_records_and_tells(
    broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ear = Ear()
    offsets = poisoned(broker, "poison-broadcast")
    settings = {"model": "broadcasting", "offsets_dir": tmp_path_factory.mktemp("offsets")}

    with reader(broker, "poisoned-all", ear, **settings).subscribe("poison-broadcast") as consumer:
        ear.wait_for(len(GOOD))
        events = consumer.events("bad record")

    assert sorted(ear.bodies) == GOOD
    assert len(events) == len(offsets)
    assert all(event.text.endswith("; skipped") for event in events)
    assert dead(broker, "poisoned-all") == 0


def test_a_push_consumer_that_stops_delivers_what_is_before_and_says_where_it_stands(
    broker: EmbeddedBroker,
) -> None:
    ear = Ear()
    [offset] = poisoned(broker, "poison-stop", KINDS[:1])

    with reader(broker, "stoppers", ear, on_bad_record="stop").subscribe("poison-stop") as one:
        ear.wait_for(1)
        wait_for(lambda: own(one, "poison-stop").waits_for == "bad record")
        queue = own(one, "poison-stop")
        [event] = one.events("bad record")

    assert ear.bodies == GOOD[:1]
    assert (queue.next_offset, queue.settled_to, queue.bad_count) == (offset, offset, 1)
    assert "cannot be decoded" in queue.why
    assert f"move its offset to {offset + 1}" in event.text
    assert committed(broker, "stoppers", "poison-stop") == {0: offset}
    assert dead(broker, "stoppers") == 0


def test_nothing_behind_a_bad_record_is_committed_before_its_dead_letter_is_stored(
    own_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection lost with the send-back is no answer: it is asked again."""
    monkeypatch.setattr(settle_bad_records, "AGAIN_MS", 3_600_000)  # by the moved clock alone
    ear = Ear()
    [offset] = poisoned(own_broker, "poison-held", KINDS[:1])
    own_broker.drop_next(RequestCode.CONSUMER_SEND_MSG_BACK, lost="connection")

    with own_broker.push_consumer(
        "holders", ear, start_from="first", commit_interval_ms=100
    ).subscribe("poison-held") as consumer:
        ear.wait_for(len(GOOD))
        wait_for(lambda: consumer.events("send back"))
        wait_for(lambda: committed(own_broker, "holders", "poison-held") == {0: offset})
        assert own(consumer, "poison-held").settled_to == offset
        own_broker.advance(3_600)
        wait_for(lambda: own(consumer, "poison-held").settled_to == 7)
        assert len(consumer.events("bad record")) == 1

    assert committed(own_broker, "holders", "poison-held") == {0: 7}
    assert dead(own_broker, "holders") == 1


def test_a_message_for_which_a_package_is_missing_is_a_dead_letter_that_can_come_back(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = pack(b"good", Compression.LZ4)
    create_topic(broker, "packed", 1)
    send_raw(broker.brokers[0], "packed", packed, LZ4)
    ear = Ear()

    with monkeypatch.context() as without:
        without.setitem(sys.modules, "lz4", None)
        without.setitem(sys.modules, "lz4.frame", None)
        with reader(broker, "unpackers", ear).subscribe("packed") as consumer:
            wait_for(lambda: dead(broker, "unpackers") == 1)
            [event] = consumer.events("bad record")
    assert "pip install" in event.text
    assert ear.bodies == []

    with Admin(namesrv=broker.namesrv) as admin:
        [letter] = admin.dead_letters("unpackers")
        admin.replay("unpackers", letter)
    with reader(broker, "unpackers", ear).subscribe("packed"):
        ear.wait_for(1)
    assert ear.bodies == [b"good"]


def test_an_app_takes_the_rule_as_its_setting(broker: EmbeddedBroker) -> None:
    poisoned(broker, "poison-app", KINDS[:1])
    ear = Ear()
    app = App("apps", namesrv=broker.namesrv, start_from="first", on_bad_record="skip")
    app.listener("poison-app")(ear)

    with broker.running(app):
        ear.wait_for(len(GOOD))

    assert sorted(ear.bodies) == GOOD
    assert dead(broker, "apps") == 0


def test_the_same_on_asyncio(broker: EmbeddedBroker) -> None:
    poisoned(broker, "poison-aio")
    bodies: list[bytes] = []
    heard = asyncio.Event()

    async def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        bodies.extend(message.body for message in messages)
        if len(bodies) == len(GOOD):
            heard.set()

    async def main() -> None:
        consumer = flintmq.aio.PushConsumer(
            "poisoned-aio", listen, namesrv=broker.namesrv, start_from="first"
        )
        consumer.subscribe("poison-aio")
        async with consumer, asyncio.timeout(60):
            await heard.wait()

    run(main())
    assert sorted(bodies) == GOOD
    assert dead(broker, "poisoned-aio") == len(KINDS)


def test_a_poisoned_dead_letter_queue_can_be_read_too(broker: EmbeddedBroker) -> None:
    poisoned(broker, "poison-twice")
    with reader(broker, "first-group", Ear()).subscribe("poison-twice"):
        wait_for(lambda: dead(broker, "first-group") == len(KINDS))
    topic = dead_letter_topic("first-group")
    send(broker, topic, [b"readable"], queue=0)
    ear = Ear()

    with reader(broker, "second-group", ear).subscribe(topic):
        ear.wait_for(1)

    assert ear.bodies == [b"readable"]


# Lite pull


def lite(servers: EmbeddedBroker, group: str, **more: Any) -> LitePullConsumer:
    settings = {"start_from": FIRST, "pull_error_delay_ms": 20, **more}
    return LitePullConsumer(group, namesrv=servers.namesrv, **settings)


def test_lite_pull_hands_out_what_is_behind_bad_records(broker: EmbeddedBroker) -> None:
    poisoned(broker, "poison-lite")
    bodies: list[bytes] = []

    with lite(broker, "lite") as consumer:
        consumer.subscribe("poison-lite")
        while len(bodies) < len(GOOD):
            bodies += [message.body for message in consumer.poll(60_000)]
        [queue] = consumer.status().queues
        events = consumer.events("bad record")
        consumer.poll(0)
        consumer.commit()

    assert bodies == GOOD
    assert queue.bad_count == len(events) == len(KINDS)
    assert committed(broker, "lite", "poison-lite") == {0: len(GOOD) + len(KINDS)}


def test_lite_pull_of_nothing_but_bad_records_moves_on(broker: EmbeddedBroker) -> None:
    create_topic(broker, "poison-lite-only", 1)
    for kind in KINDS:
        poison(broker.brokers[0], "poison-lite-only", kind)

    with lite(broker, "lite-only") as consumer:
        consumer.subscribe("poison-lite-only")
        assert consumer.poll(1) == []
        wait_for(lambda: own(consumer, "poison-lite-only").settled_to == len(KINDS))
        consumer.commit()

    assert committed(broker, "lite-only", "poison-lite-only") == {0: len(KINDS)}


def test_lite_pull_that_stops_raises_behind_what_is_before_and_a_seek_goes_on(
    broker: EmbeddedBroker,
) -> None:
    [offset] = poisoned(broker, "poison-lite-stop", KINDS[:1])
    queue = QueueRef("poison-lite-stop", BROKER, 0)
    bodies: list[bytes] = []

    with lite(broker, "lite-stop", on_bad_record="stop") as consumer:
        consumer.subscribe("poison-lite-stop")
        bodies += [message.body for message in consumer.poll(60_000)]
        assert bodies == GOOD[:1]
        with pytest.raises(UndecodableRecord) as stopped:
            consumer.poll(60_000)
        assert consumer.status().queues[0].waits_for == "bad record"
        assert consumer.poll(0) == []  # told once
        consumer.seek(queue, stopped.value.offset + 1)
        while len(bodies) < len(GOOD):
            bodies += [message.body for message in consumer.poll(60_000)]

    error = stopped.value
    assert (error.topic, error.broker, error.queue_id) == (queue.topic, BROKER, 0)
    assert error.offset == offset
    assert "zlib" in error.reason
    assert f"go on at {offset + 1}" in str(error)
    assert bodies == GOOD


def test_lite_pull_on_asyncio_stops_with_the_same_error(broker: EmbeddedBroker) -> None:
    poisoned(broker, "poison-lite-aio", KINDS[:1])

    async def main() -> list[bytes]:
        bodies: list[bytes] = []
        consumer = flintmq.aio.LitePullConsumer(
            "lite-aio", namesrv=broker.namesrv, start_from=FIRST, on_bad_record="stop"
        )
        consumer.subscribe("poison-lite-aio")
        async with consumer, asyncio.timeout(60):
            bodies += [message.body for message in await consumer.poll(60_000)]
            with pytest.raises(UndecodableRecord, match="at 1 cannot be decoded"):
                await consumer.poll(60_000)
        return bodies

    assert run(main()) == GOOD[:1]


# Pull


@pytest.mark.parametrize("hooks", [(), ("seen",)], ids=["past the loop", "by the loop"])
def test_a_pull_gives_the_messages_and_names_the_bad_records(
    broker: EmbeddedBroker, hooks: tuple[str, ...]
) -> None:
    topic = f"poison-pull-{len(hooks)}"
    offsets = poisoned(broker, topic)
    queue = QueueRef(topic, BROKER, 0)

    with PullConsumer(
        f"pull-{len(hooks)}", namesrv=broker.namesrv, request_hooks=tuple(Seeing() for _ in hooks)
    ) as consumer:
        consumer.max_offset(queue)
        result = consumer.pull(queue, 0)
        events = consumer.events("bad record")
        [status] = consumer.status().queues

    assert [message.body for message in result.messages] == GOOD
    assert [bad.queue_offset for bad in result.bad] == offsets
    assert [bad.topic for bad in result.bad] == [topic] * len(offsets)
    assert result.next_offset == len(GOOD) + len(KINDS)
    assert len(events) == status.bad_count == len(KINDS)


class Seeing:
    """A hook that changes nothing."""

    def before(self, _address: str, command: Any) -> Any:
        return command

    def after(self, *_: object) -> None:
        pass


def test_a_pull_that_stops_gives_what_is_before_and_then_raises(broker: EmbeddedBroker) -> None:
    poisoned(broker, "poison-pull-stop", KINDS[:1])
    queue = QueueRef("poison-pull-stop", BROKER, 0)

    with PullConsumer("pull-stop", namesrv=broker.namesrv, on_bad_record="stop") as consumer:
        before = consumer.pull(queue, 0)
        with pytest.raises(UndecodableRecord) as stopped:
            consumer.pull(queue, before.next_offset)
        behind = consumer.pull(queue, stopped.value.offset + 1)

    assert ([message.body for message in before.messages], before.next_offset) == (GOOD[:1], 1)
    assert stopped.value.offset == 1
    assert [message.body for message in behind.messages] == GOOD[1:]


@pytest.mark.parametrize("rule", ["skip", "stop"])
def test_a_pull_without_an_intact_frame_is_made_again_and_then_leads_one_further(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, rule: OnBadRecord
) -> None:
    topic = f"broken-{rule}"
    create_topic(broker, topic, 1)
    send(broker, topic, GOOD, queue=0)
    queue = QueueRef(topic, BROKER, 0)
    offsets: list[int] = []

    def broken(reply: Command, asked: QueueRef, address: str) -> PullAnswer:
        answer = read_pull_answer(reply, asked, address)
        assert isinstance(answer, MessagesFound)
        offsets.append(answer.messages[0].queue_offset)
        if offsets[-1] != 1:
            return answer
        fault = MalformedRecord(0, "bad magic")
        return Unreadable(answer.next_offset, max_offset=answer.max_offset, fault=fault)

    monkeypatch.setattr(broker_calls, "read_pull_answer", broken)
    with PullConsumer(f"broken-{rule}", namesrv=broker.namesrv, on_bad_record=rule) as consumer:
        consumer.pull(queue, 0)
        if rule == "stop":
            with pytest.raises(UndecodableRecord, match="at 1 cannot be decoded: bad magic"):
                consumer.pull(queue, 1)
        else:
            result = consumer.pull(queue, 1)
            assert [bad.reason for bad in result.bad] == ["bad magic"]
            assert (result.messages, result.next_offset, result.max_offset) == ([], 2, 6)
        tries = offsets.count(1)
        behind = consumer.pull(queue, 2)

    assert FRAME_TRIES <= tries <= FRAME_TRIES + 1  # one past the loop, perhaps
    assert [message.body for message in behind.messages] == GOOD[2:]


def test_a_scheduled_pull_reads_past_bad_records(broker: EmbeddedBroker) -> None:
    poisoned(broker, "poison-scheduled")
    bodies: list[bytes] = []

    def pull(queue: QueueRef, context: Any) -> None:
        offset = context.consumer.committed(queue) or 0
        result = context.consumer.pull(queue, offset, count_max=3)
        bodies.extend(message.body for message in result.messages)
        context.consumer.update_offset(queue, result.next_offset)
        context.next_delay_ms = 0 if result.next_offset < result.max_offset else 200

    schedule = ScheduledPull("scheduled", namesrv=broker.namesrv)
    schedule.register("poison-scheduled", pull)
    with schedule:
        wait_for(lambda: len(bodies) >= len(GOOD))

    assert bodies == GOOD


# Settings


@pytest.mark.parametrize("kind", [LitePullConsumer, PullConsumer, ScheduledPull])
def test_consumers_that_pull_have_no_dead_letters(kind: type[Any]) -> None:
    with pytest.raises(InvalidSetting, match="sends nothing back by itself; use skip or stop"):
        kind("g", namesrv="127.0.0.1:1", on_bad_record="dead_letter")


def test_broadcasting_has_no_dead_letters() -> None:
    with pytest.raises(InvalidSetting, match="broadcasting has no dead letters"):
        PushConsumer(
            "g", Ear(), namesrv="127.0.0.1:1", model="broadcasting", on_bad_record="dead_letter"
        )


@pytest.mark.parametrize("kind", [LitePullConsumer, PullConsumer])
def test_an_unknown_rule_is_refused(kind: type[Any]) -> None:
    with pytest.raises(InvalidSetting, match="is one of dead_letter, skip, stop"):
        kind("g", namesrv="127.0.0.1:1", on_bad_record="ignore")
