"""What the commands that serve have in common: the log, limits, signals and how they end.

    exit 0   it was asked to stop, by SIGTERM or SIGINT, and everything is stored
    exit 1   it could not start, the disk failed, what it stores is not all stored, or its stop
             took too long: why is on stderr
    exit 2   usage error

The log goes to stderr.  Only the line that says it is ready goes to stdout, so that a script
can wait for it.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import resource
import signal
import socket
import sys
from collections.abc import Coroutine
from enum import StrEnum
from ipaddress import ip_address
from types import FrameType
from typing import Any, NoReturn

import typer

from flintmq.errors import FlintError, InvalidSetting
from flintmq.net.address import Address
from flintmq.net.collector import ease_collector, still_collector
from flintmq.net.loop import run
from flintmq.printable import printable_lines

NOT_STARTED = 1

FILES_WANTED = 65_536
"""Ten thousand connections and as many queues, with room to spare."""

STOP_LIMIT_S = 30
"""From the signal to the end of the process: the limits of a broker and a name server, and some."""

FAR_AWAY = ("192.0.2.1", 9)
"""A documentation address: nobody is there, but the way to it starts at our outer address."""


class LogLevel(StrEnum):
    """How much to log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def serve_until_told(
    main: Coroutine[Any, Any, None], level: LogLevel, *, of: str | None = None
) -> None:
    """Run a server to its end; print in one line why it could not start or go on.

    ``of`` names it, where the log has lines of several processes.
    """
    name = "" if of is None else f"{of} "
    logging.basicConfig(
        level=level.upper(), format=f"%(asctime)s %(levelname)s {name}%(name)s %(message)s"
    )
    raise_file_limit()
    still_collector()
    try:
        run(main)
    except FlintError as error:
        say(f"{of}: {error}" if of else str(error))
        raise SystemExit(NOT_STARTED) from None


def exit_with_error(error: FlintError) -> NoReturn:
    say(str(error))
    raise typer.Exit(NOT_STARTED) from None


def say(line: str) -> None:
    """One line for people, on stderr."""
    typer.echo(f"flintmq: {printable_lines(line)}", err=True)


def stop_signal() -> asyncio.Event:
    """Set when the process is asked to stop.  Asked once more, it ends at once.

    The signal is taken between any two steps of Python, not by the loop: a loop that is blocked
    hears nothing.  What has not ended after `STOP_LIMIT_S` is cut, and every thread is shown.
    """
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)
        if sys.__stderr__ is not None:
            faulthandler.dump_traceback_later(STOP_LIMIT_S, exit=True, file=sys.__stderr__)
        loop.call_soon_threadsafe(stopping.set)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return stopping


async def stopping_or_failed(stopping: asyncio.Event, *failed: asyncio.Event) -> None:
    """Wait until a server that is ready is asked to stop, or cannot go on: its `stop` raises why.

    Other events of it may end the wait too.
    """
    ease_collector()
    waits = [asyncio.ensure_future(event.wait()) for event in (stopping, *failed)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


def check_metrics(listen: Address) -> None:
    """Raise `MissingExtra` before anything is started; warn where others can read metrics."""
    from flintmq.metrics.exposition import require_prometheus

    require_prometheus()
    if not is_loopback(listen.host):
        say(f"warning: everyone who reaches {listen} can read the metrics, names of topics too")


def raise_file_limit() -> None:
    """Take as many file descriptors as the system lets us, up to what is wanted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # some systems have a lower limit of their own
            say(f"only {soft} files may be open at once")


# Addresses


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_everywhere(host: str) -> bool:
    """Whether listening there means on every address of the machine."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def parse_advertised(text: str) -> Address:
    """Read ``HOST[:PORT]``; without a port it is 0, which means the one that is listened on."""
    bare = text.strip()
    has_port = bare.rpartition("]")[2].startswith(":") if bare.startswith("[") else ":" in bare
    try:
        address = Address.parse(bare if has_port else f"{bare}:0")
    except InvalidSetting as error:
        raise InvalidSetting("advertise", text, error.reason) from None
    if is_everywhere(address.host):
        raise InvalidSetting("advertise", text, "nobody can be reached there; give one address")
    return address


def outer_address(listen: Address) -> Address:
    """The first address by which other machines reach this one; nothing is sent to find it."""
    family = socket.AF_INET6 if listen.is_v6 else socket.AF_INET
    target = ("2001:db8::1", 9) if listen.is_v6 else FAR_AWAY
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)
            host = str(probe.getsockname()[0])
    except OSError:
        reason = "this machine has no way to others; say what clients are told with --advertise"
        raise InvalidSetting("listen address", str(listen), reason) from None
    return Address(host, 0)


def choose_advertised(listen: Address, advertise: str | None) -> Address | None:
    """The address to advertise for a listening address; None when it is that address itself."""
    if advertise is not None:
        return parse_advertised(advertise)
    if not is_everywhere(listen.host):
        return None
    found = outer_address(listen)
    say(f"clients are told {found.host}, the first outer address; --advertise changes it")
    return found
