r"""How a message is printed: a format string with %-codes, as kcat has them.

Nothing is added: a format that wants a line says ``\n``.  For people, what others wrote is shown
as `printable` does, a body with its lines; programs get bytes, and those of a body are the very
bytes that were sent.  Codes that kcat has mean what they mean there; a queue is what Kafka calls a
partition, keys are what it calls the key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from flintmq.cli.shared.output import timestamp
from flintmq.errors import InvalidSetting
from flintmq.model.message import ReceivedMessage
from flintmq.printable import printable, printable_lines

USUAL: Final = r"%d %b/%p/%o %g %s\n"
"""How a message of one topic is printed by default."""

USUAL_OF_MANY: Final = r"%d %t/%b/%p/%o %g %s\n"
"""The same for messages of several topics."""

Text = Callable[[ReceivedMessage], str]

CODES: Final[Mapping[str, tuple[str, Text]]] = {
    "s": ("the body", lambda m: m.body.decode(errors="backslashreplace")),
    "S": ("bytes of the body", lambda m: str(len(m.body))),
    "k": ("its keys", lambda m: " ".join(m.keys)),
    "K": ("bytes of the keys", lambda m: str(len(" ".join(m.keys).encode()))),
    "g": ("its tag, or -", lambda m: m.tags or "-"),
    "h": ("its properties, as a=1,b=2", lambda m: _listed(m.properties)),
    "t": ("the topic", lambda m: m.topic),
    "b": ("the broker", lambda m: m.broker),
    "p": ("the queue", lambda m: str(m.queue_id)),
    "o": ("the offset in the queue", lambda m: str(m.queue_offset)),
    "T": ("when it was stored, in milliseconds since 1970", lambda m: str(m.store_ms)),
    "d": ("when it was stored, for people", lambda m: timestamp(m.store_ms) or ""),
    "B": ("when it was sent, in milliseconds since 1970", lambda m: str(m.born_ms)),
    "i": ("its unique id", lambda m: m.message_id),
    "I": ("its offset id", lambda m: m.offset_message_id),
    "r": ("how often it came again", lambda m: str(m.reconsume_times)),
    "%": ("a percent sign", lambda _: "%"),
}

_BODY: Final = CODES["s"][1]

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_PART: Final = re.compile(r"%(.?)|\\x([0-9a-fA-F]{2})|\\(.?)|([^%\\]+)", re.DOTALL)


class Template:
    """A format string that was understood; `InvalidSetting` for one that is not."""

    def __init__(self, text: str) -> None:
        self._parts: list[str | bytes | Text] = [
            _part(text, *found) for found in _PART.findall(text)
        ]

    @property
    def has_codes(self) -> bool:
        """Whether the format prints any field of a message."""
        return any(callable(part) for part in self._parts)

    def fill(self, message: ReceivedMessage) -> bytes:
        """The output for a pipe: names in UTF-8, and the body as it was sent."""
        return b"".join(_raw(part, message) for part in self._parts)

    def fill_for_people(self, message: ReceivedMessage) -> str:
        """The text that a terminal may show."""
        return "".join(_shown(part, message) for part in self._parts)


def _part(text: str, code: str, byte: str, escape: str, plain: str) -> str | bytes | Text:
    if plain:
        return plain
    if byte:
        return bytes.fromhex(byte)
    if code:
        if code not in CODES:
            raise InvalidSetting(
                "format", text, f"%{code} is not known; there are %{' %'.join(CODES)}"
            )
        return CODES[code][1]
    if escape in _ESCAPES:
        return _ESCAPES[escape]
    reason = r"it ends in the middle, or has an escape other than \n \t \r \0 \\ \xNN"
    raise InvalidSetting("format", text, reason)


def _raw(part: str | bytes | Text, message: ReceivedMessage) -> bytes:
    if isinstance(part, bytes):
        return part
    if part is _BODY:
        return message.body
    text = part if isinstance(part, str) else part(message)
    return text.encode(errors="surrogateescape")


def _shown(part: str | bytes | Text, message: ReceivedMessage) -> str:
    if isinstance(part, bytes):
        return part.decode(errors="backslashreplace")
    if isinstance(part, str):
        return part
    return printable_lines(part(message)) if part is _BODY else printable(part(message))


def _listed(properties: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in properties.items())
