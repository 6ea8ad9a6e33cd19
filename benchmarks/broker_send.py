"""What a send costs the broker: reading the request, checks and record, and the turn's write.

The first rows are of sends that come for the first time; one that is like those before it takes
the quick way (`broker.send.fast_send`), and has a row of its own.

    python -m benchmarks broker_send

Requests come as Java clients send them, a turn has 32 of them, and nothing is synced.  A
batch counts by its messages.  Of several rounds the best counts, the others were disturbed.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flintmq.access.quotas import parse_quotas
from flintmq.access.rules import User
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.engine import BrokerEngine
from flintmq.broker.engine_port import Request
from flintmq.broker.requests.outcome import Answer
from flintmq.broker.requests.peer import Peer
from flintmq.broker.send.seen_sends import FastSender
from flintmq.broker.send.sent_group import SentGroup
from flintmq.broker.state.opening import open_state
from flintmq.model.host import Host
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.frame import Frame, FrameReader
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.headers.send import SendMessageV2
from flintmq.protocol.records.batch import BatchEntry, encode_batch
from flintmq.protocol.typed_request import RequestReader, TypedRequest
from flintmq.protocol.wire import encode_command
from flintmq.store.files.store_config import Flush, StoreConfig

NOW_MS = 1_700_000_000_000
ADDRESS = "127.0.0.1:10911"
TURN = 32
ROUNDS = 200
QUOTAS = "account:* send 1000000000/s 1000GiB/s; group:* send 1000000000/s 1000GiB/s"
"""Never reached, and all that a send can have to pay."""

UNIQUE_ID = "FD00000000000000000000000000000252FD5FFD2B274DB84EEE"

Row = dict[str, object]


class Nobody:
    """Takes answers and sends nothing."""

    def answer(self, peer: Peer, request: Request, answer: Answer) -> None:
        pass

    def send_oneway(self, peer: Peer, request: Command) -> None:
        pass

    def ask_client(
        self,
        peer: Peer | None,
        request: Command,
        timeout_ms: int,
        then: Callable[[Command | None], None],
    ) -> None:
        pass

    def close(self, peer: Peer, reason: str) -> None:
        pass

    def announce(self, topics: set[str], then: Callable[[], None]) -> None:  # noqa: ARG002
        then()


def run() -> list[Row]:
    rows: list[Row] = []
    for name, body, properties in (
        ("128 B", b"x" * 128, "TAGS\x01TagA\x02"),
        ("1 KiB, with keys", b"x" * 1024, "TAGS\x01TagA\x02KEYS\x01order-1 vip\x02"),
        ("128 B, delayed", b"x" * 128, "DELAY\x013\x02"),
    ):
        frames = [single(i + 1, body, properties) for i in range(TURN)]
        read, served, written = measure(frames)
        rows.append(row(f"send {name}: request read", read))
        rows.append(row(f"send {name}: served, unwritten", served))
        rows.append(row(f"send {name}: end of turn", written))
        if "delayed" not in name:
            quick = measure_quick(frames)
            ratio = measure_quick(frames, QUOTAS) / quick
            rows.append(row(f"send {name}: the quick way, answered", quick))
            rows.append(
                {
                    "name": f"send {name}: the quick way, with quotas / without",
                    "value": round(ratio, 3),
                    "unit": "ratio",
                    "goal": "<= 1.25",
                }
            )
            ratio = measure_quick(frames, checksums=True) / quick
            rows.append(
                {
                    "name": f"send {name}: the quick way, with record checksums / without",
                    "value": round(ratio, 3),
                    "unit": "ratio",
                    "goal": "<= 1.5",
                }
            )
    _, served, _ = measure([batch(BatchEntry(b"x" * 128, b"TAGS\x01TagA\x02"), 100)])
    rows.append(row("batch of 100 of 128 B: served, a message", served / 100))
    return rows


@contextmanager
def running(quotas: str = "", *, checksums: bool = False) -> Iterator[BrokerEngine]:
    """An engine on a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="flintmq-bench-") as scratch:
        store = StoreConfig(
            flush=Flush.ASYNC,
            commit_log_file_bytes=64 * 1024 * 1024,
            record_checksums=checksums,
        )
        state, _ = open_state(
            Path(scratch),
            BrokerConfig(store=store, quotas=parse_quotas(quotas)),
            ADDRESS,
            Host.parse(ADDRESS),
            pick=random.Random(0).randrange,
            now_ms=NOW_MS,
        )
        yield BrokerEngine(state, Nobody())
        state.log.close()


