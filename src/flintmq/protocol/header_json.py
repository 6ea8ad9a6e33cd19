"""The JSON form of a command's header, which every client and server speaks.

Real peers bend it: the version as text, the language as a number, null where a value is
missing.  What msgspec's typed decoder refuses is read a second time with those habits in
mind, and only what is no JSON object, or has fields that are no object, is an error.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import force_setattr

from flintmq.errors import LocalProtocolError, MalformedHeader
from flintmq.protocol.command import LANGUAGE, Command
from flintmq.protocol.fields import FIELDS_MAX, NO_FIELDS, too_many_fields
from flintmq.protocol.language import language_name

_decode = msgspec.json.Decoder(Command, strict=False).decode
_decode_any = msgspec.json.Decoder().decode
_text = msgspec.json.Encoder().encode
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_OUR_HEAD = (
    b'{"code":%d,"extFields":%b,"flag":%d,"language":' + _text(LANGUAGE) + b',"opaque":%d,'
    b'"serializeTypeCurrentRPC":"JSON","version":%d}'
)
"""Of the requests we make again and again."""

_HEAD = (
    b'{"code":%d%b,"flag":%d,"language":%b,"opaque":%d%b,'
    b'"serializeTypeCurrentRPC":"JSON","version":%d}'
)


def decode_json_header(header: bytes, body: bytes) -> Command:
    """Read one header and give the command its body."""
    try:
        command = _decode(header)
    except _UNREADABLE:
        return _decode_carefully(header, body)
    fields = bytes(command.fields)
    if fields[:1] != b"{":
        if fields != b"null":
            raise MalformedHeader("extFields", "is not an object")
        force_setattr(command, "fields", NO_FIELDS)
    force_setattr(command, "body", body)
    return command


def encode_json_header(command: Command) -> bytes:
    """Write a header as a Java peer does: keys in alphabetical order, nothing for null."""
    return encode_json_header_as(command, command.opaque, command.flag)


def encode_json_header_as(command: Command, opaque: int, flag: int) -> bytes:
    """Write a header with another opaque number and flag, without a second command."""
    if command.language is LANGUAGE and command.remark is None and len(command.fields) > 2:
        return _OUR_HEAD % (command.code, command.fields, flag, opaque, command.version)
    fields = bytes(command.fields)
    try:
        remark = b"" if command.remark is None else b',"remark":' + _text(command.remark)
        return _HEAD % (
            command.code,
            b"" if fields == b"{}" else b',"extFields":' + fields,
            flag,
            _text(command.language),
            opaque,
            remark,
            command.version,
        )
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"the remark is not valid text: {error}") from None


def _decode_carefully(header: bytes, body: bytes) -> Command:
    try:
        given = _decode_any(header)
    except _UNREADABLE as error:
        raise MalformedHeader("", f"the header is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise MalformedHeader("", "the header is not a JSON object")
    fields = given.get("extFields")
    if fields is not None and not isinstance(fields, dict):
        raise MalformedHeader("extFields", "is not an object")
    if fields is not None and len(fields) > FIELDS_MAX:
        raise too_many_fields()
    remark = given.get("remark")
    return Command(
        code=_number(given, "code"),
        opaque=_number(given, "opaque"),
        flag=_number(given, "flag"),
        version=_number(given, "version"),
        language=_language(given.get("language")),
        remark=None if remark is None else str(remark),
        fields=Raw(_text(fields)) if fields else NO_FIELDS,
        body=body,
    )


def _language(given: object) -> str:
    if given is None:
        return "JAVA"
    return language_name(given) if isinstance(given, int) else str(given)


def _number(given: dict[str, Any], name: str) -> int:
    value = given.get(name)
    if value is None or value == "":
        return 0
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise MalformedHeader(name, f"{str(value)[:80]!r} is not a number") from None
    if not -(2**31) <= number < 2**31:
        raise MalformedHeader(name, f"{number} does not fit 32 bits")
    return number
