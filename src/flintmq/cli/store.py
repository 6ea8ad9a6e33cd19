"""`flintmq store`: looking into a store directory, ours or a Java broker's.

Both commands only read, take no lock and may run beside a broker at work.

    exit 0   the store is in order
    exit 1   it is not: see what was printed
    exit 2   it could not be looked at: no such directory, or nothing we know
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from flintmq.cli.shared.output import Output, OutputOption, print_json, say, shown
from flintmq.errors import FlintError
from flintmq.printable import printable
from flintmq.store.check.findings import Severity
from flintmq.store.check.show_store import Listing, show_store
from flintmq.store.check.store_check import CheckReport, check_store
from flintmq.store.check.store_check import Progress as Tell
from flintmq.store.files.disk import Disk
from flintmq.store.files.layout import COMMIT_LOG_DIRECTORY, CONFIG_DIRECTORY
from flintmq.store.files.store_config import StoreConfig

app = typer.Typer(help="Look into a store directory.", no_args_is_help=True)

NOT_GOOD = 1
NOT_LOOKED_AT = 2


Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The store directory of a broker.")]


@app.command()
def check(directory: Directory, output: OutputOption = Output.TABLE) -> None:
    """Prove that every file of the store agrees with the others, or tell what does not."""
    with _exit_on_errors(), _progress() as tell, Disk() as disk:
        _require_store(directory)
        report = check_store(disk, directory, StoreConfig(), tell)
    if output is Output.JSON:
        print_json(_check_facts(report))
    else:
        _print_report(report)
    if not report.is_good:
        raise typer.Exit(NOT_GOOD)


@app.command()
def show(directory: Directory, output: OutputOption = Output.TABLE) -> None:
    """List topics, queues, offsets, sizes, groups and delayed messages."""
    with _exit_on_errors(), Disk() as disk:
        _require_store(directory)
        listing = show_store(disk, directory, StoreConfig())
    if output is Output.JSON:
        print_json(msgspec.to_builtins(listing))
    else:
        _print_listing(listing)


@contextmanager
def _exit_on_errors() -> Iterator[None]:
    """Exit with one sentence when the store cannot be read."""
    try:
        yield
    except FlintError as error:
        say(str(error))
        raise typer.Exit(NOT_LOOKED_AT) from None


def _require_store(directory: Path) -> None:
    for name in (COMMIT_LOG_DIRECTORY, CONFIG_DIRECTORY):
        if (directory / name).is_dir():
            return
    reason = "has no commitlog" if directory.is_dir() else "is no directory"
    say(f"{directory} {reason}: give the directory that a broker calls storePathRootDir")
    raise typer.Exit(NOT_LOOKED_AT)


@contextmanager
def _progress() -> Iterator[Tell]:
    """A bar on the terminal while something takes long; nothing elsewhere."""
    console = Console(stderr=True)
    columns = (TextColumn("checking"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("log", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _check_facts(report: CheckReport) -> dict[str, object]:
    return {
        "directory": report.directory,
        "good": report.is_good,
        "state": report.exit.value,
        "records": report.records,
        "log_bytes": report.log_bytes,
        "queues": report.queues,
        "units": report.units,
        "index_entries": report.index_entries,
        "counts": {kind.value: report.findings.count(kind) for kind in Severity},
        "findings": [
            {"kind": f.severity.value, "path": f.path, "position": f.position, "what": f.what}
            for f in report.findings.kept
        ],
    }


_COLOURS = {Severity.WRONG: "red", Severity.LOST: "yellow", Severity.NOTE: "dim"}


def _print_report(report: CheckReport) -> None:
    console = Console(soft_wrap=True, highlight=False)
    for finding in report.findings.kept:
        colour = _COLOURS[finding.severity]
        console.print(f"[{colour}]{finding.severity.value:>5}[/]  {shown(finding)}")
    kept = len(report.findings.kept)
    left_out = sum(report.findings.count(kind) for kind in Severity) - kept
    if left_out:
        console.print(f"       and {left_out} more")
    console.print(
        f"{report.records} records in {report.log_bytes} bytes, {report.units} units in "
        f"{report.queues} queues, {report.index_entries} index entries; "
        f"the store is {report.exit.value}"
    )
    wrong, lost = (report.findings.count(kind) for kind in (Severity.WRONG, Severity.LOST))
    if report.is_good:
        console.print("[green]everything agrees[/]")
    elif wrong:
        console.print(
            f"[red]{wrong} things are wrong[/], {lost} are lost; a broker that opens the "
            "directory mends queues and index from the log"
        )
    else:
        console.print(f"[yellow]{lost} things are lost[/]; everything else agrees")


def _print_listing(listing: Listing) -> None:
    console = Console(soft_wrap=True, highlight=False)
    log = listing.log
    state = "open, or its broker was killed" if listing.is_open else "closed"
    console.print(
        f"log [{log.start}, {log.end}) in {log.files} files of {log.file_bytes} bytes; "
        f"{listing.index_entries} index entries in {listing.index_files} files; {state}",
        markup=False,
    )
    for remark in listing.remarks:
        console.print(printable(remark), style="yellow", markup=False)
    queues = Table(
        Column("topic", overflow="fold"), "queue", "min", "max", "bytes", "oldest", "newest"
    )
    for queue in listing.queues:
        numbers = (queue.queue_id, queue.min_offset, queue.max_offset, queue.size_bytes)
        times = (_time(queue.oldest_ms), _time(queue.newest_ms))
        queues.add_row(shown(queue.topic), *map(str, numbers), *times)
    console.print(queues)
    if listing.groups:
        groups = Table(
            Column("group", overflow="fold"),
            Column("topic", overflow="fold"),
            "queue",
            "committed",
            "behind",
        )
        for one in listing.groups:
            lag = "" if one.lag is None else str(one.lag)
            groups.add_row(
                shown(one.group), shown(one.topic), str(one.queue_id), str(one.committed), lag
            )
        console.print(groups)
    if listing.delays:
        delays = Table("delay level", "next", "waiting")
        for delay in listing.delays:
            delays.add_row(str(delay.level), str(delay.next_offset), str(delay.waiting))
        console.print(delays)


def _time(store_ms: int | None) -> str:
    if store_ms is None:
        return ""
    try:
        return datetime.fromtimestamp(store_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return str(store_ms)
