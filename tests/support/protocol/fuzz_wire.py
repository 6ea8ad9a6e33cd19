"""Checks that any bytes may be put through: what escapes is a flintmq error, or nothing.

Each function raises `AssertionError`, or lets the foreign error through, when a decoder
misbehaves.  Hypothesis calls them with a few hundred inputs in the ordinary tests, and with
many more in the long ones.
"""

from __future__ import annotations

from contextlib import suppress

from flintmq.errors import FlintError, MalformedHeader, RemoteProtocolError
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command
from flintmq.protocol.connection import Connection
from flintmq.protocol.frame import FRAME_BYTES_MAX, PREFIX_BYTES, Frame, FrameReader, HeaderForm
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.signature import sign, verify
from flintmq.protocol.typed_request import RequestReader, TypedRequest
from flintmq.protocol.wire import decode_command, encode_command

CAP_BYTES = 4_096
"""A small cap, so that random lengths fall on both sides of it."""

_reader = RequestReader(REQUEST_HEADERS)


def check_frame_bytes(data: bytes) -> None:
    """A stream of bytes: frames, or an error of ours; the cap holds; cuts change nothing."""
    whole, broken = _frames(data, len(data) or 1)
    singly, broken_singly = _frames(data, 1)

    assert broken == broken_singly == _frames(data, 7)[1]
    assert broken or whole == singly  # frames that share a read with a fault are lost with it
    for form, header, body in singly:
        assert form in (HeaderForm.JSON, HeaderForm.BINARY)
        assert PREFIX_BYTES + len(header) + len(body) <= CAP_BYTES
        check_header_bytes(form, header, body)
    with suppress(RemoteProtocolError):
        Connection().feed(data)


def check_header_bytes(form: int, header: bytes, body: bytes = b"") -> None:
    """A header in either form: a command that can be used for everything, or an error of ours."""
    frame: Frame = (form, header, body)
    try:
        command = decode_command(frame)
    except RemoteProtocolError:
        check_reader(frame)
        return
    assert command.body == body
    check_reader(frame)
    try:
        texts = command.field_texts()
    except MalformedHeader:
        return
    assert all(type(name) is str and type(text) is str for name, text in texts.items())
    verify(command, "secret")
    assert verify(sign(command, "account", "secret"), "secret")
    for again in HeaderForm:
        _check_encoding(command, again)


def check_reader(frame: Frame) -> None:
    """The typed reader says of any frame what the two plain steps say of it."""
    assert _outcome_of_reader(frame) == outcome_of_steps(frame)


def outcome_of_steps(frame: Frame) -> object:
    """What `decode_command` and `Command.header` make of a frame, in comparable form."""
    try:
        command = decode_command(frame)
        if command.is_answer or command.code not in REQUEST_HEADERS:
            return ("command", _shown(command))
        header = command.header(REQUEST_HEADERS[RequestCode(command.code)])
    except MalformedHeader:
        return "malformed"
    return ("typed", header, *_shown(command)[:-1])


def _outcome_of_reader(frame: Frame) -> object:
    try:
        read = _reader.read(frame)
    except MalformedHeader:
        return "malformed"
    if isinstance(read, TypedRequest):
        return (
            *("typed", read.header, read.code, read.opaque, read.flag, read.version),
            *(read.language, read.remark, read.body),
        )
    return ("command", _shown(read))


def _shown(command: Command) -> tuple[object, ...]:
    return (
        *(command.code, command.opaque, command.flag, command.version),
        *(command.language, command.remark, command.body, bytes(command.fields)),
    )


def _frames(data: bytes, step: int) -> tuple[list[Frame], bool]:
    """The frames before the first error, and whether there was one."""
    reader = FrameReader(CAP_BYTES)
    frames: list[Frame] = []
    for at in range(0, len(data), step):
        try:
            frames += reader.feed(data[at : at + step])
        except RemoteProtocolError:
            return frames, True
        assert reader.pending_bytes < CAP_BYTES
    return frames, False


def _check_encoding(command: Command, form: HeaderForm) -> None:
    try:
        data = encode_command(command, form)
    except FlintError:
        return
    assert len(data) <= FRAME_BYTES_MAX
    [again] = FrameReader().feed(data)
    decoded = decode_command(again)
    assert (decoded.opaque, decoded.flag, decoded.body) == (
        *(command.opaque, command.flag, command.body),
    )
