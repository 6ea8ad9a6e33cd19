"""A dead letter of ours has its reason on every broker, and Java's tools read it like any other.

The copy goes to the retry topic with more tries than allowed, and the broker moves it.  What it
has beside its reason is compared with a dead letter that the broker wrote itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flintmq import DeadLetter, Message, PushConsumer
from flintmq.client.admin import Admin
from flintmq.core.group.actions import SendBack
from flintmq.core.group.requests import send_back_request
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef
from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.protocol.codes import ResponseCode
from support.client.push_support import Ear
from support.client.support import stored
from support.interop.beside import CALL_MS, push
from support.interop.filled import filled, patiently, send_to, stands_at
from support.interop.javaclient import MqAdmin
from support.interop.ours import Kind, Served

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),  # the first test starts servers and a JVM
]

OWN_OF_THE_COPY = {"DLQ_REASON", "WAIT", "DELAY", "CLUSTER", "MSG_REGION", "TRACE_ON", "UNIQ_KEY"}
"""Properties in which the two ways differ, by what brokers of either release write."""


@pytest.fixture(scope="module")
def mqadmin(
    each: Served, java: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MqAdmin]:
    version = "5.3.3" if each.kind is Kind.REAL_5_3 else "4.9.8"
    with MqAdmin(version, each.namesrv, tmp_path_factory.mktemp("mqadmin")) as up:
        yield up


def die(messages: tuple[ReceivedMessage, ...]) -> None:
    (message,) = messages
    if message.body == b"asked for":
        raise DeadLetter("no order, 订单")
    raise ValueError("the database\nis away")


def by_body(served: Served, topic: str) -> dict[bytes, ReceivedMessage]:
    return {message.body: message for message in stored(served, topic)}


@pytest.mark.parametrize("ordered", [False, True])
def test_the_reason_travels_with_a_dead_letter(
    each: Served, mqadmin: MqAdmin, ordered: bool
) -> None:
    topic = f"reasons-{ordered}"
    group, dead_topic = topic, f"%DLQ%{topic}"
    queues = filled(each, topic, [], queues=1)
    bodies = [b"asked for", b"used up"]
    send_to(each, [Message(topic, body, tags="paid", keys=["k1"]) for body in bodies], queues)
    consumer = push(each, group, die, retry_max=1, ordered=ordered, ordered_suspend_ms=50)

    with consumer.subscribe(topic):
        patiently(lambda: len(stored(each, dead_topic)) == 2)
        patiently(lambda: len(consumer.events("dead letter")) == 2)

    dead = by_body(each, dead_topic)
    reasons = {body: message.properties["DLQ_REASON"] for body, message in dead.items()}
    assert reasons == {
        b"asked for": "no order, 订单",
        b"used up": "ValueError('the database\\nis away')",
    }
    with Admin(namesrv=each.namesrv) as admin:
        listed = {letter.message.body: letter.reason for letter in admin.dead_letters(group)}
    assert listed == reasons
    printed = mqadmin("printMsg", "-t", dead_topic)
    assert "DLQ_REASON=no order, 订单" in printed
    assert "asked for" in printed
    for message in dead.values():
        found = mqadmin("queryMsgByUniqueKey", "-t", dead_topic, "-i", message.message_id)
        assert f"Reconsume Times:     {message.reconsume_times}" in found


def test_a_copy_says_as_much_as_a_dead_letter_that_the_broker_wrote(each: Served) -> None:
    filled(each, "alike", [b"copied", b"sent back"], queues=1)
    ear = Ear()

    def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        (message,) = messages
        ear(messages)
        if message.body == b"copied":
            raise DeadLetter("so that it is copied")
        send_back(each, "alike", message)

    consumer: PushConsumer = push(each, "alike", listen)
    with consumer.subscribe("alike"):
        patiently(lambda: len(stored(each, "%DLQ%alike")) == 2)
        patiently(lambda: len(ear.messages) == 2)
    dead, first = by_body(each, "%DLQ%alike"), {m.body: m for m in ear.messages}

    copied, back = dead[b"copied"], dead[b"sent back"]
    assert copied.reconsume_times == back.reconsume_times == 1
    assert set(copied.properties) ^ set(back.properties) <= OWN_OF_THE_COPY
    for body, letter in dead.items():
        assert letter.message_id == first[body].message_id
        assert letter.properties["ORIGIN_MESSAGE_ID"] == first[body].offset_message_id
        assert letter.properties["RETRY_TOPIC"] == "alike"
    assert stands_at(each, "alike", "alike", 0) == 2


def send_back(served: Served, group: str, message: ReceivedMessage) -> None:
    """CONSUMER_SEND_MSG_BACK (36) with level -1, as a Java consumer gives a message up."""
    queue = QueueRef(message.topic, message.broker, message.queue_id)
    asked = send_back_request(SendBack(queue, message, -1, 16, "", None), group)
    with BlockingChannels() as channels:
        assert channels.call(served.broker, asked, CALL_MS).code == ResponseCode.SUCCESS
