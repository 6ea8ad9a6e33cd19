"""The demo finds out when its story goes wrong, and says so; its parts do what they say."""

from __future__ import annotations

import errno
import io
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

from flintmq.cli.all_commands import app
from flintmq.cli.demo import orders
from flintmq.cli.demo.attempts import Attempts, watched
from flintmq.cli.demo.checks import Check, Evidence, check_all, read_book
from flintmq.cli.demo.demo_command import check_room, make_place
from flintmq.cli.demo.demo_report import facts, print_report
from flintmq.cli.demo.order_table import lines_of, write_orders
from flintmq.cli.demo.orders import BOOK, OPEN, RETRY_MAX, Planned, plan, post
from flintmq.cli.demo.picture import Course
from flintmq.cli.demo.picture import draw as draw_picture
from flintmq.cli.demo.show import Ending, Wishes
from flintmq.cli.demo.story import Interrupted, Moments
from flintmq.cli.demo.tally import SPARK, THREADS, Attempt, Tally, Totals
from flintmq.cli.demo.view import View, draw, line, sparkline
from flintmq.cli.demo.watch import Sample, Scene
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
    book=("c-00 1", "c-01 1", "c-00 2"),
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
        ({"book": ("c-00 2", "c-00 1", "c-01 1")}, "each customer's ledger is in order"),
        ({"book": ("c-00 1", "c-01 1")}, "each customer's ledger is in order"),
        ({"book": ("c-00 1", "c-00 2")}, "each customer's ledger is in order"),
        ({"book": (*GOOD.book, "c-09 1")}, "each customer's ledger is in order"),
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
    again = read_book(["c 1", "c 2", "c 1", "c 2", "c 3"])
    early = read_book(["c 1", "c 3", "c 2"])
    torn = read_book(["c 1", "c "])

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


def test_the_bank_pays_as_planned_and_the_table_has_what_it_paid(tmp_path: Path) -> None:
    sent = [each for parcel in plan(500) for each in parcel]
    wanted = [each for each in sent if each.is_wanted and each.customer is None]
    tally = Tally()
    attempts = Attempts(tmp_path / "attempts", tally)
    bill = watched(orders.app, attempts.take_rows).listeners[0].function
    left = [(as_received(each, offset), 0) for offset, each in enumerate(wanted)]
    while left:
        message, tries = left.pop(0)
        (result,) = bill((message._replace(reconsume_times=tries),))
        if result is not None and tries < RETRY_MAX:
            left.append((message, tries + 1))
    attempts.flush()
    stored = [as_received(each, offset) for offset, each in enumerate(sent)]
    table = write_orders(stored, attempts.directory, tmp_path / "orders")
    lines = {each.status: each for each in lines_of(table)}

    totals, hopeless = tally.totals(), sum(each.is_hopeless for each in wanted)
    assert (totals.consumed, totals.dead) == (len(wanted) - hopeless, hopeless)
    assert totals.repeats == 0
    assert totals.sent_back == sum(
        min(orders.refusals(int(each.message.keys[0][2:])), RETRY_MAX) for each in wanted
    )
    assert pq.read_table(tmp_path / "orders").num_rows == totals.consumed
    assert sum(each.orders for each in lines.values()) == totals.consumed
    assert sum(each.by_threads for each in lines.values()) == totals.consumed
    assert lines["paid"].later > 0
    assert set(table.column("tries").to_pylist()) == {1, 2, 3}


def test_the_ledger_writes_a_book_and_tries_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BOOK, str(tmp_path / "book"))
    first, tenth = (
        received(n, body=json.dumps({"customer": "c-1", "entry": n}).encode()) for n in (1, 10)
    )

    assert post((first,)) is None
    assert isinstance(post((tenth,)), Retry)
    assert post((tenth._replace(reconsume_times=1),)) is None
    assert (tmp_path / "book").read_text() == "c-1 1\nc-1 10\n"


