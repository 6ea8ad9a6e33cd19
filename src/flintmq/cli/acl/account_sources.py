"""Rules to look at: from account files, or from a running broker.

A path is a file (``accounts.json``, or YAML of ACL 1.0) or the directory that a server has as
``--accounts``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from flintmq.access.accounts import AUTH_FILE, AuthAccounts, PlainAccounts
from flintmq.access.auth_accounts import AccountsFile, rules_of_accounts
from flintmq.access.control import AccessControl
from flintmq.access.plain_file import PlainAccount, PlainFile, rules_of_files
from flintmq.access.rights import Context
from flintmq.access.rules import Dialect
from flintmq.cli.acl.dialect_admin import asking_about
from flintmq.client.admin import Admin
from flintmq.core.admin.plain_accounts import accounts_at
from flintmq.core.admin.users_and_policies import acls_at, users_at
from flintmq.embedded.account_files import account_paths
from flintmq.errors import BrokerRefused, InvalidSetting
from flintmq.protocol.codes import ResponseCode


def find_files(path: Path) -> dict[Dialect, list[Path]]:
    """The account files of a path by their dialect.  `InvalidSetting` where there are none."""
    if path.is_file():
        is_json = path.suffix == ".json"
        return {Dialect.AUTH if is_json else Dialect.PLAIN: [path]}
    found = {
        dialect: [each for each in account_paths(path, dialect) if each.is_file()]
        for dialect in Dialect
    }
    found = {dialect: paths for dialect, paths in found.items() if paths}
    if not found:
        reason = "there is no accounts.json, plain_acl.yml or acl/*.yml"
        raise InvalidSetting("accounts", str(path), reason)
    return found


def read_files(path: Path, paths: list[Path]) -> dict[str, bytes]:
    """The content of files by their names as faults name them."""
    try:
        return {
            each.name if each == path else str(each.relative_to(path)): each.read_bytes()
            for each in paths
        }
    except OSError as error:
        raise InvalidSetting("accounts", str(path), error.strerror or str(error)) from None


def control_of_files(path: Path) -> AccessControl:
    """Access control by the files of one dialect.  `InvalidSetting` for a fault in them."""
    found = find_files(path)
    if len(found) > 1:
        raise InvalidSetting("accounts", str(path), "it has both dialects; name one file")
    ((dialect, paths),) = found.items()
    return control_of(dialect, read_files(path, paths), str(path))


def control_of(dialect: Dialect, files: Mapping[str, bytes], where: str) -> AccessControl:
    if dialect is Dialect.AUTH:
        accounts: AuthAccounts | PlainAccounts = AuthAccounts(_not_saved)
        (content,) = files.values()
        files = {AUTH_FILE: content}
    else:
        accounts = PlainAccounts(_not_saved)
    if not accounts.reload(files):
        raise InvalidSetting("accounts", where, accounts.fault or "")
    return accounts.protect(Context(""))


def control_of_broker(admin: Admin, broker: str | None) -> AccessControl:
    """Access control by the accounts of a running broker, the first one unless it is named."""
    masters = admin.cluster().masters(broker=broker)
    name = next(iter(masters))
    address = masters[name]
    with asking_about(Dialect.AUTH):
        try:
            users, acls = admin.hold(users_at(address)), admin.hold(acls_at(address))
            rules = rules_of_accounts(AccountsFile(users=users, acls=acls))
            return AccessControl(Dialect.AUTH, rules, Context(""))
        except BrokerRefused as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
    with asking_about(Dialect.PLAIN):
        try:
            body = admin.hold(accounts_at(address))
        except BrokerRefused as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            reason = "it has no access control: everybody may do everything there"
            raise InvalidSetting("broker", name, reason) from None
    accounts = tuple(
        PlainAccount(
            each.access_key,
            each.secret_key,
            each.white_remote_address or "",
            each.admin,
            each.default_topic_perm or "DENY",
            each.default_group_perm or "DENY",
            each.topic_perms,
            each.group_perms,
        )
        for each in body.plain_access_configs
    )
    rules = rules_of_files([PlainFile(accounts, body.global_white_addrs)])
    return AccessControl(Dialect.PLAIN, rules, Context(""))


def _not_saved(name: str, _content: bytes) -> None:
    raise AssertionError(f"{name} is only read")
