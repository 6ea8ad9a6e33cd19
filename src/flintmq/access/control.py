"""Access control in front of a server: a request passes, or is refused with RocketMQ's words.

    request ─► trusted address? ─► who signed it? ─► what does it need? ─► may they? ─► processor
                                        │                                     │
                                        └──────────── AccessRefusal ◄─────────┘

One engine decides for ACL 1.0 and 2.0; the dialect chooses the code and the text of a refusal and
what a trusted address is.  The rules are a frozen `RuleSet` that is replaced as a whole, so that a
request never meets half of a change.  Decisions are remembered while the rules stay the same:
they depend on nothing else.

Invariant: without a valid signature of an enabled user nothing passes, except from an address that
the rules trust (ACL 1.0 only).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from flintmq.access.decide import AccessVerdict, Need, decide
from flintmq.access.needs import needs_of
from flintmq.access.rights import Context, Reserved
from flintmq.access.rules import Action, Dialect, Policies, Resource, ResourceType, RuleSet, User
from flintmq.access.sources import IpAddress, parse_address
from flintmq.model.topic import TRACE_TOPIC
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.signature import ACCESS_KEY, is_signed_by
from flintmq.protocol.typed_request import TypedRequest

VERDICTS_MAX = 10_000
"""Decisions remembered at once; names in requests are free, so there must be an end."""

PLAIN_RIGHTS = frozenset({Action.PUB, Action.SUB, Action.GET})
"""What the permissions PUB and SUB of ACL 1.0 can give; all else takes an admin."""

_NO_POLICIES = Policies()


@dataclass(frozen=True, slots=True)
class AccessRefusal:
    """Why a request is refused: code and remark of the answer."""

    code: ResponseCode
    remark: str
    user: str = ""
    """Who was refused, as far as that is known."""
    need: Need | None = None
    """The right that was lacking, where it was a right on a resource."""


@dataclass(frozen=True, slots=True)
class Signed:
    """What a signature is made over: fields as text, body, and the version of the sender."""

    fields: dict[str, str]
    body: bytes
    version: int


class AccessControl:
    """The rules in force: ``rules``, which `replace_rules` replaces at any time."""

    def __init__(self, dialect: Dialect, rules: RuleSet, context: Context) -> None:
        self.dialect = dialect
        self._context = context
        self.rules = rules
        self._verdicts: dict[tuple[str, Need, IpAddress | None], AccessVerdict] = {}
        self._members: dict[str, str | None] = {}  # users of heartbeats, by address of a connection

    def replace_rules(self, rules: RuleSet) -> None:
        """From the next request on these rules hold, all of them."""
        self.rules = rules
        self._verdicts = {}

    def check(
        self, request: TypedRequest[Any], signed: Signed, source: IpAddress | None
    ) -> User | AccessRefusal | None:
        """The user a request is served for; None from a trusted address.

        Raises `MalformedBody` where what the request needs cannot be read from its body.
        """
        if self.is_trusted(source):
            return None
        user = self.authenticate(signed, source)
        if isinstance(user, AccessRefusal) or self.is_trusted_for(user, source):
            return user
        return self.authorize(user, request, source) or user

    def is_trusted(self, source: IpAddress | None) -> bool:
        """Whether everything passes that comes from this address (ACL 1.0 only)."""
        return source is not None and any(each.has(source) for each in self.rules.trusted)

    def is_trusted_for(self, user: User, source: IpAddress | None) -> bool:
        """Whether everything passes that names this user, from this address (ACL 1.0 only)."""
        return source is not None and any(each.has(source) for each in user.unsigned_from)

    def authenticate(self, signed: Signed, source: IpAddress | None) -> User | AccessRefusal:
        """Who signed this, or why it counts as nobody's."""
        return self.identify(
            signed.fields.get(ACCESS_KEY),
            lambda secret: is_signed_by(secret, signed.fields, signed.body, signed.version),
            source,
        )

    def identify(
        self, name: str | None, is_signed: Callable[[str], bool], source: IpAddress | None
    ) -> User | AccessRefusal:
        """The user of a name, if ``is_signed`` with their secret; or why it counts as nobody's."""
        if self.dialect is Dialect.PLAIN:
            return self._identify_plain(name, is_signed, source)
        if not name:
            return self._refuse("username cannot be null.")
        user = self.rules.users.get(name)
        if user is None:
            return self._refuse(f"User:{name} is not found.", name)
        if not user.is_enabled:
            return self._refuse(f"User:{name} is disabled.", name)
        if not is_signed(user.secret):
            return self._refuse("check signature failed.", name)
        return user

    def _identify_plain(
        self, name: str | None, is_signed: Callable[[str], bool], source: IpAddress | None
    ) -> User | AccessRefusal:
        if name is None:
            return self._refuse("No accessKey is configured")
        user = self.rules.users.get(name)
        if user is None:
            return self._refuse(f"No acl config for {name}", name)
        if self.is_trusted_for(user, source):
            return user
        if not is_signed(user.secret):
            return self._refuse(f"Check signature failed for accessKey={name}", name)
        return user

    def authorize(
        self, user: User, request: TypedRequest[Any], source: IpAddress | None
    ) -> AccessRefusal | None:
        """Why the user may not do this; None if they may."""
        if user.is_super:
            return None
        needs = needs_of(request, self._context)
        if needs is Reserved.NOTHING:
            return None
        if isinstance(needs, Reserved):
            if user.is_admin:
                return None
            return self._refuse_reserved(user, request.code)
        return self.lacks(user, needs, request.code, source)

    def lacks(
        self, user: User, needs: Iterable[Need], code: int, source: IpAddress | None
    ) -> AccessRefusal | None:
        """The first need that a user does not meet; None if they meet all."""
        if user.is_super:
            return None
        for need in needs:
            verdict = self.verdict(user, need, source)
            if not verdict.is_allowed and not self.is_open(need):
                refused = self._refuse_need(user, code, need, verdict, source)
                return replace(refused, need=need)
        return None

    def needs(self, request: TypedRequest[Any]) -> tuple[Need, ...] | Reserved:
        """What a request needs here.  Raises `MalformedBody` where its body cannot be read."""
        return needs_of(request, self._context)

    def verdict(self, user: User, need: Need, source: IpAddress | None) -> AccessVerdict:
        """The decision about one need, remembered until the rules change."""
        key = user.name, need, source
        verdict = self._verdicts.get(key)
        if verdict is None:
            policies = self.rules.policies.get(user.name, _NO_POLICIES)
            if self.dialect is Dialect.PLAIN:
                verdict = _decide_plain(user, policies, need, source)
            else:
                verdict = decide(user, policies, need, source)
            if len(self._verdicts) >= VERDICTS_MAX:
                self._verdicts.clear()
            self._verdicts[key] = verdict
        return verdict

    def is_open(self, need: Need) -> bool:
        """ACL 1.0: every account may write message traces."""
        resource = need.resource
        return (
            self.dialect is Dialect.PLAIN
            and resource.type is ResourceType.TOPIC
            and resource.name == TRACE_TOPIC
            and Action.PUB in need.actions
        )

    # Who is connected

    def joined(self, address: str, user: User | None) -> None:
        """A heartbeat passed: the client at this address may be asked about transactions."""
        self._members[address] = None if user is None else user.name

    def left(self, address: str) -> None:
        """The connection is closed."""
        self._members.pop(address, None)

    def may_publish(self, address: str, topic: str) -> bool:
        """Whether the client at an address may see messages that were sent to a topic and wait.

        Every user may join any producer group: RocketMQ has no right for it.
        """
        if address not in self._members:
            return False
        name = self._members[address]
        if name is None:
            return True
        user = self.rules.users.get(name)
        if user is None or not user.is_enabled:
            return False
        need = Need(Resource(ResourceType.TOPIC, topic), frozenset({Action.PUB}))
        source = parse_address(address.rpartition(":")[0].strip("[]"))
        return user.is_super or self.verdict(user, need, source).is_allowed

    # Refusals

    def _refuse(self, text: str, user: str = "") -> AccessRefusal:
        if self.dialect is Dialect.PLAIN:
            remark = f"org.apache.rocketmq.acl.common.AclException: {text}"
            return AccessRefusal(ResponseCode.SYSTEM_ERROR, remark, user)
        return AccessRefusal(ResponseCode.NO_PERMISSION, text, user)

    def _refuse_reserved(self, user: User, code: int) -> AccessRefusal:
        if self.dialect is Dialect.PLAIN:
            text = (
                f"Need admin permission for request code={code}, but accessKey={user.name} is not"
            )
        else:
            text = f"User:{user.name} is not a super user, which request code {code} needs."
        return self._refuse(text, user.name)

    def _refuse_need(
        self, user: User, code: int, need: Need, verdict: AccessVerdict, source: IpAddress | None
    ) -> AccessRefusal:
        resource = need.resource
        if self.dialect is Dialect.PLAIN:
            if resource.type is ResourceType.CLUSTER or (verdict.entry is None and _is_admin(need)):
                return self._refuse_reserved(user, code)
            text = f"No default permission for {resource.type.name.lower()}:{resource.name}"
            return self._refuse(text, user.name)
        why = "the decision is deny" if verdict.entry is not None else "no matched policies"
        where = f"from {source}, {why}."
        text = f"User:{user.name} has no permission to access {resource} {where}"
        return self._refuse(text, user.name)


def _decide_plain(
    user: User, policies: Policies, need: Need, source: IpAddress | None
) -> AccessVerdict:
    """PUB and SUB are asked for one by one: lacking one of them denies nothing of the other.

    Who may publish may see figures of the topic, but where subscribing would do, only SUB does.
    """
    actions = need.actions & {Action.PUB, Action.SUB} or need.actions
    for action in sorted(actions):
        verdict = decide(user, policies, Need(need.resource, frozenset({action})), source)
        if verdict.is_allowed:
            break
    return verdict


def _is_admin(need: Need) -> bool:
    """Whether ACL 1.0 has no permission for this, so that only an admin may."""
    return need.actions.isdisjoint(PLAIN_RIGHTS)
