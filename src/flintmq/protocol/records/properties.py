"""The property string of a message: ``name 0x01 value 0x02``, again and again.

Reading drops every piece that has no name or no value, and the last of several
equal names wins; so does every RocketMQ client.  A value may hold 0x01.  Whether
the last 0x02 is written depends on the version (4.9 leaves it out), so both are read.

In a record the string is bytes and stays as it was stored: parsing is for whoever
needs a value, and nothing here has to be undone to write the same record again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flintmq.errors import LocalProtocolError
from flintmq.model.message import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from flintmq.model.properties import BYTES_MAX, UNIQ_KEY

PROPERTIES_BYTES_MAX: Final = BYTES_MAX

UNIQUE_ID_START: Final = UNIQ_KEY.encode() + b"\x01"
"""What stands before a message's unique id."""

_START_BYTES: Final = len(UNIQUE_ID_START)
_SEPARATOR: Final = 2


def parse_properties(text: str | bytes) -> dict[str, str]:
    """Every property of the string.  Bytes that are no UTF-8 become U+FFFD, as in Java."""
    if not isinstance(text, str):
        text = text.decode("utf-8", "replace")
    found = {}
    for piece in text.split(PROPERTY_SEPARATOR):
        name, _, value = piece.partition(NAME_VALUE_SEPARATOR)
        if name and value:
            found[name] = value
    return found


def format_properties(properties: Mapping[str, str], *, trailing_separator: bool = True) -> str:
    """Write the string.  4.9 leaves out the trailing separator, everyone else writes it.

    A separator where it would tear a property apart is a `LocalProtocolError`.
    """
    text = "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])
    if text.count(PROPERTY_SEPARATOR) != len(properties):
        raise LocalProtocolError("0x02 inside a property name or value")
    if text.count(NAME_VALUE_SEPARATOR) != len(properties):
        for name in properties:
            if NAME_VALUE_SEPARATOR in name:
                raise LocalProtocolError(f"0x01 inside the property name {name!r}")
    return text if trailing_separator else text[:-1]


def encode_properties(properties: Mapping[str, str], *, trailing_separator: bool = True) -> bytes:
    """The string as a record holds it.  What a record cannot hold is a `LocalProtocolError`."""
    text = format_properties(properties, trailing_separator=trailing_separator)
    try:
        octets = text.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"properties are no Unicode text: {error.reason}") from None
    if len(octets) > PROPERTIES_BYTES_MAX:
        raise LocalProtocolError(
            f"properties of {len(octets)} bytes are over the limit of {PROPERTIES_BYTES_MAX}"
        )
    return octets


def split_unique_id(octets: bytes) -> tuple[bytes, bytes, bytes] | None:
    """The string before the property UNIQ_KEY, its value, and the string after it.

    Messages of one sender mostly differ in this property alone, so what is around it can be
    parsed once for many.  None when the name stands nowhere, more than once, or inside a value.
    """
    at = octets.find(UNIQUE_ID_START)
    if at < 0 or (at > 0 and octets[at - 1] != _SEPARATOR):
        return None
    stop = octets.find(_SEPARATOR, at)
    if stop < 0:
        stop = len(octets)
    elif octets.find(UNIQUE_ID_START, stop) >= 0:
        return None
    return octets[:at], octets[at + _START_BYTES : stop], octets[stop + 1 :]
