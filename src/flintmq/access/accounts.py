"""Accounts in force: the rules that came from files, and every server that they protect.

    files ─► Accounts ─► rules ─► AccessControl of the broker, of the name server
               ▲  │
      changes ─┘  └─► save: a change is on disk before it takes effect

A reload takes all files or none: a fault keeps the rules that were in force and is reported as
`fault` until the files are right again.  A file that was emptied has no accounts.  Whoever owns the
accounts reads and writes the files; here are no files, clocks or threads.

The servers of one process prove themselves to each other with an account that is in no file and
that nobody else knows: the inner user.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from flintmq.access.auth_accounts import (
    AccountsFile,
    AuthRefused,
    accounts_of_rules,
    create_user,
    rules_of_accounts,
)
from flintmq.access.control import AccessControl
from flintmq.access.plain_file import (
    PlainAccount,
    PlainFile,
    read_plain_file,
    rules_of_files,
    write_plain_file,
)
from flintmq.access.rights import Context
from flintmq.access.rules import Dialect, RuleSet, User
from flintmq.access.sources import parse_white_addresses
from flintmq.errors import FlintError, InvalidSetting, MalformedBody
from flintmq.protocol.bodies.account_bodies import UserBody
from flintmq.protocol.codes import ResponseCode

Save: TypeAlias = Callable[[str, bytes], object]
"""Replace the content of an account file, by its name; raises when it cannot."""

AUTH_FILE: Final = "accounts.json"
PLAIN_FILE: Final = "plain_acl.yml"


class Accounts(ABC):
    """What both dialects share: rules, the servers behind them, and the inner user."""

    dialect: Dialect

    def __init__(self, save: Save, inner: User | None = None) -> None:
        self._save = save
        self._inner = inner
        self._rules = RuleSet()
        self._controls: list[AccessControl] = []
        self.changed: list[Callable[[], object]] = []
        """Called after every change of the rules."""
        self.fault: str | None = None
        """Why the files cannot be used as they are now; the rules before them stay in force."""

    @property
    def rules(self) -> RuleSet:
        """The rules of the files, without the inner user."""
        return self._rules

    def protect(self, context: Context) -> AccessControl:
        """Access control for one more server, by these rules from now on."""
        control = AccessControl(self.dialect, self._in_force(), context)
        self._controls.append(control)
        return control

    def reload(self, files: Mapping[str, bytes]) -> bool:
        """Take the files as they are now; False when they have a fault, and nothing changed."""
        try:
            rules = self._read(files)
        except (InvalidSetting, MalformedBody) as error:
            self.fault = str(error)
            return False
        self.fault = None
        if rules != self._rules:
            self._apply(rules)
        return True

    @abstractmethod
    def _read(self, files: Mapping[str, bytes]) -> RuleSet:
        """The rules of these files; raises `InvalidSetting` or `MalformedBody` for a fault."""

    def _apply(self, rules: RuleSet) -> None:
        self._rules = rules
        for control in self._controls:
            control.replace_rules(self._in_force())
        for call in self.changed:
            call()

    def _in_force(self) -> RuleSet:
        if self._inner is None:
            return self._rules
        return replace(self._rules, users={**self._rules.users, self._inner.name: self._inner})


class AuthAccounts(Accounts):
    """Users and policies of ACL 2.0, in one file."""

    dialect = Dialect.AUTH

    def _read(self, files: Mapping[str, bytes]) -> RuleSet:
        content = files.get(AUTH_FILE, b"")
        if not content.strip():
            return RuleSet()
        return rules_of_accounts(AccountsFile.from_file(content))

    def change(self, rules: RuleSet) -> None:
        """Save these rules, then let them take effect."""
        self._save(AUTH_FILE, accounts_of_rules(rules).to_file())
        self._apply(rules)

    def ensure_super_user(self, name: str, password: str) -> None:
        """Make the first super user where there is no such user; never change one."""
        if name not in self._rules.users:
            given = UserBody(password=password, user_type="Super")
            self.change(create_user(self._rules, name, given, None))


class PlainAccounts(Accounts):
    """Accounts of ACL 1.0, in ``plain_acl.yml`` and in the files of ``acl/``."""

    dialect = Dialect.PLAIN

    def __init__(self, save: Save, inner: User | None = None) -> None:
        super().__init__(save, inner)
        self.files: dict[str, PlainFile] = {}
        """By name.  The default file comes last: an account in another file counts first."""

    def _read(self, files: Mapping[str, bytes]) -> RuleSet:
        read: dict[str, PlainFile] = {}
        for name in sorted(files, key=lambda each: (each == PLAIN_FILE, each)):
            try:
                read[name] = read_plain_file(files[name].decode())
            except UnicodeDecodeError:
                raise InvalidSetting(name, "", "is no UTF-8 text") from None
            except InvalidSetting as error:
                raise InvalidSetting(
                    f"{name}: {error.setting}", error.value, error.reason
                ) from None
        rules = rules_of_files(read.values())
        self.files = read
        return rules

    def change_account(self, changed: PlainAccount, now_ms: int) -> None:
        """UPDATE_AND_CREATE_ACL_CONFIG (50): replace an account, or add it to the default file.

        Raises `AuthRefused` with RocketMQ's text for an account that cannot be used.
        """
        name = self._file_of(changed.access_key) or PLAIN_FILE
        file = self.files.get(name, PlainFile())
        kept = [each for each in file.accounts if each.access_key != changed.access_key]
        is_new = len(kept) == len(file.accounts)
        accounts = (
            (*kept, changed)
            if is_new
            else tuple(
                changed if each.access_key == changed.access_key else each for each in file.accounts
            )
        )
        self._change(name, replace(file, accounts=accounts), now_ms, ResponseCode(209))

    def delete_account(self, access_key: str, now_ms: int) -> None:
        """DELETE_ACL_CONFIG (51): remove an account."""
        name = self._file_of(access_key)
        if name is None:
            reason = (
                f"The accesskey[{access_key}] corresponding to accessConfig "
                "has been deleted failed."
            )
            raise AuthRefused(reason, ResponseCode(210))
        file = self.files[name]
        kept = tuple(each for each in file.accounts if each.access_key != access_key)
        self._change(name, replace(file, accounts=kept), now_ms, ResponseCode(210))

    def change_white_addresses(self, texts: tuple[str, ...], name: str, now_ms: int) -> None:
        """UPDATE_GLOBAL_WHITE_ADDRS_CONFIG (53): addresses that need no account."""
        name = name or PLAIN_FILE
        try:
            for text in texts:
                parse_white_addresses(text)
        except InvalidSetting:
            reason = f"The globalWhiteAddresses[{','.join(texts)}] has been updated failed."
            raise AuthRefused(reason, ResponseCode(211)) from None
        if name != PLAIN_FILE and name not in self.files:
            raise AuthRefused(f"there is no account file {name!r}", ResponseCode(211))
        file = replace(self.files.get(name, PlainFile()), white_addresses=texts)
        self._change(name, file, now_ms, ResponseCode(211))

    def find(self, access_key: str) -> PlainAccount | None:
        """The account of an access key as it is written."""
        name = self._file_of(access_key)
        if name is None:
            return None
        return next(a for a in self.files[name].accounts if a.access_key == access_key)

    def _file_of(self, access_key: str) -> str | None:
        for name, file in self.files.items():
            if any(account.access_key == access_key for account in file.accounts):
                return name
        return None

    def _change(self, name: str, file: PlainFile, now_ms: int, failed: ResponseCode) -> None:
        file = replace(file, counter=file.counter + 1, timestamp_ms=now_ms)
        content = write_plain_file(file)
        contents = {key: write_plain_file(value).encode() for key, value in self.files.items()}
        contents[name] = content.encode()
        before = self.files
        try:
            rules = self._read(contents)
            self._save(name, content.encode())
        except FlintError as error:
            self.files = before
            reason = error.reason if isinstance(error, InvalidSetting) else str(error)
            raise AuthRefused(reason, failed) from None
        self._apply(rules)
