"""Java's properties text: the bodies of 25, 26, 318 and 319, and namesrv.properties.

A line is ``key=value``.  Servers write keys and values as they are and read them with
`java.util.Properties`, which takes a backslash as an escape.  Written here is the escaped
form: it means the same to both, and a value with a backslash survives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from flintmq.errors import MalformedBody
from flintmq.protocol.fastjson import BODY_BYTES_MAX

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_LINE = re.compile(r"((?:[^\\=: \t\f]|\\.)*+)[ \t\f]*+[=:]?[ \t\f]*+(.*)", re.DOTALL)
_LINE_END = re.compile(r"\r\n|\r|\n")


def read_properties(body: bytes) -> dict[str, str]:
    """Parse properties text.  The last of equal keys wins.  Raises `MalformedBody`."""
    if len(body) > BODY_BYTES_MAX:
        raise MalformedBody("properties", f"{len(body)} bytes are over {BODY_BYTES_MAX}")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        text = body.decode("latin-1")  # what the format was before it was Unicode
    found = {}
    for line in _logical_lines(text):
        key, value = _LINE.fullmatch(line).groups()  # type: ignore[union-attr]  # takes any text
        found[_unescape(key)] = _unescape(value)
    return found


def write_properties(properties: Mapping[str, str]) -> bytes:
    """One line for each entry, in the order given, in ASCII."""
    lines = (f"{_escape(key, ' =:#!')}={_escape_value(v)}\n" for key, v in properties.items())
    return "".join(lines).encode("ascii")


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments; a backslash at the end of one takes in the next."""
    pending: list[str] = []
    for line in _LINE_END.split(text):
        line = line.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            if pending or line != "\\":  # a backslash alone begins nothing
                pending.append(line[:-1])
            continue
        yield "".join((*pending, line))
        pending = []
    if pending:
        yield "".join(pending)


def _unescape(text: str) -> str:
    def unescape(match: re.Match[str]) -> str:
        code, letter = match.groups()
        if code:
            return chr(int(code, 16))
        if letter == "u":
            raise MalformedBody("properties", f"\\u without four digits in {text!r:.80}")
        return _ESCAPES.get(letter, str(letter))

    plain = _UNESCAPE.sub(unescape, text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(text: str, special: str) -> str:
    out = []
    for unit in text:
        if unit == "\\" or unit in special:
            out.append("\\" + unit)
        elif unit in "\t\n\r\f":
            out.append("\\" + "tnrf"["\t\n\r\f".index(unit)])
        elif " " <= unit <= "~":
            out.append(unit)
        else:
            units = unit.encode("utf-16-be", "surrogatepass").hex()
            out += ("\\u" + units[at : at + 4] for at in range(0, len(units), 4))
    return "".join(out)


def _escape_value(text: str) -> str:
    escaped = _escape(text, "")
    return "\\" + escaped if escaped.startswith(" ") else escaped
