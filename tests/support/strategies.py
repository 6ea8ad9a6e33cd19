"""Hypothesis strategies for commands, their fields and their typed headers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any, TypeVar, get_args

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from flintmq.protocol.command import Command
from flintmq.protocol.fields import Header, write_fields
from flintmq.protocol.frame import HeaderForm
from flintmq.protocol.language import NAMES
from flintmq.protocol.wire import encode_command

H = TypeVar("H", bound=Header)

INT32 = (-(2**31), 2**31 - 1)
INT64 = (-(2**63), 2**63 - 1)


@cache
def texts(min_size: int = 0, max_size: int = 20) -> SearchStrategy[str]:
    """Any text that UTF-8 can carry, often of the kind that JSON has to escape."""
    anything, awkward = st.characters(codec="utf-8"), '"\\/{}[]:,\n\t\x00\x01\x02\u2028é𝄞'
    return st.one_of(
        st.text(anything, min_size=min_size, max_size=max_size),
        st.text(awkward, min_size=min_size, max_size=max_size),
    )


def numbers(bounds: tuple[int, int]) -> SearchStrategy[int]:
    """Numbers of all sizes, often at the edges."""
    return st.one_of(st.integers(*bounds), st.sampled_from([*bounds, -1, 0, 1]))


def field_maps(max_size: int = 8, empty_values: bool = True) -> SearchStrategy[dict[str, str]]:
    """What a command may carry as extFields, when all is well."""
    values = texts(min_size=0 if empty_values else 1)
    return st.dictionaries(texts(max_size=12), values, max_size=max_size)


def commands(fields: SearchStrategy[dict[str, str]] | None = None) -> SearchStrategy[Command]:
    """Commands that the JSON form can carry."""
    return _commands(numbers(INT32), numbers(INT32), st.none() | texts(), fields or field_maps())


def binary_commands() -> SearchStrategy[Command]:
    """Commands that the binary form can carry: small codes, and no empty text anywhere."""
    small = st.integers(-(2**15), 2**15 - 1)
    return _commands(small, small, st.none() | texts(min_size=1), field_maps(empty_values=False))


def spoilt_streams() -> SearchStrategy[bytes]:
    """One to three frames in either form, with up to four bytes changed, left out or put in."""
    said = st.one_of(
        commands().map(encode_command),
        binary_commands().map(lambda command: encode_command(command, HeaderForm.BINARY)),
    )
    blows = st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 2), st.binary(max_size=4)),
        max_size=4,
    )
    return st.builds(_spoil, st.lists(said, min_size=1, max_size=3).map(b"".join), blows)


def _spoil(stream: bytes, blows: list[tuple[float, int, bytes]]) -> bytes:
    for place, taken, put in blows:
        at = int(place * len(stream))
        stream = stream[:at] + put + stream[at + taken :]
    return stream


def _commands(
    codes: SearchStrategy[int],
    versions: SearchStrategy[int],
    remarks: SearchStrategy[str | None],
    fields: SearchStrategy[dict[str, str]],
) -> SearchStrategy[Command]:
    return st.builds(
        Command,
        code=codes,
        opaque=numbers(INT32),
        flag=numbers(INT32),
        version=versions,
        language=st.sampled_from(NAMES),
        remark=remarks,
        fields=fields.map(write_fields),
        body=st.binary(max_size=40),
    )


@cache
def headers_of(kind: type[H], *, empty_texts: bool = True) -> SearchStrategy[H]:
    """Headers of a class with any values its attributes may have.

    ``empty_texts=False`` leaves the empty text out, which the binary form cannot tell from
    an absent one.
    """
    attributes = {
        f.name: _values(f.type, empty_texts=empty_texts) for f in msgspec.structs.fields(kind)
    }
    return st.builds(kind, **attributes)


def _values(kind: Any, *, empty_texts: bool) -> SearchStrategy[Any]:
    """Values of an attribute's type: text, truth, a number in bounds, or one of these or None."""
    if kind is str:
        return texts(min_size=0 if empty_texts else 1)
    if kind is bool:
        return st.booleans()
    if kind is type(None):
        return st.none()
    bounds = [part for part in get_args(kind) if isinstance(part, msgspec.Meta)]
    if bounds:
        return numbers((int(bounds[0].ge or 0), int(bounds[0].le or 0)))
    members = get_args(kind)
    assert members, f"no strategy for {kind}"
    return st.one_of([_values(member, empty_texts=empty_texts) for member in members])


STRANGERS = (
    *(("zz", None), ("zz", "text"), ("nested", {"topic": "x", "m": "true"}), ("list", [1, [2]])),
    *(("AccessKey", ""), ("ReqT", "0"), ("big", 10**25), ("fraction", 1.5), ("yes", True)),
)
"""Fields no header knows, as real and unreal clients add them."""


def bent(values: dict[str, str]) -> SearchStrategy[dict[str, Any]]:
    """The same fields as clients of other languages write them.

    Decimal text becomes a bare number, ``true`` and ``false`` become booleans, keys change
    their order, and unknown fields come in between.
    """
    return st.integers(0, 2**32 - 1).map(lambda seed: _bend(values, Random(seed)))


def _bend(values: dict[str, str], chance: Random) -> dict[str, Any]:
    spelt = [(name, chance.choice(_spellings(text))) for name, text in values.items()]
    spelt += chance.sample(STRANGERS, chance.randint(0, 3))
    chance.shuffle(spelt)
    return dict(spelt)


def _spellings(text: str) -> Sequence[Any]:
    if text in ("true", "false"):
        return (text, text == "true")
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and str(int(text)) == text:
        return (text, int(text))
    return (text,)
