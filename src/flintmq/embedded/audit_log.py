"""The audit log: who asked for what, from where, and what was decided; a line of JSON for each.

    {"time": "…Z", "user": "alice", "address": "10.0.0.7:52114", "code": 215,
     "request": "DELETE_TOPIC_IN_BROKER", "needs": ["Delete Topic:orders"],
     "decision": "deny", "reason": "…no matched policies."}

A call of gRPC has its name as ``call`` beside the request that it stands for.

The console writes what people changed through it, with ``action``, ``target``, ``details`` and
``outcome`` in the place of request and decision.

Refusals are always in it, allowed requests only where they are administrative or all are wanted.
A file that is full is renamed to ``FILE.1``, the older ones move on, and the oldest is removed.

A disk that is full or broken stops no server: one warning says so, and lines are lost until it can
be written again, which is logged too.  Files are readable by their owner only.

Invariant: `record` and `record_change` never raise, and all files together stay below their limit.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from flintmq.access.control import AccessRefusal
from flintmq.access.rights import Reserved
from flintmq.errors import InvalidSetting
from flintmq.logs import logger
from flintmq.net.clock import wall_ms
from flintmq.net.servers.access_gate import AccessDecision
from flintmq.protocol.codes import RequestCode

log = logger(__name__)

AUDIT_BYTES: Final = 16 * 1024 * 1024
"""Size at which a file is renamed: some 60,000 lines."""

AUDIT_FILES: Final = 10
"""Files that are kept, the one that is written included: 160 MB together."""

TEXT_CHARS_MAX: Final = 500
"""Of a user, a reason or a need: names come from peers, also from those without an account."""

NEEDS_MAX: Final = 20
"""Of one request: a heartbeat may name hundreds of topics."""


class AuditLog:
    """Writes decisions to a file.  `InvalidSetting` where it cannot be opened at the start."""

    def __init__(
        self,
        path: Path,
        *,
        hears_all: bool = False,
        bytes_max: int = AUDIT_BYTES,
        files_max: int = AUDIT_FILES,
        clock: Callable[[], int] = wall_ms,
    ) -> None:
        self.hears_all = hears_all
        self._clock = clock
        try:
            self._file = _OwnerOnlyFile(path, bytes_max, files_max - 1)
        except OSError as error:
            raise InvalidSetting("audit", str(path), error.strerror or str(error)) from None

    def record(self, decision: AccessDecision) -> None:
        """Write one line."""
        self._write(self._facts(decision))

    def record_change(
        self, *, user: str, address: str, action: str, target: str, details: str, outcome: str
    ) -> None:
        """Write a line on something that a person changed through a program of ours."""
        texts = {"user": user, "address": address, "action": action, "target": target}
        texts |= {"details": details, "outcome": outcome}
        cut = {name: text[:TEXT_CHARS_MAX] for name, text in texts.items()}
        self._write({"time": _time(self._clock()), **cut})

    def _write(self, facts: dict[str, Any]) -> None:
        line = msgspec.json.encode(facts).decode()
        self._file.handle(logging.makeLogRecord({"msg": line}))

    def close(self) -> None:
        self._file.close()

    def _facts(self, decision: AccessDecision) -> dict[str, Any]:
        code, outcome = decision.code, decision.outcome
        is_refused = isinstance(outcome, AccessRefusal)
        if isinstance(outcome, AccessRefusal):
            user, reason = outcome.user or None, outcome.remark
        else:
            user, reason = (
                (None, "the address needs no account")
                if outcome is None
                else (
                    outcome.name,
                    "super user" if outcome.is_super else "the rules allow it",
                )
            )
        return {
            "time": _time(self._clock()),
            "user": None if user is None else user[:TEXT_CHARS_MAX],
            "address": decision.peer,
            "code": code,
            "request": _name(code),
            **({} if decision.call is None else {"call": decision.call}),
            "needs": _needs(decision),
            "decision": "deny" if is_refused else "allow",
            "reason": reason[:TEXT_CHARS_MAX],
        }


class _OwnerOnlyFile(RotatingFileHandler):
    """A file that goes on after a failed write, and says once that it failed."""

    def __init__(self, path: Path, bytes_max: int, backups: int) -> None:
        self._is_failing = False
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        super().__init__(path, maxBytes=bytes_max, backupCount=backups, encoding="utf-8")

    def _open(self) -> TextIOWrapper:
        def opener(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        opened: IO[str] = open(self.baseFilename, "a", encoding="utf-8", opener=opener)  # noqa: SIM115  # kept open; a Path has no opener
        assert isinstance(opened, TextIOWrapper)
        return opened

    def emit(self, record: logging.LogRecord) -> None:
        was_failing, self._is_failing = self._is_failing, False
        super().emit(record)  # which calls handleError where it fails
        if was_failing and not self._is_failing:
            log.warning("the audit log %s is written again", self.baseFilename)
        elif self._is_failing and not was_failing:
            log.warning(
                "the audit log %s cannot be written: the server goes on, and lines are lost until "
                "it can; is the disk full?",
                self.baseFilename,
            )

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802  # logging's name
        self._is_failing = True
        stream, self.stream = self.stream, None  # logging opens it again
        try:
            if stream is not None:
                stream.close()
        except OSError:
            return  # what was in its buffer is lost with it


def _needs(decision: AccessDecision) -> list[str]:
    outcome = decision.outcome
    if isinstance(outcome, AccessRefusal) and outcome.need is not None:
        return [str(outcome.need)[:TEXT_CHARS_MAX]]
    needs = decision.needs
    if isinstance(needs, Reserved):
        return [needs.value]
    return [str(need)[:TEXT_CHARS_MAX] for need in needs[:NEEDS_MAX]]


def _name(code: int) -> str | None:
    try:
        return RequestCode(code).name
    except ValueError:
        return None


def _time(now_ms: int) -> str:
    at = datetime.fromtimestamp(now_ms / 1000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{now_ms % 1000:03d}Z"
