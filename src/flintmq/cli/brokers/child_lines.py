"""What a parent and a broker process of its own tell each other, over the pipes of the process.

    parent ─► child   its plan, pickled, then lines; the end of the pipe means: stop
    child ─► parent   lines

The plan goes through the pipe and not by arguments because it may hold secrets.  A line is a JSON
value of one of the types below.  Refused: a line that is none, and one that is too long.
"""

from __future__ import annotations

import os
import pickle
import struct
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from flintmq.cli.broker import Chosen
from flintmq.cli.shared.server_process import LogLevel
from flintmq.embedded.account_files import AccountPlan
from flintmq.net.address import Address
from flintmq.net.tls import ClientTls, ServerTls
from flintmq.protocol.bodies.topic import TopicConfig

LINE_BYTES_MAX: Final = 1 << 20
"""A topic with its attributes is some hundred bytes."""

_SIZE: Final = struct.Struct(">I")


class BrokerReady(msgspec.Struct, frozen=True, tag="ready"):
    """The broker answers and is registered."""

    address: str
    """What clients are told."""
    listen: str
    """Where it listens, when any port was asked for."""
    metrics: str | None = None


class TopicMade(msgspec.Struct, frozen=True, tag="topic"):
    """A message made a topic at one broker; the others are to have it too."""

    topic: TopicConfig


ChildLine: TypeAlias = BrokerReady | TopicMade

_decoder: Final[msgspec.json.Decoder[ChildLine]] = msgspec.json.Decoder(BrokerReady | TopicMade)


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """All that a broker process needs to know."""

    chosen: Chosen
    namesrv: tuple[Address, ...]
    tls: ServerTls | None
    client_tls: ClientTls | None
    accounts: AccountPlan | None
    log_level: LogLevel

    @property
    def name(self) -> str:
        return self.chosen.config.broker_name


def pack(plan: ChildPlan) -> bytes:
    packed = pickle.dumps(plan)
    return _SIZE.pack(len(packed)) + packed


def read_plan(descriptor: int) -> ChildPlan:
    """Read the plan, and no byte more."""
    (size,) = _SIZE.unpack(_exactly(descriptor, _SIZE.size))
    plan = pickle.loads(_exactly(descriptor, size))  # noqa: S301  # written by our own parent
    assert isinstance(plan, ChildPlan)
    return plan


def _exactly(descriptor: int, size: int) -> bytes:
    parts = []
    while size:
        part = os.read(descriptor, size)
        if not part:
            raise EOFError("the parent is gone")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def line_of(told: ChildLine) -> bytes:
    return msgspec.json.encode(told) + b"\n"


def read_line(line: bytes) -> ChildLine:
    """Raises `msgspec.MsgspecError` for what nobody of ours writes."""
    return _decoder.decode(line)
