"""The same sends by the fast path and by the usual one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from flintmq.broker.client_session import BrokerSession
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.requests.answers import encode_answer
from flintmq.broker.requests.outcome import Answer
from flintmq.broker.requests.peer import Peer
from flintmq.net.channels.channel import Channel
from flintmq.protocol.frame import Frame, FrameReader
from flintmq.protocol.wire import decode_command
from flintmq.store.files.disk import Disk
from flintmq.store.files.store_config import Flush
from support.broker.surroundings import Surroundings
from support.broker.world import SMALL_STORE, World

ID = "FD0000000000000000000000000000025B5F5FFD2B274F5DF991%04X"


PLAIN = f"UNIQ_KEY\x01{ID}\x02WAIT\x01true\x02TAGS\x01TagA\x02"


class Line(Surroundings):
    """A connection to a world of its own.  With ``quick`` off every send goes the usual way."""

    def __init__(
        self,
        directory: Path,
        *,
        quick: bool = True,
        peer: str = "127.0.0.1:60000",
        config: BrokerConfig | None = None,
        disk: Disk | None = None,
    ) -> None:
        self.peer = peer
        self.world = World(directory, config, disk=disk)
        self.wrote: list[bytes] = []
        self.taken = 0
        self.laid_out = 0
        """Of those, sends that the kernel laid out."""
        self._session = BrokerSession(self, cast(Channel, self))
        sends = self.world.engine.quick
        take, take_all = sends.store, sends.store_all

        def count(*arguments: Any) -> bool:
            was_taken = quick and take(*arguments)
            self.taken += was_taken
            return was_taken

        def count_all(*arguments: Any) -> int:
            taken = take_all(*arguments) if quick else 0
            self.taken += taken
            self.laid_out += taken
            return taken

        pulls = self.world.engine.pulls
        answer_pull = pulls.answer

        def count_pull(*arguments: Any) -> Any:
            answer = answer_pull(*arguments) if quick else None
            self.taken += answer is not None
            return answer

        pulls.answer = count_pull  # type: ignore[method-assign, assignment]
        sends.store = count  # type: ignore[method-assign, assignment]
        sends.store_all = count_all  # type: ignore[method-assign, assignment]

    def write(self, chunks: list[bytes | memoryview]) -> None:
        self.wrote += [bytes(chunk) for chunk in chunks]

    # What tests do.

    def read(self, frames: list[Frame]) -> None:
        self._session.frames(frames)

    def answers(self) -> dict[int, bytes]:
        """The frames that were answered, by opaque number, whichever way they left."""
        found: dict[int, bytes] = {}
        written = [b"".join(encode_answer(opaque, answer)) for _, opaque, answer in self.answered]
        for frame in FrameReader().feed(b"".join(self.wrote + written)):
            command = decode_command(frame)
            assert command.opaque not in found
            found[command.opaque] = frame[1] + frame[2]
        return found

    def code(self, opaque: int) -> int:
        return int(json.loads(self.answers()[opaque])["code"])

    @property
    def answered(self) -> list[tuple[Peer, int, Answer]]:
        return self.world.answers

    def files(self) -> dict[str, bytes]:
        """Everything on disk but what says when and by whom."""
        self.world.stop()
        root = self.world.state.log._parts.directory
        return {
            str(path.relative_to(root)): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file() and path.parent.name not in ("config", root.name)
        }


def send(number: int, properties: str = PLAIN, body: bytes = b"hello", **fields: Any) -> Frame:
    """A frame as the Java client writes it."""
    flag, version = fields.pop("command_flag", 0), fields.pop("version", 479)
    code = fields.pop("code", 310)
    given = {
        "a": "producers", "b": "orders", "c": "TBW102", "d": "4", "e": "1", "f": "0",
        "g": str(1_700_000_000_000 + number), "h": "0",
        "i": properties % number if "%04X" in properties else properties,
        "j": "0", "k": "false", "m": "false", "n": "broker-a",
    } | fields  # fmt: skip
    header = {
        "code": code,
        "extFields": given,
        "flag": flag,
        "language": "JAVA",
        "opaque": number,
        "serializeTypeCurrentRPC": "JSON",
        "version": version,
    }
    return 0, json.dumps(header, separators=(",", ":")).encode(), body


def pull(number: int, **fields: Any) -> Frame:
    """A pull as the Java client writes it; the group's wish is in it."""
    given = {
        "queueId": "1", "maxMsgNums": "32", "sysFlag": "5", "suspendTimeoutMillis": "15000",
        "commitOffset": "0", "topic": "orders", "queueOffset": "0", "expressionType": "TAG",
        "subVersion": "0", "subscription": "*", "consumerGroup": "readers",
    } | {name: str(value) for name, value in fields.items()}  # fmt: skip
    header = {
        "code": 11,
        "extFields": given,
        "flag": 0,
        "language": "JAVA",
        "opaque": number,
        "serializeTypeCurrentRPC": "JSON",
        "version": 479,
    }
    return 0, json.dumps(header, separators=(",", ":")).encode(), b""


def play_both_ways(
    reads: list[list[Any]], peer: str, flush: Flush, *, checksums: bool = False
) -> None:
    """What is stored, answered and counted may not depend on the way."""
    store = replace(SMALL_STORE, flush=flush, message_bytes_max=4_000, record_checksums=checksums)
    config = BrokerConfig(store=store)
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        lines = [
            Line(Path(one), peer=peer, config=config),
            Line(Path(other), peer=peer, config=config, quick=False),
        ]
        for line in lines:
            play(line, reads)

        puts = [line.world.state.stats.puts for line in lines]
        assert (puts[0].times, puts[0].sum) == (puts[1].times, puts[1].sum)
        assert lines[0].answers() == lines[1].answers()
        assert lines[0].files() == lines[1].files()


def play(line: Line, reads: list[list[Any]]) -> None:
    world = line.world
    number = 0
    for read in reads * 3:
        frames: list[Frame] = []
        for each in read:
            number += 1
            if each == "settings":
                region = f"region{number}"
                world.state.config = replace(world.state.config, region=region)
            elif each == "topic":
                world.state.topics.ensure(f"made{number}", 1, world.now_ms)
            else:
                properties, body, fields = each
                frames.append(send(number, properties, body, **fields))
        line.read(frames)
        if number % 3:
            world.now_ms += 7
            world.settle()
    world.settle()


@contextmanager
def line_after(directory: Path, make: Callable[[int], Frame]) -> Iterator[Line]:
    """A line on which two frames came, so that the next one is known."""
    line = Line(directory)
    for number in (1, 2):
        line.read([make(number)])
        line.world.settle()
    assert line.taken == 0
    yield line
    line.world.stop()
