"""The ROCKETMQ binary form of a command's header.

    code 2 · language 1 · version 2 · opaque 4 · flag 4 · remark 4 + n · fields 4 + n
    each field: name 2 + n · value 4 + n

Codes have 16 bits here, so the pop family (200050 and on) cannot be said in it; and an
empty value is an absent one.
"""

from __future__ import annotations

from struct import Struct

from flintmq.errors import LocalProtocolError, MalformedHeader
from flintmq.protocol.command import Command
from flintmq.protocol.fields import (
    FIELDS_MAX,
    NO_FIELDS,
    read_fields,
    too_many_fields,
    write_fields,
)
from flintmq.protocol.language import language_name, language_number

_HEAD = Struct(">hbhii")
_SHORT = Struct(">h")
_INT = Struct(">i")


def decode_binary_header(header: bytes, body: bytes) -> Command:
    """Read one header and give the command its body."""
    if len(header) < _HEAD.size:
        raise MalformedHeader("", "the header is too short")
    code, language, version, opaque, flag = _HEAD.unpack_from(header)
    remark, at = _read_piece(header, _HEAD.size, _INT, "remark")
    fields, at = _read_piece(header, at, _INT, "extFields")
    if at != len(header):
        raise MalformedHeader("", f"{len(header) - at} bytes follow the header")
    return Command(
        code=code,
        opaque=opaque,
        flag=flag,
        version=version,
        language=language_name(language),
        remark=remark.decode(errors="replace") if remark else None,
        fields=write_fields(_decode_fields(fields)) if fields else NO_FIELDS,
        body=body,
    )


def encode_binary_header(command: Command) -> bytes:
    """Write a header; raise `LocalProtocolError` for what this form cannot carry."""
    for name, number in (("code", command.code), ("version", command.version)):
        if not -(2**15) <= number < 2**15:
            raise LocalProtocolError(f"{name} {number} does not fit the 16 bits of a binary header")
    try:
        remark = (command.remark or "").encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"the remark is not valid text: {error}") from None
    parts = []
    for key, value in read_fields(command.fields).items():
        key_bytes, value_bytes = key.encode(), value.encode()
        if len(key_bytes) >= 2**15:
            raise LocalProtocolError(f"a field name of {len(key_bytes)} bytes is too long")
        parts += [
            _SHORT.pack(len(key_bytes)),
            key_bytes,
            _INT.pack(len(value_bytes)),
            value_bytes,
        ]
    fields = b"".join(parts)
    head = _HEAD.pack(
        command.code,
        language_number(command.language),
        command.version,
        command.opaque,
        command.flag,
    )
    return b"".join((head, _INT.pack(len(remark)), remark, _INT.pack(len(fields)), fields))


def _decode_fields(data: bytes) -> dict[str, str]:
    fields = {}
    at = count = 0
    while at < len(data):
        count += 1
        if count > FIELDS_MAX:
            raise too_many_fields()
        key, at = _read_piece(data, at, _SHORT, "extFields")
        value, at = _read_piece(data, at, _INT, "extFields")
        fields[key.decode(errors="replace")] = value.decode(errors="replace")
    return {key: value for key, value in fields.items() if value}


def _read_piece(data: bytes, at: int, width: Struct, field: str) -> tuple[bytes, int]:
    """The length-prefixed piece at ``at``, and where the next one starts."""
    start = at + width.size
    if start > len(data):
        raise MalformedHeader(field, "the header ends too early")
    (length,) = width.unpack_from(data, at)
    stop = start + length
    if length < 0 or stop > len(data):
        raise MalformedHeader(field, f"a length of {length} does not fit the header")
    return data[start:stop], stop
