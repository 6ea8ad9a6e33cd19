"""The columns of the table of needs: which right on which resource a request names.

A `Right` finds the names of its resources in the typed header or the body of a request, or in the
record that the request names by its log offset.

Invariant: a name comes from where the processor takes it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, Final, TypeAlias

import msgspec

from flintmq.access.decide import Need
from flintmq.access.rules import Action, Resource, ResourceType
from flintmq.errors import InvalidName
from flintmq.model.group import RETRY_PREFIX
from flintmq.model.message_id import parse_offset_id
from flintmq.model.topic import is_system_topic, reply_topic
from flintmq.protocol.bodies.client import Heartbeat
from flintmq.protocol.bodies.group import LockRequest
from flintmq.protocol.fields import Header
from flintmq.protocol.typed_request import TypedRequest

TopicAt: TypeAlias = Callable[[int], str | None]
"""The topic of the record at a log offset, a half message's real one; None where there is none."""

REPLY_TOPIC_ENDING: Final = reply_topic("")


class Reserved(Enum):
    """Requests that need no right on a resource."""

    NOTHING = "a valid signature"
    SUPER = "a super user"


@dataclass(frozen=True, slots=True)
class Context:
    """What needs depend on besides the request."""

    cluster: str
    topic_at: TopicAt = lambda _offset: None


Names: TypeAlias = Callable[[TypedRequest[Any], Context], Iterable[str | None]]


@dataclass(frozen=True, slots=True)
class Right:
    """One column of a row: actions, one of which is needed on each resource the request names."""

    type: ResourceType
    actions: frozenset[Action]
    names: Names
    words: str
    """Where the name comes from, for the printed table."""

    def needs(self, request: TypedRequest[Any], context: Context) -> Iterable[Need]:
        for name in self.names(request, context):
            if name is not None:
                yield need_on(self.type, name, self.actions)

    def __str__(self) -> str:
        actions = " or ".join(action.title for action in sorted(self.actions))
        return f"{actions} on {self.words}"


Row: TypeAlias = tuple[Right, ...] | Reserved


def need_on(type_: ResourceType, name: str, actions: frozenset[Action]) -> Need:
    """A retry topic stands for its group: who may consume in the group may write and read it."""
    if type_ is ResourceType.TOPIC and name.startswith(RETRY_PREFIX):
        if actions & _PUB_OR_SUB:
            actions = (actions - _PUB) | _SUB
        return Need(Resource(ResourceType.GROUP, name.removeprefix(RETRY_PREFIX)), actions)
    return Need(Resource(type_, name), actions)


# Columns

_PUB = frozenset({Action.PUB})
_SUB = frozenset({Action.SUB})
_PUB_OR_SUB = _PUB | _SUB


def topic_right(*actions: Action, attribute: str = "topic") -> Right:
    return right(ResourceType.TOPIC, actions, _attribute(attribute), "the topic")


def group_right(attribute: str, *actions: Action) -> Right:
    return right(ResourceType.GROUP, actions, _attribute(attribute), "the group")


def cluster_right(action: Action) -> tuple[Right]:
    def names(_request: TypedRequest[Any], context: Context) -> Iterable[str]:
        return (context.cluster,)

    return (right(ResourceType.CLUSTER, (action,), names, "the cluster"),)


def right(type_: ResourceType, actions: Iterable[Action], names: Names, words: str) -> Right:
    return Right(type_, frozenset(actions), names, words)


def _attribute(name: str) -> Names:
    """The name in a field.  An empty one counts as absent where the field may be absent; where
    it must be there it is a name of its own, which only a right on all names covers.
    """

    def names(request: TypedRequest[Any], _context: Context) -> Iterable[str | None]:
        found = getattr(request.header, name)
        kind: type[Header] = type(request.header)
        return (found if found or name in _required(kind) else None,)

    return names


@cache
def _required(kind: type[Header]) -> frozenset[str]:
    return frozenset(field.name for field in msgspec.structs.fields(kind) if field.required)


def several(attribute: str, separator: str) -> Names:
    def names(request: TypedRequest[Any], _context: Context) -> Iterable[str | None]:
        return filter(None, (getattr(request.header, attribute) or "").split(separator))

    return names


def trimmed_topic(request: TypedRequest[Any], _context: Context) -> Iterable[str | None]:
    """The topic of a request whose processor passes over blanks around it."""
    return ((request.header.topic or "").strip() or None,)


def _from_body(read: Callable[[bytes], Iterable[str | None]]) -> Names:
    def names(request: TypedRequest[Any], _context: Context) -> Iterable[str | None]:
        return read(request.body)

    return names


def body_right(
    type_: ResourceType,
    read: Callable[[bytes], Iterable[str | None]],
    words: str,
    *actions: Action,
) -> Right:
    return right(type_, actions, _from_body(read), words)


def heartbeat_groups(body: bytes) -> Iterable[str]:
    return [group.group_name for group in Heartbeat.from_body(body).consumer_data_set]


def heartbeat_topics(body: bytes) -> Iterable[str]:
    return {
        subscription.topic
        for group in Heartbeat.from_body(body).consumer_data_set
        for subscription in group.subscription_data_set
    }


def locked_topics(body: bytes) -> Iterable[str]:
    return {queue.topic for queue in LockRequest.from_body(body).mq_set}


def record_topic(request: TypedRequest[Any], context: Context) -> Iterable[str | None]:
    return (context.topic_at(request.header.offset),)


def named_topic(request: TypedRequest[Any], context: Context) -> Iterable[str | None]:
    """The topic of the record that the request names by its message id."""
    try:
        _, log_offset = parse_offset_id(request.header.msg_id or "")
    except InvalidName:
        return ()
    return (context.topic_at(log_offset),)


def half_topic(request: TypedRequest[Any], context: Context) -> Iterable[str | None]:
    return (context.topic_at(request.header.commit_log_offset),)


def reply_target(request: TypedRequest[Any], context: Context) -> Iterable[str | None]:
    topic: str = request.header.topic
    return () if topic == reply_topic(context.cluster) else (topic,)


def routed_topic(request: TypedRequest[Any], context: Context) -> Iterable[str | None]:
    """Topics every client asks for, whatever it may do, need no right."""
    topic: str = request.header.topic
    is_open = is_system_topic(topic) or topic.endswith(REPLY_TOPIC_ENDING)
    return () if is_open or topic == context.cluster else (topic,)
