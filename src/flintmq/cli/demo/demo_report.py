"""What the demo prints and draws: its progress, its checks, what the table holds, what to try."""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flintmq.cli.demo.evidence import Check, Tally
from flintmq.cli.demo.orders import ATTEMPTS_FILE, GROUP, LEDGER_FILE, ORDERS, SPARK, THREADS

FILES: Final = {
    "table": "orders",
    "attempts": ATTEMPTS_FILE,
    "picture": "demo.png",
    "ledger": LEDGER_FILE,
    "store": "store",
    "log": "demo.log",
}
"""What a run leaves in its directory."""


class DemoSample(NamedTuple):
    """Counts of the run at one time, in seconds since 1970."""

    time_s: float
    sent: int
    lag: int
    waiting: int


class Ending(NamedTuple):
    """The results of a run."""

    directory: Path
    checks: list[Check]
    tally: Tally
    table: pa.Table
    set_up_s: float
    story_s: float

    @property
    def is_good(self) -> bool:
        return all(check.is_good for check in self.checks)


def progress_line(step: str, elapsed_s: float, count: int, now: DemoSample, tally: Tally) -> str:
    minutes, seconds = divmod(max(0, int(elapsed_s)), 60)
    return (
        f"{minutes}:{seconds:02}  {step}  sent {now.sent:,} of {count:,}"
        f"  consumed {len(tally.consumed):,}  lag {now.lag:,}  waiting {now.waiting:,}"
        f"  sent back {tally.sent_back:,}  dead {len(tally.dead):,}  repeats {tally.repeats:,}"
    )


def facts(ending: Ending, *, is_kept: bool) -> dict[str, object]:
    """The results for programs."""
    tally, directory = ending.tally, ending.directory
    return {
        "good": ending.is_good,
        "checks": [
            {"what": check.what, "found": check.found, "good": check.is_good}
            for check in ending.checks
        ],
        "consumed": len(tally.consumed),
        "dead": len(tally.dead),
        "repeats": tally.repeats,
        "dead_again": tally.dead_again,
        "sent_back": tally.sent_back,
        "by": tally.by,
        "set_up_s": round(ending.set_up_s, 1),
        "story_s": round(ending.story_s, 1),
        "files": {name: str(directory / file) for name, file in FILES.items()} if is_kept else None,
    }


def print_report(console: Console, ending: Ending, *, is_kept: bool) -> None:
    """The results for people."""
    checks = Table("checked", "found", "")
    for check in ending.checks:
        mark = Text("yes", "green") if check.is_good else Text("NO", "bold red")
        checks.add_row(check.what, check.found, mark)
    console.print("", checks, sep="\n")
    lines = [*sums(ending.tally), f"Set-up {ending.set_up_s:.0f} s, story {ending.story_s:.0f} s."]
    if not ending.is_good:
        lines.append("[bold red]The demo failed: see what is marked.[/]")
    console.print(*lines, "", sep="\n", highlight=False, soft_wrap=True)
    console.print(_orders(ending.table))
    if is_kept:
        places = (f"{name:<10}{_short(ending.directory / FILES[name])}" for name in _SHOWN)
        tries = (f"  {command}\n      {why}" for command, why in commands(ending.directory))
        text = "\n".join(("", *places, "", "Try next:", *tries))
        console.print(text, highlight=False, soft_wrap=True, markup=False)


def sums(tally: Tally) -> list[str]:
    """How the figures of the checks belong together."""
    by = " + ".join(f"{name} {count:,}" for name, count in sorted(tally.by.items()) if count)
    lines = [
        f"{by or 0} = {len(tally.consumed):,} messages + {tally.repeats:,} repeats.",
        "Repeats: a queue that changes hands is delivered again from its last commit.",
        f"{tally.sent_back:,} times a message failed and was redelivered through the retry topic.",
    ]
    if tally.dead_again:
        lines.append(
            f"{tally.dead_again:,} times a dead letter was given up once more, for the same reason."
        )
    return lines


_SHOWN: Final = ("table", "picture", "store", "log")


