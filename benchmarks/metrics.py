"""What metrics cost a message, in each place that counts, as a share of its whole way.

    python -m benchmarks metrics

Each place is measured alone, with and without metrics in turn, thousands of times, in CPU time; the
quarter of each that took least counts, since the others were disturbed.  A message's whole way is a
send by a client in the same process, over a socket and back, one at a time.  Without metrics no
counter of `broker.counters` is touched.  Sends come one by one, the dearest case, and 32 in a turn.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from msgspec import Raw

from benchmarks.broker_send import ADDRESS, NOW_MS, TURN, Row, running, single, take, typed
from flintmq import Message
from flintmq.broker.counters.call_times import RequestTimes
from flintmq.broker.counters.message_counts import MessageCounts
from flintmq.broker.engine import BrokerEngine
from flintmq.broker.processor_table import processors
from flintmq.broker.requests.peer import Peer
from flintmq.broker.send.seen_sends import FastSender
from flintmq.broker.send.sent_group import SentGroup
from flintmq.core.conversation import Call
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.metrics.client_metrics import ClientMetrics
from flintmq.net.clock import wall_ms
from flintmq.protocol.command import Command
from flintmq.protocol.frame import Frame
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.typed_request import RequestReader

if TYPE_CHECKING:
    from flintmq.client.engine.direct_line import DirectLine
    from flintmq.client.producer.producer import Producer

ROUNDS = 2_000
CLIENT_ROUNDS = 400
SENDS = 50


class NoCounts(MessageCounts):
    """Counts nothing."""

    def add(self, topic: str, kind: str, sizes: Sequence[int]) -> None:
        pass

    def add_alike(self, topic: str, kind: str, count: int, total_bytes: int) -> None:
        pass


def run() -> list[Row]:
    frames = [single(i + 1, b"x" * 128, "TAGS\x01TagA\x02") for i in range(TURN)]
    whole = whole_message()
    rows: list[Row] = [{"name": "a message, whole", "value": round(whole * 1e6, 1), "unit": "µs"}]
    for name, some in (("one by one", frames[:1]), (f"{TURN} in a turn", frames)):
        with running() as engine:
            turn = quick(engine, some)
            rows += at_the_broker(engine, f"broker, quick sends, {name}", turn, len(some), whole)
    with running() as engine:
        turn = slow(engine, frames)
        rows += at_the_broker(engine, "broker, sends that are decoded", turn, len(frames), whole)
    rows += at_the_producer(whole)
    rows += at_the_consumer(whole)
    return rows


def whole_message() -> float:
    """Seconds of CPU that a send takes, client and broker together, one at a time."""
    with EmbeddedBroker() as broker, broker.producer("benchmark") as producer:
        message = Message("orders", b"x" * 128)

        def sends() -> None:
            for _ in range(SENDS):
                producer.send(message)

        sends()
        return least([taken(sends) for _ in range(CLIENT_ROUNDS)]) / SENDS


class EchoLine:
    """A line whose broker is this object: it stores nothing and answers at once."""

    def __init__(self) -> None:
        header = {"msgId": "C0A8000100002A9F0000000000000000", "queueId": "0", "queueOffset": "7"}
        self._answer = Command(fields=Raw(json.dumps(header).encode()))

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        pass

    def make(self, _call: Call) -> Command:
        return self._answer


def at_the_producer(whole: float) -> list[Row]:
    """A send up to the socket, by a producer with and without `ClientMetrics`."""
    with (
        EmbeddedBroker() as broker,
        broker.producer("without") as without,
        broker.producer("with", metrics=ClientMetrics()) as counted,
    ):
        message = Message("orders", b"x" * 128)
        line = cast("DirectLine", EchoLine())
        ways: dict[str, Callable[[], None]] = {}
        for way, producer in (("without", without), ("with", counted)):
            producer.send(message)  # it knows the route then

            ways[way] = partial(sends_here, producer._inner, line, message)
        return shares("producer", in_turn(ways, ROUNDS), SENDS, whole)


def sends_here(producer: Producer, line: DirectLine, message: Message) -> None:
    for _ in range(SENDS):
        producer.send_past_loop(line, message, 3_000)


def at_the_consumer(whole: float) -> list[Row]:
    """What a push consumer counts of calls that got one message each."""
    counts = ClientMetrics().consumer("billing")

    def counted() -> None:
        for _ in range(SENDS):
            counts.called("orders", 1, 0, 40_000)

    def nothing() -> None:
        for _ in range(SENDS):
            pass

    return shares(
        "push consumer, one message a call",
        in_turn({"without": nothing, "with": counted}, ROUNDS),
        SENDS,
        whole,
    )


def taken(turn: Callable[[], object]) -> float:
    began = time.process_time()
    turn()
    return time.process_time() - began


def in_turn(ways: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    spent: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds):
        for way in sorted(ways, reverse=bool(number % 2)):
            spent[way].append(taken(ways[way]))
    return {way: least(some) for way, some in spent.items()}


def least(some: list[float]) -> float:
    """The mean of the quarter that was disturbed least."""
    best = sorted(some)[: len(some) // 4]
    return sum(best) / len(best)


def quick(engine: BrokerEngine, frames: list[Frame]) -> Callable[[], object]:
    reader, peer = RequestReader(REQUEST_HEADERS), Peer(ADDRESS)
    sender = FastSender(peer)
    for frame in frames * 3:
        engine.serve(typed(reader, frame), peer, NOW_MS)
        engine.quick.learn(frame, typed(reader, frame), sender)

    def turn() -> None:
        group = SentGroup(peer, b"".join, wall_ms())
        take(engine, frames, sender, group)
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


def at_the_broker(
    engine: BrokerEngine, name: str, turn: Callable[[], object], count: int, whole: float
) -> list[Row]:
    """The same turn of the broker's engine with and without counters."""
    counted = RequestTimes(wall_ms, processors()), MessageCounts()

    def without() -> None:
        engine.calls, engine.state.stats.counts = None, NoCounts()
        turn()

    def with_metrics() -> None:
        engine.calls, engine.state.stats.counts = counted
        turn()

    found = in_turn({"without": without, "with": with_metrics}, ROUNDS)
    return shares(name, found, count, whole)


def shares(name: str, found: dict[str, float], count: int, whole: float) -> list[Row]:
    """Both ways, and what lies between them as a share of a whole message."""
    without, with_metrics = (found[way] / count for way in ("without", "with"))
    share = max(0.0, with_metrics - without) / whole
    return [
        {"name": f"{name}: without metrics", "value": round(without * 1e6, 2), "unit": "µs"},
        {"name": f"{name}: with metrics", "value": round(with_metrics * 1e6, 2), "unit": "µs"},
        {"name": f"{name}: share of a message", "value": round(share * 100, 2), "unit": "%"},
    ]
