"""A real broker's engine behind a bad network, all from one seed.

One heap of events is time; one `Random` is chance.  Requests of a connection arrive in order, but
pulls can wait in a line of their own, as they do at brokers of RocketMQ.  Any request, or its
answer, can be late or lost, and a connection can break.  The broker can be
stopped, with its tables saved or not, and started again on the same directory.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Protocol, TypeVar

from msgspec import Raw

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.engine import BrokerEngine
from flintmq.broker.requests.outcome import Answer
from flintmq.broker.requests.peer import Peer
from flintmq.broker.scheduled.append import NewMessage, append
from flintmq.broker.state.broker_state import BrokerState
from flintmq.broker.state.opening import open_state
from flintmq.broker.state.saving import take_names, take_positions
from flintmq.core.conversation import Call, Conversation
from flintmq.errors import FlintError, Unreachable
from flintmq.model.host import Host
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import ANSWER_BIT, Command
from flintmq.protocol.fields import NO_FIELDS, read_header, write_header
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.typed_request import TypedRequest
from flintmq.store.files.disk import Disk
from flintmq.store.files.store_config import Flush, StoreConfig

T = TypeVar("T")

START_MS = 1_700_000_000_000
ADDRESS = "broker:10911"
SAVE_MS = 5_000
LATENCY_MS = 15
LATE_MS = 4_000

STORE = StoreConfig(
    commit_log_file_bytes=1024 * 1024,
    queue_file_bytes=20 * 500,
    index_slots=100,
    index_entries=400,
    flush=Flush.ASYNC,
    delay_levels_ms=(500, 800, *(1_000 for _ in range(16))),
)


PLAIN = BrokerConfig(store=STORE)


class Clock:
    """Time, and what is to happen when."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = count()

    def at(self, due_ms: int, act: Callable[[], None]) -> None:
        entry = (max(due_ms, self.now_ms), next(self._serial), act)
        heapq.heappush(self._agenda, entry)

    def after(self, delay_ms: int, act: Callable[[], None]) -> None:
        self.at(self.now_ms + delay_ms, act)

    def run(self, until_ms: int) -> None:
        while self._agenda and self._agenda[0][0] <= until_ms:
            self.now_ms, _, act = heapq.heappop(self._agenda)
            act()
        self.now_ms = until_ms


@dataclass(frozen=True)
class Faults:
    """How bad the network is."""

    lost: float = 0.0
    late: float = 0.0
    pull_lag_ms: int = 0
    """How much later than other requests pulls are served, at most."""


@dataclass(eq=False)
class Connection:
    """One member's connection; ``calls`` wait for their answers."""

    peer: Peer
    on_note: Callable[[Command], None]
    on_lost: Callable[[], None]
    is_open: bool = True
    frozen_until_ms: int = 0
    """Until then nothing gets through, and nobody is told."""
    arrives_ms: int = 0
    pull_arrives_ms: int = 0
    calls: dict[int, Callable[[Command | FlintError], None]] = field(default_factory=dict)


class QuickDisk(Disk):
    """A disk that never waits: nobody pulls the plug here."""

    def sync(self, path: Path) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass

    def sync_file_system(self) -> int | None:
        return None

    def replace(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)


class ClientSide(Protocol):
    """What clients have of a broker, or of whoever stands in for it."""

    @property
    def engine(self) -> BrokerEngine | None: ...

    def connect(
        self, on_note: Callable[[Command], None], on_lost: Callable[[], None]
    ) -> Connection | None: ...

    def cut(self, connection: Connection) -> None: ...

    def call(
        self,
        connection: Connection | None,
        request: Command,
        timeout_ms: int,
        then: Callable[[Command | FlintError], None],
        served: Callable[[Command], None] | None = None,
    ) -> None: ...

    def converse(
        self,
        connection: Connection | None,
        conversation: Conversation[T],
        then: Callable[[T], None],
        failed: Callable[[FlintError], None],
    ) -> None: ...


