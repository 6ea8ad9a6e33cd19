"""Random accounts, rules and requests, as lines for RocketMQ's own classes and as ours."""

from __future__ import annotations

import json
from dataclasses import dataclass
from ipaddress import ip_address
from random import Random

from flintmq.access.auth_accounts import change_policies, create_user
from flintmq.access.control import AccessControl, AccessRefusal, Signed
from flintmq.access.needs import TABLE
from flintmq.access.plain_file import PlainAccount, PlainFile, rules_of_files
from flintmq.access.rights import Context
from flintmq.access.rules import Dialect, RuleSet
from flintmq.errors import MalformedBody
from flintmq.protocol.bodies.account_bodies import AclBody, EntryBody, PolicyBody, UserBody
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command
from flintmq.protocol.frame import FrameReader
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.signature import sign
from flintmq.protocol.typed_request import RequestReader, TypedRequest
from flintmq.protocol.wire import encode_command
from support.broker.guarded import real_body, real_fields
from support.broker.wire import command_of

CLUSTER = "DefaultCluster"
TOPICS = ("a", "ab", "abc", "abcd", "b", "bc", "RMQ_SYS_TRACE_TOPIC")
GROUPS = ("g", "ga", "gab", "h")
ADDRESSES = ("10.1.2.3", "10.9.9.9", "192.168.1.7", "172.16.0.1")
NAMES = ("accountA", "accountB", "superUser", "disabledU")
SOURCES = ("10.0.0.0/8", "10.1.2.3", "192.168.0.0/16", "0.0.0.0/0")
ACTIONS = ("All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
PERMISSIONS = ("DENY", "PUB", "SUB", "PUB|SUB", "SUB|PUB")
WHITE = ("10.1.2.3", "192.168.1.*", "172.16.0.{1,2}", "10.9.8-9.*")
CODES = [code for code in TABLE if code in REQUEST_HEADERS]

_READ = RequestReader(REQUEST_HEADERS).read


@dataclass(frozen=True, slots=True)
class Case:
    """One request to one set of rules."""

    code: RequestCode
    who: str
    ours: AccessRefusal | None
    described: str
    names_retry_topic: bool

    @property
    def is_allowed(self) -> bool:
        return self.ours is None


def hexed(text: str) -> str:
    return text.encode().hex() or "-"


def secret_of(name: str) -> str:
    return f"{name}-secret"


# Rules


def plain_rules(chance: Random) -> tuple[RuleSet, list[str]]:
    """Accounts of ACL 1.0."""
    lines, accounts = ["RESET"], []
    white = tuple(chance.sample(WHITE, 1)) if chance.random() < 0.1 else ()
    for name in NAMES:
        own_topics = tuple(
            f"{topic}={chance.choice(PERMISSIONS)}"
            for topic in chance.sample(TOPICS[:6], chance.randrange(4))
        )
        own_groups = tuple(
            f"{group}={chance.choice(PERMISSIONS)}"
            for group in chance.sample(GROUPS, chance.randrange(3))
        )
        account = PlainAccount(
            name,
            secret_of(name),
            chance.choice(WHITE) if chance.random() < 0.1 else "",
            name == "superUser" or chance.random() < 0.15,
            chance.choice(PERMISSIONS),
            chance.choice(PERMISSIONS),
            () if name == "superUser" and chance.random() < 0.7 else own_topics,
            () if name == "superUser" and chance.random() < 0.7 else own_groups,
        )
        accounts.append(account)
        words = (
            hexed(account.access_key),
            hexed(account.secret_key),
            "true" if account.admin else "false",
            hexed(account.default_topic_perm),
            hexed(account.default_group_perm),
            hexed(account.white_address),
            hexed(",".join(account.topic_perms)),
            hexed(",".join(account.group_perms)),
        )
        lines.append(" ".join(("ACCOUNT", *words)))
    lines += [f"WHITE {hexed(address)}" for address in white]
    return rules_of_files([PlainFile(tuple(accounts), white)]), lines


def auth_rules(chance: Random) -> tuple[RuleSet, list[str]]:
    """Users and policies of ACL 2.0."""
    rules, lines = RuleSet(), ["RESET"]
    for name in NAMES:
        kind = "Super" if name == "superUser" else "Normal"
        status = "disable" if name == "disabledU" else "enable"
        body = UserBody(password=secret_of(name), user_type=kind, user_status=status)
        rules = create_user(rules, name, body, None)
        lines.append(f"USER {name} {secret_of(name)} {kind} {status}")
        policies = []
        for policy in ("Custom", "Default"):
            entries = [_entry(chance, each) for each in _resources(chance)]
            policies.append(PolicyBody(policy_type=policy, entries=tuple(entries)))
            lines += [_entry_line(name, policy, entry) for entry in entries]
        rules = change_policies(rules, f"User:{name}", AclBody(policies=tuple(policies)))
    return rules, lines


def _resources(chance: Random) -> list[str]:
    """Resources, each once: RocketMQ merges entries with the same one."""
    found = set()
    for _ in range(chance.randrange(7)):
        kind = chance.choice(("Topic", "Topic", "Group", "Group", "Cluster", "*"))
        if kind == "*":
            found.add("*")
            continue
        names = {"Topic": TOPICS, "Group": GROUPS, "Cluster": (CLUSTER,)}[kind]
        name = chance.choice(names)
        found.add(f"{kind}:{chance.choice((name, name[: chance.randrange(1, 4)] + '*', '*'))}")
    made = sorted(found)
    chance.shuffle(made)
    return made


def _entry(chance: Random, resource: str) -> EntryBody:
    return EntryBody(
        resource=resource,
        actions=tuple(chance.sample(ACTIONS, chance.randrange(1, 4))),
        source_ips=tuple(chance.sample(SOURCES, 1)) if chance.random() < 0.3 else None,
        decision=chance.choice(("Allow", "Allow", "Deny")),
    )


def _entry_line(name: str, policy: str, entry: EntryBody) -> str:
    sources = ",".join(entry.source_ips or ()) or "-"
    actions = ",".join(entry.actions)
    return f"ENTRY {name} {policy} {entry.resource} {actions} {sources} {entry.decision}"


# Requests


def a_request(chance: Random, code: RequestCode) -> Command:
    """A request of this code that names topics and groups of ours."""
    topic, group = chance.choice(TOPICS), chance.choice(GROUPS)
    if chance.random() < 0.15:
        topic = f"%RETRY%{chance.choice(GROUPS)}"
    replaced = {"T": topic, "g": group, "g2": chance.choice(GROUPS)}
    fields = {name: replaced.get(text, text) for name, text in real_fields(code).items()}
    if code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
        fields["a"] = topic.removeprefix("%RETRY%")  # the group that RocketMQ believes
    body = real_body(code)
    if body.startswith(b"{"):
        body = json.dumps(_replaced(json.loads(body), replaced)).encode()
    return command_of(code, fields, body)


def _replaced(value: object, names: dict[str, str]) -> object:
    if isinstance(value, dict):
        return {key: _replaced(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each, names) for each in value]
    return names.get(value, value) if isinstance(value, str) else value


def signed_by_somebody(chance: Random, command: Command) -> tuple[Command, str]:
    number = chance.random()
    if number < 0.03:
        return command, "nobody"
    if number < 0.06:
        return sign(command, "strangers", "whatever"), "a stranger"
    name = chance.choice(NAMES)
    if number < 0.12:
        return sign(command, name, "wrong secret"), f"{name}, wrong secret"
    return sign(command, name, secret_of(name)), name


def decided(
    dialect: Dialect, rules: RuleSet, command: Command, source: str
) -> AccessRefusal | str | None:
    """Our own decision; records belong to the topic that the request names."""
    fields = command.field_texts()
    context = Context(CLUSTER, lambda _: fields.get("topic"))
    (frame,) = FrameReader().feed(encode_command(command))
    request = _READ(frame)
    assert isinstance(request, TypedRequest)
    control = AccessControl(dialect, rules, context)
    try:
        passed = control.check(
            request, Signed(fields, command.body, command.version), ip_address(source)
        )
    except MalformedBody as error:
        return str(error)
    return passed if isinstance(passed, AccessRefusal) else None


def cases(dialect: Dialect, seed: int, count: int) -> tuple[list[Case], list[str]]:
    """Requests with our decisions, and the lines that ask RocketMQ for its own."""
    chance = Random(seed)
    made: list[Case] = []
    lines: list[str] = []
    while len(made) < count:
        rules, said = (plain_rules if dialect is Dialect.PLAIN else auth_rules)(chance)
        lines += said
        for _ in range(20):
            code = chance.choice(CODES)
            command, who = signed_by_somebody(chance, a_request(chance, code))
            source = chance.choice(ADDRESSES)
            ours = decided(dialect, rules, command, source)
            assert not isinstance(ours, str), (code, ours)
            fields = command.field_texts()
            asked = f"{code.name} {fields} {command.body!r} from {source}"
            described = f"{asked}; rules {said}"
            made.append(Case(code, who, ours, described, "%RETRY%" in asked))
            lines.append(f"ASK {source} {encode_command(command)[4:].hex()}")
    return made, lines
