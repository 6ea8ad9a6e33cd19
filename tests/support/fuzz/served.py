"""Requests of hostile peers through the real path of a broker and of a name server.

A frame with accidents seldom gets past the cutting of frames, so its lengths are mended first: what
is bent is the header and the body.  An error that nobody foresaw is logged with its traceback by
the servers; here it fails the check.
"""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import cast

from flintmq.broker.client_session import BrokerSession
from flintmq.broker.requests.answers import encode_answer
from flintmq.nameserver.config import NameServerConfig
from flintmq.nameserver.processors import PROCESSORS, NamesrvAnswer
from flintmq.nameserver.settings import Settings
from flintmq.nameserver.state import NameServerState
from flintmq.net.address import Address
from flintmq.net.channels.channel import Channel
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command
from flintmq.protocol.frame import PREFIX_BYTES, FrameReader
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.typed_request import RequestReader
from support.broker.admin import join, make_topic
from support.broker.surroundings import Surroundings
from support.broker.world import World

_reader = RequestReader(REQUEST_HEADERS)


def mended(data: bytes) -> bytes:
    """The same bytes as a frame whose lengths are true."""
    head = data[:PREFIX_BYTES].ljust(PREFIX_BYTES, b"\x00")
    rest = data[PREFIX_BYTES:]
    form = head[4] & 1
    length = min(int.from_bytes(head[5:8], "big"), len(rest))
    return (4 + len(rest)).to_bytes(4, "big") + bytes([form]) + length.to_bytes(3, "big") + rest


class _Unforeseen(logging.Handler):
    """Keeps errors that were logged with a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None:
            self.found.append(record)

    def check(self) -> None:
        found, self.found = self.found, []
        for record in found:
            error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
            raise AssertionError(record.getMessage()) from error


class Served(Surroundings):
    """A session of a broker that has something to show; what it writes is dropped."""

    def __init__(self, directory: Path) -> None:
        self.peer = "127.0.0.1:60000"
        self.world = world = World(directory)
        make_topic(world, "T")
        world.send("T", properties="KEYS\x01K\x02TAGS\x01A\x02")
        join(world, "g", "T")
        self._session = BrokerSession(self, cast(Channel, self))
        self._unforeseen = _Unforeseen()
        logger = logging.getLogger("flintmq")
        logger.addHandler(self._unforeseen)
        logger.propagate = True

    def write(self, chunks: object) -> None:
        """Nobody reads it."""

    def answered(self, answer: object) -> None:
        """Nobody asked."""

    def serve(self, data: bytes) -> None:
        world = self.world
        try:
            self._session.frames(FrameReader().feed(data))
        finally:
            world.settle()
            world.asked.clear()
            world.told.clear()
            world.announced.clear()
            for _, number, answer in world.answers:
                encode_answer(number, answer)
            world.answers.clear()
            self._unforeseen.check()


@cache
def _broker() -> Served:
    directory = tempfile.mkdtemp(prefix="flintmq-fuzz-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Served(Path(directory))


@cache
def _name_server() -> NameServerState:
    return NameServerState(NameServerConfig(), Settings(), 0, Address("127.0.0.1", 9876))


def check_broker(data: bytes) -> None:
    """A request to a broker is answered, held or refused."""
    _broker().serve(mended(data))


def check_name_server(data: bytes) -> None:
    """A request to a name server is answered or refused."""
    for frame in FrameReader().feed(mended(data)):
        request = _reader.read(frame)
        if isinstance(request, Command) or request.code not in PROCESSORS:
            continue
        reply = PROCESSORS[RequestCode(request.code)](request, _name_server(), "p", 0)
        while not isinstance(reply, NamesrvAnswer):
            try:
                next(reply)
            except StopIteration as end:
                reply = end.value
