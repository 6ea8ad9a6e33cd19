"""What every JSON body has in common: how it is read, how it is written.

A body is a frozen struct.  Its attributes are the wire names in snake case, declared in
alphabetical order of the wire names, because that is the order Java writes.  ``None`` stands
for a field that is not there: releases differ in the fields they send.  Fields a peer may
leave out have the default a Java peer would assume; unknown fields are ignored, except by an
`OpenBody`, which keeps them.

Some values need a reader of their own: a queue, which may also be the key of a map, or an
enum that comes by name or by number.  msgspec asks a hook for types it does not know, so such
a field is declared with a stand-in made by `custom`; type checkers see the real type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import msgspec

from flintmq.model.queue import QueueRef
from flintmq.protocol import fastjson
from flintmq.protocol.fastjson import DEPTH_MAX

FILE_BYTES_MAX = 256 * 1024 * 1024
"""A config file is our own, or of a broker whose store we take over; this is a million offsets
many times over, and less than a file that cannot be meant."""

_readers: dict[type, Callable[[Any], object]] = {}


class Body(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A body, or an object inside one."""

    rewrite_bytes_max: ClassVar[int] = fastjson.REWRITE_BYTES_MAX
    """How long a body of this class may be that is not plain JSON."""

    @classmethod
    def from_body(cls, body: bytes) -> Self:
        """Read what came over the wire.  Raises `MalformedBody`."""
        return fastjson.read(
            body, cls._decoder(), cls.__name__, rewrite_bytes_max=cls.rewrite_bytes_max
        )

    @classmethod
    def from_file(cls, content: bytes) -> Self:
        """Read a config file.  Raises `MalformedBody`."""
        return fastjson.read(
            content,
            cls._decoder(),
            cls.__name__,
            limit_bytes=FILE_BYTES_MAX,
            rewrite_bytes_max=FILE_BYTES_MAX,
        )

    def to_body(self) -> bytes:
        """Write the compact form that travels."""
        return fastjson.write(self, wire_fields)

    def to_file(self) -> bytes:
        """Write the pretty form that config files have."""
        return fastjson.write(self, wire_fields, pretty=True)

    @classmethod
    def _decoder(cls) -> msgspec.json.Decoder[Self]:
        decoder: msgspec.json.Decoder[Self] = decoder_of(cls)
        return decoder


class RequestBody(Body, frozen=True, kw_only=True):
    """A body that servers read.

    They do it on their event loop, and for anybody.  Clients send these as plain JSON; the
    slow way is for the odd null and has to be short.
    """

    rewrite_bytes_max: ClassVar[int] = 64 * 1024
    """Forty milliseconds of work."""


class OpenBody(RequestBody, frozen=True, kw_only=True):
    """A body whose unknown fields survive: we may have to write what a newer release wrote."""

    extra: dict[str, object] = {}
    """Unknown fields by wire name.  Integer keys inside them have become strings."""

    @classmethod
    def _decoder(cls) -> msgspec.json.Decoder[Self]:
        decoder: msgspec.json.Decoder[Self] = _open_decoder_of(cls)
        return decoder

    @classmethod
    def from_fields(cls, fields: object) -> Self:
        """Sort decoded JSON into known and unknown fields.  Raises `ValueError`."""
        if not isinstance(fields, dict):
            raise ValueError(f"expected an object, got {type(fields).__name__}")  # noqa: TRY004
        known = _names(cls)
        if fields.keys() <= known and None not in fields.values():  # nearly always
            return msgspec.convert(fields, cls, strict=False, dec_hook=_read_custom)
        present = {name: value for name, value in fields.items() if value is not None}
        value = msgspec.convert(
            {name: present[name] for name in known & present.keys()},
            cls,
            strict=False,
            dec_hook=_read_custom,
        )
        extra = {name: present[name] for name in present if name not in known}
        return msgspec.structs.replace(value, extra=_bounded(extra)) if extra else value


class _StandIn(type):
    """The class of stand-ins.  Whatever a reader gives back passes for an instance."""

    def __instancecheck__(cls, value: object) -> bool:
        return True


def custom(read: Callable[[Any], object]) -> type:
    """A field type that msgspec leaves to ``read``.

    ``read`` gets decoded JSON, or the text of a key, and raises `ValueError` for bad values.
    """
    stand_in = _StandIn("Custom", (), {})
    _readers[stand_in] = read
    return stand_in


def wire_fields(value: Any) -> Iterable[tuple[str, object]]:
    """The members of an object as they are written."""
    if isinstance(value, QueueRef):
        return (("brokerName", value.broker), ("queueId", value.queue_id), ("topic", value.topic))
    fields = [(name, getattr(value, attribute)) for attribute, name in _plan(value.__class__)]
    if isinstance(value, OpenBody) and value.extra:
        return sorted([*fields, *value.extra.items()], key=itemgetter(0))
    return fields


@cache
def _plan(cls: type[Any]) -> tuple[tuple[str, str], ...]:
    """Attributes and wire names of a struct, without what is not on the wire."""
    return tuple(
        (field.name, field.encode_name)
        for field in msgspec.structs.fields(cls)
        if not (issubclass(cls, OpenBody) and field.name == "extra")
    )


@cache
def _names(cls: Any) -> frozenset[str]:
    return frozenset(name for _, name in _plan(cls))


@cache
def decoder_of(cls: Any) -> msgspec.json.Decoder[Any]:
    """The decoder of a body class, or of any type made of what bodies are made of."""
    return msgspec.json.Decoder(cls, strict=False, dec_hook=_read_custom)


@cache
def _open_decoder_of(cls: type[OpenBody]) -> msgspec.json.Decoder[Any]:
    return decoder_of(custom(cls.from_fields))


def _read_custom(stand_in: type, value: Any) -> object:
    return _readers[stand_in](value)


def _bounded(value: Any) -> Any:
    """Give back untyped JSON if it is shallow enough to be walked."""
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [child for item in level for child in _children(item)]
        if not level:
            return value
    raise ValueError(f"nested more than {DEPTH_MAX} deep")


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


if TYPE_CHECKING:
    Json: TypeAlias = object
else:
    Json = custom(_bounded)
"""Untyped JSON that is carried along and not looked into."""
