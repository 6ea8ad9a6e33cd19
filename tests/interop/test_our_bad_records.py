"""What brokers and Java clients do with messages that nobody can decode, and what ours do."""

from __future__ import annotations

import pytest

from flintmq import Message
from flintmq.model.group import dead_letter_topic
from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import request
from flintmq.protocol.headers.pull import PullMessage
from flintmq.protocol.headers.send import SendMessageV2
from flintmq.protocol.records.batch import BatchEntry, encode_batch
from flintmq.protocol.records.record import decode_record
from support.client.push_support import Ear
from support.interop.beside import CALL_MS, Java, push
from support.interop.filled import new_topic, numbered, patiently, send_to, stands_at
from support.interop.javaclient import JavaClient
from support.interop.ours import Served
from support.poison import POISONS, poison

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),  # the first test starts servers and JVMs
]

GOOD = numbered(6)
UNPACKABLE = [kind for kind in POISONS if kind != "a body that unpacks too far"]
"""Java has no limit for a body that unpacks."""


def poisoned(served: Served, topic: str, kinds: list[str]) -> None:
    """One queue: a good message, the bad ones, five good ones."""
    queues = new_topic(served, topic, 1)
    messages = [Message(topic, body) for body in GOOD]
    send_to(served, messages[:1], queues)
    for kind in kinds:
        poison(served.broker, topic, kind)
    send_to(served, messages[1:], queues)


def raw_bodies(served: Served, topic: str) -> list[tuple[bytes, int]]:
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
        octets = channels.call(
            served.broker, request(RequestCode.PULL_MESSAGE, header), CALL_MS
        ).body
    found, at = [], 0
    while at < len(octets):
        record = decode_record(octets, at)
        found.append((record.body, record.sys_flag))
        at += int.from_bytes(octets[at : at + 4], "big")
    return found


def test_our_consumer_gets_all_around_bad_records_and_every_broker_keeps_them_as_dead_letters(
    each: Served,
) -> None:
    topic, group, ear = "bad_ours_t", "bad_ours_g", Ear()
    poisoned(each, topic, list(POISONS))

    with push(each, group, ear).subscribe(topic) as consumer:
        patiently(lambda: len(ear.messages) >= len(GOOD))
        patiently(lambda: len(raw_bodies(each, dead_letter_topic(group))) == len(POISONS))
        assert len(consumer.events("bad record")) == len(POISONS)

    assert sorted(ear.bodies) == GOOD
    assert sorted(raw_bodies(each, dead_letter_topic(group))) == sorted(
        map(tuple, POISONS.values())
    )
    assert stands_at(each, group, topic) == len(GOOD) + len(POISONS)


@pytest.mark.parametrize(
    ("way", "kind"),
    [
        *(("join", kind) for kind in UNPACKABLE),
        ("join-orderly", "no zlib stream"),
        ("join-lite", "no zlib stream"),
    ],
)
def test_a_java_consumer_goes_on_and_loses_what_is_behind_a_bad_record_in_the_same_answer(
    each: Served, java_client: JavaClient, way: str, kind: str
) -> None:
    """It drops the bad record and the rest of its answer, and commits past them."""
    prefix = f"bad_{UNPACKABLE.index(kind)}_{way.replace('-', '_')}_"
    topic, group = f"{prefix}t", f"{prefix}g"
    poisoned(each, topic, [kind])
    java = Java(java_client, prefix)

    java.play(way)
    try:
        patiently(lambda: java.holds() == [0])
        patiently(lambda: GOOD[0] in java.seen())  # so the answer with all of them was read
        send_to(each, [Message(topic, b"later")], new_topic(each, topic, 1))
        patiently(lambda: b"later" in java.seen())
        patiently(lambda: stands_at(each, group, topic) == len(GOOD) + 2)
    finally:
        seen = java.leave()

    assert seen == [GOOD[0], b"later"]


def test_a_java_consumer_reads_properties_that_are_no_text_as_we_do(
    each: Served, java_client: JavaClient
) -> None:
    topic, group = "bad_properties_t", "bad_properties_g"
    new_topic(each, topic, 1)
    header = SendMessageV2(
        producer_group="poisoners",
        topic=topic,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties="",
        is_batch=True,
    )
    batch = encode_batch([BatchEntry(b"hi", b"a\x01\xff\xfe\x02b\x01x\x02\x01\x02c")])
    with BlockingChannels() as channels:
        command = request(RequestCode.SEND_BATCH_MESSAGE, header, batch)
        assert channels.call(each.broker, command, CALL_MS).code == ResponseCode.SUCCESS
    java, ear = Java(java_client, "bad_properties_"), Ear()

    java.play("join")
    try:
        patiently(lambda: java.seen() == [b"hi"])
        [theirs] = java.play("so-far").all("seen")
    finally:
        java.leave()
    with push(each, f"{group}2", ear).subscribe(topic):
        patiently(lambda: ear.messages)

    ours = ear.messages[0].properties
    assert {name: ours.get(name) for name in "abc"} == {"a": "\ufffd\ufffd", "b": "x", "c": None}
    assert {name: theirs["properties"].get(name) for name in "abc"} == {
        name: ours.get(name) for name in "abc"
    }
