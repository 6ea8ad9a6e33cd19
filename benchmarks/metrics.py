"""What metrics cost a send and a pull at the broker, as a share of the work without them.

    python -m benchmarks metrics

Both ways are measured in turn, hundreds of times, and the best of each counts: the others were
disturbed.  Without metrics no counter of `broker.counters` is touched.  Sends come one by one, the
dearest case, and 32 in a turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from benchmarks.broker_send import ADDRESS, NOW_MS, TURN, Row, running, single, typed
from flintmq import Message
from flintmq.broker.counters.call_times import CallTimes
from flintmq.broker.counters.message_counts import MessageCounts
from flintmq.broker.engine import BrokerEngine
from flintmq.broker.processor_table import processors
from flintmq.broker.requests.peer import Peer
from flintmq.broker.send.fast_send import FastSender
from flintmq.broker.send.sent_group import SentGroup
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.metrics.client_metrics import ClientMetrics
from flintmq.net.clock import wall_ms
from flintmq.protocol.frame import Frame
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.typed_request import RequestReader

ROUNDS = 2_000
SENDS = 50


class NoCounts(MessageCounts):
    """Counts nothing."""

    def add(self, topic: str, kind: str, sizes: Sequence[int]) -> None:
        pass

    def add_alike(self, topic: str, kind: str, count: int, total_bytes: int) -> None:
        pass


def run() -> list[Row]:
    frames = [single(i + 1, b"x" * 128, "TAGS\x01TagA\x02") for i in range(TURN)]
    rows: list[Row] = []
    for name, some in (("one by one", frames[:1]), (f"{TURN} in a turn", frames)):
        with running() as engine:
            rows += compared(engine, f"quick sends, {name}", quick(engine, some), len(some))
    with running() as engine:
        rows += compared(engine, "sends that are decoded", slow(engine, frames), len(frames))
    rows += over_a_socket()
    rows += at_the_client()
    return rows


def at_the_client() -> list[Row]:
    """The same send by a producer with and without `ClientMetrics`, in turn."""
    with (
        EmbeddedBroker() as broker,
        broker.producer("without") as without,
        broker.producer("with", metrics=ClientMetrics()) as counted,
    ):
        message, best = Message("orders", b"x" * 128), {"without": 1e9, "with": 1e9}
        for _ in range(200):
            for way, producer in (("without", without), ("with", counted)):
                began = time.perf_counter()
                for _ in range(SENDS):
                    producer.send(message)
                best[way] = min(best[way], time.perf_counter() - began)
    return shares("sends with ClientMetrics", best, SENDS)


def over_a_socket() -> list[Row]:
    """A whole send and its receipt, the client in the same process: what its sender waits for."""
    with EmbeddedBroker() as broker, broker.producer("benchmark") as producer:
        engine = broker.call(lambda servers: servers.brokers["broker-a"].engine)
        message = Message("orders", b"x" * 128)

        def sends() -> None:
            for _ in range(SENDS):
                producer.send(message)

        sends()
        return compared(engine, "sends over a socket", sends, SENDS, 100)


def quick(engine: BrokerEngine, frames: list[Frame]) -> Callable[[], object]:
    reader, peer = RequestReader(REQUEST_HEADERS), Peer(ADDRESS)
    sender = FastSender(peer)
    for frame in frames * 3:
        engine.serve(typed(reader, frame), peer, NOW_MS)
        engine.quick.learn(frame, typed(reader, frame), sender)

    def turn() -> None:
        group = SentGroup(peer, b"".join, wall_ms())
        for frame in frames:
            assert engine.quick.store(frame, sender, group, NOW_MS)
        engine.park(group, NOW_MS)
        engine.end_turn(NOW_MS)

    return turn


def slow(engine: BrokerEngine, frames: list[Frame]) -> Callable[[], object]:
    reader, peer = RequestReader(REQUEST_HEADERS), Peer(ADDRESS)

    def turn() -> None:
        for frame in frames:
            engine.serve(typed(reader, frame), peer, wall_ms())
        engine.end_turn(NOW_MS)

    return turn


def compared(
    engine: BrokerEngine,
    name: str,
    turn: Callable[[], object],
    count: int,
    rounds: int = ROUNDS,
) -> list[Row]:
    """The best of both ways, and their ratio."""
    ways = {
        "without": (None, NoCounts()),
        "with": (CallTimes(wall_ms, processors()), MessageCounts()),
    }
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for way, (calls, counts) in ways.items():
            engine.calls, engine.state.stats.counts = calls, counts
            began = time.perf_counter()
            turn()
            best[way] = min(best[way], time.perf_counter() - began)
    return shares(name, best, count)


def shares(name: str, best: dict[str, float], count: int) -> list[Row]:
    micros = {way: seconds / count * 1e6 for way, seconds in best.items()}
    return [
        {"name": f"{name}: without metrics", "value": round(micros["without"], 2), "unit": "µs"},
        {"name": f"{name}: with metrics", "value": round(micros["with"], 2), "unit": "µs"},
        {
            "name": f"{name}: share of metrics",
            "value": round((micros["with"] / micros["without"] - 1) * 100, 2),
            "unit": "%",
        },
    ]
