"""Answers as bytes: always a JSON header, whatever form the request had.

Every client reads that form, and some read no other.  This is the hot path of each request,
so the header is one template instead of a command that is built and then encoded.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from flintmq.broker.requests.outcome import Answer
from flintmq.errors import LocalProtocolError
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.command import ANSWER_BIT, LANGUAGE, VERSION
from flintmq.protocol.fields import write_header
from flintmq.protocol.frame import HeaderForm, frame_prefix
from flintmq.store.queues.queue_reader import GetStatus

_HEAD = (
    b'{"code":%%d%%b,"flag":%d,"language":"%b","opaque":%%d%%b,'
    b'"serializeTypeCurrentRPC":"JSON","version":%d}' % (ANSWER_BIT, LANGUAGE.encode(), VERSION)
)
_text = msgspec.json.Encoder().encode
_JSON = HeaderForm.JSON

Chunk = bytes | memoryview

JOINED_BYTES_MAX: Final = 32_768
"""Copying a body up to this size costs less than to hand the system one piece more."""


def encode_answer(opaque: int, answer: Answer) -> list[Chunk]:
    """A frame in pieces; a large body is not copied.  One too large for a frame says so instead."""
    try:
        return _encode(opaque, answer)
    except LocalProtocolError as error:
        return _encode(opaque, Answer(ResponseCode.SYSTEM_ERROR, remark=str(error)))


def _encode(opaque: int, answer: Answer) -> list[Chunk]:
    header, remark, body = answer.header, answer.remark, answer.body
    fields = b""
    if header is not None:
        raw = bytes(header) if isinstance(header, Raw) else bytes(write_header(header))
        if raw != b"{}":
            fields = b',"extFields":' + raw
    note = b""
    if remark is not None:
        note = _NOTES.get(remark) or _remark_field(remark)
    head = _HEAD % (answer.code, fields, opaque, note)
    if isinstance(body, bytes):
        return [frame_prefix(_JSON, head, len(body)) + body]
    return with_body(head, body, sum(map(len, body)))


def with_body(head: bytes, body: list[memoryview], body_bytes: int) -> list[Chunk]:
    """A frame of a header and views of ``body_bytes`` in all."""
    prefix = frame_prefix(_JSON, head, body_bytes)
    return [prefix, *body] if body_bytes > JOINED_BYTES_MAX else [b"".join((prefix, *body))]


def answer_template(fields: bytes, remark: str) -> bytes:
    """The header of an answer that is a success, with the holes of ``fields`` and the number's."""
    holes = _HEAD.replace(b'"opaque":%d', b'"opaque":%b')
    return holes % (ResponseCode.SUCCESS, b',"extFields":' + fields, b"%d", _remark_field(remark))


def _remark_field(remark: str) -> bytes:
    # a peer may have sent us half a character, and it comes back in the remark
    return b',"remark":' + _text(remark.encode("utf-8", "replace").decode())


_NOTES = {status.value: _remark_field(status.value) for status in GetStatus}
"""The header of answers to pulls, encoded."""
