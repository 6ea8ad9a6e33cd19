"""Commands that need Spark say what is wrong before they start it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from flintmq.cli.lake import start_option
from flintmq.cli.shared.spark_job import source_options, stopping
from flintmq.net.tls import ClientTls
from support.cli.asking import Shell, shell


@pytest.fixture(scope="module")
def user() -> Iterator[Shell]:
    with shell() as someone:
        someone.fill("orders", 1)
        yield someone


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts Spark here fails."""

    def start(*_given: object, **_settings: object) -> NoReturn:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("flintmq.spark.session.spark_session", start)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("lake", "nowhere", "--to", "x"), 1, "topic list"),
        (("lake", "orders", "--to", "x", "--from", "soon"), 2, "ten minutes ago"),
        (("lake", "orders", "--to", "x", "--from", "group"), 2, "consumerGroup"),
        (("lake", "orders", "--to", "x", "--tags", "a", "--sql", "b = 1"), 2, "sql"),
        (("lake", "orders", "--to", "x", "--columns", "bodies"), 2, "no column bodies"),
        (("lake", "orders", "--to", "x", "--store", "/nowhere"), 1, "/nowhere"),
        (("lake", "orders"), 2, "--to"),
        (("lake", "--to", "x"), 2, "TOPIC"),
        (("lake", "orders", "--to", "x", "--schema", "@none.json"), 2, "No such file"),
        (("lake", "orders", "--to", "x", "--schema", "none.desc:Order"), 2, "No such file"),
        (("lake", "orders", "--to", "x", "--schema", '{"type":"array"}'), 2, "a record of Avro"),
        (("lake", "orders", "--to", "x", "--schema", "{"), 2, "is no JSON"),
        (("lake", "write", "nowhere", "--to", "x"), 1, "topic list"),
        (("lake", "compact"), 2, "--to"),
        (("lake", "compact", "--to", "nowhere"), 2, "nowhere': is no lake"),
        (("lake", "compact", "--to", "s3a://shop/lake"), 2, "give --format"),
        (("lake", "compact", "--to", "x", "--format", "orc"), 2, "parquet, delta, iceberg"),
        (("topic", "report", "nowhere"), 1, "topic list"),
        (("topic", "report"), 2, "name a topic"),
        (("dlq", "report", "nobody"), 1, "nobody has no dead letters"),
        (("dlq", "bulk-replay", "nobody", "--yes"), 1, "nobody has no dead letters"),
        (("dlq", "bulk-replay", "nobody", "--output", "json"), 2, "--yes"),
    ],
)
def test_what_is_wrong_is_told_at_once(
    user: Shell, arguments: tuple[str, ...], code: int, words: str
) -> None:
    ended, told = user.complaint(*arguments)

    assert (ended, words in told) == (code, True), told


def test_a_name_server_that_does_not_answer_is_told_at_once() -> None:
    code, told = Shell("127.0.0.1:1").complaint("lake", "orders", "--to", "x")

    assert code == 3
    assert "127.0.0.1:1" in told


def test_a_report_needs_a_place_for_its_files(user: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")

    code, told = user.complaint("topic", "report", "orders", "--out", str(tmp_path / "file"))

    assert code == 2
    assert "out" in told


def test_a_connection_becomes_options_of_the_source() -> None:
    settings = source_options(
        {"namesrv": "a:1", "access_key": "me", "secret_key": "s", "tls": ClientTls(ca_file="ca")},
        tags="a",
        sql=None,
    )

    assert settings == {
        "namesrv": "a:1",
        "accessKey": "me",
        "secretKey": "s",
        "tlsCa": "ca",
        "tags": "a",
    }
    assert source_options({"namesrv": "a:1", "tls": True})["tls"] == "true"
    assert source_options({"namesrv": "a:1"}, "dir") == {"store": "dir"}
    timed = source_options({"namesrv": "a:1"}, since="1970-01-01T00:00:01+00:00", until="now")
    assert timed["startingTimestamp"] == "1000"
    assert int(timed["endingTimestamp"]) > 1_000


def test_every_option_of_a_connection_is_one_that_the_source_knows() -> None:
    from flintmq.spark.options.connection_options import CONNECTION

    known = {option.name for option in CONNECTION}
    tls = ClientTls(ca_file="ca", certificate_file="certificate", key_file="key")

    with_files = source_options(
        {"namesrv": "a:1", "tls": tls, "access_key": "me", "secret_key": "s"}
    )
    assert with_files.keys() <= known
    assert len(with_files) == 6
    assert source_options({"namesrv": "a:1", "tls": True}).keys() <= known


def test_a_signal_asks_to_stop() -> None:
    import signal

    before = signal.getsignal(signal.SIGTERM)
    with stopping() as told:
        signal.raise_signal(signal.SIGTERM)
        asked = told.is_set()

    assert asked
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("first", {"startingOffsets": "earliest"}),
        ("end", {"startingOffsets": "latest"}),
        ("group", {"startingOffsets": "group"}),
        ("42", {"startingOffsets": "42"}),
        ("1794803628010", {"startingTimestamp": "1794803628010"}),
    ],
)
def test_a_lake_starts_where_other_commands_start(text: str, option: dict[str, str]) -> None:
    assert start_option(text) == option
