"""Account files on disk: read at the start, watched while servers run, written by admins.

    DIR/accounts.json                       users and policies of ACL 2.0
    DIR/plain_acl.yml, DIR/acl/**/*.yml     accounts of ACL 1.0

Files are looked at every five seconds and taken when one of them changed.  A fault is logged
once, by name, and the accounts that were in force stay in force.  At the start a fault stops the
start.  Files that others may read are refused: they hold secrets.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from flintmq.access.accounts import (
    AUTH_FILE,
    PLAIN_FILE,
    Accounts,
    AuthAccounts,
    PlainAccounts,
)
from flintmq.access.rules import Dialect, User
from flintmq.access.sources import is_everywhere
from flintmq.core.account import Account
from flintmq.embedded.audit_log import AuditLog
from flintmq.errors import InvalidSetting
from flintmq.logs import logger
from flintmq.store.files.disk import Disk

log = logger(__name__)

WATCH_S: Final = 5.0
"""How often files are looked at, as RocketMQ does."""

FILES_MAX: Final = 1_000
"""Account files in ``acl/``; more of them are a directory given by mistake."""

ACCOUNTS: Final = "accounts"
"""Where accounts are kept in a data directory."""

INNER_USER: Final = "flintmq-inner"

INNER_SECRET_MIN: Final = 7
"""Characters of an inner secret, as RocketMQ asks of accounts: who guesses it may do everything."""


@dataclass(frozen=True, slots=True)
class AccountPlan:
    """Which accounts to use."""

    dialect: Dialect
    directory: Path
    first_user: tuple[str, str] | None = field(default=None, repr=False)
    """ACL 2.0: name and password of a super user that is made where there is none."""
    inner: Account | None = None
    """The account with which servers prove themselves to each other, where they are several
    processes; without one, the servers of this process agree on one of their own."""
    audit: Path | None = None
    """Where decisions are logged; nowhere if it is not given."""
    audits_all: bool = False
    """Whether allowed requests that are not administrative are logged too."""


class AccountFiles:
    """The accounts of one process, and the files they are kept in."""

    def __init__(self, plan: AccountPlan) -> None:
        self._plan = plan
        self._disk = Disk()
        self._seen: Mapping[str, bytes] | None = None
        if plan.inner is not None:
            _check_inner(plan.inner)
        self.inner = plan.inner or Account(INNER_USER, secrets.token_urlsafe(32))
        user = User(self.inner.access_key, self.inner.secret_key, is_super=True)
        kind = AuthAccounts if plan.dialect is Dialect.AUTH else PlainAccounts
        self.accounts: Accounts = kind(self._write, user)
        self.auditor: AuditLog | None = None
        """What hears of decisions, from `open` to `close`."""

    def open(self) -> Accounts:
        """Read the files for the first time.  Raises `InvalidSetting` for a fault in them."""
        files = self._read()
        if not self.accounts.reload(files):
            raise InvalidSetting("accounts", str(self._plan.directory), self.accounts.fault or "")
        self._seen = files
        if isinstance(self.accounts, AuthAccounts) and self._plan.first_user is not None:
            self.accounts.ensure_super_user(*self._plan.first_user)
        self._warn_of_trust()
        if not self.accounts.rules.users:
            log.warning(
                "there are no accounts in %s: every request is refused", self._plan.directory
            )
        if self._plan.audit is not None:
            self.auditor = AuditLog(self._plan.audit, hears_all=self._plan.audits_all)
        return self.accounts

    def close(self) -> None:
        """The servers have stopped: nothing more is decided."""
        if self.auditor is not None:
            self.auditor.close()

    async def watch(self) -> None:
        """Take the files again whenever they change, until cancelled."""
        while True:
            await asyncio.sleep(WATCH_S)
            try:
                files = await asyncio.to_thread(self._read)
            except (OSError, InvalidSetting) as error:
                log.error("account files cannot be read, the last accounts stay: %s", error)  # noqa: TRY400  # the reason is enough
                continue
            self.look_again(files)

    def look_again(self, files: Mapping[str, bytes]) -> None:
        """Take these files if they differ from the last ones."""
        if files == self._seen:
            return
        self._seen = files
        if self.accounts.reload(files):
            log.info("accounts are read again: %d users", len(self.accounts.rules.users))
            self._warn_of_trust()
        else:
            log.error("account files have a fault, the last accounts stay: %s", self.accounts.fault)

    def _warn_of_trust(self) -> None:
        """ACL 1.0 has white lists, and one of them can switch access control off."""
        if any(is_everywhere(each) for each in self.accounts.rules.trusted):
            log.warning(
                "globalWhiteRemoteAddresses in %s has every address: "
                "everybody who reaches a port may do everything, unsigned",
                self._plan.directory,
            )

    def _read(self) -> dict[str, bytes]:
        directory = self._plan.directory
        paths = account_paths(directory, self._plan.dialect)
        found = {}
        for path in paths:
            if path.is_file():
                check_owner_only(path)
                found[str(path.relative_to(directory))] = path.read_bytes()
        return found

    def _write(self, name: str, content: bytes) -> None:
        path = self._plan.directory / name
        self._disk.make_directory(path.parent)
        self._disk.replace(path, content)
        self._seen = {**(self._seen or {}), name: content}


def account_paths(directory: Path, dialect: Dialect) -> list[Path]:
    """Where accounts of a dialect may be in a directory, in the order in which they count."""
    if dialect is Dialect.AUTH:
        return [directory / AUTH_FILE]
    more = sorted((directory / "acl").rglob("*.y*ml"))
    if len(more) > FILES_MAX:
        raise InvalidSetting("acl", str(directory), f"more than {FILES_MAX} account files")
    return [*more, directory / PLAIN_FILE]


def _check_inner(inner: Account) -> None:
    """Refuse an account between servers that anybody could guess: it is a super user."""
    if not inner.access_key.strip():
        raise InvalidSetting("inner account", inner.access_key, "its access key is blank")
    if len(inner.secret_key.strip()) < INNER_SECRET_MIN:
        reason = f"its secret must have {INNER_SECRET_MIN} characters or more: it is a super user's"
        raise InvalidSetting("inner account", inner.access_key, reason)


def check_owner_only(path: Path) -> None:
    """Refuse a file that anybody but its owner may read or write."""
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        reason = f"others may read it and it holds secrets; run: chmod 600 {path}"
        raise InvalidSetting("accounts", str(path), reason)
