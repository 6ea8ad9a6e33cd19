"""Ten thousand pulls that wait: what they cost while nothing arrives, and when something does.

    python -m benchmarks holds

The engine runs without sockets and is given its time.  "At rest" is the CPU it takes for a
second of that time with all pulls held, each on a queue of its own; the same engine without
pulls is beside it.  Deadlines are beyond the time that is watched.
"""

from __future__ import annotations

import gc
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.engine import BrokerEngine
from flintmq.broker.requests.outcome import Answer
from flintmq.broker.requests.peer import Peer
from flintmq.broker.scheduled.append import NewMessage, append
from flintmq.broker.state.opening import open_state
from flintmq.model.host import Host
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command
from flintmq.protocol.headers.pull import PullFlag, PullMessage
from flintmq.protocol.typed_request import TypedRequest
from flintmq.store.files.store_config import Flush, StoreConfig

START_MS = 1_700_000_000_000
ADDRESS = "127.0.0.1:10911"
HOLDS = 10_000
QUEUES = 16
PEERS = 1_000
WATCHED_S = 60
ARRIVALS = 1_000

Row = dict[str, object]

SMALL_FILES = StoreConfig(
    commit_log_file_bytes=64 * 1024 * 1024,
    queue_file_bytes=20 * 1_000,
    index_slots=10_000,
    index_entries=40_000,
    flush=Flush.ASYNC,
)


class Peers:
    """Where answers go; nobody is there to be told or asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[Peer, TypedRequest[Any], Answer]] = []

    def answer(self, peer: Peer, request: TypedRequest[Any], answer: Answer) -> None:
        self.answers.append((peer, request, answer))

    def send_oneway(self, peer: Peer, request: Command) -> None:
        raise NotImplementedError

    def ask_client(
        self,
        peer: Peer | None,
        request: Command,
        timeout_ms: int,
        then: Callable[[Command | None], None],
    ) -> None:
        raise NotImplementedError

    def close(self, peer: Peer, reason: str) -> None:
        raise NotImplementedError

    def announce(self, topics: set[str], then: Callable[[], None]) -> None:  # noqa: ARG002
        then()


def run() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="flintmq-bench-") as scratch:
        state, _ = open_state(
            Path(scratch),
            BrokerConfig(store=SMALL_FILES),
            ADDRESS,
            Host.parse(ADDRESS),
            pick=random.Random(0).randrange,
            now_ms=START_MS,
        )
        port = Peers()
        try:
            return measure(BrokerEngine(state, port), port)
        finally:
            state.log.close()


def measure(engine: BrokerEngine, port: Peers) -> list[Row]:
    peers = [Peer(f"127.0.0.1:{10_000 + number}") for number in range(PEERS)]
    for number in range(HOLDS // QUEUES):
        engine.state.topics.ensure(f"topic-{number}", QUEUES, START_MS)
    arrivals(engine, START_MS)  # so that these queues have their files
    engine.tick(START_MS)
    gc.disable()
    try:
        empty_s, now_ms = watched(engine, START_MS)
        pulls = [pull_request(number) for number in range(HOLDS)]
        hold_s = timed(partial(hold, engine, pulls, peers, now_ms))
        assert len(engine.state.held) == HOLDS
        full_s, now_ms = watched(engine, now_ms)
        assert (len(engine.state.held), port.answers) == (HOLDS, [])
        wake_s = timed(partial(arrivals, engine, now_ms))
        assert len(port.answers) == ARRIVALS
        drop_s = timed(partial(lose, engine, peers, now_ms))
        assert len(engine.state.held) == 0
    finally:
        gc.enable()
    return [
        row("engine at rest, no pull", empty_s / WATCHED_S * 100, "% of a core"),
        row(f"at rest with {HOLDS:,} held", full_s / WATCHED_S * 100, "% of a core", "<= 1"),
        row("take a pull in and hold it", hold_s / HOLDS * 1e6, "µs/pull"),
        row("a message for one of them, stored and answered", wake_s / ARRIVALS * 1e6, "µs"),
        row("drop those of a connection", drop_s / PEERS * 1e6, "µs/connection"),
    ]


def watched(engine: BrokerEngine, now_ms: int) -> tuple[float, int]:
    """CPU seconds of some time in which only the clock goes on, and what time it is then."""
    until_ms = now_ms + WATCHED_S * 1_000
    start = time.process_time()
    while now_ms < until_ms:
        now_ms = max(engine.tick(now_ms), now_ms + 1)
    return time.process_time() - start, now_ms


def hold(
    engine: BrokerEngine, pulls: list[TypedRequest[Any]], peers: list[Peer], now_ms: int
) -> None:
    for number, pull in enumerate(pulls):
        engine.serve(pull, peers[number % PEERS], now_ms)


def lose(engine: BrokerEngine, peers: list[Peer], now_ms: int) -> None:
    for peer in peers:
        engine.lost(peer, now_ms)


def arrivals(engine: BrokerEngine, now_ms: int) -> None:
    state = engine.state
    for number in range(ARRIVALS):
        message = NewMessage(
            topic=f"topic-{number // QUEUES}",
            queue_id=number % QUEUES,
            body=bytes(128),
            properties={},
            born_ms=now_ms,
            born_host=state.host,
            store_host=state.host,
        )
        append(state, message, now_ms)
        engine.end_turn(now_ms)


def pull_request(number: int) -> TypedRequest[Any]:
    header = PullMessage(
        consumer_group="readers",
        topic=f"topic-{number // QUEUES}",
        queue_id=number % QUEUES,
        queue_offset=1 if number < ARRIVALS else 0,
        max_msg_nums=32,
        sys_flag=int(PullFlag.SUBSCRIPTION | PullFlag.SUSPEND),
        suspend_timeout_millis=10 * WATCHED_S * 1_000,
        subscription="*",
    )
    return TypedRequest(header=header, code=int(RequestCode.PULL_MESSAGE), opaque=number)


def timed(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def row(name: str, value: float, unit: str, goal: str | None = None) -> Row:
    found: Row = {"name": name, "value": value, "unit": unit}
    return found | ({"goal": goal} if goal else {})
