"""A task of a replay sends each dead letter as it was, keeps time, and gives up in good time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import Row

from flintmq.arrow.reading.access import Access
from flintmq.core.admin.dead_letters import ReplayTo
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import InvalidSetting
from flintmq.model.queue import QueueOffset, QueueRef, Span
from flintmq.protocol.codes import RequestCode
from flintmq.spark.pipelines.dead_letter_replay import ReplayLog, pieces
from flintmq.spark.pipelines.dead_letter_replay_task import (
    FAILURES_MAX,
    Sender,
    TaskPlan,
    send_rows,
)
from support.spark.support import create_topic

FAST = 1_000.0
STORED_MS = 1_794_803_628_010


def letter(offset: int, topic: str) -> Row:
    carried = {
        "KEYS": f"k-{offset}",
        "TAGS": "a",
        "UNIQ_KEY": f"{offset:032X}",
        "shop": "north",
        "RETRY_TOPIC": topic,
        "DLQ_ORIGIN_TOPIC": topic,
        "DELAY": "3",
    }
    return Row(
        broker="broker-a",
        queue_id=0,
        queue_offset=offset,
        message_id=f"{offset:032X}",
        topic=topic,
        properties=carried,
        body=bytearray(b"body %d" % offset),
        flag=7,
        store_time=datetime.fromtimestamp(STORED_MS / 1000, UTC),
    )


def plan(servers: EmbeddedBroker, rate: float = FAST, **more: Any) -> TaskPlan:
    access = Access((servers.namesrv,))
    return TaskPlan(access, "billing", more.pop("to", ReplayTo.TOPIC), rate, **more)


@pytest.fixture(scope="module")
def servers() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        create_topic(running, "orders")
        yield running


def test_a_dead_letter_comes_back_as_it_was(servers: EmbeddedBroker) -> None:
    told = list(send_rows(plan(servers))(letter(n, "orders") for n in range(3)))

    assert [(row.queue_offset, row.outcome) for row in told] == [(n, "sent") for n in range(3)]
    messages = servers.messages("orders")[-3:]
    assert [message.body for message in messages] == [b"body 0", b"body 1", b"body 2"]
    first = messages[0]
    assert (first.message_id, first.keys, first.tags) == ("0" * 32, ("k-0",), "a")
    assert (first.flag, first.reconsume_times, first.properties["shop"]) == (7, 0, "north")
    assert not first.properties.keys() & {"RETRY_TOPIC", "DLQ_ORIGIN_TOPIC", "DELAY"}
    assert first.properties["DLQ_REPLAY_OF"] == f"broker-a/0/0/{STORED_MS}"


def test_it_goes_no_faster_than_its_share(servers: EmbeddedBroker) -> None:
    start_s = time.monotonic()
    with plan(servers).access.open() as line:
        sender = Sender(line, plan(servers, rate=20.0))
        outcomes = [sender.send_when_due(letter(n, "orders")).outcome for n in range(5)]

    assert outcomes == ["sent"] * 5
    assert time.monotonic() - start_s >= 4 / 20


def test_a_refusal_that_passes_is_tried_again(servers: EmbeddedBroker) -> None:
    servers.drop_next(RequestCode.SEND_MESSAGE_V2, lost="connection")
    with plan(servers).access.open() as line:
        told = Sender(line, plan(servers)).send_when_due(letter(50, "orders"))

    assert told.outcome == "sent"
    assert servers.messages("orders")[-1].body == b"body 50"


def test_after_many_failures_nothing_more_is_tried(
    servers: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flintmq.spark.pipelines.dead_letter_replay_task.TRIES", 1)
    with plan(servers).access.open() as line:
        sender = Sender(line, plan(servers, done=frozenset({("broker-a", 0, 99)})))
        told = [sender.send_when_due(letter(n, "nowhere")) for n in range(FAILURES_MAX)]
        after = sender.send_when_due(letter(98, "orders"))
        before = sender.send_when_due(letter(99, "orders"))

    assert {row.outcome for row in told} == {"failed"}
    assert "nowhere" in str(told[0].error)
    assert (after.outcome, before.outcome) == ("not tried", "passed over")


def test_spans_are_sent_in_pieces_the_oldest_first() -> None:
    spans = [
        Span(QueueRef("t", "a", 0), QueueOffset(5), QueueOffset(12)),
        Span(QueueRef("t", "a", 1), QueueOffset(3), QueueOffset(3)),
        Span(QueueRef("t", "b", 0), QueueOffset(0), QueueOffset(2)),
    ]

    found = [[(span.start, span.stop) for span in piece] for piece in pieces(spans, 6)]

    assert found == [
        [(5, 8), (3, 3), (0, 2)],
        [(8, 11), (3, 3), (2, 2)],
        [(11, 12), (3, 3), (2, 2)],
    ]
    assert list(pieces(spans[1:2], 6)) == []


def test_a_log_is_not_confused_with_another_file(tmp_path: Any) -> None:
    (tmp_path / "notes.csv").write_text("a,b\n1,2\n")

    with pytest.raises(InvalidSetting, match="no log of a replay"):
        ReplayLog(tmp_path / "notes.csv").sent("billing")
    with pytest.raises(InvalidSetting, match="no directory"):
        ReplayLog(tmp_path / "nowhere" / "log.csv")
