"""A broker without sockets for tests: an engine on a real directory, with a clock by hand.

    world = World(tmp_path)
    answer = world.ask(RequestCode.SEND_MESSAGE_V2, SendMessageV2(...), b"body")

Requests pass through the wire's own encoding and decoding, so a test sees what a peer would.
`ask` ends the turn and syncs, so the answer to a send is there; a pull that is held gives None.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.engine import BrokerEngine
from flintmq.broker.requests.outcome import Answer
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.opening import open_state
from flintmq.model.host import Host
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.fields import Header, read_header, write_header
from flintmq.protocol.frame import FrameReader
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.headers.send import SendMessageV2
from flintmq.protocol.typed_request import RequestReader, TypedRequest
from flintmq.protocol.wire import encode_command
from flintmq.store.files.disk import Disk
from flintmq.store.files.store_config import Flush, StoreConfig

H = TypeVar("H", bound=Header)

ADDRESS = "127.0.0.1:10911"
START_MS = 1_700_000_000_000

SMALL_STORE = StoreConfig(
    commit_log_file_bytes=16 * 1024 * 1024,
    queue_file_bytes=20 * 1_000,
    index_slots=1_000,
    index_entries=5_000,
    flush=Flush.ASYNC,
)


class Told(NamedTuple):
    peer: Peer
    request: Command


class Asked(NamedTuple):
    """A question to a client or a name server; the test answers by calling ``then``."""

    peer: Peer | None
    request: Command
    timeout_ms: int
    then: Callable[[Command | None], None]


class World:
    """One broker and what it said to its peers."""

    def __init__(
        self,
        directory: Path,
        config: BrokerConfig | None = None,
        *,
        start_ms: int = START_MS,
        disk: Disk | None = None,
    ) -> None:
        self.directory = directory
        self.now_ms = start_ms
        self.state, self.tables = open_state(
            directory,
            config or BrokerConfig(store=SMALL_STORE),
            ADDRESS,
            Host.parse(ADDRESS),
            pick=random.Random(0).randrange,
            now_ms=start_ms,
            disk=disk,
        )
        self.engine = BrokerEngine(self.state, self)
        self.peer = Peer("127.0.0.1:40000")
        self.answers: list[tuple[Peer, int, Answer]] = []
        self.told: list[Told] = []
        self.asked: list[Asked] = []
        self.closed: list[Peer] = []
        self.announced: list[set[str]] = []
        self._reader = RequestReader(REQUEST_HEADERS)
        self._opaque = 0

    # The engine's port.

    def answer(self, peer: Peer, request: TypedRequest[Any], answer: Answer) -> None:
        self.answers.append((peer, request.opaque, answer))

    def send_oneway(self, peer: Peer, request: Command) -> None:
        self.told.append(Told(peer, request))

    def ask_client(
        self,
        peer: Peer | None,
        request: Command,
        timeout_ms: int,
        then: Callable[[Command | None], None],
    ) -> None:
        self.asked.append(Asked(peer, request, timeout_ms, then))

    def close(self, peer: Peer, reason: str) -> None:
        self.closed.append(peer)

    def announce(self, topics: set[str], then: Callable[[], None]) -> None:
        self.announced.append(topics)
        then()

    # What tests do.

    def ask(
        self,
        code: RequestCode,
        header: Header | None = None,
        body: bytes = b"",
        *,
        peer: Peer | None = None,
        oneway: bool = False,
        version: int = 479,
        language: str = "JAVA",
    ) -> Answer | None:
        """Send a request and give its answer, or None when there is none yet."""
        opaque = self.submit(
            code, header, body, peer=peer, oneway=oneway, version=version, language=language
        )
        self.settle()
        return self.answer_to(opaque)

    def submit(
        self,
        code: RequestCode,
        header: Header | None = None,
        body: bytes = b"",
        *,
        peer: Peer | None = None,
        oneway: bool = False,
        version: int = 479,
        language: str = "JAVA",
    ) -> int:
        """Hand a request over without ending the turn; give its opaque number."""
        self._opaque += 1
        command = request(code, header, body, oneway=oneway, opaque=self._opaque)
        command = Command(
            code=command.code,
            opaque=command.opaque,
            flag=command.flag,
            version=version,
            language=language,
            fields=command.fields,
            body=body,
        )
        (frame,) = FrameReader().feed(encode_command(command))
        typed = self._reader.read(frame)
        assert isinstance(typed, TypedRequest), f"code {code} has no header class"
        self.engine.serve(typed, peer or self.peer, self.now_ms)
        return self._opaque

    def settle(self) -> None:
        """Finish answers that are computed in parts, end the turn and sync."""
        while self.engine.stepping:
            self.engine.step(lambda: False)
        self.engine.end_turn(self.now_ms)
        plan = self.state.log.begin_sync()
        if plan is not None:
            plan.run()
            self.state.log.finish_sync(plan)
        self.engine.durable(self.now_ms)

    def answer_to(self, opaque: int) -> Answer | None:
        found = [answer for _, number, answer in self.answers if number == opaque]
        assert len(found) <= 1, found
        return found[0] if found else None

    def advance(self, ms: int) -> None:
        """Let time pass, step by step as work falls due; it never goes back."""
        until_ms = self.now_ms + ms
        while True:
            due_ms = self.engine.tick(self.now_ms)
            self.settle()
            if due_ms > until_ms:
                break
            self.now_ms = min(until_ms, max(due_ms, self.now_ms + 1))
        self.now_ms = until_ms
        self.engine.tick(self.now_ms)
        self.settle()

    def send(
        self,
        topic: str,
        body: bytes = b"hello",
        *,
        queue_id: int = 0,
        properties: str = "",
        **more: Any,
    ) -> Answer:
        """Send one message as a Java producer does."""
        header = SendMessageV2(
            producer_group=more.pop("producer_group", "producers"),
            topic=topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=queue_id,
            sys_flag=more.pop("sys_flag", 0),
            born_timestamp=self.now_ms,
            flag=0,
            properties=properties,
            **more,
        )
        answer = self.ask(RequestCode.SEND_MESSAGE_V2, header, body)
        assert answer is not None
        return answer

    def stop(self) -> None:
        self.engine.end_turn(self.now_ms)
        self.state.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def header_of(answer: Answer | None, kind: type[H]) -> H:
    """The typed header of an answer."""
    assert answer is not None
    assert answer.header is not None, answer
    raw = write_header(answer.header) if isinstance(answer.header, Header) else answer.header
    return read_header(kind, raw)


def body_of(answer: Answer | None) -> bytes:
    assert answer is not None
    return answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
