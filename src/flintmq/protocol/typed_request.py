"""Requests decoded straight to their typed header, in one pass over the bytes.

A server that knows which header belongs to which code need not build the untyped command
first.  The code is found where every known client writes it, at the front; the header is
then decoded by the schema of that code.  Whatever does not fit, because the peer writes its
JSON in another order, in another form or bends a value, takes the long way through
`decode_command` and comes out the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from flintmq.protocol.body_limits import SMALL_BODY_BYTES, check_body
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import ANSWER_BIT, ONEWAY_BIT, Command
from flintmq.protocol.fields import Header, Int32, read_header, truth_names, truths_of
from flintmq.protocol.frame import Frame, HeaderForm
from flintmq.protocol.wire import decode_command

H = TypeVar("H", bound=Header)

_JSON = int(HeaderForm.JSON)
_FRONT_BYTES = 12
"""What tells a code of two or three digits: ``{"code":11,"`` and ``{"code":310,``."""


class TypedRequest(
    msgspec.Struct,
    Generic[H],
    gc=False,
    # no header has these names: they are set after decoding
    rename={"header": "extFields", "body": " body", "came_ms": " came_ms", "is_held": " is_held"},
):
    """A request whose header has already been read.  Treat it as frozen."""

    header: H
    code: Int32 = 0
    opaque: Int32 = 0
    flag: Int32 = 0
    version: Int32 = 0
    language: str = "JAVA"
    remark: str | None = None
    body: bytes = b""
    came_ms: int = 0
    """When a server got it."""
    is_held: bool = False
    """Whether a server let it wait for its answer."""

    @property
    def is_oneway(self) -> bool:
        return self.flag & ONEWAY_BIT != 0


_Schema: TypeAlias = tuple[
    int, Callable[[bytes], TypedRequest[Any]], Callable[[Any], Any] | None, tuple[bytes, ...]
]
"""Code, decoder, what gives the booleans of a header, and their names in quotes."""


class RequestReader:
    """Reads the requests whose codes and header classes it was given."""

    def __init__(self, headers: Mapping[RequestCode, type[Header]]) -> None:
        self._headers = {int(code): kind for code, kind in headers.items()}
        self._schemas: dict[bytes, _Schema] = {}
        self._fronts: dict[bytes, int] = {}  # of those no request has come for
        for code in self._headers:
            front = b'{"code":%d,"' % code
            if len(front) <= _FRONT_BYTES + 1:
                self._fronts[front[:_FRONT_BYTES]] = code

    def _schema(self, front: bytes) -> _Schema | None:
        """Make a schema when it is first needed: a hundred of them hold up the start."""
        code = self._fronts.pop(front, None)
        if code is None:
            return None
        kind = self._headers[code]
        schema = TypedRequest[kind]  # type: ignore[valid-type]  # filled in at run time
        decode = msgspec.json.Decoder(schema, strict=False).decode
        names = tuple(b'"%b"' % name.encode() for name in truth_names(kind))
        made = self._schemas[front] = code, decode, truths_of(kind), names
        return made

    def read(self, frame: Frame) -> TypedRequest[Any] | Command:
        """A typed request where its code is known, the plain command where it is not.

        Answers come out as commands too: their header depends on what was asked.  A field
        that is missing or wrong raises `MalformedHeader`, a body that is too long for its code
        `BodyTooLarge`; `decode_command` still tells the opaque number, so that the peer can be
        told.
        """
        header = frame[1]
        front = header[:_FRONT_BYTES]
        schema = self._schemas.get(front) or self._schema(front)
        if schema is not None and frame[0] == _JSON:
            code, decode, truths, names = schema
            try:
                request = decode(header)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                return self._read_carefully(frame)
            if (
                request.code == code  # a second "code" in the same header would have won
                and not request.flag & ANSWER_BIT
                and (
                    truths is None
                    or True not in (values := truths(request.header))
                    or _are_spelled_out(header, names, values)
                )
            ):
                request.body = body = frame[2]
                if len(body) > SMALL_BODY_BYTES:
                    check_body(code, body)
                return request
        return self._read_carefully(frame)

    def _read_carefully(self, frame: Frame) -> TypedRequest[Any] | Command:
        command = decode_command(frame)
        kind = self._headers.get(command.code)
        if kind is None or command.is_answer:
            return command
        check_body(command.code, command.body)
        return TypedRequest(
            header=read_header(kind, command.fields),
            code=command.code,
            opaque=command.opaque,
            flag=command.flag,
            version=command.version,
            language=command.language,
            remark=command.remark,
            body=command.body,
        )


def _are_spelled_out(header: bytes, names: tuple[bytes, ...], values: tuple[Any, ...]) -> bool:
    """Whether every boolean that is true is written as ``true``, and once."""
    return all(
        header.count(name) == 1 and name + b':"true"' in header
        for name, value in zip(names, values, strict=False)  # the first value comes twice
        if value is True
    )
