"""A task reads its part whole, whatever the size of the answers, and goes on after a loss."""

from __future__ import annotations

import logging

import pytest

from flintmq.arrow.reading.access import Access
from flintmq.arrow.reading.cluster_pages import RemotePages, check_gap
from flintmq.arrow.reading.queue_source import ReadPart
from flintmq.core.reading.read_span import EVERYTHING, Page, Wanted
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import MessagesLost, Unreachable
from flintmq.model.queue import QueueOffset, QueueRef, Span
from support.spark.support import BROKER, create_topic, forget_old, forgetful, send


def part(servers: EmbeddedBroker, topic: str, start: int, stop: int) -> ReadPart:
    span = Span(QueueRef(topic, BROKER, 0), QueueOffset(start), QueueOffset(stop))
    return ReadPart(span, servers.broker)


def texts(pages: list[Page], wanted: Wanted = EVERYTHING) -> list[str]:
    return [message.body.decode() for page in pages for message in page.messages(wanted)]


def test_reads_its_part_and_nothing_else(broker: EmbeddedBroker) -> None:
    create_topic(broker, "whole")
    send(broker, "whole", map(str, range(100)))

    pages = list(
        RemotePages(Access((broker.namesrv,))).pages(
            part(broker, "whole", 10, 90), EVERYTHING, 1_024
        )
    )

    assert texts(pages) == [str(number) for number in range(10, 90)]
    assert (pages[0].start, pages[-1].stop) == (10, 90)


def test_small_answers_are_joined_into_one_page(broker: EmbeddedBroker) -> None:
    create_topic(broker, "joined")
    send(broker, "joined", map(str, range(100)))

    [page] = RemotePages(Access((broker.namesrv,))).pages(
        part(broker, "joined", 0, 100), EVERYTHING, 7
    )

    assert (page.start, page.stop) == (0, 100)
    assert texts([page]) == [str(number) for number in range(100)]


def test_a_filter_leaves_holes_in_the_offsets(broker: EmbeddedBroker) -> None:
    create_topic(broker, "sparse")
    for number in range(20):
        send(broker, "sparse", [str(number)], tags="odd" if number % 2 else "even")
    wanted = Wanted.by(tags="odd")

    pages = list(
        RemotePages(Access((broker.namesrv,))).pages(part(broker, "sparse", 0, 20), wanted, 4)
    )

    assert texts(pages, wanted) == [str(number) for number in range(1, 20, 2)]
    assert pages[-1].stop == 20


def test_an_empty_part_asks_nobody() -> None:
    nowhere = ReadPart(
        Span(QueueRef("t", BROKER, 0), QueueOffset(3), QueueOffset(3)), "127.0.0.1:1"
    )

    assert list(RemotePages(Access(("127.0.0.1:1",))).pages(nowhere, EVERYTHING, 32)) == []


def test_messages_that_are_gone_are_a_page_with_a_gap(caplog: pytest.LogCaptureFixture) -> None:
    with forgetful() as servers:
        create_topic(servers, "fading")
        send(servers, "fading", ["x" * 100] * 200, batch=10)
        forget_old(servers)
        pages = list(
            RemotePages(Access((servers.namesrv,))).pages(
                part(servers, "fading", 0, 200), EVERYTHING, 32
            )
        )

    gap = pages[0]
    assert gap.gap is not None
    assert gap.gap[0] == 0
    assert len(texts(pages)) == 200 - gap.gap[1] > 0
    with pytest.raises(MessagesLost, match="fading/broker-a/0"):
        check_gap(gap, fail_on_data_loss=True)
    with caplog.at_level(logging.WARNING):
        check_gap(gap, fail_on_data_loss=False)
    assert "are lost" in caplog.text


def test_a_queue_that_ends_early_has_lost_the_rest(broker: EmbeddedBroker) -> None:
    create_topic(broker, "short")
    send(broker, "short", ["a", "b"])

    pages = list(
        RemotePages(Access((broker.namesrv,))).pages(part(broker, "short", 0, 9), EVERYTHING, 32)
    )

    assert texts(pages) == ["a", "b"]
    assert pages[-1].gap == (2, 9)


def test_goes_on_where_it_stands_when_the_broker_comes_back(two_brokers: EmbeddedBroker) -> None:
    create_topic(two_brokers, "lost")
    send(two_brokers, "lost", ["x" * 3_000 + str(number) for number in range(400)])
    reading = RemotePages(Access((two_brokers.namesrv,))).pages(
        part(two_brokers, "lost", 0, 400), EVERYTHING, 20
    )

    first = next(reading)
    two_brokers.stop_broker(BROKER)
    two_brokers.start_broker(BROKER)
    rest = list(reading)

    assert [text.lstrip("x") for text in texts([first, *rest])] == [str(n) for n in range(400)]


def test_a_broker_that_stays_away_is_a_typed_error_after_the_time_for_retries() -> None:
    gone = ReadPart(Span(QueueRef("t", BROKER, 0), QueueOffset(0), QueueOffset(3)), "127.0.0.1:1")

    with pytest.raises(Unreachable, match=r"tried for 0\.3 s"):
        list(RemotePages(Access(("127.0.0.1:1",), retry_ms=300)).pages(gone, EVERYTHING, 32))


def test_several_parts_come_one_after_the_other(broker: EmbeddedBroker) -> None:
    create_topic(broker, "several", 9)
    for queue_id in range(9):
        send(broker, "several", [f"{queue_id}.{n}" for n in range(6)], queue_id=queue_id)
    parts = [
        ReadPart(
            Span(QueueRef("several", BROKER, n), QueueOffset(1), QueueOffset(5)), broker.broker
        )
        for n in range(9)
    ]

    pages = list(RemotePages(Access((broker.namesrv,))).all_pages(parts, EVERYTHING, 2))

    assert texts(pages) == [f"{queue_id}.{n}" for queue_id in range(9) for n in range(1, 5)]
    assert [page.queue.queue_id for page in pages] == sorted(page.queue.queue_id for page in pages)


def test_a_reader_that_leaves_early_takes_its_pulls_with_it(broker: EmbeddedBroker) -> None:
    create_topic(broker, "left", 3)
    parts = []
    for queue_id in range(3):
        send(broker, "left", ["x"] * 4, queue_id=queue_id)
        span = Span(QueueRef("left", BROKER, queue_id), QueueOffset(0), QueueOffset(4))
        parts.append(ReadPart(span, broker.broker))
    reading = RemotePages(Access((broker.namesrv,))).all_pages(parts, EVERYTHING, 2)

    assert texts([next(reading)]) == ["x", "x"]
    reading.close()  # type: ignore[attr-defined]  # it is a generator

    assert list(reading) == []


def test_parts_behind_a_lost_connection_are_read_all_the_same(
    two_brokers: EmbeddedBroker,
) -> None:
    create_topic(two_brokers, "astray", 2)
    parts = []
    for queue_id in range(2):
        send(two_brokers, "astray", [f"{queue_id}"] * 3, queue_id=queue_id)
        span = Span(QueueRef("astray", BROKER, queue_id), QueueOffset(0), QueueOffset(3))
        parts.append(ReadPart(span, "127.0.0.1:1"))  # nobody is there any more

    pages = list(RemotePages(Access((two_brokers.namesrv,))).all_pages(parts, EVERYTHING, 32))

    assert texts(pages) == ["0"] * 3 + ["1"] * 3