def _orders(orders: pa.Table) -> Table:
    """How many orders of each status were consumed, where, and their amount."""
    table = Table("status", "on", title="Consumed orders, from the Parquet table")
    table.add_column("orders", justify="right")
    table.add_column("amount", justify="right")
    keys = ["status", "consumed_by"]
    sums = orders.group_by(keys).aggregate([("order", "count"), ("cents", "sum")])
    for row in sums.sort_by([(key, "ascending") for key in keys]).to_pylist():
        amount = f"{row['cents_sum'] / 100:,.2f}"
        table.add_row(row["status"], row["consumed_by"], f"{row['order_count']:,}", amount)
    return table


def commands(directory: Path) -> list[tuple[str, str]]:
    """What to try next.  The first runs until Ctrl-C; the others ask it, from another shell."""
    found, here = shutil.which("flintmq"), Path(sys.executable)
    is_ours = found is not None and Path(found).parent == here.parent
    flintmq = "flintmq" if is_ours else f"{shlex.quote(_short(here))} -m flintmq"
    again = "the same broker again, on the usual ports, until Ctrl-C; ask it from another shell:"
    return [
        (f"{flintmq} serve --data {shlex.quote(_short(directory / FILES['store']))}", again),
        (f"{flintmq} tail {ORDERS} --from start --count 5", "some of what was sent"),
        (f"{flintmq} dlq list {GROUP}", "the orders that nobody could bill"),
    ]


def _short(path: Path) -> str:
    """A path relative to the working directory, if it is inside."""
    near = os.path.relpath(path)
    return str(path) if near.startswith("..") else near


def draw(
    began_s: float,
    samples: Sequence[DemoSample],
    marks: Mapping[str, float],
    tally: Tally,
    path: Path,
) -> None:
    """Write the picture, a PNG: what was sent and consumed in each second, and the lag."""
    figure_class: Any = importlib.import_module("matplotlib.figure").Figure
    figure = figure_class(figsize=(9.0, 5.4), layout="constrained")
    rate, lag = figure.subplots(2, 1, sharex=True)
    start_s, stop_s = int(began_s), int(samples[-1].time_s) + 1
    for runner, colour in ((SPARK, "#e8710a"), (THREADS, "#1a73e8")):
        heights = [tally.seconds[runner, second] for second in range(start_s, stop_s)]
        edges, label = list(range(len(heights) + 1)), f"consumed on {runner}"
        rate.stairs(heights, edges, color=colour, fill=True, alpha=0.35)
        rate.stairs(heights, edges, color=colour, label=label, linewidth=1.4)
    last = {int(each.time_s): each.sent for each in samples}
    sent = [last.get(second, 0) for second in range(start_s - 1, stop_s)]
    rises = [max(0, now - before) for before, now in pairwise(sent)]
    rate.stairs(rises, list(range(len(rises) + 1)), color="#8c8c8c", label="sent", linewidth=1.4)
    times = [each.time_s - start_s for each in samples]
    waiting = [each.waiting for each in samples]
    lag.plot(times, [each.lag for each in samples], color="#202124", label="lag")
    lag.plot(times, waiting, color="#b31412", label="waiting for a retry", linewidth=1.2)
    title = "Sent at a fixed pace, and consumed by listeners, in each second"
    rate.set_title(title, loc="left", fontsize=10)
    lag.set_title("Behind: stored and not committed by the group", loc="left", fontsize=10)
    rate.set_ylabel("messages a second")
    lag.set(ylabel="messages", xlabel="seconds since the first message")
    for axis in (rate, lag):
        axis.set_xlim(0, stop_s - start_s)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        for words, at_s in marks.items():
            axis.axvline(at_s - start_s, color="#5f6368", linewidth=0.9, linestyle="--")
            if axis is rate:
                place = (at_s - start_s, rate.get_ylim()[1])
                rate.annotate(words, place, fontsize=8, color="#5f6368", rotation=90, va="top")
        axis.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.savefig(path, format="png", dpi=130)