def measure_quick(frames: list[Frame], quotas: str = "", *, checksums: bool = False) -> float:
    """Microseconds of each send that is like those before it, its answer and write included."""
    reader, peer = RequestReader(REQUEST_HEADERS), Peer(ADDRESS)
    peer.user = User("alice", "")
    sender = FastSender(peer)
    best = float("inf")
    with running(quotas, checksums=checksums) as engine:
        for frame in frames * 2:
            engine.serve(typed(reader, frame), peer, NOW_MS)
            engine.quick.learn(frame, typed(reader, frame), sender)
        for _ in range(ROUNDS):
            began = time.process_time()
            group = SentGroup(peer, b"".join, 0)
            take(engine, frames, sender, group)
            engine.park(group, NOW_MS)
            engine.end_turn(NOW_MS)
            best = min(best, time.process_time() - began)
    return best / len(frames) * 1e6


def take(engine: BrokerEngine, frames: list[Frame], sender: FastSender, group: SentGroup) -> None:
    """As `client_session` does."""
    taken = engine.quick.store_all(frames, 0, sender, group, NOW_MS)
    for frame in frames[taken:]:
        assert engine.quick.store(frame, sender, group, NOW_MS)


def measure(frames: list[Frame]) -> tuple[float, float, float]:
    """Microseconds of each request: to read it, to serve it, and its share of the write."""
    reader, peer = RequestReader(REQUEST_HEADERS), Peer(ADDRESS)
    best = [float("inf")] * 3
    with running() as engine:
        for _ in range(ROUNDS):
            began = time.process_time()
            requests = [typed(reader, frame) for frame in frames]
            read = time.process_time()
            for each in requests:
                engine.serve(each, peer, NOW_MS)
            served = time.process_time()
            engine.end_turn(NOW_MS)
            ended = time.process_time()
            best = list(map(min, best, (read - began, served - read, ended - served)))
    first, second, third = (seconds / len(frames) * 1e6 for seconds in best)
    return first, second, third


def typed(reader: RequestReader, frame: Frame) -> TypedRequest[Any]:
    found = reader.read(frame)
    assert isinstance(found, TypedRequest)
    return found


def single(number: int, body: bytes, properties: str) -> Frame:
    unique = f"UNIQ_KEY\x01{UNIQUE_ID}{number:04X}\x02WAIT\x01true\x02"
    return frame_of(RequestCode.SEND_MESSAGE_V2, body, unique + properties, number)


def batch(entry: BatchEntry, count: int) -> Frame:
    body = encode_batch([entry] * count)
    return frame_of(RequestCode.SEND_BATCH_MESSAGE, body, "WAIT\x01true\x02", 0, is_batch=True)


def frame_of(
    code: RequestCode, body: bytes, properties: str, number: int, *, is_batch: bool = False
) -> Frame:
    header = SendMessageV2(
        producer_group="producers",
        topic="orders",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=number % 4,
        sys_flag=0,
        born_timestamp=NOW_MS,
        flag=0,
        properties=properties,
        is_batch=is_batch,
        broker_name="broker-a",
    )
    (frame,) = FrameReader().feed(encode_command(request(code, header, body, opaque=number)))
    return frame


def row(name: str, microseconds: float) -> Row:
    return {"name": name, "value": round(microseconds, 2), "unit": "µs"}
