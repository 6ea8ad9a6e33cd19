"""A report counts what topics hold: rates, sizes, tags, keys, latencies and retries, over time."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flintmq import DeadLetter, ReceivedMessage
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import InvalidSetting
from flintmq.reports.topic_figures import (
    ALL,
    NameCount,
    Numbers,
    RetryCount,
    Step,
    choose_step_ms,
)
from flintmq.reports.topic_files import TopicReport
from flintmq.reports.topic_plot import plot_topics
from flintmq.spark import topic_report
from support.cli.asking import Shell
from support.spark.support import create_topic, send, wait_for

PNG = b"\x89PNG\r\n\x1a\n"
HOUR_S = 3_600


@pytest.fixture(scope="module")
def shop() -> Iterator[EmbeddedBroker]:
    """Two topics over two hours; of the orders one is retried, and one dies."""
    with EmbeddedBroker() as running:
        create_topic(running, "orders", 2)
        create_topic(running, "mails")
        send(running, "orders", ["x" * 10] * 8, queue_id=0, tags="new", keys=["ann"])
        send(running, "orders", ["x" * 1000], queue_id=1, keys=["ann", "bob"])
        running.advance(2 * HOUR_S)
        send(running, "orders", ["again"], queue_id=0, tags="old")
        send(running, "orders", ["dead"], queue_id=0, tags="old")
        send(running, "mails", ["mail"] * 3, tags="new")

        def listen(messages: tuple[ReceivedMessage, ...]) -> None:
            if messages[0].body == b"again" and messages[0].reconsume_times == 0:
                raise ValueError("not yet")
            if messages[0].body == b"dead":
                raise DeadLetter("never")

        with running.push_consumer("billing", listen, start_from="first").subscribe("orders"):
            wait_for(lambda: running.delayed() == 1 and running.messages("%DLQ%billing"))
            running.advance(60)
            wait_for(lambda: running.messages("%RETRY%billing") and running.lag("billing") == 0)
        yield running


def test_everything_is_counted_for_each_topic_and_step(
    spark: SparkSession, shop: EmbeddedBroker, tmp_path: Path
) -> None:
    report = topic_report(
        spark,
        ["orders", "mails"],
        str(tmp_path),
        step_ms=HOUR_S * 1000,
        namesrv=shop.namesrv,
    )

    by_topic = {each.topic: each for each in report.summary}
    orders = by_topic["orders"]
    times = [message.store_ms for message in shop.messages("orders")]
    assert {topic: each.messages for topic, each in by_topic.items()} == {
        ALL: 14,
        "orders": 11,
        "mails": 3,
    }
    assert (orders.body_bytes, orders.sizes) == (1_089, (10, 10, 1_000, 1_000))
    assert (orders.first_ms, orders.last_ms) == (min(times), max(times))
    assert (orders.untagged, orders.without_key) == (1, 2)
    assert all(latency is not None for latency in orders.latencies_ms)
    steps = {
        (each.start_ms, each.numbers.topic): each.numbers.messages
        for each in report.steps
        if each.numbers.topic != ALL
    }
    first, last = (time // 3_600_000 * 3_600_000 for time in (min(times), max(times)))
    assert steps == {(first, "orders"): 9, (last, "orders"): 2, (last, "mails"): 3}
    tags = {(each.topic, each.name): each.messages for each in report.tags}
    assert tags["orders", "new"] == 8
    assert tags["orders", None] == 1
    assert tags[ALL, "new"] == 11
    assert [(each.name, each.messages) for each in report.keys if each.topic == ALL] == [
        ("ann", 9),
        ("bob", 1),
    ]
    assert [(each.topic, each.group, each.kind, each.messages) for each in report.retries] == [
        ("orders", "billing", "dead letter", 1),
        ("orders", "billing", "retry", 1),
    ]
    with (tmp_path / "summary.csv").open(newline="") as file:
        lines = {line["topic"]: line for line in csv.DictReader(file)}
    assert (lines["orders"]["retries"], lines["orders"]["dead_letters"]) == ("1", "1")
    assert lines["orders"]["size_p99_bytes"] == "1000"
    assert (tmp_path / "report.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("filtered", [(), ("--tag", "new"), ("--since", "1h", "--step", "600")])
def test_a_report_without_spark_says_the_same(
    spark: SparkSession, shop: EmbeddedBroker, filtered: tuple[str, ...]
) -> None:
    user = Shell(shop.namesrv)
    options = ("topic", "report", "orders", "mails", *filtered)

    assert user.facts(*options) == user.facts(*options, "--spark", "local[1]")


def test_a_command_reports_on_a_whole_store_directory(
    spark: SparkSession, shop: EmbeddedBroker, tmp_path: Path
) -> None:
    user = Shell("127.0.0.1:1")

    page = user.told(
        *("topic", "report", "--store", str(shop.directory), "--out", str(tmp_path / "out"))
    )

    assert "orders" in page
    assert "1 retries, 1 dead letters" in page
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("summary.csv", "over_time.csv", "tags.csv", "keys.csv", "retries.csv", "report.png")
    }


def test_a_topic_without_messages_has_a_report_too(
    spark: SparkSession, shop: EmbeddedBroker, tmp_path: Path
) -> None:
    create_topic(shop, "silent")

    report = topic_report(spark, "silent", str(tmp_path), namesrv=shop.namesrv)

    assert (report.total.messages, report.steps, report.retries) == (0, (), ())
    assert (tmp_path / "report.png").read_bytes().startswith(PNG)
    with pytest.raises(InvalidSetting, match="name a topic"):
        topic_report(spark, namesrv=shop.namesrv)


def test_a_step_is_one_that_people_use() -> None:
    assert choose_step_ms(None, 0, None) == 1_000
    assert choose_step_ms(0, 200_000, None) == 1_000
    assert choose_step_ms(0, 200_001, None) == 2_000
    assert choose_step_ms(0, 86_400_000, None) == 600_000
    assert choose_step_ms(0, 86_400_000, 1_234) == 1_234
    with pytest.raises(InvalidSetting, match="more than"):
        choose_step_ms(0, 86_400_000, 1)


def test_a_picture_is_drawn_of_whatever_was_counted(tmp_path: Path) -> None:
    def numbers(topic: str, latency: int | None) -> Numbers:
        return Numbers(topic, 5, 50, 0, 9_000, (1, 2, 3, 4), (latency,) * 4, 1, 0, 0)

    steps = [
        Step(start, numbers(topic, latency))
        for start, latency in ((0, -3), (8_000, 90_000), (9_000, None))
        for topic in (ALL, "$a$")
    ]
    retries = (RetryCount(12_000, "$a$", "g", "retry", 3),)
    report = TopicReport(
        (numbers(ALL, 1), numbers("$a$", 1)),
        1_000,
        tuple(steps),
        (NameCount(ALL, None, 3), NameCount(ALL, "with\x02control", 2)),
        (),
        retries,
    )

    plot_topics(report, tmp_path / "report.png")

    assert (tmp_path / "report.png").read_bytes().startswith(PNG)
