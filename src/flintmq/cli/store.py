"""`flintmq store`: looking into a store directory, ours or a Java broker's, and emptying one.

``check`` and ``show`` only read, take no lock and may run beside a broker at work.  ``set-aside``
is for a slave whose log has diverged, and takes a store that no broker has open.

    exit 0   the store is in order
    exit 1   it is not: see what was printed
    exit 2   it could not be looked at: no such directory, or nothing we know
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from flintmq.cli.shared.help_page import STORE_EXIT_CODES
from flintmq.cli.shared.options import Yes
from flintmq.cli.shared.output import Output, OutputOption, print_json, say, shown, when, with_json
from flintmq.cli.shared.tables import print_table
from flintmq.errors import FlintError
from flintmq.model.light_queue import is_light
from flintmq.net.address import Address
from flintmq.net.blocking.log_stream import read_log
from flintmq.printable import printable
from flintmq.store.check.compare_logs import LogComparison, Verdict, compare_store
from flintmq.store.check.findings import Severity
from flintmq.store.check.show_store import Listing, show_store
from flintmq.store.check.store_check import CheckReport, check_store
from flintmq.store.check.store_check import Progress as Tell
from flintmq.store.files.disk import Disk
from flintmq.store.files.layout import (
    COMMIT_LOG_DIRECTORY,
    CONFIG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
)
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.move_aside import move_aside

app = typer.Typer(
    help="Look into a store directory.", no_args_is_help=True, epilog=STORE_EXIT_CODES
)

NOT_GOOD = 1
NOT_LOOKED_AT = 2


Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The store directory of a broker.")]


Against = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Compare the log with that of a running broker too: its HA port, one above its own.",
    ),
]


@app.command()
@with_json
def check(
    directory: Directory, against: Against = None, output: OutputOption = Output.TABLE
) -> None:
    """Prove that every file of the store agrees with the others, or tell what does not.

    Examples:
        flintmq store check /var/lib/flintmq
        flintmq store check /var/lib/flintmq --against 10.0.0.1:10912
    """
    compared: LogComparison | None = None
    with _exit_on_errors(), _progress() as tell, Disk() as disk:
        _require_store(directory)
        config = _config(directory)
        report = check_store(disk, directory, config, tell)
        popped = show_store(disk, directory, config).popped if report.is_good else []
        if against is not None and report.log_end is not None:
            place = str(Address.parse(against))
            read = partial(read_log, place)
            compared = compare_store(disk, directory, config, report.log_end, read)
    in_flight = sum(each.messages for each in popped)
    if output is Output.JSON:
        facts = _check_facts(report) | {"messages_in_flight": in_flight}
        print_json(facts if compared is None else facts | {"against": _compared_facts(compared)})
    else:
        _print_report(report)
        if in_flight:
            say(f"{in_flight} messages were popped and are not acknowledged: they come back")
        if compared is not None:
            _print_comparison(compared, str(against))
    if not report.is_good or (compared is not None and not compared.is_same):
        raise typer.Exit(NOT_GOOD)


@app.command()
@with_json
def show(directory: Directory, output: OutputOption = Output.TABLE) -> None:
    """List topics, queues, offsets, sizes, groups, delayed messages and messages in flight.

    Examples:
        flintmq store show /var/lib/flintmq --json
    """
    with _exit_on_errors(), Disk() as disk:
        _require_store(directory)
        listing = show_store(disk, directory, _config(directory))
    if output is Output.JSON:
        print_json(msgspec.to_builtins(listing))
    else:
        _print_listing(listing)


@app.command("set-aside")
@with_json
def empty(directory: Directory, yes: Yes = False, output: OutputOption = Output.TABLE) -> None:
    """Move the messages of a slave aside, so that it begins again with its master's log.

    For a slave that has stopped because its log is not its master's. Nothing is deleted.

    Examples:
        flintmq store set-aside /var/lib/flintmq
    """
    _require_store(directory)
    if not yes:
        typer.confirm(f"Move all messages of {directory} aside?", abort=True, err=True)
    name = f"aside-{datetime.now():%Y%m%d-%H%M%S}"  # noqa: DTZ005  # local, for people
    with _exit_on_errors(), Disk() as disk:
        aside = move_aside(disk, directory, name)
    if output is Output.JSON:
        print_json({"aside": str(aside)})
    else:
        typer.echo(f"moved to {aside}; start the slave, and remove that when it has caught up")


@contextmanager
def _exit_on_errors() -> Iterator[None]:
    """Exit with one sentence when the store cannot be read."""
    try:
        yield
    except FlintError as error:
        say(str(error))
        raise typer.Exit(NOT_LOOKED_AT) from None


def _config(directory: Path) -> StoreConfig:
    """Settings for looking: with light queues where the directory has some."""
    queues = directory / CONSUME_QUEUE_DIRECTORY
    has_light = queues.is_dir() and any(is_light(path.name) for path in queues.iterdir())
    return StoreConfig(light_queues=has_light, multi_dispatch=has_light)


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


def _compared_facts(compared: LogComparison) -> dict[str, object]:
    return {
        "verdict": compared.verdict.value,
        "start": compared.start,
        "stop": compared.stop,
        "end": compared.end,
        "other_end": compared.other_end,
        "different_bytes": compared.different_bytes,
        "differences": [msgspec.to_builtins(each) for each in compared.differences],
    }


def _print_comparison(compared: LogComparison, against: str) -> None:
    console = Console(soft_wrap=True, highlight=False)
    for difference in compared.differences:
        console.print(f"[red]other[/]  {shown(difference)}")
    start, stop, end, other_end = compared.start, compared.stop, compared.end, compared.other_end
    span = f"log [{start}, {stop}) compared with {printable(against)}: "
    match compared.verdict:
        case Verdict.EQUAL:
            console.print(f"{span}[green]equal[/], both end at {end}")
        case Verdict.SHORTER:
            console.print(f"{span}[green]the same[/]; the broker has more, this ends at {end}")
        case Verdict.LONGER:
            console.print(f"{span}[yellow]the same[/]; this has {end - other_end} bytes more")
        case Verdict.DIFFERENT:
            console.print(f"{span}[red]{compared.different_bytes} bytes differ[/]")
        case Verdict.APART:
            console.print(f"[red]{printable(against)} has none of the bytes of this log[/]")


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
    print_table(
        ("topic", "queue", "min offset", "max offset", "bytes", "oldest", "newest"),
        (
            (
                *(queue.topic, queue.queue_id, queue.min_offset, queue.max_offset),
                *(queue.size_bytes, when(queue.oldest_ms), when(queue.newest_ms)),
            )
            for queue in listing.queues
        ),
    )
    if listing.groups:
        print_table(
            ("group", "topic", "queue", "committed", "lag"),
            (
                (one.group, one.topic, one.queue_id, one.committed, one.lag)
                for one in listing.groups
            ),
        )
    if listing.popped:
        print_table(
            ("group", "topic", "in flight", "first back at"),
            (
                (each.group, each.topic, each.messages, when(each.next_due_ms))
                for each in listing.popped
            ),
        )
    if listing.delays:
        print_table(
            ("delay level", "next offset", "waiting"),
            ((delay.level, delay.next_offset, delay.waiting) for delay in listing.delays),
        )
