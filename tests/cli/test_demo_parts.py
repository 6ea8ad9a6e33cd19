"""The demo finds out when its story goes wrong, and says so; its parts do what they say."""

from __future__ import annotations

import errno
import io
import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

from flintmq.cli.all_commands import app
from flintmq.cli.demo import orders
from flintmq.cli.demo.demo_command import check_room, make_directory
from flintmq.cli.demo.demo_report import (
    DemoSample,
    Ending,
    draw,
    facts,
    print_report,
    progress_line,
    sums,
)
from flintmq.cli.demo.evidence import (
    Attempt,
    Check,
    Evidence,
    Tally,
    check_all,
    read_ledger,
    write_orders,
)
from flintmq.cli.demo.orders import (
    ATTEMPTS_FILE,
    DIRECTORY,
    OPEN,
    PROCESS,
    RETRY_MAX,
    SPARK,
    THREADS,
    Planned,
    bill,
    plan,
    post,
)
from flintmq.core.group.listener_results import Retry
from flintmq.errors import DiskFailed, Unreachable
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef
from flintmq.store.files.disk import Disk
from support.core.messages import received

GOOD = Evidence(
    wanted=frozenset({"a", "b", "c", "d"}),
    unwanted=frozenset({"x"}),
    hopeless=frozenset({"d"}),
    entries={"c-00": 2, "c-01": 1},
    consumed=frozenset({"a", "b", "c"}),
    dead=frozenset({"d"}),
    ledger=("c-00 1", "c-01 1", "c-00 2"),
    lag=0,
    waiting=0,
    consumed_orders=3,
    table_rows=3,
    by={SPARK: 2, THREADS: 1},
)


def wrong(evidence: Evidence) -> list[str]:
    return [check.what for check in check_all(evidence) if not check.is_good]


# Checks


def test_a_story_that_ended_as_it_had_to_passes_every_check() -> None:
    assert wrong(GOOD) == []


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"consumed": frozenset({"a", "b"})}, "sent = consumed + dead letters"),
        ({"consumed": frozenset({"a", "b", "c", "z"})}, "sent = consumed + dead letters"),
        ({"consumed": frozenset({"a", "b", "c", "d"})}, "sent = consumed + dead letters"),
        ({"wanted": frozenset(), "consumed": frozenset()}, "sent = consumed + dead letters"),
        ({"hopeless": frozenset({"c"})}, "dead letters are those planned"),
        ({"consumed": frozenset({"a", "b", "c", "x"})}, "unwanted tags are not delivered"),
        ({"ledger": ("c-00 2", "c-00 1", "c-01 1")}, "each customer's ledger is in order"),
        ({"ledger": ("c-00 1", "c-01 1")}, "each customer's ledger is in order"),
        ({"ledger": ("c-00 1", "c-00 2")}, "each customer's ledger is in order"),
        ({"ledger": (*GOOD.ledger, "c-09 1")}, "each customer's ledger is in order"),
        ({"lag": 1}, "nothing is left at the broker"),
        ({"waiting": 1}, "nothing is left at the broker"),
        ({"table_rows": 2}, "the table has each consumed order"),
        ({"by": {SPARK: 3}}, "Spark and threads both consumed"),
    ],
)
def test_anything_that_went_wrong_fails_its_check(change: dict[str, object], what: str) -> None:
    assert what in wrong(replace(GOOD, **change))  # type: ignore[arg-type]  # whatever a field is


def test_what_is_missing_is_told() -> None:
    found = check_all(replace(GOOD, consumed=frozenset({"a"})))[0].found

    assert found == "4 = 1 + 1: 2 lost"


def test_an_entry_may_be_written_again_but_not_before_its_time() -> None:
    again = read_ledger(["c 1", "c 2", "c 1", "c 2", "c 3"])
    early = read_ledger(["c 1", "c 3", "c 2"])
    torn = read_ledger(["c 1", "c "])

    assert again == (Counter({"c": 3}), 0)
    assert early[1] == 1
    assert torn[1] == 1


# The shop and its app


def test_a_plan_has_as_many_messages_as_were_asked_for_and_all_kinds_of_them() -> None:
    for count in (100, 101, 104, 500):
        planned = [each for parcel in plan(count) for each in parcel]
        assert len(planned) == count
        assert len({each.message.keys for each in planned}) == count
        assert any(each.is_hopeless for each in planned)
        assert {each.message.tags for each in planned} >= {"paid", "refunded"}


