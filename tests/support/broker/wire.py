"""Requests of every code to a session of the broker, as they come from the wire."""

from __future__ import annotations

from typing import cast

import msgspec
from msgspec.structs import replace

from flintmq.broker.client_session import BrokerSession
from flintmq.broker.requests.answers import encode_answer
from flintmq.broker.requests.peer import Peer
from flintmq.model.message_id import offset_id
from flintmq.net.channels.channel import Channel
from flintmq.net.servers.server import Gate, no_gate
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import ONEWAY_BIT, Command
from flintmq.protocol.fields import write_fields
from flintmq.protocol.frame import FrameReader, HeaderForm
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.wire import decode_command, encode_command
from support.broker.surroundings import Surroundings
from support.broker.world import World


def command_of(
    code: int, fields: dict[str, str], body: bytes = b"", *, oneway: bool = False
) -> Command:
    return Command(
        code=code,
        flag=ONEWAY_BIT if oneway else 0,
        version=479,
        fields=write_fields(fields),
        body=body,
    )


class Wire(Surroundings):
    """A session on a world, with what it wrote decoded again."""

    def __init__(self, world: World, gate: Gate = no_gate) -> None:
        self.world = world
        self.peer = "127.0.0.1:60000"
        self.answers: list[Command] = []
        channel = cast(Channel, self)
        self._session = gate(BrokerSession(self, channel), channel)
        self._opaque = 1_000_000

    def write(self, chunks: list[bytes | memoryview]) -> None:
        (frame,) = FrameReader().feed(b"".join(chunks))
        self.answers.append(decode_command(frame))

    def answered(self, command: Command) -> None:
        """Nobody waits for answers of this peer."""

    # What tests do.

    def ask(
        self, code: int, fields: dict[str, str], body: bytes = b"", *, oneway: bool = False
    ) -> list[Command]:
        """Send a request, let everything come to an end, and give all answers to it."""
        return self.give(command_of(code, fields, body, oneway=oneway))

    def give(self, command: Command, form: HeaderForm = HeaderForm.JSON) -> list[Command]:
        """The same with a command as it is, but for its number."""
        self.submit(command, form)
        return self.wait()

    def submit(self, command: Command, form: HeaderForm = HeaderForm.JSON) -> list[Command]:
        """Send a command and give what is answered at once."""
        self._opaque += 1
        command = replace(command, opaque=self._opaque)
        self._session.frames(FrameReader().feed(encode_command(command, form)))
        self.world.settle()
        return self._answers(self._opaque)

    def wait(self) -> list[Command]:
        """Let what was sent last come to an end."""
        for _ in range(10):  # held pulls end, clients that are asked say nothing
            if self._answers(self._opaque):
                break
            while self.world.asked:
                self.world.asked.pop().then(None)
            self.world.advance(10_000)
        return self._answers(self._opaque)

    def _answers(self, opaque: int) -> list[Command]:
        for _, number, answer in self.world.answers:
            self.write(encode_answer(number, answer))
        self.world.answers.clear()
        return [answer for answer in self.answers if answer.opaque == opaque]


def field_names(code: int) -> list[str]:
    try:
        header = REQUEST_HEADERS[RequestCode(code)]
    except (KeyError, ValueError):
        return ["topic", "group"]
    return [field.encode_name for field in msgspec.structs.fields(header)]


def is_number(code: int, name: str) -> bool:
    header = REQUEST_HEADERS.get(RequestCode(code))
    if header is None:
        return False
    (field,) = (f for f in msgspec.structs.fields(header) if f.encode_name == name)
    return "int" in str(field.type)


def plain(code: int) -> dict[str, str]:
    """Fields that can all be read."""
    texts = {
        "topic": "T",
        "b": "T",
        "group": "g",
        "consumerGroup": "g",
        "clientId": "c@1",
        "msgId": offset_id(Peer("127.0.0.1:10911").host, 0),
    }
    return {
        name: "1" if is_number(code, name) else texts.get(name, "true")
        for name in field_names(code)
    }
