"""Hypothesis strategies for bodies: values of any body class, made from its field types."""

from __future__ import annotations

import importlib
import pkgutil
import types
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

import flintmq.protocol.bodies
import flintmq.protocol.pop
from flintmq.model.group import ConsumeFromWhere, ConsumeType, MessageModel
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies import body, group, topic
from flintmq.protocol.bodies import client_call as reset
from flintmq.protocol.bodies import common_bodies as consuming
from flintmq.protocol.bodies import common_bodies as queue
from flintmq.protocol.bodies.body import Body, OpenBody, RequestBody

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAME = st.from_regex(r"[%|a-zA-Z0-9_-]{1,12}", fullmatch=True)
QUEUES = st.builds(
    QueueRef, topic=TEXT.filter(bool), broker=TEXT, queue_id=st.integers(0, 2**31 - 1)
)
JSON = st.recursive(
    st.booleans() | INT64 | TEXT | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def body_classes() -> list[type[Body]]:
    """Every public body class there is."""
    for package in (flintmq.protocol.bodies, flintmq.protocol.pop):
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")
    found, todo = [], [Body]
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        found.append(cls)
    public = [
        cls for cls in found if cls not in (Body, RequestBody, OpenBody) and cls.__name__[0] != "_"
    ]
    return sorted(public, key=lambda cls: cls.__name__)


def bodies(cls: type[Any]) -> st.SearchStrategy[Any]:
    """Values of one body class."""
    fields = {field.name: values(field.type) for field in msgspec.structs.fields(cls)}
    if issubclass(cls, OpenBody):
        known = {field.encode_name for field in msgspec.structs.fields(cls)} - {"extra"}
        fields["extra"] = st.dictionaries(
            TEXT.filter(lambda name: name not in known), JSON, max_size=2
        )
    return st.fixed_dictionaries(fields).map(lambda chosen: cls(**chosen))


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of one field type."""
    if kind in _CUSTOM:
        return st.deferred(_CUSTOM[kind])
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        (limits,) = kind.__metadata__
        return st.integers(limits.ge, limits.le)
    if origin in (Union, types.UnionType):
        return st.one_of([values(argument) for argument in arguments])
    if origin is tuple:
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if origin is list:
        return st.lists(values(arguments[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=3)
    if issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    assert issubclass(kind, Body), kind
    return st.deferred(lambda: bodies(kind))


_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: INT64,
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bytes: st.binary(max_size=6),
    type(None): st.none(),
    object: JSON,
}
_CUSTOM: dict[Any, Callable[[], st.SearchStrategy[Any]]] = {
    body.Json: lambda: JSON,
    queue.QueueField: lambda: QUEUES,
    queue.PopQueueField: lambda: bodies(queue.PopQueue),
    consuming.ConsumeTypeField: lambda: st.sampled_from(list(ConsumeType)),
    consuming.MessageModelField: lambda: st.sampled_from(list(MessageModel)),
    consuming.ConsumeFromWhereField: lambda: st.sampled_from(list(ConsumeFromWhere)),
    reset.OffsetsField: lambda: st.dictionaries(QUEUES, INT64, max_size=3),
    topic.TopicConfigField: lambda: bodies(topic.TopicConfig),
    group.GroupConfigField: lambda: bodies(group.GroupConfig),
}
