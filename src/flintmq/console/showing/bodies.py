"""Bodies of messages for people: as JSON, as text, as hexadecimal digits.

Whatever a body holds, it is only text in the page.  No more than `SHOWN_MAX` bytes are shown, and
the page says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from flintmq.printable import printable_lines

SHOWN_MAX: Final = 64 * 1024
"""Bytes of a body in a page; the whole one can be downloaded."""

ROW_BYTES: Final = 16
WAYS: Final = ("json", "text", "hex")


@dataclass(frozen=True, slots=True)
class ShownBody:
    """One body in one of the `WAYS` that fit it."""

    way: str
    ways: tuple[str, ...]
    text: str
    size_bytes: int
    is_cut: bool


def show_body(body: bytes, way: str = "") -> ShownBody:
    """A body as asked for, or the first way that fits: JSON, text, hexadecimal."""
    is_cut = len(body) > SHOWN_MAX
    texts: dict[str, str] = {}
    pretty = None if is_cut else _pretty(body)
    if pretty is not None:
        texts["json"] = pretty
    text = _text(body[:SHOWN_MAX])
    if text is not None:
        texts["text"] = printable_lines(text)
    chosen = way if way in texts or way == "hex" else next(iter(texts), "hex")
    shown = _hex(body[: SHOWN_MAX // 4]) if chosen == "hex" else texts[chosen]
    is_cut = is_cut or (chosen == "hex" and len(body) > SHOWN_MAX // 4)
    return ShownBody(chosen, (*texts, "hex"), shown, len(body), is_cut)


def _pretty(body: bytes) -> str | None:
    """Broken into lines, and nothing else: numbers and repeated names stay as they were sent."""
    if body.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return printable_lines(msgspec.json.format(body, indent=2).decode())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _text(body: bytes) -> str | None:
    """UTF-8; a character that the cut goes through is left out."""
    for end in range(len(body), max(0, len(body) - 4), -1):
        try:
            return body[:end].decode()
        except UnicodeDecodeError as error:
            if error.start < len(body) - 4:
                return None
    return "" if not body else None


def _hex(body: bytes) -> str:
    """An address, sixteen bytes, and what of them is ASCII."""
    lines = []
    for at in range(0, len(body), ROW_BYTES):
        row = body[at : at + ROW_BYTES]
        digits = f"{row[:8].hex(' ')}  {row[8:].hex(' ')}"
        plain = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{at:08x}  {digits:<48}  {plain}")
    return "\n".join(lines)