class SimulatedBroker:
    """The broker, its network, and who is connected.  It is the port of its own engine."""

    def __init__(
        self, directory: Path, clock: Clock, chance: Random, config: BrokerConfig = PLAIN
    ) -> None:
        self.faults = Faults()
        self.config = config
        self.on_arrival: Callable[[Command], None] = lambda _: None
        """Sees every request before it is served."""
        self.directory = directory
        self._clock = clock
        self._chance = chance
        self._opaque = count(1)
        self._ports = count(20_000)
        self._connections: dict[Peer, Connection] = {}
        self._served: dict[int, Callable[[Command], None]] = {}
        self.engine: BrokerEngine | None = None
        self._tick_ms = 0
        self.start()
        self._save()

    # The broker

    @property
    def now_ms(self) -> int:
        return START_MS + self._clock.now_ms

    def start(self) -> None:
        assert self.engine is None
        state, self.tables = open_state(
            self.directory,
            self.config,
            "127.0.0.1:10911",
            Host.parse("127.0.0.1:10911"),
            pick=self._chance.randrange,
            now_ms=self.now_ms,
            disk=QuickDisk(),
        )
        self.engine = BrokerEngine(state, self)
        self._wake(self.engine.tick(self.now_ms))

    def stop(self, *, saved: bool) -> None:
        assert self.engine is not None
        if saved:
            self._save_tables(self.engine.state)
        self.engine.end_turn(self.now_ms)
        self.engine.state.log.close()
        self.engine = None
        for connection in list(self._connections.values()):
            self._break(connection)

    def add_topic(self, topic: str, queues: int) -> None:
        assert self.engine is not None
        self.engine.state.topics.ensure(topic, queues, self.now_ms)
        self._save_tables(self.engine.state)

    def send(self, topic: str, queue_id: int, body: bytes, tag: str) -> None:
        """Store a message; the broker must be there."""
        assert self.engine is not None
        state = self.engine.state
        properties = {"TAGS": tag, "UNIQ_KEY": body.decode()}
        message = NewMessage(topic, queue_id, body, properties, self.now_ms, state.host, state.host)
        append(state, message, self.now_ms)
        self.turn()

    def _save(self) -> None:
        if self.engine is not None:
            self._save_tables(self.engine.state)
        self._clock.after(SAVE_MS, self._save)

    def _save_tables(self, state: BrokerState) -> None:
        take_names(state, self.tables).save()
        take_positions(state, self.tables, self.now_ms).save()

    def turn(self) -> None:
        if self.engine is not None:
            self.engine.end_turn(self.now_ms)
            self._wake(self.engine.next_due_ms(self.now_ms))

    def _wake(self, due_ms: int) -> None:
        due_ms = max(due_ms - START_MS, self._clock.now_ms + 1)
        if self._tick_ms <= self._clock.now_ms or due_ms < self._tick_ms:
            self._tick_ms = due_ms
            self._clock.at(due_ms, self._tick)

    def _tick(self) -> None:
        if self.engine is not None and self._clock.now_ms >= self._tick_ms:
            self._wake(self.engine.tick(self.now_ms))

    # The network

    def connect(
        self, on_note: Callable[[Command], None], on_lost: Callable[[], None]
    ) -> Connection | None:
        """None while the broker is down."""
        if self.engine is None:
            return None
        connection = Connection(Peer(f"127.0.0.1:{next(self._ports)}"), on_note, on_lost)
        self._connections[connection.peer] = connection
        return connection

    def cut(self, connection: Connection) -> None:
        """The connection breaks; both sides see it."""
        if not connection.is_open:
            return
        self._break(connection)
        if self.engine is not None:
            self.engine.lost(connection.peer, self.now_ms)
            self.turn()

    def call(
        self,
        connection: Connection | None,
        request: Command,
        timeout_ms: int,
        then: Callable[[Command | FlintError], None],
        served: Callable[[Command], None] | None = None,
    ) -> None:
        """Ask; ``then`` gets the answer or why there is none, exactly once.

        ``served`` sees the answer as it leaves the broker, whether it arrives or not.
        """
        opaque = next(self._opaque)
        if connection is None or not connection.is_open:
            lost = Unreachable(ADDRESS, "not connected")
            self._clock.after(1, lambda: then(lost))
            return
        if served is not None:
            self._served[opaque] = served
        if not request.is_oneway:
            connection.calls[opaque] = then
            self._clock.after(timeout_ms, lambda: self._resolve(connection, opaque, _TIMED_OUT))
        connection.arrives_ms = max(connection.arrives_ms, self._clock.now_ms + self._delay_ms())
        if self._gets_through(connection):
            arrive = lambda: self._arrive(connection, request, opaque)  # noqa: E731
            self._clock.at(self._arrives_ms(connection, request), arrive)

    def converse(
        self,
        connection: Connection | None,
        conversation: Conversation[T],
        then: Callable[[T], None],
        failed: Callable[[FlintError], None],
    ) -> None:
        """Hold a conversation to its end."""

        def step(reply: Command | FlintError | None) -> None:
            try:
                if isinstance(reply, FlintError):
                    wanted: Call = conversation.throw(reply)
                else:
                    wanted = next(conversation) if reply is None else conversation.send(reply)
            except StopIteration as done:
                then(done.value)
                return
            except FlintError as error:
                failed(error)
                return
            self.call(connection, wanted.request, wanted.timeout_ms, step)

        step(None)

    def _arrives_ms(self, connection: Connection, request: Command) -> int:
        """When it is served."""
        if request.code != RequestCode.PULL_MESSAGE or not self.faults.pull_lag_ms:
            return connection.arrives_ms
        served_ms = connection.arrives_ms + self._chance.randint(0, self.faults.pull_lag_ms)
        connection.pull_arrives_ms = max(connection.pull_arrives_ms, served_ms)
        return connection.pull_arrives_ms

    def _gets_through(self, connection: Connection) -> bool:
        if self._clock.now_ms < connection.frozen_until_ms:
            return False
        return self._chance.random() >= self.faults.lost

    def _delay_ms(self) -> int:
        if self._chance.random() < self.faults.late:
            return self._chance.randint(LATENCY_MS, LATE_MS)
        return self._chance.randint(1, LATENCY_MS)

    def _arrive(self, connection: Connection, request: Command, opaque: int) -> None:
        if self.engine is None or not connection.is_open:
            return
        self.on_arrival(request)
        self.engine.serve(_typed(request, opaque), connection.peer, self.now_ms)
        self.turn()

    def ask(self, request: Command) -> Command:
        """Ask over a line that nothing happens to, and be answered at once."""
        if self.engine is None:
            raise Unreachable(ADDRESS, "it is down")
        opaque, answers = next(self._opaque), list[Command]()
        self._served[opaque] = answers.append
        self.engine.serve(_typed(request, opaque), INSIDER, self.now_ms)
        self.engine.step(lambda: False)
        self.turn()
        (answer,) = answers
        return answer

    # The port of the engine

    def answer(self, peer: Peer, request: TypedRequest[Any], answer: Answer) -> None:
        opaque = request.opaque
        fields = NO_FIELDS
        if answer.header is not None:
            raw = answer.header
            fields = raw if isinstance(raw, Raw) else write_header(raw)
        body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        reply = Command(
            code=answer.code, flag=ANSWER_BIT, remark=answer.remark, fields=fields, body=body
        )
        served = self._served.pop(opaque, None)
        if served is not None:
            served(reply)
        connection = self._connections.get(peer)
        if connection is not None and self._chance.random() >= self.faults.lost:
            self._clock.after(self._delay_ms(), lambda: self._resolve(connection, opaque, reply))

    def send_oneway(self, peer: Peer, request: Command) -> None:
        connection = self._connections.get(peer)
        if connection is not None and self._gets_through(connection):
            self._clock.after(
                self._delay_ms(),
                lambda: connection.on_note(request) if connection.is_open else None,
            )

    def ask_client(
        self,
        peer: Peer | None,
        request: Command,
        timeout_ms: int,
        then: Callable[[Command | None], None],
    ) -> None:
        raise NotImplementedError

    def close(self, peer: Peer, reason: str) -> None:
        connection = self._connections.get(peer)
        if connection is not None:
            self._clock.after(1, lambda: self.cut(connection))

    def announce(self, topics: set[str], then: Callable[[], None]) -> None:
        then()

    def _resolve(self, connection: Connection, opaque: int, reply: Command | FlintError) -> None:
        then = connection.calls.pop(opaque, None)
        if then is not None:
            then(reply)

    def _break(self, connection: Connection) -> None:
        connection.is_open = False
        del self._connections[connection.peer]
        calls, connection.calls = connection.calls, {}
        connection.on_lost()
        for then in calls.values():
            then(Unreachable(ADDRESS, "the connection broke"))


def _typed(request: Command, opaque: int) -> TypedRequest[Any]:
    kind = REQUEST_HEADERS[request.code]  # type: ignore[index]  # by its number
    return TypedRequest(
        header=read_header(kind, request.fields),
        code=request.code,
        opaque=opaque,
        flag=request.flag,
        version=request.version,
        language=request.language,
        body=request.body,
    )


INSIDER = Peer("127.0.0.1:19998")
"""Another broker, which asks over a line of its own."""

_TIMED_OUT = Unreachable(ADDRESS, "no answer in time")