def test_a_tally_counts_messages_once_and_says_what_was_repeated() -> None:
    tally = Tally()
    tally.take(SPARK, [Attempt("orders", "a", "consumed", 5_000_000)])
    tally.take(THREADS, [Attempt("orders", "a", "consumed", 6_500_000)])
    tally.take(THREADS, [Attempt("ledger", "b", "sent back", 0), Attempt("ledger", "b", "dead", 0)])

    assert tally.totals() == Totals(1, 1, 1, 1, {SPARK: 1, THREADS: 1})
    assert tally.consumed("orders") == {"a"}
    assert tally.consumed("ledger") == frozenset()
    assert tally.seconds(THREADS) == {6: 1}


# What people see

SCENE = Scene(
    "Spark and threads share the group",
    61.0,
    10_000,
    Totals(5_000, 12, 7, 300, {SPARK: 3_000, THREADS: 2_007}),
    Sample(0.0, 6_000, 3_000, 2_007, 988, 40),
    333.0,
    200.0,
    100.0,
    (0, 5, 988),
    {SPARK: {"orders": (0, 1, 2, 3)}, THREADS: {"orders": (4, 5, 6, 7), "%RETRY%billing": (0,)}},
)


def test_a_scene_shows_progress_rates_lag_retries_dead_letters_and_owners() -> None:
    console = Console(width=80, file=io.StringIO())
    with console.capture() as capture:
        console.print(draw(SCENE))
    shown = capture.get()

    for words in ("1:01", "6,000 of 10,000", "333/s", "988", "dead letters", "0 1 2 3 · · · ·"):
        assert words in shown
    assert all(len(row) <= 80 for row in shown.splitlines())


def test_without_a_terminal_there_are_plain_lines() -> None:
    file = io.StringIO()
    with View(Console(file=file, force_terminal=False)) as view:
        view.show(SCENE)
        view.show(SCENE)  # too soon
    told = file.getvalue()

    assert told == line(SCENE) + "\n"
    assert "lag 988  waiting 40  sent back 300  dead 12  repeats 7" in told


def test_a_sparkline_is_as_high_as_its_highest() -> None:
    assert sparkline(()) == ""
    assert sparkline((0, 0)) == "▁▁"
    assert sparkline((0, 1, 7)) == "▁▂█"
    assert len(sparkline(tuple(range(1_000)))) <= 40


def ending(tmp_path: Path, *checks: Check) -> Ending:
    return Ending(tmp_path, list(checks), Totals(3, 1, 0, 2, {SPARK: 2, THREADS: 1}), [], 5.0, 30.0)


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
    moments = Moments(100.0, 102.0, 104.0, 105.5)
    samples = [Sample(99.0 + n, 0, 0, 0, n, 1) for n in range(8)]
    course = Course({100: 5, 101: 5}, {101: 5}, {103: 5}, samples, moments)

    draw_picture(course, tmp_path / "demo.png")

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
        (Interrupted(), 130, "stopped before the end"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else None,
)
def test_the_exit_code_says_whether_all_is_well(
    happens: Check | Exception,
    code: int,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def show(wishes: Wishes, _console: Console) -> Ending:
        if isinstance(happens, Exception):
            raise happens
        return ending(wishes.directory, happens)

    monkeypatch.setattr("flintmq.cli.demo.show.show", show)
    arguments = ["demo", "--directory", str(tmp_path), "--output", "json"]
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})

    assert done.exit_code == code
    assert told in done.output
    assert "Traceback" not in done.output


# The disk


def _made(path: Path) -> Path:
    path.mkdir()
    return path


def test_a_disk_without_room_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DiskFailed, match=r"MiB are free.*free some space"):
        check_room(_made(tmp_path / "a"), 1 << 60)

    monkeypatch.setattr(Disk, "usage", lambda *_: (95 << 30, 5 << 30))
    with pytest.raises(DiskFailed, match="95 % full") as caught:
        make_place(tmp_path, 100)
    assert caught.value.number == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []
