"""`flintmq demo`: see it work, in about a minute, on this machine alone.

    exit 0   it ended, and all checks hold
    exit 1   a check does not hold, or the demo could not run: the reason is on stderr
    exit 2   usage error
    exit 130 it was interrupted

What it needs is looked for before anything is started: Spark, Java, matplotlib, a directory, room
on its disk.
"""

from __future__ import annotations

import errno
import importlib.util
import shutil
from datetime import datetime
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated, Final

import typer
from rich.console import Console

from flintmq.cli.shared.output import Output, OutputOption, print_json, with_json
from flintmq.cli.shared.server_process import exit_with_error, say
from flintmq.errors import DiskFailed, FlintError, InvalidSetting, MissingExtra, WrongState
from flintmq.net.address import Address

FAILED: Final = 1
INTERRUPTED: Final = 130

MESSAGES: Final = 10_000
MESSAGES_MIN: Final = 100
"""With fewer there is no dead letter."""

MESSAGES_MAX: Final = 200_000
"""All of them are remembered, to be checked."""

LISTENERS: Final = 8

ANYWHERE: Final = Address("127.0.0.1", 0)
"""A port of loopback that the system chooses."""

ROOM_BYTES: Final = 256 * 1024 * 1024
"""What a run may write, with its log and Spark's scratch files."""

MESSAGE_BYTES: Final = 2_048
"""What one message may take on disk, in all files together."""


@with_json
def demo(
    messages: Annotated[
        int,
        typer.Option("--messages", min=MESSAGES_MIN, max=MESSAGES_MAX, help="How many to send."),
    ] = MESSAGES,
    listeners: Annotated[
        int,
        typer.Option("--listeners", min=1, max=64, help="How many run at once on threads."),
    ] = LISTENERS,
    directory: Annotated[
        Path,
        typer.Option("--directory", metavar="DIR", help="Where a directory for the run is made."),
    ] = Path("flintmq-demo"),
    keep: Annotated[
        bool, typer.Option("--keep/--no-keep", help="Keep what the run wrote, or remove it.")
    ] = True,
    namesrv_listen: Annotated[
        str | None,
        typer.Option(
            "--namesrv-listen",
            metavar="HOST:PORT",
            help="Where the name server listens.",
            show_default="a free port",
        ),
    ] = None,
    broker_listen: Annotated[
        str | None,
        typer.Option(
            "--broker-listen",
            metavar="HOST:PORT",
            help="Where the broker listens.",
            show_default="a free port",
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run a demo shop on Spark and threads, check that nothing was lost, and show it.

    Examples:
        flintmq demo
        flintmq demo --messages 2000 --json
    """
    listen = (
        _address("--namesrv-listen", namesrv_listen),
        _address("--broker-listen", broker_listen),
    )
    try:
        require_all()
        place = make_directory(directory, messages)
    except FlintError as error:
        exit_with_error(error)
    try:
        is_good = _play(place, messages, listeners, listen, output, keep)
    finally:
        if not keep:
            shutil.rmtree(place, ignore_errors=True)
    if not is_good:
        raise typer.Exit(FAILED)


def _address(option: str, text: str | None) -> Address:
    try:
        return ANYWHERE if text is None else Address.parse(text)
    except InvalidSetting as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _play(
    place: Path,
    messages: int,
    listeners: int,
    listen: tuple[Address, Address],
    output: Output,
    keep: bool,
) -> bool:
    """Run it and print the results; whether all checks hold."""
    # Spark is loaded here, not for the help
    from flintmq.cli.demo import story
    from flintmq.cli.demo.demo_report import facts, print_report

    console = Console(stderr=output is Output.JSON)
    try:
        ending = story.play(place, messages, listeners, listen, console)
    except KeyboardInterrupt:
        say(f"stopped before the end; its files are in {place}" if keep else "stopped")
        raise typer.Exit(INTERRUPTED) from None
    except FlintError as error:
        exit_with_error(error)
    except OSError as error:
        exit_with_error(disk_failed(error, place, "use"))
    except Exception as error:  # whatever Spark raises; all of it is in the log
        reason = (str(error) or type(error).__name__).splitlines()[0]
        if keep:
            reason += f"; all of it is in {place / 'demo.log'}"
        exit_with_error(WrongState("the demo", "over before its end", reason))
    if output is Output.JSON:
        print_json(facts(ending, is_kept=keep))
    else:
        print_report(console, ending, is_kept=keep)
    return ending.is_good


def require_all() -> None:
    """Raise what says how to get it, if something is missing that the demo needs."""
    from flintmq.spark.environment.java import use_java
    from flintmq.spark.environment.requirements import require_pyspark

    require_pyspark()
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtra("matplotlib", "demo")
    use_java()


def make_directory(parent: Path, messages: int) -> Path:
    """A new directory for a run, on a disk with room."""
    prefix = f"{datetime.now().astimezone():%Y-%m-%d-%H%M%S}-"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        made = Path(mkdtemp(prefix=prefix, dir=parent.absolute()))
    except OSError as error:
        raise disk_failed(error, parent, "make a directory in") from None
    try:
        check_room(made, ROOM_BYTES + messages * MESSAGE_BYTES)
    except DiskFailed:
        made.rmdir()
        raise
    return made


def disk_failed(error: OSError, place: Path, operation: str) -> DiskFailed:
    path = str(error.filename or place)
    return DiskFailed(path, operation, error.strerror or str(error), error.errno or 0)


def check_room(place: Path, needed_bytes: int) -> None:
    """`DiskFailed` when the demo would fill the disk, or the broker would find it too full."""
    from flintmq.store.files.disk import Disk
    from flintmq.store.files.store_config import StoreConfig

    with Disk() as disk:
        used_bytes, free_bytes = disk.usage(place)
    limit = StoreConfig().refuse_percent
    percent = 100 * used_bytes // max(1, used_bytes + free_bytes)
    if free_bytes < needed_bytes:
        reason = f"{free_bytes >> 20} MiB are free, and {needed_bytes >> 20} MiB may be needed"
    elif percent > limit:
        reason = f"the disk is {percent} % full, and a broker stops at {limit} %"
    else:
        return
    raise DiskFailed(str(place), "play in", reason, errno.ENOSPC)
