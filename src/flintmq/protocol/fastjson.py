"""The JSON that RocketMQ's servers and clients really speak, in bodies and in config files.

It is what Java's fastjson writes, and not quite JSON: the keys of a map may be bare integers
(``{0:"10.0.0.1:10911"}``) or whole objects (``{{"brokerName":"a",…}:5}``); other peers add
single quotes, bare words as keys, commas at the end, and ``null`` where Java leaves a field out.

Reading.  Standard JSON goes to msgspec as it is.  Only when that fails is the text rewritten
to standard JSON, in one pass, and tried once more.  The rewrite quotes bare keys, drops
members that are null, and turns a key that is an object into a string that holds the object
as JSON text.  A decoder that wants a queue as a key parses that string; an empty map stays an
empty object, so no type has two shapes.  Fastjson itself reads such string keys too.

Writing.  Members in the order they are given, nulls left out, no spaces; or the pretty form
of the config files, tab by tab as fastjson lays it out.

Refused, as `MalformedBody`: text over the size limits, nesting over `DEPTH_MAX`, an object key
inside an object key (each level would double the quoting), and whatever is still no JSON.
References (``{"$ref":…}``) are not followed: no body of RocketMQ repeats an object.

Invariant: reading takes time and memory linear in the text, and raises `MalformedBody` only.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterable
from enum import Enum
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Literal, TypeAlias, TypeVar

import msgspec

from flintmq.errors import MalformedBody

BODY_BYTES_MAX = 16 * 1024 * 1024
"""No body is longer than the longest frame."""

REWRITE_BYTES_MAX = 4 * 1024 * 1024
"""Text that must be rewritten takes a second or more for a megabyte, a hundred times what
standard JSON takes.  The longest seen, the offsets of a whole broker, has some hundred KB."""

DEPTH_MAX = 64
"""Real bodies nest six deep.  The limit keeps every later walk of the value shallow."""

T = TypeVar("T")

FieldsOf: TypeAlias = Callable[[object], Iterable[tuple[str, object]]]
"""Takes an object apart into wire names and values, in the order they are written."""

_TOKEN = re.compile(
    r"""[ \t\r\n]*+ (?:
        (?P<string> " [^"\\]*+ (?: \\. [^"\\]*+ )*+ " )
      | (?P<single> ' [^'\\]*+ (?: \\. [^'\\]*+ )*+ ' )
      | (?P<number> -?[0-9][0-9.eE+-]*+ )
      | (?P<word>   [A-Za-z_$][A-Za-z0-9_$]*+ )
      | (?P<mark>   [][{}:,] )
      | (?P<end>    \Z )
    )""",
    re.VERBOSE | re.DOTALL,
)

_CONSTANTS = {None: "null", True: "true", False: "false"}

_Expected: TypeAlias = Literal["key", "colon", "value", "comma", "end"]


def read(
    body: bytes,
    decoder: msgspec.json.Decoder[T],
    what: str,
    *,
    limit_bytes: int = BODY_BYTES_MAX,
    rewrite_bytes_max: int = REWRITE_BYTES_MAX,
) -> T:
    """Decode a body in either form.  ``what`` names it in the error."""
    if len(body) > limit_bytes:
        raise MalformedBody(what, f"{len(body)} bytes are over the limit of {limit_bytes}")
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # not standard JSON, or null where a default is meant: read it the long way
    if len(body) > rewrite_bytes_max:
        raise MalformedBody(what, f"{len(body)} bytes that are not plain JSON are too many")
    try:
        return decoder.decode(standard_json(body.decode("utf-8"), what))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedBody(what, str(error)) from error


def standard_json(text: str, what: str) -> str:
    """Rewrite the dialect to JSON that any decoder takes.  ``what`` names it in the error."""
    rewriter = _Rewriter(what)
    position = 0
    while True:
        token = _TOKEN.match(text, position)
        if token is None or token.lastgroup is None:
            raise MalformedBody(what, f"no JSON at character {position}")
        if token.lastgroup == "end":
            return rewriter.finish()
        rewriter.feed(token.lastgroup, token[token.lastgroup])
        position = token.end()


class _Open:
    """An object or array that is not closed yet."""

    __slots__ = ("empty", "is_key", "key", "mark", "start")

    def __init__(self, mark: str, start: int, is_key: bool) -> None:
        self.mark = mark
        self.start = start
        self.is_key = is_key
        self.empty = True
        self.key = ""


class _Rewriter:
    """Takes tokens of the dialect and keeps pieces of standard JSON.

    A comma and a key are written with the value that follows, so a member that turns out
    to be null leaves no trace.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._out: list[str] = []
        self._open: list[_Open] = []
        self._expected: _Expected = "value"
        self._in_key = False

    def finish(self) -> str:
        if self._expected != "end":
            raise MalformedBody(self._what, "the text ends too early")
        return "".join(self._out)

    def feed(self, kind: str, lexeme: str) -> None:
        if kind == "mark" and lexeme in "}]":
            self._close(lexeme)
        elif kind == "mark" and lexeme in ":,":
            self._separate(lexeme)
        elif self._expected == "key":
            self._key(kind, lexeme)
        elif self._expected == "value":
            self._value(kind, lexeme)
        else:
            raise MalformedBody(self._what, f"{lexeme[:20]!r} but {self._expected} was due")

    def _separate(self, lexeme: str) -> None:
        if self._expected != ("colon" if lexeme == ":" else "comma"):
            raise MalformedBody(self._what, f"{lexeme!r} but {self._expected} was due")
        is_array = self._open[-1].mark == "["
        self._expected = "value" if lexeme == ":" or is_array else "key"

    def _key(self, kind: str, lexeme: str) -> None:
        if kind == "mark":
            if lexeme == "[" or self._in_key:
                raise MalformedBody(
                    self._what, "a key may be an object, but no array, and none inside a key"
                )
            self._in_key = True
            self._begin(lexeme, is_key=True)
            return
        self._open[-1].key = _quoted(kind, lexeme)
        self._expected = "colon"

    def _value(self, kind: str, lexeme: str) -> None:
        if kind == "word" and lexeme == "null" and self._open and self._open[-1].mark == "{":
            self._expected = "comma"
            return
        if kind == "word" and lexeme not in ("true", "false", "null"):
            raise MalformedBody(self._what, f"{lexeme[:20]!r} is no value")
        self._lead_in()
        if kind == "mark":
            self._begin(lexeme, is_key=False)
            return
        self._out.append(_quoted(kind, lexeme) if kind == "single" else lexeme)
        self._expected = "comma" if self._open else "end"

    def _lead_in(self) -> None:
        """Write what stands before a value: a comma, a key."""
        if not self._open:
            return
        inside = self._open[-1]
        if not inside.empty:
            self._out.append(",")
        inside.empty = False
        if inside.mark == "{":
            self._out += (inside.key, ":")

    def _begin(self, mark: str, *, is_key: bool) -> None:
        if len(self._open) == DEPTH_MAX:
            raise MalformedBody(self._what, f"nested more than {DEPTH_MAX} deep")
        self._open.append(_Open(mark, len(self._out), is_key))
        self._out.append(mark)
        self._expected = "key" if mark == "{" else "value"

    def _close(self, lexeme: str) -> None:
        closed = self._open.pop() if self._open else None
        if closed is None or closed.mark + lexeme not in ("{}", "[]"):
            raise MalformedBody(self._what, f"{lexeme!r} closes nothing")
        start = "key" if lexeme == "}" else "value"
        if self._expected not in (start, "comma"):
            raise MalformedBody(self._what, f"{lexeme!r} but {self._expected} was due")
        self._out.append(lexeme)
        if closed.is_key:
            text = "".join(self._out[closed.start :])
            del self._out[closed.start :]
            self._open[-1].key = encode_basestring(text)
            self._in_key = False
            self._expected = "colon"
        else:
            self._expected = "comma" if self._open else "end"


def _quoted(kind: str, lexeme: str) -> str:
    """A lexeme as a standard JSON string."""
    if kind == "string":
        return lexeme
    if kind == "single":
        return '"' + re.sub(r"\\.|\"", _requote, lexeme[1:-1], flags=re.DOTALL) + '"'
    return f'"{lexeme}"'


def _requote(match: re.Match[str]) -> str:
    return {"\\'": "'", '"': '\\"'}.get(match[0], match[0])


class Memo:
    """Objects and their texts as they were written last, for who writes a table again and again.

    Objects are known by identity: they must be frozen.  What the next writing does not meet is
    forgotten by it.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[object, int, str]] = {}
        self._before: dict[int, tuple[object, int, str]] = {}

    def begin(self) -> None:
        self._before, self._kept = self._kept, {}

    def get(self, value: object, depth: int) -> str | None:
        found = self._before.get(id(value))
        if found is None or found[0] is not value or found[1] != depth:
            return None
        return found[2]

    def keep(self, value: object, depth: int, text: str) -> None:
        self._kept[id(value)] = (value, depth, text)


def write(
    value: object,
    fields_of: FieldsOf,
    *,
    bare_keys: bool = True,
    ascii_only: bool = False,
    pretty: bool = False,
    memo: Memo | None = None,
) -> bytes:
    """Encode a value as fastjson would.

    ``bare_keys`` decides how integer keys look.  ``pretty`` is the layout of config files:
    there a ``list`` takes a line for each item, as Java's lists do, and a tuple or set stays
    on one line, as Java's sets and arrays do.  With a ``memo`` an object that is still the same
    as at the last time is not written again.
    """
    text = _Writer(fields_of, bare_keys=bare_keys, ascii_only=ascii_only, pretty=pretty, memo=memo)
    if memo is not None:
        memo.begin()
    return text.value(value, 0).encode("utf-8", "replace")  # Java, too, sends "?" for half a pair


class _Writer:
    def __init__(
        self,
        fields_of: FieldsOf,
        *,
        bare_keys: bool,
        ascii_only: bool,
        pretty: bool,
        memo: Memo | None,
    ) -> None:
        self._fields_of = fields_of
        self._bare_keys = bare_keys
        self._pretty = pretty
        self._quote = encode_basestring_ascii if ascii_only else encode_basestring
        self._memo = memo

    def value(self, value: object, depth: int) -> str:
        """``depth`` is how far the line is indented on which the value begins."""
        match value:  # what there is most of comes first: tables have ten thousands of entries
            case bool() | None:
                return _CONSTANTS[value]
            case int():
                return int.__repr__(value)
            case str():
                return self._quote(value.value if isinstance(value, Enum) else value)
            case dict():
                return self._map(value, depth)
            case list():
                return self._list(value, depth)
            case tuple() | set() | frozenset():
                return "[" + ",".join([self.value(item, depth) for item in value]) + "]"
            case float():
                return repr(value) if math.isfinite(value) else "null"
            case bytes():
                return '"' + base64.b64encode(value).decode("ascii") + '"'
            case _:
                return self._written(value, depth)

    def _written(self, value: object, depth: int) -> str:
        memo = self._memo
        if memo is None or not depth:
            return self._object(self._fields_of(value), depth)
        text = memo.get(value, depth)
        if text is None:
            text = self._object(self._fields_of(value), depth)
        memo.keep(value, depth, text)
        return text

    def _list(self, items: list[object], depth: int) -> str:
        line = self._line(depth + 1)
        lines = [line + self.value(item, depth + 1) for item in items]
        return "[" + ",".join(lines) + self._line(depth) + "]" if lines else "[]"

    def _object(self, fields: Iterable[tuple[str, object]], depth: int) -> str:
        line = self._line(depth + 1)
        members = [
            line + self._quote(name) + ":" + self.value(item, depth + 1)
            for name, item in fields
            if item is not None
        ]
        return "{" + ",".join(members) + self._line(depth) + "}" if members else "{}"

    def _map(self, table: dict[object, object], depth: int) -> str:
        if self._bare_keys and {int} == {*map(type, table), *map(type, table.values())}:
            numbers = ",".join([f"{key}:{item}" for key, item in table.items()])
            return "{" + numbers + self._line(depth) + "}"  # a third of the time; offsets are many
        line = self._line(depth + 1)
        members = []
        for key, item in table.items():
            if item is None:
                continue
            if isinstance(key, str):
                before = line + self._quote(key)
            elif isinstance(key, int) and not self._bare_keys:
                before = f'"{key}"'
            else:
                before = self.value(key, depth + 1)
            members.append(before + ":" + self.value(item, depth + 1))
        return "{" + ",".join(members) + self._line(depth) + "}" if members else "{}"

    def _line(self, depth: int) -> str:
        return "\n" + "\t" * depth if self._pretty else ""
