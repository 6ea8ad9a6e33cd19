"""The benchmark page shows what was measured, every goal in it, and nothing else."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.peers.profile import TITLES, parts_of, told  # noqa: E402
from benchmarks.report.goals import LINES, Goal, Line, hardest, verdicts  # noqa: E402
from benchmarks.report.page import PAGE, TABLES, parts, written  # noqa: E402
from benchmarks.report.plots import plot_all  # noqa: E402
from benchmarks.report.results import (  # noqa: E402
    KEPT,
    NAMES,
    Measured,
    Results,
    beside,
    load_kept,
    save,
)
from benchmarks.report.tables import broker_table, missed_list, number  # noqa: E402
from benchmarks.report.users import WORKS, cores_table, users_table  # noqa: E402

GOALS = [
    "sync send 128 B, 1 thread",
    "sync send 128 B, 16 threads",
    "sync send 128 B, 64 threads",
    "two broker processes, sync send 128 B, 64 threads",
    "sync send 1 KiB, 64 threads",
    "batch send 32 x 128 B, 4 threads",
    "pull of a backlog, 32 a pull, 128 B",
    "pull of a backlog, 32 a pull, 1 KiB",
    "end to end at 1,000 a second",
    "start to ready, name server and broker",
    "private memory after a million messages",
    "push of a backlog, 128 B, 1 a call",
    "push of a backlog, 128 B, 32 a call",
    "push of a backlog, 1 KiB, 1 a call",
    "push of a backlog, 1 KiB, 32 a call",
    "pull of a backlog, 128 B",
    "lite pull of a backlog, 128 B",
    "send one by one, 128 B",
    "send many at once, 128 B",
    "send one by one, beside rocketmq",
    "send many at once, beside rocketmq",
    "push of a backlog, beside rocketmq",
    "send one by one, beside rocketmq-python-client",
    "send many at once, beside rocketmq-python-client",
    "push of a backlog, beside rocketmq-python-client",
    "Spark: batch read, 100 B, 7 columns",
    "Spark: batch read, 1 KiB, 7 columns",
    "Spark: a function on each message, 100 B",
    "Spark: micro-batch of 40 rows",
    "Spark: stream at full speed, 100 B",
    "Spark: sink, 100 B",
    "Spark: sink, 1 KiB",
    "pop 128 B through remoting",
    "gRPC send 128 B, 16 threads",
    "gRPC receive and acknowledge 128 B, 4 threads",
]

SEND = LINES[0]


def results_of(rows: dict[str, list[dict[str, float]]], workload: str = SEND.workload) -> Results:
    machine = {"cores": 2, "cpu": "x", "memory_gib": 1, "kernel": "k", "python": "3", "java": "17"}
    return Results(machine, {}, {}, {}, {workload: Measured(workload, rows)}, {})


def broker_results(ours: list[float], theirs: list[float]) -> dict[str, Results]:
    """Server CPU round by round; rates are such that their goals hold."""
    rows = {
        "flintmq": [{"server_us": us, "rate": 2_000.0} for us in ours],
        "RocketMQ 4.9.7": [{"server_us": us, "rate": 1_000.0} for us in theirs],
        "RocketMQ 5.3.3": [{"server_us": us * 2, "rate": 1_000.0} for us in theirs],
    }
    return {"peers_broker": results_of(rows)}


def test_the_page_is_what_the_kept_results_give() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert page == written(page, load_kept()), "write it again: make bench-report"


def test_every_table_has_its_place_in_the_page() -> None:
    assert sorted(parts(PAGE.read_text(encoding="utf-8"))) == sorted(TABLES)


def test_the_page_begins_with_what_users_ask_and_ends_with_the_goals() -> None:
    order = parts(PAGE.read_text(encoding="utf-8"))

    assert order[:2] == ["users", "cores"]
    assert order.index("ratios") > order.index("soak")


def test_a_user_sees_every_side_that_was_measured_and_what_a_core_serves() -> None:
    results = broker_results([20], [100])
    rows = {line.split(" | ")[0]: line for line in users_table(results).splitlines()}

    assert "**2,000/s**" in rows["| send, 1 producer that waits"]
    assert "broker 200 µs" in rows["| send, 1 producer that waits"]
    assert rows["| start to ready"] == "| start to ready |  |  |  |"
    assert cores_table(results).count("\n") == 2, "nothing that was not measured"
    kept = load_kept()
    cells = [cell for line in users_table(kept).splitlines()[2:] for cell in line.split("|")[2:-1]]
    assert len([cell for cell in cells if cell.strip()]) == 2 * len(WORKS)


@pytest.mark.parametrize("goal", GOALS)
def test_every_goal_has_its_line(goal: str) -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert goal in [line.title for line in LINES]
    assert f"\n| {goal} | " in page


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.json")), ids=lambda path: path.name)
def test_kept_results_tell_machine_and_versions_and_nothing_private(path: Path) -> None:
    found = json.loads(path.read_text(encoding="utf-8"))

    assert path.stem in NAMES
    assert {"cpu", "cores", "kernel", "java", "python", "flintmq"} <= set(found["machine"])
    about = [found["machine"], found["versions"], found["settings"], found["skipped"]]
    assert not re.search(r"(/home|/root|/tmp|/work)\b", json.dumps(about))


def all_results() -> dict[str, Results]:
    growth, soak = results_of({}), results_of({})
    growth.more["panels"] = [
        {"title": title, "unit": "pieces", "lines": {"send": [[1, 10.0, 50.0], [100, 20.0, 70.0]]}}
        for title in ("backlog", "queues", "consumers", "size")
    ]
    metrics = ("private_mib", "descriptors", "threads", "cpu_percent")
    rows = [{"at_s": 10.0 * n, **dict.fromkeys(metrics, 5.0)} for n in range(1, 5)]
    trend = {"what": "broker: threads", "first": 4, "last": 4, "an_hour": 0.0, "verdict": "flat"}
    soak.more |= {
        "metrics": [(metric, metric) for metric in metrics],
        "samples": {"broker": rows},
        "trends": [trend],
    }
    return {**broker_results([20], [100]), "growth": growth, "soak": soak}


def test_what_was_measured_is_plotted_and_nothing_else(tmp_path: Path) -> None:
    assert plot_all({}, tmp_path) == []

    names = plot_all(all_results(), tmp_path)

    assert sorted(names) == sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 3


def test_pictures_are_shown_with_their_figures_and_only_then() -> None:
    page = PAGE.read_text(encoding="utf-8")

    full = written(page, all_results())

    assert "![" not in written(page, {})
    assert re.findall(r"\((benchmarks-\w+\.png)\)", full) == [
        "benchmarks-growth.png",
        "benchmarks-soak.png",
        "benchmarks-ratios.png",
    ]
    assert "| backlog | send | 1 pieces | 100 pieces | 10.0 + 50.0 | 20.0 + 70.0 | 1.50 |" in full
    assert "| broker: threads | 4.00 | 4.00 | +0.00 | flat |" in full
    assert written(full, all_results()) == full


def test_samples_count_for_our_innermost_module_and_for_the_kernel() -> None:
    stacks = [
        (
            "run (asyncio/runners.py:190);frames (flintmq/broker/session.py:70);"
            "take (flintmq/broker/quick_send.py:170);crc32 (zlib.so) 30"
        ),
        (
            "run (asyncio/runners.py:190);flush (flintmq/net/channels/channel.py:20);"
            "uv_write (uvloop/loop.so);__libc_sendmsg (libc.so.6) 50"
        ),
        "run (asyncio/runners.py:190);Py_DECREF (object.h:537) 20",
        "run (asyncio/runners.py:190);epoll_pwait (libc.so.6) 400",
        "work (flintmq/client/pool.py:9);PyThread_acquire_lock_timed (libpython.so);0x7f (libc) 90",
    ]

    found, in_kernel = parts_of(stacks)

    assert found == {
        "broker/quick_send": 30,
        "net/channels/channel": 50,
        "event loop, interpreter": 20,
    }
    assert in_kernel == 50
    assert told(found, in_kernel)["parts"] == [
        ["net/channels/channel", 0.5],
        ["broker/quick_send", 0.3],
        ["event loop, interpreter", 0.2],
    ]


def test_profiles_are_of_goals_and_shown_for_those_that_are_missed() -> None:
    titles = TITLES
    profile = results_of({})
    profile.more["profiles"] = {
        title: {"samples": 10, "kernel": 0.25, "parts": [["net/channel", 0.5]]} for title in titles
    }
    missed, met = broker_results([90], [100]), broker_results([1], [100])

    assert set(titles) <= {line.title for line in LINES}
    shown = f"| {SEND.title} | `net/channel` 50% | 25% |"
    assert shown in TABLES["profile"]({**missed, "profile": profile})
    assert shown not in TABLES["profile"]({**met, "profile": profile})


def test_what_is_measured_again_replaces_its_own_part_alone() -> None:
    panels = [{"title": "queues", "unit": "a"}, {"title": "size", "unit": "a"}]

    assert beside(panels, [{"title": "queues", "unit": "b"}]) == [
        {"title": "queues", "unit": "b"},
        {"title": "size", "unit": "a"},
    ]
    assert beside({"one": 1, "two": 2}, {"two": 3}) == {"one": 1, "two": 3}
    assert beside(None, panels) == panels


def test_a_ratio_is_taken_round_by_round() -> None:
    verdict = next(verdicts(SEND, broker_results([10, 60, 56], [100, 100, 80])))

    assert verdict.ratio == (0.6, 0.1, 0.7)
    assert not verdict.is_met


def test_a_goal_must_hold_against_each_of_the_others() -> None:
    results = broker_results([60], [100])  # 0.6 of the one, 0.3 of the other, and 0.5 is asked

    assert [v.is_met for v in verdicts(SEND, results)] == [False, True, True, True]
    assert [v.other for v in hardest(SEND, results)] == ["RocketMQ 4.9.7", "RocketMQ 4.9.7"]
    assert "**missed**: server CPU |" in broker_table(results)
    assert missed_list(results) == (
        "- sync send 128 B, 1 thread: server CPU ≤ 0.5, is 0.60 against RocketMQ 4.9.7\n"
    )


def test_a_goal_that_holds_is_met() -> None:
    line = broker_table(broker_results([20], [100])).splitlines()[2]

    assert line.endswith("| server CPU ≤ 0.5, rate ≥ 1.2 | met |")
    assert "| 2,000/s<br>server 20.0 µs |" in line


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    assert all(not verdict.is_met for line in LINES for verdict in verdicts(line, {}))
    assert all("not measured" in line for line in broker_table({}).splitlines()[2:])
    assert missed_list({}) == ""


def test_only_rates_are_bounded_from_below() -> None:
    assert Goal("rate", 1.5).holds(1.6)
    assert not Goal("rate", 1.5).holds(1.4)
    assert Goal("server_us", 0.5).holds(0.4)
    assert not Goal("server_us", 0.5).holds(0.6)


def test_a_side_without_a_metric_has_no_ratio() -> None:
    line = Line("t", "peers_broker", SEND.workload, ("other",), (Goal("p99_ms", 1.0),))
    rows = {"flintmq": [{"rate": 1.0}], "other": [{"rate": 1.0, "p99_ms": 2.0}]}

    assert [v.ratio for v in verdicts(line, {"peers_broker": results_of(rows)})] == [None]


def test_what_is_saved_is_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured = Measured("w", {"a": [{"rate": 1234.56789}]})

    save(
        tmp_path / "soak.json",
        [measured],
        versions={"x": "1"},
        settings={"rounds": 2},
        skipped={"y": "no"},
        samples=[1.0],
    )
    found = load_kept(tmp_path)["soak"]

    assert found.workloads == {"w": Measured("w", {"a": [{"rate": 1234.6}]})}
    assert (found.versions, found.settings, found.skipped) == (
        {"x": "1"},
        {"rounds": 2},
        {"y": "no"},
    )
    assert found.more == {"samples": [1.0]}
    assert "written to" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "text"), [(0.123, "0.12"), (9.876, "9.88"), (12.34, "12.3"), (12_345.6, "12,346")]
)
def test_numbers_have_the_digits_that_count(value: float, text: str) -> None:
    assert number(value) == text
