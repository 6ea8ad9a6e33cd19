"""The source process of a query: what the next batch is, how it waits, and the group's offset."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from flintmq.client.admin import Admin
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.embedded.servers import Servers
from flintmq.errors import MessagesLost, Unreachable
from flintmq.model.queue import QueueRef
from flintmq.protocol.codes import RequestCode
from flintmq.spark.options.source_options import SourceOptions
from flintmq.spark.source import stream, stream_driver
from flintmq.spark.source.stream import StreamReader
from flintmq.spark.source.stream_driver import StreamDriver
from flintmq.spark.source.stream_offset import StreamOffset
from support.spark.support import BROKER, create_topic, forget_old, forgetful, lag, send, wait_for


def driver(servers: EmbeddedBroker, **options: object) -> closing[StreamDriver]:
    given = {name: str(value) for name, value in options.items()}
    parsed = SourceOptions.parse({"namesrv": servers.namesrv, **given}, stream=True)
    return closing(StreamDriver(parsed))


def spans(offset: StreamOffset) -> dict[int, tuple[int, int]]:
    return {span.queue.queue_id: (span.start, span.stop) for span in offset.spans}


def until_new(source: StreamDriver, offset: StreamOffset) -> StreamOffset:
    """Ask as Spark does until there is a batch."""
    found = [offset]

    def look() -> bool:
        found.append(source.latest(offset))
        return found[-1] != offset

    wait_for(look)
    return found[-1]


@contextmanager
def counted(servers: EmbeddedBroker) -> Iterator[Counter[int]]:
    """How often the broker was asked what."""
    counts: Counter[int] = Counter()

    def watch(running: Servers) -> Callable[[], None]:
        engine = running.brokers[BROKER].engine
        serve = engine.serve

        def counting(request: Any, *rest: Any) -> None:
            counts[request.code] += 1
            serve(request, *rest)

        setattr(engine, "serve", counting)  # noqa: B010  # mypy minds the other way
        return lambda: setattr(engine, "serve", serve)

    undo = servers.call(watch)
    try:
        yield counts
    finally:
        servers.call(lambda _: undo())


def test_starts_at_the_end_and_takes_what_comes_then(broker: EmbeddedBroker) -> None:
    create_topic(broker, "news", 2)
    send(broker, "news", ["old"] * 3)

    with driver(broker, subscribe="news") as source:
        first = source.initial()
        before = source.latest(first)
        send(broker, "news", ["new"] * 2)
        after = source.latest(before)

    assert spans(first) == {0: (3, 3), 1: (0, 0)}
    assert before == first
    assert spans(after) == {0: (3, 5), 1: (0, 0)}


def test_a_batch_is_cut_into_tasks_by_queue(broker: EmbeddedBroker) -> None:
    create_topic(broker, "tasks", 2)
    send(broker, "tasks", ["a"] * 10, queue_id=0)
    send(broker, "tasks", ["a"], queue_id=1)

    with driver(broker, subscribe="tasks", startingOffsets="earliest", minPartitions=3) as source:
        parts = source.parts(source.latest(source.initial()))

    assert [(p.span.queue.queue_id, p.span.start, p.span.stop, p.partition) for p in parts] == [
        (0, 0, 5, 0),
        (0, 5, 10, 0),
        (1, 0, 1, 1),
    ]
    assert {part.origin for part in parts} == {broker.broker}


def test_a_queue_that_is_added_starts_with_its_oldest_message(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flintmq.arrow.reading.route_cache.ROUTE_MS", 0)
    create_topic(broker, "growing", 1)
    with driver(broker, subscribe="growing") as source:
        offset = source.latest(source.initial())
        with Admin(namesrv=broker.namesrv) as admin:
            admin.update_topic("growing", read_queues=2, write_queues=2)
        wait_for(lambda: len(_queues(broker, "growing")) == 2)
        send(broker, "growing", ["first", "second"], queue_id=1)
        found = until_new(source, offset)

    assert spans(found) == {0: (0, 0), 1: (0, 2)}


def _queues(servers: EmbeddedBroker, topic: str) -> list[QueueRef]:
    with Admin(namesrv=servers.namesrv) as admin:
        return admin.route(topic).subscribe_queues(topic)


def test_a_stream_survives_the_removal_of_a_queue_that_it_was_assigned(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flintmq.arrow.reading.route_cache.ROUTE_MS", 0)
    create_topic(broker, "fading", 2)
    chosen = f'{{"fading": {{"{BROKER}": [0, 1]}}}}'
    with driver(broker, assign=chosen, failOnDataLoss=False) as source:
        first = source.latest(source.initial())
        with Admin(namesrv=broker.namesrv) as admin:
            admin.update_topic("fading", read_queues=1, write_queues=1)
        wait_for(lambda: len(_queues(broker, "fading")) == 1)
        send(broker, "fading", ["new"], queue_id=0)
        found = until_new(source, first)

    assert spans(found)[0] == (0, 1)


def test_an_idle_source_reads_the_same_offset_once(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(broker, "read-once", 2)
    monkeypatch.setattr(stream_driver, "IDLE_MS", 1)
    given = {"namesrv": broker.namesrv, "subscribe": "read-once"}
    reader = StreamReader(SourceOptions.parse(given, stream=True))
    read: list[Any] = []
    plain = StreamOffset.from_json

    def counting(tree: dict[str, Any]) -> StreamOffset:
        read.append(tree)
        return plain(tree)

    monkeypatch.setattr(StreamOffset, "from_json", counting)
    try:
        start = reader.initialOffset()
        for _ in range(5):
            asked = json.loads(json.dumps(start))
            assert reader.latestOffset(asked, reader.getDefaultReadLimit()) == start
        send(broker, "read-once", ["a"])
        wait_for(lambda: reader.latestOffset(start, reader.getDefaultReadLimit()) != start)
    finally:
        reader.stop()

    assert read == [start]


def test_an_idle_source_asks_few_questions(broker: EmbeddedBroker) -> None:
    create_topic(broker, "quiet", 4)
    with driver(broker, subscribe="quiet") as source:
        offset = source.latest(source.initial())
        source.latest(offset)
        with counted(broker) as asked:
            start_s = time.monotonic()
            for _ in range(4):
                assert source.latest(offset) == offset
            took_s = time.monotonic() - start_s

    assert took_s > 0.9 * 4 * stream_driver.IDLE_MS / 1000
    assert asked[RequestCode.GET_TOPIC_STATS_INFO] <= 4
    assert asked[RequestCode.PULL_MESSAGE] == 0, "one pull of each queue is held already"


def test_a_message_ends_the_wait_at_once(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_driver, "IDLE_MS", 60_000)
    create_topic(broker, "prompt", 2)
    with driver(broker, subscribe="prompt") as source:
        offset = source.latest(source.initial())
        found: list[StreamOffset] = []
        waiting = threading.Thread(target=lambda: found.append(source.latest(offset)))
        waiting.start()
        send(broker, "prompt", ["new"], queue_id=1)
        waiting.join(60)

    assert [spans(offset) for offset in found] == [{0: (0, 0), 1: (0, 1)}]


def test_what_is_there_now_is_all_that_is_read(broker: EmbeddedBroker) -> None:
    create_topic(broker, "frozen")
    send(broker, "frozen", ["a"] * 5)
    with driver(
        broker, subscribe="frozen", startingOffsets="earliest", maxOffsetsPerTrigger=3
    ) as source:
        source.freeze()
        send(broker, "frozen", ["late"])
        first = source.latest(source.initial())
        second = source.latest(first)
        third = source.latest(second)

    assert [spans(first), spans(second)] == [{0: (0, 3)}, {0: (3, 5)}]
    assert third == second


def test_a_limit_in_bytes_goes_by_the_size_of_messages(broker: EmbeddedBroker) -> None:
    create_topic(broker, "heavy")
    send(broker, "heavy", ["x" * 10_000] * 40)

    with driver(
        broker, subscribe="heavy", startingOffsets="earliest", maxBytesPerTrigger=100_000
    ) as source:
        [(start, stop)] = spans(source.latest(source.initial())).values()

    assert start == 0
    assert 8 <= stop <= 10


def test_the_groups_offset_follows_finished_batches(broker: EmbeddedBroker) -> None:
    create_topic(broker, "followed", 2)
    send(broker, "followed", ["a"] * 4)
    options = {"subscribe": "followed", "startingOffsets": "earliest", "consumerGroup": "follower"}
    with driver(broker, **options) as source:
        first = source.initial()
        batch = source.latest(first)
        assert lag(broker, "follower") is None, "nothing is finished yet"

        assert source.latest(batch) == batch

        assert lag(broker, "follower") == 0
    with driver(broker, subscribe="followed", consumerGroup="follower") as source:
        assert spans(source.initial()) == {0: (4, 4), 1: (0, 0)}


def test_deleted_messages_are_an_error_or_a_warning() -> None:
    with forgetful() as servers:
        create_topic(servers, "fading")
        send(servers, "fading", ["x" * 100] * 200, batch=10)
        with driver(servers, subscribe="fading", startingOffsets="earliest") as source:
            start = source.initial()
        forget_old(servers)

        with driver(servers, subscribe="fading") as source, pytest.raises(MessagesLost):
            source.latest(start)
        with driver(servers, subscribe="fading", failOnDataLoss="false") as source:
            [(first, stop)] = spans(source.latest(start)).values()

    assert 0 < first < stop == 200


def test_silent_brokers_are_waited_for(two_brokers: EmbeddedBroker) -> None:
    create_topic(two_brokers, "patient")
    with driver(two_brokers, subscribe="patient", retryTimeout="30s") as source:
        offset = source.latest(source.initial())
        two_brokers.stop_broker("broker-a")
        two_brokers.stop_broker("broker-b")
        assert source.latest(offset) == offset
        two_brokers.start_broker("broker-a")
        two_brokers.start_broker("broker-b")
        send(two_brokers, "patient", ["a"])
        wait_for(lambda: source.latest(offset) != offset)

    with driver(two_brokers, subscribe="patient", retryTimeout="0s") as source:
        offset = source.latest(source.initial())
        two_brokers.stop_broker("broker-a")
        two_brokers.stop_broker("broker-b")
        with pytest.raises(Unreachable):
            wait_for(lambda: source.latest(offset) != offset)


def test_topics_of_a_pattern_are_found_while_it_runs(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_driver, "CHOOSE_MS", 0)
    create_topic(broker, "like-a")
    with driver(broker, subscribePattern="like-.*") as source:
        offset = source.latest(source.initial())
        create_topic(broker, "like-b")
        send(broker, "like-b", ["x", "y"])
        found = until_new(source, offset)

    assert {(s.queue.topic, s.start, s.stop) for s in found.spans} == {
        ("like-a", 0, 0),
        ("like-b", 0, 2),
    }


def test_reports_where_queues_end(broker: EmbeddedBroker) -> None:
    create_topic(broker, "reported")
    send(broker, "reported", ["a"] * 3)
    with driver(broker, subscribe="reported") as source:
        assert source.reported() is None
        source.latest(source.initial())
        reported = source.reported()

    assert reported is not None
    assert spans(reported) == {0: (3, 3)}


def test_a_store_directory_is_a_stream_too(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as servers:
        create_topic(servers, "kept")
        send(servers, "kept", ["a", "b"])
    given = {"store": str(tmp_path), "subscribe": "kept", "startingOffsets": "earliest"}
    options = SourceOptions.parse(given, stream=True)

    with closing(StreamDriver(options)) as source:
        batch = source.latest(source.initial())
        idle = source.latest(batch)
        again = source.latest(batch)

    assert spans(batch) == {0: (0, 2)}
    assert idle == again == batch


def test_a_batch_that_runs_again_has_the_same_tasks_whatever_the_machine(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(broker, "again", 16)
    for queue_id in range(16):
        send(broker, "again", ["x"] * 40, queue_id=queue_id)
    reader = StreamReader(
        SourceOptions.parse(
            {"namesrv": broker.namesrv, "subscribe": "again", "startingOffsets": "earliest"},
            stream=True,
        )
    )
    try:
        monkeypatch.setattr(stream, "driver_cores", lambda: 3)
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        first = reader.partitions(start, end)
        monkeypatch.setattr(stream, "driver_cores", lambda: 64)

        again = reader.partitions(start, end)

        assert [part.parts for part in again] == [part.parts for part in first]  # type: ignore[attr-defined]  # they are ours
        assert 6 <= len(first) < 16
        assert reader.latestOffset(end, reader.getDefaultReadLimit()) is end, "nothing is new"
    finally:
        reader.stop()
