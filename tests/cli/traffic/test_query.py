"""`flintmq query` runs SQL on topics, within limits, and never leaves its process."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import pytest

from flintmq import EmbeddedBroker, Message
from support.cli.asking import Shell


@pytest.fixture(scope="module")
def user() -> Iterator[Shell]:
    with EmbeddedBroker() as running:
        opened = Shell(running.namesrv)
        opened.fill("orders", 10, queues=2)
        opened.fill("orders-eu", 3)
        with running.producer("shop") as producer:
            producer.send(Message("bytes", b"\xff\x00", properties={"own": "1"}))
        yield opened


def test_messages_are_counted_by_sql(user: Shell) -> None:
    sql = "SELECT tags, count(*) AS messages FROM orders GROUP BY 1 ORDER BY 1 NULLS LAST"

    assert user.facts("query", sql) == [
        {"tags": "even", "messages": 5},
        {"tags": None, "messages": 5},
    ]
    assert "even" in user.told("query", sql)


def test_several_topics_are_joined_and_names_may_be_quoted(user: Shell) -> None:
    sql = (
        'WITH eu AS (SELECT body FROM "orders-eu") '
        "SELECT decode(o.body) AS number FROM orders o JOIN eu USING (body) ORDER BY 1"
    )

    done = user.told("query", sql, "--csv")

    assert list(csv.DictReader(io.StringIO(done))) == [{"number": str(n)} for n in range(3)]


def test_times_tags_and_limits_hold(user: Shell) -> None:
    count = "SELECT count(*) AS n FROM orders"

    assert user.facts("query", count, "--tag", "even") == [{"n": 5}]
    assert user.facts("query", count, "--to", "1h") == [{"n": 0}]
    assert user.facts("query", count, "--from", "1h") == [{"n": 10}]
    code, words = user.complaint("query", count, "--max", "3")
    assert code != 0
    assert "3" in words


def test_values_that_json_does_not_have_are_texts(user: Shell) -> None:
    (row,) = user.facts("query", "SELECT body, store_time, properties FROM bytes")

    assert row["body"] == "/wA="
    assert row["store_time"].startswith("20")
    assert row["properties"]["own"] == "1"


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("DELETE FROM orders", "only SELECT"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("SELEC 1", "syntax error"),
        ("SELECT nothing FROM orders", "nothing"),
        ("SELECT * FROM read_csv('/etc/hosts')", "disabled"),
    ],
)
def test_a_statement_that_cannot_be_run_is_exit_code_2(user: Shell, sql: str, words: str) -> None:
    code, told = user.complaint("query", sql)

    assert code == 2
    assert words in told


def test_an_unknown_topic_is_named(user: Shell) -> None:
    code, words = user.complaint("query", "SELECT * FROM ordrs")

    assert code == 1
    assert "ordrs" in words


def test_a_missing_package_is_named_with_its_extra(
    user: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "flintmq.cli.traffic.query.find_spec", lambda name: None if name == "duckdb" else name
    )

    code, words = user.complaint("query", "SELECT 1")

    assert code == 1
    assert "pip install 'flintmq[query]'" in words
