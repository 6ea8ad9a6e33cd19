"""Code of the user around every request that a client makes.

A hook sees each request before it leaves and may put another in its place, and sees how it was
answered.  One that raises is logged and changes nothing.  The signature of an account comes
after all hooks, since nothing may change a request that is signed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from flintmq.logs import logger
from flintmq.protocol.command import Command

log = logger(__name__)


class RequestHook(Protocol):
    """What a program gives as ``request_hooks``."""

    def before(self, address: str, request: Command) -> Command:
        """The request to send to ``address``: the one given, or a changed one."""

    def after(self, address: str, request: Command, answer: Command | None) -> None:
        """How it ended; None for a oneway request and for one that was not answered."""


def run_before(hooks: Sequence[RequestHook], address: str, request: Command) -> Command:
    for hook in hooks:
        try:
            changed: object = hook.before(address, request)
            if not isinstance(changed, Command):
                raise TypeError(f"before() gave {changed!r:.80} back and not a request")
            request = changed
        except Exception:
            log.exception("the hook %r failed before request %d", hook, request.code)
    return request


def run_after(
    hooks: Sequence[RequestHook], address: str, request: Command, answer: Command | None
) -> None:
    for hook in hooks:
        try:
            hook.after(address, request, answer)
        except Exception:
            log.exception("the hook %r failed after request %d", hook, request.code)
