"""ACL 1.0: accounts in ``plain_acl.yml``, read into rules and written back.

    globalWhiteRemoteAddresses: [10.10.103.*]
    accounts:
      - accessKey: RocketMQ
        secretKey: 12345678
        whiteRemoteAddress: ""
        admin: false
        defaultTopicPerm: DENY        # DENY | PUB | SUB | PUB|SUB
        defaultGroupPerm: SUB
        topicPerms: [topicA=DENY, topicB=PUB|SUB]
        groupPerms: [groupA=SUB]

A permission of an account's own replaces its default for that name, whatever it lacks: so
``topicA=PUB`` also denies subscribing.  PUB and SUB include reading figures of the same topic.

A file with any fault is refused as a whole, with the account and the fault: half of a file would be
other rules than the ones that were written.  RocketMQ keeps the old accounts and says nothing, also
when a file was emptied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flintmq.access.rules import (
    Action,
    Decision,
    Entry,
    Pattern,
    Policies,
    Resource,
    ResourceType,
    RuleSet,
    User,
)
from flintmq.access.sources import Source, parse_white_addresses
from flintmq.errors import InvalidSetting
from flintmq.model.group import RETRY_PREFIX

KEY_CHARACTERS_MIN: Final = 7
"""Access keys and secrets are longer than six characters."""

_GLOBAL: Final = "globalWhiteRemoteAddresses"
PERMISSIONS: Final[Mapping[str, frozenset[Action]]] = {
    "DENY": frozenset(),
    "PUB": frozenset({Action.PUB}),
    "SUB": frozenset({Action.SUB}),
    "PUB|SUB": frozenset({Action.PUB, Action.SUB}),
    "SUB|PUB": frozenset({Action.PUB, Action.SUB}),
}
"""What each permission text allows."""

_BOTH = frozenset({Action.PUB, Action.SUB})
_ADMIN_ACTIONS = frozenset({Action.CREATE, Action.UPDATE, Action.DELETE})


@dataclass(frozen=True, slots=True)
class PlainAccount:
    """One account as it is written; permissions as their texts."""

    access_key: str
    secret_key: str = field(repr=False)
    white_address: str = ""
    admin: bool = False
    default_topic_perm: str = "DENY"
    default_group_perm: str = "DENY"
    topic_perms: tuple[str, ...] = ()
    group_perms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlainFile:
    """The content of one file."""

    accounts: tuple[PlainAccount, ...] = ()
    white_addresses: tuple[str, ...] = ()
    counter: int = 0
    timestamp_ms: int = 0
    """Version and time of the last change that a broker wrote (``dataVersion``)."""


def read_plain_file(content: str) -> PlainFile:
    """Read a file.  Raises `InvalidSetting` with the account and the fault."""
    loaded = load_plain_file(content)
    accounts = tuple(map(_checked_account, _entries(loaded.get("accounts"), "accounts")))
    version = _entries(loaded.get("dataVersion"), "dataVersion")
    counter, timestamp_ms = 0, 0
    if version and isinstance(version[0], dict):
        counter = int(version[0].get("counter") or 0)
        timestamp_ms = int(version[0].get("timestamp") or 0)
    white = tuple(map(str, _entries(loaded.get(_GLOBAL), _GLOBAL)))
    return PlainFile(accounts, white, counter, timestamp_ms)


def load_plain_file(content: str) -> dict[str, Any]:
    """The YAML of a file, every scalar a text.  Raises `InvalidSetting` where it is no map."""
    import yaml

    try:
        loaded = yaml.load(content, Loader=_TextLoader())  # noqa: S506  # a safe loader
    except yaml.YAMLError as error:
        raise InvalidSetting("plain_acl.yml", "", f"is no YAML: {error}") from None
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise InvalidSetting("plain_acl.yml", "", "must be a map with accounts")
    return loaded


def write_plain_file(file: PlainFile) -> str:
    """The file in the block form and key order that RocketMQ writes."""
    import yaml

    content: dict[str, Any] = {}
    if file.white_addresses:
        content[_GLOBAL] = list(file.white_addresses)
    content["accounts"] = [
        {
            "accessKey": account.access_key,
            "secretKey": account.secret_key,
            "whiteRemoteAddress": account.white_address or None,
            "admin": account.admin,
            "defaultTopicPerm": account.default_topic_perm,
            "defaultGroupPerm": account.default_group_perm,
            "topicPerms": list(account.topic_perms),
            "groupPerms": list(account.group_perms),
        }
        for account in file.accounts
    ]
    content["dataVersion"] = [{"counter": file.counter, "timestamp": file.timestamp_ms}]
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, default_flow_style=False)


def rules_of_files(files: Iterable[PlainFile]) -> RuleSet:
    """The rules of several files.  Of two accounts with one access key the first one counts."""
    users: dict[str, User] = {}
    policies: dict[str, Policies] = {}
    trusted: list[Source] = []
    for file in files:
        for text in file.white_addresses:
            trusted += parse_white_addresses(text)
        for account in file.accounts:
            if account.access_key not in users:
                users[account.access_key] = user_of(account)
                policies[account.access_key] = policies_of(account)
    return RuleSet(users, policies, tuple(trusted))


def user_of(account: PlainAccount) -> User:
    """The account as a user.  Raises `InvalidSetting` for a key or secret that is too short."""
    for name, value in (("accessKey", account.access_key), ("secretKey", account.secret_key)):
        if len(value) < KEY_CHARACTERS_MIN:
            shown = account.access_key
            raise InvalidSetting(name, shown, f"must have {KEY_CHARACTERS_MIN} characters or more")
    has_own = bool(account.topic_perms or account.group_perms)
    return User(
        account.access_key,
        account.secret_key,
        is_super=account.admin and not has_own,
        is_admin=account.admin and has_own,
        unsigned_from=parse_white_addresses(account.white_address),
    )


def policies_of(account: PlainAccount) -> Policies:
    """The permissions of an account as entries.  Raises `InvalidSetting` for a wrong one."""
    own: list[Entry] = []
    for type_, texts in (
        (ResourceType.TOPIC, account.topic_perms),
        (ResourceType.GROUP, account.group_perms),
    ):
        for text in texts:
            own += _own_entries(type_, text)
    if account.admin:
        own.append(_allow(Resource(ResourceType.CLUSTER, "", Pattern.ANY), {Action.ALL}))
        for type_ in (ResourceType.TOPIC, ResourceType.GROUP):
            own.append(_allow(Resource(type_, "", Pattern.ANY), _ADMIN_ACTIONS))
    default = []
    for type_, text in (
        (ResourceType.TOPIC, account.default_topic_perm),
        (ResourceType.GROUP, account.default_group_perm),
    ):
        actions = PERMISSIONS.get(text.strip().upper(), frozenset())
        if actions:
            default.append(_allow(Resource(type_, "", Pattern.ANY), actions | {Action.GET}))
    return Policies(tuple(own), tuple(default))


def _own_entries(type_: ResourceType, text: str) -> Iterable[Entry]:
    name, equals, permission = text.partition("=")
    if not equals or "=" in permission:
        raise InvalidSetting(
            "permission",
            text,
            f"Parse Resource format error for {text}.\n"
            "The expected resource format is 'Res=Perm'. For example: topicA=SUB",
        )
    actions = PERMISSIONS.get(permission.strip().upper())
    if actions is None:
        raise InvalidSetting(
            "permission",
            text,
            f"Parse resource permission error for {text}.\n"
            "The expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB'.",
        )
    name = name.strip()
    if name.startswith(RETRY_PREFIX):
        type_, name = ResourceType.GROUP, name.removeprefix(RETRY_PREFIX)
    resource = Resource(type_, name)
    if actions:
        yield _allow(resource, actions | {Action.GET})
    if missing := _BOTH - actions:
        denied = missing if actions else missing | {Action.GET}
        yield Entry(resource, denied, Decision.DENY)


def _allow(resource: Resource, actions: Iterable[Action]) -> Entry:
    return Entry(resource, frozenset(actions), Decision.ALLOW)


def _checked_account(given: object) -> PlainAccount:
    if not isinstance(given, dict):
        raise InvalidSetting("accounts", repr(given)[:80], "an account is a map of its settings")
    key = str(given.get("accessKey") or "")
    try:
        account = read_account(given)
        user_of(account)
        policies_of(account)
    except InvalidSetting as error:
        raise InvalidSetting(
            f"account {key!r}: {error.setting}", error.value, error.reason
        ) from None
    return account


def read_account(given: Mapping[str, Any]) -> PlainAccount:
    """An account as it is written.  `InvalidSetting` where permissions are no list."""
    return PlainAccount(
        str(given.get("accessKey") or ""),
        str(given.get("secretKey") or ""),
        str(given.get("whiteRemoteAddress") or ""),
        str(given.get("admin") or "false").lower() == "true",
        str(given.get("defaultTopicPerm") or "DENY"),
        str(given.get("defaultGroupPerm") or "DENY"),
        tuple(map(str, _entries(given.get("topicPerms"), "topicPerms"))),
        tuple(map(str, _entries(given.get("groupPerms"), "groupPerms"))),
    )


def _entries(given: object, name: str) -> list[Any]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise InvalidSetting(name, repr(given)[:80], "must be a list")
    return given


def _TextLoader() -> Any:  # noqa: N802  # stands for a class that exists once YAML is loaded
    """A loader that leaves every scalar a text: ``secretKey: 0123456`` means what is written."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    Loader.yaml_implicit_resolvers = {
        first: [each for each in resolvers if each[0] == "tag:yaml.org,2002:null"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return Loader
