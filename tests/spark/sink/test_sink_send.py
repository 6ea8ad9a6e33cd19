"""Every message put is stored, in full batches, where it belongs, in the order of its queue."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import pytest

from flintmq.arrow.reading.access import Access
from flintmq.client.producer.packing_producer import PackingProducer
from flintmq.core.producer.queue_choice import queue_of_key
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import BodyTooLarge, InvalidSetting, Unreachable
from flintmq.model.message import Message, ReceivedMessage
from flintmq.protocol.codes import RequestCode
from flintmq.spark.options.sink_options import SinkOptions
from flintmq.spark.sink import sink_send
from flintmq.spark.sink.row_identity import ROW_PROPERTY
from flintmq.spark.sink.sink_rows import ANYWHERE, OutRow, Target
from flintmq.spark.sink.sink_send import Sending, first_turn
from support.client.support import in_enough_time
from support.spark.late_servers import back_after
from support.spark.support import BROKER, create_topic


def out(topic: str, row: int, body: bytes = b"x", target: Target = ANYWHERE) -> OutRow:
    return OutRow(Message(topic, body, properties={ROW_PROPERTY: f"w.0.0.{row}"}), target)


def send_all(
    servers: EmbeddedBroker, rows: Iterable[OutRow], turn: int = 0, **options: int
) -> Sending:
    chosen = SinkOptions(Access(tuple(servers.namesrv.split(";"))), **options)  # type: ignore[arg-type]  # all of these are numbers
    with (
        PackingProducer(chosen.group, **chosen.producer_settings()) as producer,
        Sending(producer, chosen, turn) as sending,
    ):
        for row in rows:
            sending.add(row)
        sending.finish()
    return sending


def by_queue(messages: Iterable[ReceivedMessage]) -> dict[int, list[int]]:
    """The row numbers of each queue in their order."""
    found = defaultdict(list)
    for message in sorted(messages, key=lambda message: message.queue_offset):
        found[message.queue_id].append(int(message.properties[ROW_PROPERTY].rpartition(".")[2]))
    return dict(found)


def test_rows_for_anywhere_fill_batches_which_take_turns(broker: EmbeddedBroker) -> None:
    topic = create_topic(broker, "fill", 4)

    sending = send_all(
        broker, (out(topic, row, b"x" * 900) for row in range(1_000)), batch_bytes=65_536
    )

    stored = by_queue(broker.messages(topic))
    assert sorted(row for rows in stored.values() for row in rows) == list(range(1_000))
    assert sending.body_bytes == 900_000
    assert 15 <= sending.requests <= 17  # of 64 KiB each, but for the last
    assert {queue: len(rows) // 200 for queue, rows in stored.items()} == dict.fromkeys(range(4), 1)


def test_the_same_rows_again_go_to_the_same_queues(broker: EmbeddedBroker) -> None:
    topic = create_topic(broker, "again", 4)
    rows = [out(topic, row, b"x" * 900) for row in range(300)]

    for _ in range(2):
        send_all(broker, rows, turn=7, batch_bytes=16_384)

    for numbers in by_queue(broker.messages(topic)).values():
        assert set(Counter(numbers).values()) == {2}


def test_batches_of_a_small_stream_take_turns_too(broker: EmbeddedBroker) -> None:
    topic = create_topic(broker, "turns", 4)

    for batch in range(4):
        send_all(broker, [out(topic, batch)], turn=batch)

    assert len(by_queue(broker.messages(topic))) == 4


def test_small_batches_go_to_one_broker_after_the_other(two_brokers: EmbeddedBroker) -> None:
    topic = create_topic(two_brokers, "brokers", 2)

    for batch in range(4):
        turn = first_turn("write", batch, partition=0)
        send_all(two_brokers, [out(topic, batch)], turn)

    stored = sorted(two_brokers.messages(topic), key=lambda m: m.properties[ROW_PROPERTY])
    brokers = [message.broker for message in stored]
    assert brokers in ([BROKER, "broker-b"] * 2, ["broker-b", BROKER] * 2)
    assert len({(message.broker, message.queue_id) for message in stored}) == 4


def test_writes_begin_at_a_queue_by_their_name(broker: EmbeddedBroker) -> None:
    topic, names = create_topic(broker, "writes", 4), [f"night-{night}" for night in range(16)]

    for _ in range(2):
        for number, name in enumerate(names):
            send_all(broker, [out(topic, number)], first_turn(name, 0, 0))

    stored = by_queue(broker.messages(topic))
    assert len(stored) == 4
    assert all(count == 2 for rows in stored.values() for count in Counter(rows).values())


def test_rows_with_one_sharding_key_go_where_a_producer_sends_them_in_order(
    broker: EmbeddedBroker,
) -> None:
    topic = create_topic(broker, "shards", 4)
    keys = [f"customer-{number % 17}" for number in range(2_000)]

    send_all(
        broker,
        (out(topic, row, b"x" * 200, Target(sharding_key=key)) for row, key in enumerate(keys)),
        batch_bytes=8_192,
        in_flight=8,
    )

    stored = by_queue(broker.messages(topic))
    with PackingProducer("judge", namesrv=broker.namesrv) as producer:
        queues = producer.queues(topic)
    for queue_id, rows in stored.items():
        assert rows == sorted(rows)
        assert {queue_of_key(queues, keys[row]).queue_id for row in rows} == {queue_id}
    assert sum(map(len, stored.values())) == 2_000


def test_a_row_goes_to_the_queue_it_names_or_is_refused(two_brokers: EmbeddedBroker) -> None:
    topic = create_topic(two_brokers, "named", 2)
    rows = [
        out(topic, 0, target=Target(queue_id=1)),
        out(topic, 1, target=Target(queue_id=1, broker="broker-b")),
        out(topic, 2, target=Target(place=0)),
        out(topic, 3, target=Target(place=3)),
    ]

    send_all(two_brokers, rows)

    stored = sorted(
        (int(m.properties[ROW_PROPERTY][-1]), m.broker, m.queue_id)
        for m in two_brokers.messages(topic)
    )
    assert stored == [
        (0, BROKER, 1),
        (1, "broker-b", 1),
        (2, BROKER, 0),
        (3, "broker-b", 1),
    ]
    for target, said in (
        (Target(queue_id=9), "no such queue"),
        (Target(queue_id=0, broker="broker-x"), "no such queue on broker-x"),
        (Target(place=4), "has 4 queues"),
    ):
        with pytest.raises(InvalidSetting, match=said):
            send_all(two_brokers, [out(topic, 0, target=target)])


def test_what_cannot_be_in_a_batch_goes_alone(broker: EmbeddedBroker) -> None:
    topic = create_topic(broker, "alone", 1)
    before = broker.delayed()
    delayed = OutRow(Message(topic, b"later", delay_level=17), ANYWHERE)
    large = out(topic, 1, bytes(range(256)) * 512)

    sending = send_all(broker, [delayed, large, out(topic, 2)], batch_bytes=65_536)

    assert sending.requests == 3
    assert broker.delayed() == before + 1
    assert sorted(len(message.body) for message in broker.messages(topic)) == [1, 131_072]


@pytest.mark.parametrize("lost", ["request", "answer", "connection"])
@pytest.mark.parametrize("target", [ANYWHERE, Target(queue_id=0)])
def test_a_request_that_got_no_answer_is_sent_again(
    own_broker: EmbeddedBroker, lost: str, target: Target
) -> None:
    def send(timeout_ms: int) -> None:
        topic = create_topic(own_broker, f"lossy-{timeout_ms}", 1)
        own_broker.drop_next(RequestCode.SEND_BATCH_MESSAGE, lost=lost)  # type: ignore[arg-type]  # a parameter
        rows = [out(topic, row, target=target) for row in range(10)]

        send_all(own_broker, rows, timeout_ms=timeout_ms)

        stored = by_queue(own_broker.messages(topic))[0]
        assert stored == list(range(10)) * (2 if lost == "answer" else 1)

    in_enough_time(send)


def test_a_message_alone_is_sent_again_too(own_broker: EmbeddedBroker) -> None:
    topic = create_topic(own_broker, "lossy", 1)
    own_broker.drop_next(RequestCode.SEND_MESSAGE_V2, lost="connection")
    row = OutRow(Message(topic, b"later", delay_level=17), Target(queue_id=0))

    send_all(own_broker, [row], timeout_ms=15_000)

    assert own_broker.delayed() == 1


@pytest.mark.parametrize("target", [ANYWHERE, Target(queue_id=1)], ids=["anywhere", "one queue"])
def test_rows_are_sent_when_their_broker_is_back(
    own_broker: EmbeddedBroker, target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    topic = create_topic(own_broker, "restarted", 2)
    rows = [out(topic, row, target=target) for row in range(100)]

    with back_after(lambda: f"nothing is sent to {topic}" in caplog.text, own_broker, BROKER):
        send_all(own_broker, rows, timeout_ms=500)

    stored = by_queue(own_broker.messages(topic))
    assert {row for numbers in stored.values() for row in numbers} == set(range(100))


def test_without_retries_a_lost_request_fails_the_task(own_broker: EmbeddedBroker) -> None:
    topic = create_topic(own_broker, "strict", 1)
    own_broker.drop_next(RequestCode.SEND_BATCH_MESSAGE, count=5)

    with pytest.raises(Unreachable):
        send_all(own_broker, [out(topic, 0), out(topic, 1)], timeout_ms=200, retries=0)

    assert own_broker.messages(topic) == []


def brokers_with(servers: EmbeddedBroker, topic: str) -> set[str]:
    """The brokers that have messages of a topic."""
    return {message.broker for message in servers.messages(topic)}


def test_when_one_broker_is_down_the_other_takes_all(two_brokers: EmbeddedBroker) -> None:
    topic = create_topic(two_brokers, "failover", 2)

    def some() -> Iterator[OutRow]:
        for row in range(40):
            if row == 20:
                two_brokers.wait_for(lambda: "broker-b" in brokers_with(two_brokers, topic))
                two_brokers.stop_broker("broker-b")
            yield out(topic, row, b"x" * 900)

    send_all(two_brokers, some(), batch_bytes=4_096, in_flight=1, timeout_ms=15_000)

    two_brokers.start_broker("broker-b")
    both = {BROKER, "broker-b"}
    two_brokers.wait_for(lambda: brokers_with(two_brokers, topic) == both)
    messages = two_brokers.messages(topic)
    rows = [row for numbers in by_queue(messages).values() for row in numbers]
    assert sorted(rows) == list(range(40))


def test_what_no_broker_takes_fails_the_task_at_once(broker: EmbeddedBroker) -> None:
    topic = create_topic(broker, "refused", 1)

    with pytest.raises(BodyTooLarge):
        send_all(broker, [out(topic, 0, b"x" * (5 * 1024 * 1024))])


def test_rows_for_very_many_queues_are_sent_before_they_fill_the_memory(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = create_topic(broker, "wide", 16)
    monkeypatch.setattr(sink_send, "PENDING_BYTES_MAX", 20_000)

    sending = send_all(
        broker, (out(topic, row, b"x" * 900, Target(queue_id=row % 16)) for row in range(160))
    )

    assert sending.requests > 16
    for queue_id, rows in by_queue(broker.messages(topic)).items():
        assert rows == list(range(queue_id, 160, 16))
