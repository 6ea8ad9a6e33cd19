"""Dead letters are counted by topic, reason and day, and the part that is chosen is sent again."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from flintmq import DeadLetter, Message, ReceivedMessage
from flintmq.core.admin.dead_letters import ReplayTo
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import InvalidSetting
from flintmq.spark import dead_letter_report, dead_letters, plan_replay
from flintmq.spark.outcomes.outcome_rows import OUTCOME_SCHEMA
from flintmq.spark.pipelines.dead_letter_replay import ReplayPlan
from support.cli.asking import Shell
from support.spark.support import create_topic, wait_for

GROUP = "billing"
PNG = b"\x89PNG\r\n\x1a\n"


def bury(broker: EmbeddedBroker, topic: str, *messages: Message) -> None:
    """Have the group give these up."""

    def listen(_messages: tuple[ReceivedMessage, ...]) -> None:
        raise DeadLetter("broken")

    before = len(broker.messages(f"%DLQ%{GROUP}"))
    consumer = broker.push_consumer(GROUP, listen, start_from="first")
    with broker.producer("shop") as producer, consumer.subscribe(topic):
        for message in messages:
            producer.send(message)
        wait_for(lambda: len(broker.messages(f"%DLQ%{GROUP}")) == before + len(messages))


@pytest.fixture(scope="module")
def buried() -> Iterator[EmbeddedBroker]:
    """Six dead letters of two topics, buried on two days."""
    with EmbeddedBroker() as running:
        for topic in ("orders", "mails"):
            create_topic(running, topic)
        orders = [
            Message(
                "orders",
                b"order %d" % n,
                keys=[f"k-{n}"],
                tags="even" if n % 2 == 0 else "odd",
                properties={"why": "no such customer"} if n < 2 else {},
            )
            for n in range(4)
        ]
        bury(running, "orders", *orders)
        running.advance(86_400)
        bury(running, "mails", *(Message("mails", b"mail %d" % n) for n in range(2)))
        yield running


def outcomes(spark: SparkSession, broker: EmbeddedBroker) -> Any:
    """What a run on Spark would have kept of the four orders."""
    at = datetime(2026, 11, 15, tzinfo=UTC)
    letters = [each for each in broker.messages(f"%DLQ%{GROUP}") if each.body[:5] == b"order"]
    rows = [
        ("orders", "orders", "broker-a", 0, n, each.message_id, kind, 0, at, 1.0, error, None, True)
        for n, each in enumerate(letters)
        for kind, error in (
            ("sent back", "not this one"),
            ("dead", f"KeyError: 'customer {n}00'\nTraceback …"),
        )
    ]
    return spark.createDataFrame(rows, OUTCOME_SCHEMA)


def test_they_are_counted_by_topic_reason_and_day(
    spark: SparkSession, buried: EmbeddedBroker, tmp_path: Path
) -> None:
    known = outcomes(spark, buried)
    letters = buried.messages(f"%DLQ%{GROUP}")
    days = [
        datetime.fromtimestamp(letter.store_ms / 1000, UTC).date().isoformat() for letter in letters
    ]

    report = dead_letter_report(
        spark, GROUP, str(tmp_path / "out"), outcomes=known, namesrv=buried.namesrv
    )

    assert report.messages == 6
    found = [(each.topic, each.reason, each.day, each.messages) for each in report.groups]
    assert found == [
        ("orders", "KeyError: 'customer #'", days[0], 4),
        ("mails", "broken", days[-1], 2),
    ]
    assert report.groups[0].first_ms == min(letter.store_ms for letter in letters)
    with (tmp_path / "out" / "dead_letters.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["topic"], line["messages"]) for line in lines] == [
        ("orders", "4"),
        ("mails", "2"),
    ]
    table = pq.read_table(tmp_path / "out" / "dead_letters.parquet")
    assert table.column("messages").to_pylist() == [4, 2]
    picture = (tmp_path / "out" / "dead_letters.png").read_bytes()
    assert picture.startswith(PNG)
    assert len(picture) > 10_000


def test_a_property_says_why_and_a_condition_chooses(
    spark: SparkSession, buried: EmbeddedBroker
) -> None:
    frame = dead_letters(spark, GROUP, namesrv=buried.namesrv, reason_property="why", tags="even")

    rows = {(row.topic, row.reason, tuple(row["keys"]), row.tries) for row in frame.collect()}

    assert rows == {
        ("orders", "no such customer", ("k-0",), 1),
        ("orders", "broken", ("k-2",), 1),
    }
    with pytest.raises(InvalidSetting, match="columns of their own"):
        dead_letters(spark, GROUP, namesrv=buried.namesrv, columns="body")
    some = spark.range(1).selectExpr("'x' message_id", "'dead' outcome", "now() started_time")
    with pytest.raises(InvalidSetting, match="no column error"):
        dead_letters(spark, GROUP, outcomes=some, namesrv=buried.namesrv)


def test_a_chosen_part_is_sent_again_and_with_its_log_only_once(
    spark: SparkSession, buried: EmbeddedBroker, tmp_path: Path
) -> None:
    def plan(**choice: Any) -> ReplayPlan:
        made: ReplayPlan = plan_replay(spark, GROUP, namesrv=buried.namesrv, **choice)
        return made

    before = len(buried.messages("orders"))
    [day] = {each.day for each in plan(topics=["mails"]).chosen}
    chosen = plan(where="topic = 'orders' and exists(keys, k -> k in ('k-1', 'k-2', 'k-3'))")
    assert chosen.messages == 3
    assert len(buried.messages("orders")) == before
    assert plan(days=[day]).messages == 2
    log, seen = str(tmp_path / "log.csv"), []

    first = chosen.run(to=ReplayTo.TOPIC, rate=500, log=log, progress=lambda *far: seen.append(far))
    second = plan(topics=["orders"]).run(to=ReplayTo.TOPIC, rate=500, log=log)

    assert (first.sent, first.failed, first.not_tried) == (3, 0, 0)
    assert seen == [(6, 6)]
    assert (second.sent, second.passed_over, second.not_tried) == (1, 3, 0)
    again = buried.messages("orders")[before:]
    assert sorted(message.body for message in again) == [b"order %d" % n for n in range(4)]
    assert {message.message_id for message in again} == {
        message.message_id for message in buried.messages("orders")[:before]
    }
    with pytest.raises(AnalysisException):
        plan(where="nothing = 1")
    with pytest.raises(InvalidSetting, match="takes no messages"):
        plan_replay(spark, GROUP, store=str(buried.directory))


def test_a_report_without_spark_says_the_same(spark: SparkSession, buried: EmbeddedBroker) -> None:
    user = Shell(buried.namesrv)
    options = ("dlq", "report", GROUP, "--reason-property", "why")

    assert user.facts(*options) == user.facts(*options, "--spark", "local[1]")
    assert user.facts(*options, "--tag", "even") == user.facts(
        *options, "--tag", "even", "--spark", "local[1]"
    )


def test_the_commands_show_first_and_then_send(
    spark: SparkSession, buried: EmbeddedBroker, tmp_path: Path
) -> None:
    user = Shell(buried.namesrv)
    before = len(buried.messages(f"%RETRY%{GROUP}"))

    page = user.told("dlq", "report", GROUP, "--out", str(tmp_path))
    dry = user.told("dlq", "bulk-replay", GROUP, "--topic", "mails", "--dry-run")
    nothing_sent = len(buried.messages(f"%RETRY%{GROUP}")) == before
    sent = json.loads(
        user.told(
            *("dlq", "bulk-replay", GROUP, "--topic", "mails", "--yes", "--rate", "100"),
            *("--output", "json"),
        )
    )
    code, words = user.complaint("dlq", "report", GROUP, "--where", "nothing = 1")

    assert "6 dead letters in 2 lines" in page
    assert (tmp_path / "dead_letters.png").read_bytes().startswith(PNG)
    assert "2 dead letters to the group, 10 a second" in dry
    assert nothing_sent
    assert (sent["sent"], sent["failed"]) == (2, 0)
    again = buried.messages(f"%RETRY%{GROUP}")[before:]
    assert {message.properties["RETRY_TOPIC"] for message in again} == {"mails"}
    assert code == 1
    assert "nothing" in words
