"""What the demo says at its end: what was checked, what the table holds, where things are."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flintmq.cli.demo.orders import GROUP, ORDERS

if TYPE_CHECKING:
    from flintmq.cli.demo.checks import Check
    from flintmq.cli.demo.order_table import Line
    from flintmq.cli.demo.show import Ending


def facts(ending: Ending, *, is_kept: bool) -> dict[str, object]:
    """The same for programs."""
    totals, directory = ending.totals, ending.directory
    return {
        "good": ending.is_good,
        "checks": [
            {"what": check.what, "found": check.found, "good": check.is_good}
            for check in ending.checks
        ],
        "consumed": totals.consumed,
        "dead": totals.dead,
        "repeats": totals.repeats,
        "sent_back": totals.sent_back,
        "by": totals.by,
        "set_up_s": round(ending.set_up_s, 1),
        "story_s": round(ending.story_s, 1),
        "files": {name: str(directory / file) for name, file in FILES.items()} if is_kept else None,
    }


FILES = {
    "table": "orders",
    "attempts": "attempts",
    "picture": "demo.png",
    "ledger": "ledger.txt",
    "store": "store",
    "log": "demo.log",
}


def print_report(console: Console, ending: Ending, *, is_kept: bool) -> None:
    console.print()
    console.print(_checks(ending.checks))
    totals = ending.totals
    console.print(
        f"{totals.sent_back:,} times a message went back and came again through the retry topic.\n"
        f"{totals.repeats:,} were consumed once more, as happens when a queue changes hands.\n"
        f"Set-up {ending.set_up_s:.0f} s, story {ending.story_s:.0f} s.",
        highlight=False,
    )
    if not ending.is_good:
        console.print(Text("The demo failed: see what is marked.", "bold red"))
    console.print()
    console.print(_lines(ending.lines))
    if is_kept:
        console.print()
        for name, what in places(ending.directory):
            console.print(f"{name:<10}{what}", highlight=False, soft_wrap=True, markup=False)
        console.print("\nTry next:", highlight=False)
        for command, why in commands(ending.directory):
            console.print(Text(f"  {command}", "bold"), soft_wrap=True)
            console.print(f"      {why}", style="grey62", highlight=False, soft_wrap=True)


def _checks(checks: list[Check]) -> Table:
    table = Table("checked", "found", "")
    for check in checks:
        mark = Text("yes", "green") if check.is_good else Text("NO", "bold red")
        table.add_row(check.what, check.found, mark)
    return table


def _lines(lines: list[Line]) -> Table:
    table = Table(title="Consumed orders, from the Parquet table", title_justify="left")
    table.add_column("status")
    for head in ("orders", "amount", "first try", "later", "on Spark", "on threads"):
        table.add_column(head, justify="right")
    for line in lines:
        numbers = (line.at_once, line.later, line.by_spark, line.by_threads)
        amount = f"{line.cents / 100:,.2f}"
        table.add_row(line.status, f"{line.orders:,}", amount, *(f"{each:,}" for each in numbers))
    return table


def places(directory: Path) -> Iterator[tuple[str, str]]:
    """Where things are, as a user would type it."""
    for name in ("table", "picture", "store", "log"):
        yield name, shown(directory / FILES[name])


def commands(directory: Path) -> list[tuple[str, str]]:
    """What to try next.  The first runs until Ctrl-C; the others ask it, from another shell."""
    ourselves = our_name()
    store = shlex.quote(shown(directory / FILES["store"]))
    return [
        (f"{ourselves} serve --data {store}", _AGAIN),
        (f"{ourselves} tail {ORDERS} --from start --count 5", "some of what was sent"),
        (f"{ourselves} dlq list {GROUP}", "the orders that nobody could bill"),
    ]


_AGAIN = "the same broker again, on the usual ports, until Ctrl-C; ask it from another shell:"


def our_name() -> str:
    """How this program was called: ``flintmq`` where that is on the PATH."""
    found, here = shutil.which("flintmq"), Path(sys.argv[0])
    if found is not None and (here.name != "flintmq" or Path(found).samefile(here)):
        return "flintmq"
    if here.name != "flintmq":
        return f"{shlex.quote(sys.executable)} -m flintmq"
    return shlex.quote(shown(here))


def shown(path: Path) -> str:
    """A path as short as it can be said from here."""
    near = os.path.relpath(path)
    return str(path) if near.startswith("..") else near
