"""Users, resources and rules: the words in which access control is written.

    User:alice ──► Policy (Custom) ──► Entry: Topic:orders* · Pub, Sub · from 10.0.0.0/8 · Allow
              └──► Policy (Default) ─► Entry: Topic:*       · Get      · from anywhere  · Allow

The words are those of RocketMQ 5 (ACL 2.0); accounts of ACL 1.0 are read into the same values.
A resource is written ``Type:name``, ``Type:prefix*``, ``Type:*`` or ``*``.  Only a star at the end
makes a prefix: a star elsewhere is part of a name, and such a name matches nothing real.

Invariant: values are frozen, and a secret is never part of a text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Final

from flintmq.access.sources import Source
from flintmq.errors import InvalidSetting

STAR: Final = "*"


class Action(IntEnum):
    """What is done to a resource; the numbers are those RocketMQ stores."""

    ALL = 1
    ANY = 2
    PUB = 3
    SUB = 4
    CREATE = 5
    UPDATE = 6
    DELETE = 7
    GET = 8
    LIST = 9

    @property
    def title(self) -> str:
        """As tools write it: ``Pub``."""
        return self.name.title()

    @classmethod
    def parse(cls, text: str) -> Action | None:
        """An action by its name in any case; None when there is no such action."""
        return cls.__members__.get(text.strip().upper())


class Decision(IntEnum):
    """What an entry says."""

    ALLOW = 1
    DENY = 2

    @property
    def title(self) -> str:
        return self.name.title()


class ResourceType(IntEnum):
    """What kind of thing is protected."""

    ANY = 1
    CLUSTER = 2
    NAMESPACE = 3
    TOPIC = 4
    GROUP = 5

    @property
    def title(self) -> str:
        return self.name.title()


class Pattern(IntEnum):
    """How a resource of an entry is compared with the resource of a request."""

    ANY = 1
    LITERAL = 2
    PREFIXED = 3


class PolicyType(IntEnum):
    """Default entries count only where no Custom entry matches."""

    CUSTOM = 1
    DEFAULT = 2

    @property
    def title(self) -> str:
        return self.name.title()


class Dialect(Enum):
    """Whose refusals and whose rules for unnamed rights apply."""

    PLAIN = "ACL 1.0"
    AUTH = "ACL 2.0"


@dataclass(frozen=True, slots=True)
class Resource:
    """What an entry names, or what a request needs (then the pattern is LITERAL)."""

    type: ResourceType
    name: str
    pattern: Pattern = Pattern.LITERAL

    @classmethod
    def parse(cls, text: str) -> Resource | None:
        """``Topic:orders*`` as a resource; None where the type is unknown or nothing is named."""
        if text == STAR:
            return cls(ResourceType.ANY, "", Pattern.ANY)
        kind, colon, name = text.partition(":")
        type_ = ResourceType.__members__.get(kind.strip().upper())
        if not colon or type_ is None or not name:
            return None
        if type_ is ResourceType.ANY or name == STAR:
            return cls(type_, "", Pattern.ANY)
        if name.endswith(STAR):
            return cls(type_, name[:-1], Pattern.PREFIXED)
        return cls(type_, name)

    def __str__(self) -> str:
        if self.type is ResourceType.ANY:
            return STAR
        tail = {Pattern.ANY: STAR, Pattern.LITERAL: self.name, Pattern.PREFIXED: self.name + STAR}
        return f"{self.type.title}:{tail[self.pattern]}"

    def covers(self, needed: Resource) -> bool:
        """Whether an entry with this resource speaks of the one a request needs."""
        if self.type is not ResourceType.ANY and self.type is not needed.type:
            return False
        if self.pattern is Pattern.ANY:
            return True
        if self.pattern is Pattern.LITERAL:
            return self.name == needed.name
        return needed.name.startswith(self.name)


@dataclass(frozen=True, slots=True)
class Entry:
    """One rule: these actions on this resource, from these addresses, are allowed or denied."""

    resource: Resource
    actions: frozenset[Action]
    decision: Decision
    sources: tuple[Source, ...] = ()
    """Addresses it holds for; none means all."""

    def __str__(self) -> str:
        actions = ", ".join(action.title for action in sorted(self.actions))
        where = ", ".join(map(str, self.sources)) or "anywhere"
        return f"{self.decision.title} {actions} on {self.resource} from {where}"


@dataclass(frozen=True, slots=True)
class Policies:
    """All entries of one user."""

    custom: tuple[Entry, ...] = ()
    default: tuple[Entry, ...] = ()

    def of_type(self, type_: PolicyType) -> tuple[Entry, ...]:
        return self.custom if type_ is PolicyType.CUSTOM else self.default


@dataclass(frozen=True, slots=True)
class User:
    """Who may sign requests.  A super user may do everything."""

    name: str
    secret: str = field(repr=False)
    is_super: bool = False
    is_enabled: bool = True
    unsigned_from: tuple[Source, ...] = ()
    """ACL 1.0: addresses from which the name alone is enough (``whiteRemoteAddress``)."""
    is_admin: bool = False
    """ACL 1.0: an admin that is bound by permissions of its own (RocketMQ's rule)."""


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Everything a decision depends on.  A change makes a new one."""

    users: dict[str, User] = field(default_factory=dict)
    policies: dict[str, Policies] = field(default_factory=dict)
    trusted: tuple[Source, ...] = ()
    """ACL 1.0: addresses that need no account at all (``globalWhiteRemoteAddresses``)."""

    def __post_init__(self) -> None:
        for name in self.policies.keys() - self.users.keys():
            raise InvalidSetting("policies", name, "there is no such user")
