"""A body with a long table or list, written some entries at a time.

What comes out is, byte for byte, what `to_body` of the whole would be.  The entries are taken
from an iterator as they are written, so whoever makes them on the way does that in parts too.

Refused: more than fits into a frame, as soon as that shows.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import islice
from typing import TypeAlias

import msgspec

from flintmq.errors import Overloaded
from flintmq.protocol import fastjson
from flintmq.protocol.bodies.body import Body, wire_fields
from flintmq.protocol.fastjson import BODY_BYTES_MAX

PART_ENTRIES = 50
"""Entries written at once: about a millisecond."""

Pieces: TypeAlias = Generator[None, None, list[bytes]]
Written: TypeAlias = Generator[None, None, bytes]

TABLE, LIST = b"{%b}", b"[%b]"
"""What stands around the pieces of a member."""


def table_in_parts(
    body: Body,
    name: str,
    entries: Iterable[tuple[object, object]],
    part_entries: int = PART_ENTRIES,
) -> Written:
    """Write ``body``, whose table ``name``, empty in it, has these entries."""
    pieces = yield from entry_pieces(entries, part_entries)
    return filled(body.to_body(), name, TABLE, pieces)


def list_in_parts(body: Body, name: str, items: Iterable[object]) -> Written:
    """Write ``body``, whose list ``name``, empty in it, has these items."""
    pieces = yield from item_pieces(items)
    return filled(body.to_body(), name, LIST, pieces)


def entry_pieces(
    entries: Iterable[tuple[object, object]], part_entries: int = PART_ENTRIES
) -> Pieces:
    """The inside of a table."""
    rest, pieces = iter(entries), Room()
    while part := dict(islice(rest, part_entries)):
        pieces.add(fastjson.write(part, wire_fields)[1:-1])
        yield
    return pieces.kept


def item_pieces(items: Iterable[object]) -> Pieces:
    """The inside of a list."""
    rest, pieces = iter(items), Room()
    while part := tuple(islice(rest, PART_ENTRIES)):
        pieces.add(fastjson.write(part, wire_fields)[1:-1])
        yield
    return pieces.kept


def entry(key: str, form: bytes, pieces: Iterable[bytes]) -> bytes:
    """One entry of a table, whose value is a list or a table of these pieces."""
    return b"%b:%b" % (msgspec.json.encode(key), form % b",".join(pieces))


def filled(body: bytes, name: str, form: bytes, pieces: Iterable[bytes]) -> bytes:
    """A written body with the pieces in its empty member ``name``."""
    member = b'"%b":' % name.encode()
    before, found, after = body.partition(member + form % b"")
    assert found, f"{name} is no empty member"
    return b"".join((before, member, form % b",".join(pieces), after))


class Room:
    """Pieces of one body.  Raises `Overloaded` when they are more than a frame holds."""

    def __init__(self) -> None:
        self.kept: list[bytes] = []
        self._size_bytes = 0

    def add(self, piece: bytes) -> None:
        self._size_bytes += len(piece) + 1
        if self._size_bytes > BODY_BYTES_MAX:
            raise Overloaded("bytes of an answer", BODY_BYTES_MAX, "BODY_BYTES_MAX")
        self.kept.append(piece)
