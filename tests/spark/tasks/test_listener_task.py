"""A task gives messages to their listeners, settles them as threads do, and tells the outcome."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from flintmq import MemoryKeys, SqliteKeys, idempotent
from flintmq.arrow.reading.access import Access
from flintmq.arrow.reading.cluster_pages import RemotePages
from flintmq.arrow.reading.queue_source import ReadPart
from flintmq.client.admin import Admin
from flintmq.core.group.actions import DeadLetterRecord, SendBack
from flintmq.core.group.app import App
from flintmq.core.group.listener_results import Ack, DeadLetter, ListenerResult, Retry
from flintmq.core.group.requests import dead_letter_request, send_back_request
from flintmq.core.reading.read_span import EVERYTHING
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import CircuitOpen, FlintError, InvalidSetting, UndecodableRecord
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import LogOffset, QueueOffset, QueueRef, Span
from flintmq.model.sys_flag import Compression, with_compression
from flintmq.protocol.command import Command
from flintmq.protocol.compression import pack as compress
from flintmq.protocol.records.record import Record, decode_record
from flintmq.spark.outcomes.outcome_rows import OUTCOME_ARROW, OUTCOME_SCHEMA
from flintmq.spark.tasks.listener_task import listen, listen_all
from flintmq.spark.tasks.packed_app import pack, read_program, unpack
from support.record_examples import record_positions
from support.spark.bad_records import (
    BAD,
    BAD_OFFSETS,
    COUNT,
    GARBAGE,
    GOOD,
    NOT_COPIED,
    WORDS,
    send_mixed,
    send_with_flag,
)
from support.spark.support import BROKER, create_topic, send, wait_for

Messages = tuple[ReceivedMessage, ...]


def app_of(servers: EmbeddedBroker, group: str, **settings: Any) -> App:
    return App(group, namesrv=servers.namesrv, **settings)


def part_of(servers: EmbeddedBroker, topic: str, stop: int, queue_id: int = 0) -> ReadPart:
    span = Span(QueueRef(topic, BROKER, queue_id), QueueOffset(0), QueueOffset(stop))
    return ReadPart(span, servers.broker)


def rows_of(app: App, part: ReadPart, retry_ms: int = 10_000) -> list[dict[str, Any]]:
    """Run a part as a task does: the app comes as bytes."""
    program = read_program(app, retry_ms)
    return [row for batch in listen(program, part) for row in batch.to_pylist()]


def outcomes(rows: list[dict[str, Any]]) -> list[str]:
    return [row["outcome"] for row in rows]


def register_group(servers: EmbeddedBroker, group: str) -> None:
    """Brokers take messages back only for groups they know."""
    with Admin(namesrv=servers.namesrv) as admin:
        admin.create_group(group)


def stored(servers: EmbeddedBroker, topic: str) -> int:
    """How many messages a topic has, 0 where there is none."""
    with Admin(namesrv=servers.namesrv) as admin:
        try:
            return sum(queue.count for queue in admin.topic_stats(topic))
        except FlintError:
            return 0


def test_arrow_rows_are_what_spark_expects() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    assert to_arrow_schema(OUTCOME_SCHEMA, timezone="UTC").equals(OUTCOME_ARROW)


def test_every_message_is_given_to_its_listener_and_has_a_row(broker: EmbeddedBroker) -> None:
    create_topic(broker, "listened")
    send(broker, "listened", [f"{n}" for n in range(10)], tags="a")
    app, batches = app_of(broker, "listeners"), []

    @app.listener("listened", batch_max=4)
    def hear(messages: Messages) -> None:
        batches.append([message.body.decode() for message in messages])

    rows = rows_of(app, part_of(broker, "listened", 10))

    assert batches == [["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9"]]
    assert outcomes(rows) == ["consumed"] * 10
    assert [row["queue_offset"] for row in rows] == list(range(10))
    first = rows[0]
    assert (first["topic"], first["queue_topic"], first["broker"]) == ("listened",) * 2 + (BROKER,)
    assert first["error"] is None
    assert first["milliseconds"] >= 0
    assert len(first["message_id"]) == 32


def test_tags_are_chosen_by_the_broker_and_compared_again(broker: EmbeddedBroker) -> None:
    create_topic(broker, "tagged")
    for tags in ("a", "b", "a"):
        send(broker, "tagged", [tags], tags=tags)
    app = app_of(broker, "taggers")
    heard: list[ReceivedMessage] = []
    app.listener("tagged", tags="a")(heard.extend)

    rows = rows_of(app, part_of(broker, "tagged", 3))

    assert [message.tags for message in heard] == ["a", "a"]
    assert [row["queue_offset"] for row in rows] == [0, 2]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (None, ["consumed"] * 3),
        (Ack(up_to=0), ["consumed", "sent back", "sent back"]),
        (Retry(reason="later"), ["sent back"] * 3),
        (DeadLetter("never"), ["dead"] * 3),
        ([None, Retry(), DeadLetter()], ["consumed", "sent back", "dead"]),
        (ValueError("broken"), ["sent back"] * 3),
        ("nonsense", ["sent back"] * 3),
    ],
)
def test_results_mean_what_they_mean_on_threads(
    broker: EmbeddedBroker, result: object, expected: list[str], request: pytest.FixtureRequest
) -> None:
    name = f"results-{request.node.callspec.id.replace('[', '').replace(']', '')}"[:40]
    name = "".join(each if each.isalnum() or each == "-" else "-" for each in name)
    create_topic(broker, name)
    register_group(broker, name)
    send(broker, name, ["0", "1", "2"])
    app = app_of(broker, name)

    @app.listener(name, batch_max=3)
    def judge(messages: Messages) -> Any:
        if isinstance(result, ValueError):
            raise result
        return result

    rows = rows_of(app, part_of(broker, name, 3))

    assert outcomes(rows) == expected
    wait_for(lambda: stored(broker, f"%DLQ%{name}") == expected.count("dead"))
    if isinstance(result, ValueError):
        assert {row["error"] for row in rows} == {"ValueError: broken"}


def test_a_dead_letter_has_its_reason(broker: EmbeddedBroker) -> None:
    name = "reasons-on-spark"
    create_topic(broker, name)
    register_group(broker, name)
    send(broker, name, ["0"])
    app = app_of(broker, name)

    @app.listener(name)
    def judge(messages: Messages) -> None:
        raise DeadLetter("no order")

    assert outcomes(rows_of(app, part_of(broker, name, 1))) == ["dead"]

    (dead,) = broker.messages(f"%DLQ%{name}")
    assert dead.properties["DLQ_REASON"] == "no order"
    assert (dead.properties["RETRY_TOPIC"], dead.body) == (name, b"0")


def test_what_was_sent_back_comes_again_under_its_own_topic_and_dies_at_the_last_try(
    own_broker: EmbeddedBroker,
) -> None:
    create_topic(own_broker, "retried")
    register_group(own_broker, "retriers")
    send(own_broker, "retried", ["poison"])
    app = app_of(own_broker, "retriers", retry_max=1)
    seen: list[tuple[str, int]] = []

    @app.listener("retried")
    def fail(messages: Messages) -> None:
        seen.append((messages[0].topic, messages[0].reconsume_times))
        raise ValueError("poison")

    (first,) = rows_of(app, part_of(own_broker, "retried", 1))
    own_broker.advance(60)
    (second,) = rows_of(app, part_of(own_broker, "%RETRY%retriers", 1))

    assert first["outcome"] == "sent back"
    assert second["outcome"] == "dead"
    assert (second["topic"], second["queue_topic"]) == ("retried", "%RETRY%retriers")
    assert second["reconsume_times"] == 1
    assert second["message_id"] == first["message_id"]
    assert seen == [("retried", 0), ("retried", 1)]
    wait_for(lambda: stored(own_broker, "%DLQ%retriers") == 1)


def test_ordered_messages_are_tried_in_place_and_nothing_overtakes(broker: EmbeddedBroker) -> None:
    create_topic(broker, "in-order")
    register_group(broker, "orderers")
    send(broker, "in-order", ["0", "bad", "2"])
    app = app_of(broker, "orderers", ordered=True, ordered_suspend_ms=10)
    heard: list[tuple[str, int]] = []

    @app.listener("in-order")
    def hear(messages: Messages) -> None:
        heard.append((messages[0].body.decode(), messages[0].reconsume_times))
        if messages[0].body == b"bad" and messages[0].reconsume_times < 2:
            raise ValueError("not yet")

    rows = rows_of(app, part_of(broker, "in-order", 3))

    assert heard == [("0", 0), ("bad", 0), ("bad", 1), ("bad", 2), ("2", 0)]
    assert outcomes(rows) == ["consumed"] * 3
    assert [row["reconsume_times"] for row in rows] == [0, 2, 0]
    assert stored(broker, "%RETRY%orderers") == 0


def test_an_ordered_message_is_given_up_after_the_last_try(broker: EmbeddedBroker) -> None:
    create_topic(broker, "given-up")
    register_group(broker, "givers")
    send(broker, "given-up", ["bad", "good"])
    app = app_of(broker, "givers", ordered=True, ordered_suspend_ms=10, retry_max=1)

    @app.listener("given-up")
    def hear(messages: Messages) -> None:
        if messages[0].body == b"bad":
            raise ValueError("never")

    rows = rows_of(app, part_of(broker, "given-up", 2))

    assert outcomes(rows) == ["dead", "consumed"]
    wait_for(lambda: stored(broker, "%DLQ%givers") == 1)


def test_in_broadcasting_what_fails_is_dropped_and_told(broker: EmbeddedBroker) -> None:
    create_topic(broker, "broadcast")
    send(broker, "broadcast", ["0"])
    app = app_of(broker, "broadcasters", model="broadcasting")

    @app.listener("broadcast")
    def fail(messages: Messages) -> None:
        raise ValueError("no")

    (row,) = rows_of(app, part_of(broker, "broadcast", 1))

    assert (row["outcome"], row["error"]) == ("failed", "ValueError: no")
    assert stored(broker, "%RETRY%broadcasters") == 0


def test_a_broker_that_does_not_take_a_message_back_gets_a_copy(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    create_topic(broker, "copied")
    register_group(broker, "copiers")
    send(broker, "copied", ["0"])
    app = app_of(broker, "copiers")
    app.listener("copied")(lambda messages: Retry(delay_level=1))
    monkeypatch.setattr("flintmq.spark.tasks.task_send_back.send_back_request", _of_nothing)

    with caplog.at_level(logging.WARNING):
        (row,) = rows_of(app, part_of(broker, "copied", 1))

    assert row["outcome"] == "sent back"
    assert "was not taken back" in caplog.text
    assert stored(broker, "SCHEDULE_TOPIC_XXXX") >= 1


def test_a_message_that_nobody_takes_fails_the_task(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(broker, "kept")
    register_group(broker, "keepers")
    send(broker, "kept", ["0", "1"])
    app = app_of(broker, "keepers")
    app.listener("kept")(lambda messages: Retry() if messages[0].body == b"1" else None)
    monkeypatch.setattr("flintmq.spark.tasks.task_send_back.send_back_request", _of_nothing)
    monkeypatch.setattr("flintmq.arrow.reading.masters.fetch_route", _no_route)

    with pytest.raises(FlintError):
        rows_of(app, part_of(broker, "kept", 2), retry_ms=200)


def _of_nothing(ask: SendBack, group: str, *, unit_mode: bool) -> Command:
    """Ask for a message that the broker does not have."""
    elsewhere = ask.message._replace(log_offset=LogOffset(10**12))
    asked = msgspec.structs.replace(ask, message=elsewhere)
    return send_back_request(asked, group, unit_mode=unit_mode)


def _of_no_record(ask: DeadLetterRecord, group: str, tries_max: int, *, unit_mode: bool) -> Command:
    """The same for a record."""
    elsewhere = replace(ask.bad, log_offset=LogOffset(10**12))
    asked = msgspec.structs.replace(ask, bad=elsewhere)
    return dead_letter_request(asked, group, tries_max, unit_mode=unit_mode)


def _no_route(*_args: object) -> Any:
    return None
    yield


def test_a_listener_may_take_a_table(broker: EmbeddedBroker) -> None:
    create_topic(broker, "tables")
    register_group(broker, "tablers")
    send(broker, "tables", ["0", "1", "2"], tags="t", keys=["k"], properties={"colour": "red"})
    app, tables = app_of(broker, "tablers"), []

    @app.listener("tables", as_table=True, batch_max=2)
    def take(table: pa.Table) -> Ack:
        tables.append(table)
        return Ack(up_to=0)

    rows = rows_of(app, part_of(broker, "tables", 3))

    assert [table.num_rows for table in tables] == [2, 1]
    assert outcomes(rows) == ["consumed", "sent back", "consumed"]
    row = tables[0].to_pylist()[0]
    assert (row["topic"], row["tags"], row["keys"], row["body"]) == ("tables", "t", ["k"], b"0")
    assert dict(row["properties"])["colour"] == "red"


def test_a_listener_may_ask_for_threads(broker: EmbeddedBroker) -> None:
    create_topic(broker, "threaded")
    send(broker, "threaded", [f"{n}" for n in range(8)])
    app = app_of(broker, "threaders")
    together = threading.Barrier(4)

    @app.listener("threaded", threads=4)
    def meet(messages: Messages) -> None:
        together.wait(60)  # breaks unless four are here at once

    rows = rows_of(app, part_of(broker, "threaded", 8))

    assert outcomes(rows) == ["consumed"] * 8
    assert [row["queue_offset"] for row in rows] == list(range(8))
    assert not [each for each in threading.enumerate() if each.name.startswith("flintmq-threaded")]


def test_a_coroutine_may_listen_and_many_run_at_once(broker: EmbeddedBroker) -> None:
    create_topic(broker, "async")
    register_group(broker, "asyncers")
    send(broker, "async", [f"{n}" for n in range(6)])
    app = app_of(broker, "asyncers")
    here: list[int] = []
    all_here = asyncio.Event()

    @app.listener("async")
    async def meet(messages: Messages) -> ListenerResult:
        here.append(1)
        if len(here) == 6:
            all_here.set()
        async with asyncio.timeout(60):
            await all_here.wait()
        return Retry() if messages[0].body == b"3" else None

    rows = rows_of(app, part_of(broker, "async", 6))

    assert Counter(outcomes(rows)) == {"consumed": 5, "sent back": 1}


def test_a_topic_without_a_listener_goes_back_for_somebody_else(
    own_broker: EmbeddedBroker,
) -> None:
    for topic in ("known", "unknown"):
        create_topic(own_broker, topic)
        send(own_broker, topic, [topic])
    register_group(own_broker, "halves")
    other = app_of(own_broker, "halves")
    other.listener("unknown")(lambda messages: Retry())
    rows_of(other, part_of(own_broker, "unknown", 1))
    own_broker.advance(60)
    app = app_of(own_broker, "halves")
    app.listener("known")(lambda messages: None)

    (row,) = rows_of(app, part_of(own_broker, "%RETRY%halves", 1))

    assert row["outcome"] == "sent back"
    assert "no listener" in row["error"]


def test_repeats_are_dropped_in_tasks_by_a_store_that_opens_itself_there(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    create_topic(broker, "repeats")
    register_group(broker, "once")
    send(broker, "repeats", ["0", "1", "2"])
    heard = tmp_path / "heard"
    app = app_of(broker, "once")

    @app.listener("repeats", batch_max=2)
    @idempotent(SqliteKeys(tmp_path / "seen.db"), scope="once")
    def hear(messages: Messages) -> None:
        with heard.open("a") as file:
            file.writelines(f"{message.text}\n" for message in messages)

    for _ in range(2):  # a task that runs again, from the bytes of the app
        program = unpack(pack(read_program(app)))
        batches = list(listen(program, part_of(broker, "repeats", 3)))
        rows = [row for batch in batches for row in batch.to_pylist()]
        assert outcomes(rows) == ["consumed"] * 3

    assert heard.read_text().split() == ["0", "1", "2"]


def test_keys_in_memory_are_refused_on_spark(broker: EmbeddedBroker) -> None:
    app = app_of(broker, "forgetful")
    app.listener("t")(idempotent(MemoryKeys(), scope="forgetful")(print))

    with pytest.raises(InvalidSetting, match="other processes do not share it"):
        pack(read_program(app))


def test_an_app_travels_by_value_and_its_secrets_are_not_shown(broker: EmbeddedBroker) -> None:
    app = app_of(broker, "travellers", access_key="me", secret_key="hush")
    app.listener("t", ordered=True)(_closure(3))

    program = unpack(pack(read_program(app)))

    assert program.listeners[0].function(()) == Ack(3)
    assert program.has_ordered
    assert program.access.name_servers == (broker.namesrv,)
    assert "hush" not in repr(program)


def _closure(number: int) -> Callable[[Messages], Ack]:
    return lambda messages: Ack(number)


def dead_records(servers: EmbeddedBroker, group: str) -> list[Record]:
    """The dead letters of a group as they are stored, which may be impossible to decode."""
    topic = f"%DLQ%{group}"
    count = stored(servers, topic)
    span = Span(QueueRef(topic, BROKER, 0), QueueOffset(0), QueueOffset(count))
    pages = RemotePages(Access((servers.namesrv,)))
    octets = [page.records for page in pages.pages(ReadPart(span, servers.broker), EVERYTHING, 32)]
    return [
        decode_record(some, at, verify_crc=False)
        for some in octets
        for at in record_positions(some)
    ]


@pytest.mark.parametrize("ordered", [False, True])
def test_bad_records_are_dead_letters_and_the_others_are_listened_to(
    broker: EmbeddedBroker, ordered: bool, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"bad-{ordered}".lower()
    create_topic(broker, name)
    register_group(broker, name)
    send_mixed(broker, name)
    app = app_of(broker, name)
    heard: list[str] = []

    @app.listener(name, ordered=ordered, batch_max=4)
    def hear(messages: Messages) -> None:
        heard.extend(message.body.decode() for message in messages)

    rows = rows_of(app, part_of(broker, name, COUNT))

    assert heard == GOOD
    by_offset = {row["queue_offset"]: row for row in rows}
    assert len(rows) == len(by_offset) == COUNT
    assert {n for n, row in by_offset.items() if row["outcome"] == "bad record"} == {*BAD_OFFSETS}
    for offset, kind in BAD_OFFSETS.items():
        row = by_offset[offset]
        assert WORDS[kind] in row["error"]
        became = "no broker took it" if kind in NOT_COPIED else "it is a dead letter of the group"
        assert became in row["error"]
        assert (row["topic"], row["queue_topic"], len(row["message_id"])) == (name, name, 32)
        reports = [text for text in caplog.messages if f"{name}/{BROKER}/0 at {offset} " in text]
        assert len(reports) == 1
        assert WORDS[kind] in reports[0]
    dead = dead_records(broker, name)
    assert [record.body for record in dead[:3]] == [GARBAGE] * 3
    assert [record.sys_flag for record in dead[:3]] == [sys_flag for sys_flag, _ in BAD.values()][
        :3
    ]
    assert len(dead) == len(BAD) - len(NOT_COPIED)


def test_bad_records_are_skipped_or_fail_the_task_as_the_app_says(broker: EmbeddedBroker) -> None:
    name = create_topic(broker, "bad-rules")
    register_group(broker, name)
    send_mixed(broker, name)
    heard: list[ReceivedMessage] = []
    skipping = app_of(broker, name, on_bad_record="skip")
    skipping.listener(name)(heard.extend)
    stopping = app_of(broker, name, on_bad_record="stop")
    stopping.listener(name)(heard.extend)
    alone = app_of(broker, name, model="broadcasting")
    alone.listener(name)(heard.extend)

    rows = rows_of(skipping, part_of(broker, name, COUNT))
    with pytest.raises(UndecodableRecord, match=rf"{name}/{BROKER}/0 at 1 cannot be decoded"):
        rows_of(stopping, part_of(broker, name, COUNT))
    broadcast = rows_of(alone, part_of(broker, name, COUNT))

    assert [message.body.decode() for message in heard] == GOOD + GOOD
    for some in (rows, broadcast):
        assert Counter(outcomes(some)) == {"consumed": len(GOOD), "bad record": len(BAD)}
        bad = [row for row in some if row["outcome"] == "bad record"]
        assert all(row["error"].endswith("it is skipped") for row in bad)
    assert stored(broker, f"%DLQ%{name}") == 0


def test_a_dead_letter_that_the_broker_refuses_holds_nothing_up(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    name = create_topic(broker, "bad-refused")
    register_group(broker, name)
    send_mixed(broker, name)
    app = app_of(broker, name)
    app.listener(name)(lambda _messages: None)
    monkeypatch.setattr("flintmq.arrow.reading.dead_letter_copies.PAUSE_S", 0)
    monkeypatch.setattr(
        "flintmq.arrow.reading.dead_letter_copies.dead_letter_request", _of_no_record
    )

    rows = rows_of(app, part_of(broker, name, COUNT))

    assert Counter(outcomes(rows)) == {"consumed": len(GOOD), "bad record": len(BAD)}
    bad = [row for row in rows if row["outcome"] == "bad record"]
    assert all("no broker took it as a dead letter" in row["error"] for row in bad)
    assert sum(record.levelno == logging.ERROR for record in caplog.records) == len(BAD)


def test_a_page_that_unpacks_to_too_much_reaches_its_listener_in_pieces(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = create_topic(broker, "wide")
    for n in range(5):
        body = compress(b"%d" % n * 4_000, Compression.ZLIB)
        send_with_flag(broker, name, body, with_compression(0, Compression.ZLIB))
    monkeypatch.setattr("flintmq.protocol.records.received.UNPACKED_BYTES_MAX", 10_000)
    app = app_of(broker, name)
    heard: list[ReceivedMessage] = []
    app.listener(name)(heard.extend)

    rows = rows_of(app, part_of(broker, name, 5))

    assert [message.body for message in heard] == [b"%d" % n * 4_000 for n in range(5)]
    assert outcomes(rows) == ["consumed"] * 5


def test_queues_of_one_task_are_consumed_at_once_each_in_order(broker: EmbeddedBroker) -> None:
    create_topic(broker, "side-by-side", 3)
    for queue_id in range(3):
        send(broker, "side-by-side", [f"{n}" for n in range(5)], queue_id=queue_id)
    app = app_of(broker, "side-by-side", ordered=True)
    heard: dict[int, list[str]] = {0: [], 1: [], 2: []}
    together = threading.Barrier(3, timeout=60)

    @app.listener("side-by-side", threads=3)
    def hear(messages: Messages) -> None:
        heard[messages[0].queue_id].append(messages[0].body.decode())
        if len(heard[messages[0].queue_id]) == 1:
            together.wait()

    parts = [part_of(broker, "side-by-side", 5, queue_id) for queue_id in range(3)]
    rows = [row for batch in listen_all(read_program(app), parts) for row in batch.to_pylist()]

    assert heard == {queue_id: ["0", "1", "2", "3", "4"] for queue_id in range(3)}
    assert outcomes(rows) == ["consumed"] * 15


def test_what_fails_in_one_queue_fails_the_task_of_several(broker: EmbeddedBroker) -> None:
    create_topic(broker, "side-fails", 2)
    for queue_id in range(2):
        send(broker, "side-fails", ["x", "y"], queue_id=queue_id)
    app = app_of(broker, "side-fails", ordered=True, ordered_suspend_ms=10)

    @app.listener("side-fails", threads=2)
    def hear(messages: Messages) -> None:
        if messages[0].queue_id == 1:
            raise OSError("always")

    program = read_program(app, failures_max=3)
    with pytest.raises(CircuitOpen, match="3 calls in a row"):
        list(listen_all(program, [part_of(broker, "side-fails", 2, q) for q in range(2)]))


def test_a_circuit_that_opens_leaves_the_page_as_it_was(own_broker: EmbeddedBroker) -> None:
    create_topic(own_broker, "circuit")
    send(own_broker, "circuit", [f"{n}" for n in range(10)])
    register_group(own_broker, "circuit")
    app = app_of(own_broker, "circuit")

    @app.listener("circuit")
    def hear(messages: Messages) -> None:
        if int(messages[0].body) >= 4:
            raise OSError("always")

    program = read_program(app, failures_max=5)
    with pytest.raises(CircuitOpen):
        list(listen(program, part_of(own_broker, "circuit", 10)))
    assert stored(own_broker, "SCHEDULE_TOPIC_XXXX") == 0, "nothing was sent back"

    program = read_program(app, failures_max=7)
    rows = [
        row
        for batch in listen(program, part_of(own_broker, "circuit", 10))
        for row in batch.to_pylist()
    ]
    assert outcomes(rows) == ["consumed"] * 4 + ["sent back"] * 6
    assert stored(own_broker, "SCHEDULE_TOPIC_XXXX") == 6
