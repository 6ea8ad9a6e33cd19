"""Typed headers ↔ extFields, the map of text to text that every command may carry.

A header is a frozen `Header` class; its attributes are ours, its wire names are
RocketMQ's.  Numbers travel as decimal text and booleans as ``true`` or ``false``,
yet some clients send bare JSON numbers, booleans, null or nested objects.

Reading is done in two steps.  msgspec reads the well-behaved case in one pass; what it
refuses is read again field by field under the rules of a Java peer: text that is not
``true`` in any case is false, a number may have a plus sign, null and nested values count
as absent, an empty text is an absent number.  Both steps agree where both succeed; to that
end the text ``null`` is an absent number or boolean too, as msgspec has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, TypeVar, get_args

import msgspec
from msgspec import Raw

from flintmq.errors import LocalProtocolError, MalformedHeader

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

NO_FIELDS = Raw(b"{}")

FIELDS_MAX = 4_096
"""Fields of one header.  The longest of RocketMQ's has some thirty; each costs microseconds."""


class Header(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A typed header, by keyword only.  What has no default is required on the wire.

    Declare attributes in the order RocketMQ writes them; types are `Int32`, `Int64`,
    ``bool`` and ``str``, each alone or with None.
    """


H = TypeVar("H", bound=Header)


class _Reader(NamedTuple):
    """What is needed to read one header class, worked out once."""

    decode: Callable[[Raw | bytes], Any]
    truths: Callable[[Any], Any] | None  # the booleans of a header, or None if it has none
    convert: Callable[[dict[str, Any]], Any]


_as_map = msgspec.json.Decoder(dict[str, Any]).decode
_TRUE_FALSE = {True: "true", False: "false"}
_NUMBER = re.compile(r"[+-]?[0-9]{1,80}")  # what Java's parseLong takes, and short enough for int()
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_MISSING = re.compile(r"missing required field `(.+?)`")
_AT_FIELD = re.compile(r"at `\$\.(.+?)`")


def read_header(kind: type[H], fields: Raw) -> H:
    """Read ``fields`` as a typed header; raise `MalformedHeader` naming the field at fault."""
    reader = _reader(kind)
    try:
        header: H = reader.decode(fields)
        if reader.truths is None or True not in reader.truths(header):
            return header
    except _UNREADABLE:
        pass
    careful: H = reader.convert(_read_map(fields))
    return careful


def read_fields(fields: Raw) -> dict[str, str]:
    """All of ``fields`` as text, as a Java peer would show them.  Nested values are dropped."""
    return {name: _text(value) for name, value in _read_map(fields).items() if _is_plain(value)}


def header_fields(header: Header) -> dict[str, str]:
    """A typed header as text.  What is None is left out."""
    names = header.__struct_encode_fields__
    fields = {}
    for name, value in zip(names, msgspec.structs.astuple(header), strict=True):
        if value is None:
            continue
        if type(value) is not str:
            value = _TRUE_FALSE[value] if type(value) is bool else str(value)
        fields[name] = value
    return fields


def write_fields(fields: Mapping[str, str]) -> Raw:
    """Text to text as it stands in a command; raise `LocalProtocolError` for what is not text."""
    try:
        return Raw(msgspec.json.encode(fields))
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"a header field is not valid text: {error}") from None


def write_header(header: Header) -> Raw:
    return write_fields(header_fields(header))


def _is_plain(value: object) -> bool:
    return value is not None and not isinstance(value, dict | list)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return _TRUE_FALSE[value] if isinstance(value, bool) else str(value)


def truths_of(kind: type[Header]) -> Callable[[Any], Any] | None:
    """A function that gives all booleans of such a header, or None when there are none.

    msgspec takes "1" and 1 for true and a Java peer does not, so whoever finds a true
    among them has to look at the text again.
    """
    truths = [f.name for f in msgspec.structs.fields(kind) if _is_truth(f.type)]
    # attrgetter of one name gives the value alone, so the first is asked for twice
    return attrgetter(*truths, truths[0]) if truths else None


def truth_names(kind: type[Header]) -> list[str]:
    """The booleans of a header as they are called on the wire, in the same order."""
    return [f.encode_name for f in msgspec.structs.fields(kind) if _is_truth(f.type)]


@cache
def _reader(kind: type[Header]) -> _Reader:
    fields = msgspec.structs.fields(kind)
    numbers = {f.encode_name for f in fields if _is_number(f.type)}
    flags = {f.encode_name for f in fields if _is_truth(f.type)}

    def convert(given: dict[str, Any]) -> Any:
        typed: dict[str, Any] = {}
        for name, value in given.items():
            if not _is_plain(value):
                continue
            text = _text(value)
            if name not in numbers and name not in flags:
                typed[name] = text
            elif text.lower() == "null":
                continue
            elif name in flags:
                typed[name] = text.lower() == "true"
            elif _NUMBER.fullmatch(text):
                typed[name] = int(text)
            elif text:
                raise MalformedHeader(name, f"{text[:80]!r} is not a number")
        try:
            return msgspec.convert(typed, kind)
        except msgspec.ValidationError as error:
            raise _fault(error) from None

    return _Reader(msgspec.json.Decoder(kind, strict=False).decode, truths_of(kind), convert)


def _read_map(fields: Raw) -> dict[str, Any]:
    try:
        found = _as_map(fields)
    except _UNREADABLE as error:
        raise MalformedHeader("extFields", str(error)) from None
    if len(found) > FIELDS_MAX:
        raise too_many_fields()
    return found


def too_many_fields() -> MalformedHeader:
    return MalformedHeader("extFields", f"has more than {FIELDS_MAX} fields")


def _is_truth(kind: object) -> bool:
    return bool in (kind, *get_args(kind))


def _is_number(kind: object) -> bool:
    return kind is int or any(_is_number(part) for part in get_args(kind))


def _fault(error: msgspec.ValidationError) -> MalformedHeader:
    text = str(error)
    if missing := _MISSING.search(text):
        return MalformedHeader(missing[1], "is missing")
    at = _AT_FIELD.search(text)
    return MalformedHeader(at[1] if at else "", text.split(" - at", 1)[0])
