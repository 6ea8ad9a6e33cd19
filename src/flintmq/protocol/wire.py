"""Frames ↔ commands: the two header forms behind one face."""

from __future__ import annotations

from msgspec.structs import replace

from flintmq.protocol.command import Command
from flintmq.protocol.frame import Frame, HeaderForm, frame_prefix, whole_frame
from flintmq.protocol.header_binary import decode_binary_header, encode_binary_header
from flintmq.protocol.header_json import (
    decode_json_header,
    encode_json_header,
    encode_json_header_as,
)


def decode_command(frame: Frame) -> Command:
    """Read a frame as a command; raise `MalformedHeader` when its header makes no sense."""
    form, header, body = frame
    if form == HeaderForm.JSON:
        return decode_json_header(header, body)
    return decode_binary_header(header, body)


def encode_head(command: Command, body_bytes: int, form: HeaderForm = HeaderForm.JSON) -> bytes:
    """A frame up to its body, for a body that is sent from where it lies."""
    encode = encode_json_header if form is HeaderForm.JSON else encode_binary_header
    return frame_prefix(form, encode(command), body_bytes)


def encode_command(command: Command, form: HeaderForm = HeaderForm.JSON) -> bytes:
    """A whole frame."""
    return encode_head(command, len(command.body), form) + command.body


def encode_command_as(
    command: Command, opaque: int, flag: int, form: HeaderForm = HeaderForm.JSON
) -> bytes:
    """A whole frame of a command under another opaque number and flag."""
    if form is not HeaderForm.JSON:
        return encode_command(replace(command, opaque=opaque, flag=flag), form)
    return whole_frame(form, encode_json_header_as(command, opaque, flag), command.body)