def test_no_queue_can_end_with_a_message_that_nobody_wants() -> None:
    planned = [each for parcel in plan(300) for each in parcel]

    assert any(not each.is_wanted for each in planned)
    assert all(each.is_wanted for each in planned[-orders.LATE :])
    assert all((each.message.tags == OPEN) != each.is_wanted for each in planned)


def test_each_customer_s_entries_are_numbered_without_gaps() -> None:
    entries: dict[str, list[int]] = {}
    for parcel in plan(1_000):
        for each in parcel:
            if each.customer is not None:
                number = json.loads(each.message.body)["entry"]
                entries.setdefault(each.customer, []).append(number)

    assert len(entries) == orders.CUSTOMERS
    assert all(found == list(range(1, len(found) + 1)) for found in entries.values())


def as_received(planned: Planned, offset: int) -> ReceivedMessage:
    message = planned.message
    queue = QueueRef(message.topic, "broker-a", 0)
    properties = {"UNIQ_KEY": message.keys[0], **message.all_properties()}
    return received(offset, queue=queue, body=message.body)._replace(properties=properties)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a run whose threads are those of this process."""
    monkeypatch.setenv(DIRECTORY, str(tmp_path))
    monkeypatch.setenv(PROCESS, str(os.getpid()))
    return tmp_path


def test_the_bank_pays_as_planned_and_the_table_has_what_it_paid(directory: Path) -> None:
    sent = [each for parcel in plan(500) for each in parcel]
    wanted = [each for each in sent if each.is_wanted and each.customer is None]
    left = [(as_received(each, offset), 0) for offset, each in enumerate(wanted)]
    while left:
        message, tries = left.pop(0)
        (result,) = bill((message._replace(reconsume_times=tries),))
        if result is not None and tries < RETRY_MAX:
            left.append((message, tries + 1))
    tally = Tally(directory / ATTEMPTS_FILE)
    tally.update()
    stored = [as_received(each, offset) for offset, each in enumerate(sent)]
    table = write_orders(stored, tally, directory / "orders")

    hopeless = sum(each.is_hopeless for each in wanted)
    assert (len(tally.consumed), len(tally.dead)) == (len(wanted) - hopeless, hopeless)
    assert tally.repeats == 0
    assert tally.sent_back == sum(
        min(orders.refusals(int(each.message.keys[0][2:])), RETRY_MAX) for each in wanted
    )
    assert pq.read_table(directory / "orders").num_rows == len(tally.consumed)
    assert set(table.column("consumed_by").to_pylist()) == {THREADS}
    assert set(table.column("tries").to_pylist()) == {1, 2, 3}


def test_the_ledger_is_written_in_order_and_a_failure_is_tried_in_place(directory: Path) -> None:
    first, tenth = (
        received(n, body=json.dumps({"customer": "c-1", "entry": n}).encode()) for n in (1, 10)
    )

    assert post((first,)) is None
    assert isinstance(post((tenth,)), Retry)
    assert post((tenth._replace(reconsume_times=1),)) is None
    assert (directory / "ledger.txt").read_text() == "c-1 1\nc-1 10\n"
    assert len((directory / ATTEMPTS_FILE).read_text().splitlines()) == 2


def test_an_attempt_of_another_process_is_one_of_spark(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROCESS, "1")
    post((received(1, body=b'{"customer": "c-1", "entry": 1}'),))
    tally = Tally(directory / ATTEMPTS_FILE)
    tally.update()

    assert tally.by == {SPARK: 1}


def test_an_app_that_runs_outside_the_demo_records_nothing(tmp_path: Path) -> None:
    assert post((received(1, body=b'{"customer": "c-1", "entry": 1}'),)) is None
    assert list(tmp_path.iterdir()) == []


def test_a_tally_counts_messages_once_and_says_what_was_repeated(tmp_path: Path) -> None:
    tally = Tally(tmp_path / "attempts.csv")
    tally.count(Attempt(SPARK, "orders", "a", "consumed", 1, 5_000))
    tally.count(Attempt(THREADS, "orders", "a", "consumed", 1, 6_500))
    tally.count(Attempt(THREADS, "orders", "b", "sent back", 1, 0))
    tally.count(Attempt(THREADS, "orders", "b", "dead", 3, 0))

    assert (len(tally.consumed), len(tally.dead), tally.repeats, tally.sent_back) == (1, 1, 1, 1)
    assert tally.by == {SPARK: 1, THREADS: 1}
    assert tally.consumed["a"].run_by == SPARK
    assert tally.seconds[THREADS, 6] == 1


def test_a_tally_reads_each_line_once_and_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "attempts.csv"
    tally = Tally(path)
    tally.update()
    path.write_text("Spark,orders,a,consumed,1,5000\nSpark,orders,b,cons")
    tally.update()
    assert tally.consumed.keys() == {"a"}

    with path.open("a") as file:
        file.write("umed,1,5000\n")
    tally.update()
    tally.update()

    assert tally.consumed.keys() == {"a", "b"}
    assert tally.repeats == 0


# What people see


def a_tally(*attempts: Attempt) -> Tally:
    tally = Tally(Path("nowhere"))
    for attempt in attempts:
        tally.count(attempt)
    return tally


def test_a_line_of_progress_has_the_step_and_every_count() -> None:
    tally = a_tally(
        Attempt(SPARK, "orders", "a", "consumed", 1, 0),
        Attempt(SPARK, "orders", "a", "consumed", 1, 0),
        Attempt(SPARK, "orders", "b", "dead", 3, 0),
    )
    line = progress_line("threads consume", 61.0, 10_000, DemoSample(0.0, 6_000, 988, 40), tally)

    assert line == (
        "1:01  threads consume  sent 6,000 of 10,000  consumed 1  lag 988  waiting 40"
        "  sent back 0  dead 1  repeats 1"
    )


def test_the_sums_below_the_checks_add_up_and_name_every_kind_of_repeat() -> None:
    tally = a_tally(
        Attempt(SPARK, "orders", "a", "consumed", 1, 0),
        Attempt(THREADS, "orders", "a", "consumed", 1, 0),
        Attempt(THREADS, "orders", "c", "consumed", 1, 0),
        Attempt(SPARK, "orders", "b", "sent back", 1, 0),
        Attempt(SPARK, "orders", "b", "dead", 3, 0),
        Attempt(THREADS, "orders", "b", "dead", 3, 0),
    )

    told = sums(tally)

    assert tally.by.total() == len(tally.consumed) + tally.repeats
    assert told[0] == "Spark 1 + threads 2 = 2 messages + 1 repeats."
    assert told[2].startswith("1 times a message failed")
    assert told[3].startswith("1 times a dead letter was given up once more")


def ending(tmp_path: Path, *checks: Check) -> Ending:
    table = write_orders([], a_tally(), tmp_path / "orders")
    return Ending(tmp_path, list(checks), a_tally(), table, 5.0, 30.0)


def test_a_failed_check_is_marked_and_makes_the_ending_bad(tmp_path: Path) -> None:
    bad = ending(tmp_path, Check("lag", "0", True), Check("order", "1 out of order", False))
    file = io.StringIO()
    print_report(Console(file=file, width=100), bad, is_kept=True)
    told = file.getvalue()

    assert not bad.is_good
    assert facts(bad, is_kept=True)["good"] is False
    assert "NO" in told
    assert "The demo failed" in told
    assert f"serve --data {tmp_path}/store" in told


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    samples = [DemoSample(99.0 + n, 5 * n, n, 1) for n in range(8)]
    marks = {"threads join": 102.0, "Spark is gone": 104.0}
    tally = a_tally(Attempt(SPARK, "orders", "a", "consumed", 1, 101_000))

    draw(100.0, samples, marks, tally, tmp_path / "demo.png")

    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


# How it ends


@pytest.mark.parametrize(
    ("happens", "code", "told"),
    [
        (Check("lag", "0", True), 0, '"good": true'),
        (Check("lag", "9", False), 1, '"good": false'),
        (RuntimeError("a query failed\nand so on"), 1, "over before its end: a query failed; all"),
        (OSError(errno.ENOSPC, "No space left", "x/y"), 1, "No space left; free some space"),
        (Unreachable("127.0.0.1:1", "nobody there"), 1, "127.0.0.1:1: nobody there"),
        (KeyboardInterrupt(), 130, "stopped before the end"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, BaseException) else None,
)
def test_the_exit_code_says_whether_all_is_well(
    happens: Check | BaseException,
    code: int,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def play(directory: Path, *_: object) -> Ending:
        if isinstance(happens, BaseException):
            raise happens
        return ending(directory, happens)

    monkeypatch.setattr("flintmq.cli.demo.story.play", play)
    arguments = ["demo", "--directory", str(tmp_path), "--output", "json"]
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})

    assert done.exit_code == code
    assert told in done.output
    assert "Traceback" not in done.output


# The disk


def test_a_disk_without_room_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DiskFailed, match=r"MiB are free.*free some space"):
        check_room(tmp_path, 1 << 60)

    monkeypatch.setattr(Disk, "usage", lambda *_: (95 << 30, 5 << 30))
    with pytest.raises(DiskFailed, match="95 % full") as caught:
        make_directory(tmp_path, 100)
    assert caught.value.number == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []
