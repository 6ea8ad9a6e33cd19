"""Starting a console, in a process of its own or beside the servers of `flintmq serve`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from flintmq.cli.shared.server_process import is_everywhere, is_loopback, say
from flintmq.errors import InvalidSetting, MissingExtra
from flintmq.net.address import Address

if TYPE_CHECKING:
    from flintmq.console.app import ConsoleSettings
    from flintmq.console.serving import RunningConsole

EXTRA = "console"
TOKEN_MIN = 16
"""Characters of a token that somebody chose: it is all that keeps strangers out."""


def check_console(
    listen: Address,
    token: str | None,
    hosts: Iterable[str],
    *,
    with_accounts: bool = False,
    is_secure: bool = False,
) -> None:
    """Refuse what would be open to others, and say when a package is missing."""
    for package in ("starlette", "uvicorn", "jinja2"):
        if find_spec(package) is None:
            raise MissingExtra(package, EXTRA)
    if token is not None and len(token) < TOKEN_MIN:
        raise InvalidSetting("token", "…", f"it has at least {TOKEN_MIN} characters")
    if is_loopback(listen.host):
        return
    if token is None and not with_accounts:
        reason = "other machines reach it there: set FLINTMQ_CONSOLE_TOKEN"
        raise InvalidSetting("listen address", str(listen), reason)
    if is_everywhere(listen.host) and not list(hosts):
        reason = "name what browsers call it: --host NAME"
        raise InvalidSetting("listen address", str(listen), reason)
    if not is_secure:
        say(f"{listen} speaks HTTP: whoever is on the way reads logins; put TLS before it")


def open_console(
    settings: ConsoleSettings, listen: Address
) -> AbstractAsyncContextManager[RunningConsole]:
    """A console that serves until the end of an ``async with``."""
    from flintmq.console.serving import serving

    return serving(settings, listen)
