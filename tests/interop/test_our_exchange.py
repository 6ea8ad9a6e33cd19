"""Our clients and Java clients read what the other sends: messages, transactions, questions."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flintmq import (
    Message,
    Producer,
    ReceivedMessage,
    TransactionProducer,
    TransactionState,
)
from support.client.support import stored
from support.interop.beside import Java, push
from support.interop.filled import SEND_MS, new_topic, patiently
from support.interop.javaclient import NEWEST, OLD, JavaClient
from support.interop.ours import Kind, Served

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),  # the first test starts servers and JVMs
]


def test_a_java_consumer_reads_all_that_our_producer_sends(
    each: Served, java_client: JavaClient
) -> None:
    prefix = "sent_"
    topic = f"{prefix}t"
    new_topic(each, topic, 1)
    java = Java(java_client, prefix)
    large = "größe " * 3_000
    with Producer("p", namesrv=each.namesrv, compress_from_bytes=1_000) as producer:
        one = producer.send(
            Message(topic, large.encode(), tags="paid", keys=["k1", "k2"], properties={"b": "🚀"}),
            timeout_ms=SEND_MS,
        )
        batch = producer.send_batch(
            [Message(topic, b"first", flag=3), Message(topic, b"second", flag=3)],
            timeout_ms=SEND_MS,
        )
    java.play("join")
    patiently(lambda: len(java.seen()) >= 3)
    seen = {event["body"]: event for event in java.play("leave").all("seen")}

    assert set(seen) == {large, "first", "second"}
    found = seen[large]
    assert found["msgId"] == one.message_id
    assert found["offset"] == one.queue_offset
    assert {name: found["properties"][name] for name in ("TAGS", "KEYS", "b")} == {
        "TAGS": "paid",
        "KEYS": "k1 k2",
        "b": "🚀",
    }
    assert [seen[body]["msgId"] for body in ("first", "second")] == [
        receipt.message_id for receipt in batch
    ]
    assert [seen[body]["flag"] for body in ("first", "second")] == [3, 3]
    wire = next(message for message in stored(each, topic) if message.queue_offset == 0)
    assert wire.stored_bytes < len(large.encode()) / 10


def test_a_java_consumer_gets_transactions_as_they_were_ended(
    each: Served, java_client: JavaClient
) -> None:
    prefix = "ended_"
    topic = f"{prefix}t"
    new_topic(each, topic, 1)
    java = Java(java_client, prefix)
    java.play("join")
    ends = {b"yes": TransactionState.COMMIT, b"no": TransactionState.ROLLBACK, b"later": None}
    with TransactionProducer(
        f"{prefix}p", lambda _: TransactionState.COMMIT, namesrv=each.namesrv
    ) as producer:
        sent = {
            body: producer.send_in_transaction(
                Message(topic, body, keys=["k"]),
                lambda *_, state=state: state,
                timeout_ms=SEND_MS,
            )
            for body, state in ends.items()
        }
        patiently(lambda: len(java.seen()) == 2)
    seen = {event["body"].encode(): event for event in java.play("leave").all("seen")}

    assert set(seen) == {b"yes", b"later"}
    for body, event in seen.items():
        assert event["msgId"] == sent[body].receipt.message_id
        assert event["properties"]["TRAN_MSG"] == "true"
        assert event["properties"]["KEYS"] == "k"


def test_a_java_consumer_gets_messages_at_their_time(each: Served, java_client: JavaClient) -> None:
    """A real 4.9 knows no times, only levels."""
    prefix = "at_its_time_"
    topic = f"{prefix}t"
    new_topic(each, topic, 1)
    java = Java(java_client, prefix)
    java.play("join")
    start_ms = time.time_ns() // 1_000_000
    wanted = {"level": Message(topic, b"level", delay_level=2)}
    if each.kind is not Kind.REAL_4_9:
        wanted["delay"] = Message(topic, b"delay", delay_ms=1_500)
        wanted["time"] = Message(topic, b"time", deliver_at_ms=start_ms + 3_000)
    with Producer(f"{prefix}p", namesrv=each.namesrv) as producer:
        for message in wanted.values():
            producer.send(message, timeout_ms=SEND_MS)
    patiently(lambda: len(java.seen()) >= len(wanted))
    seen = {event["body"]: event for event in java.play("leave").all("seen")}

    assert set(seen) == set(wanted)
    least_ms = {"level": 2_000, "delay": 1_500, "time": 3_000}
    for body, event in seen.items():
        assert event["storedAt"] - start_ms >= least_ms[body] - 50  # a wheel turns in steps


def test_a_java_client_answers_our_question(each: Served, java_client: JavaClient) -> None:
    prefix = "answered_"
    topic = f"{prefix}t"
    new_topic(each, topic, 1)
    with (
        ThreadPoolExecutor(1) as threads,
        Producer(f"{prefix}askers", namesrv=each.namesrv) as producer,
    ):
        answering = threads.submit(java_client.play, "answer", prefix)
        reply = producer.request(Message(topic, b"how are you"), timeout_ms=20_000)
        told = answering.result()

    assert reply.body == b"answer to how are you"
    assert told.one("answered")["status"] == "SEND_OK"


@pytest.mark.usefixtures("java")
def test_we_answer_the_question_of_a_java_client(each: Served, tmp_path: Path) -> None:
    prefix = "asked_"
    topic = f"{prefix}t"
    new_topic(each, topic, 1)
    release = OLD if each.kind is Kind.REAL_4_9 else NEWEST  # the one of 5.3 waits for no answer
    with (
        Producer(f"{prefix}responders", namesrv=each.namesrv) as producer,
        JavaClient(release, each.namesrv, tmp_path) as asker,
    ):

        def listen(messages: tuple[ReceivedMessage, ...]) -> None:
            for message in messages:
                producer.reply(message, b"we heard " + message.body, timeout_ms=SEND_MS)

        with push(each, f"{prefix}g", listen).subscribe(topic):
            told = asker.play("ask", prefix)

    assert told.one("answer")["body"] == "we heard question"
