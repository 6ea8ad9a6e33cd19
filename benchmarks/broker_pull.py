"""What a pull costs the broker: checks, the store's read, the answer, and the encoded frame.

    python -m benchmarks broker_pull

A pull of 32 records of 128 B is what a busy push consumer asks for all the time.  The row
"besides the store" is the processor without its read.  Of several rounds the best counts.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.consume.pull import pull
from flintmq.broker.requests.outcome import Answer
from flintmq.broker.requests.peer import Peer
from flintmq.broker.scheduled.append import NewMessage, append
from flintmq.broker.state.broker_state import BrokerState
from flintmq.broker.state.opening import open_state
from flintmq.broker.tables.selections import tag_selection
from flintmq.model.host import Host
from flintmq.model.queue import QueueOffset
from flintmq.protocol.bodies.client import SQL92, ConsumerGroup, Heartbeat, Subscription
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.pull import PullFlag, PullMessage
from flintmq.protocol.typed_request import TypedRequest
from flintmq.store.files.store_config import Flush, StoreConfig
from flintmq.store.queues.selection import Selection

NOW_MS = 1_700_000_000_000
ADDRESS = "127.0.0.1:10911"
TOPIC = "orders"
RECORDS = 3_200
BATCH = 32
ROUNDS = 25
SQL = "a > 5 AND color = 'red'"

Row = dict[str, object]

SMALL_FILES = StoreConfig(
    commit_log_file_bytes=64 * 1024 * 1024,
    queue_file_bytes=20 * 100_000,
    index_slots=10_000,
    index_entries=40_000,
    flush=Flush.ASYNC,
)


def run() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="flintmq-bench-") as scratch:
        state, _ = open_state(
            Path(scratch),
            BrokerConfig(store=SMALL_FILES),
            ADDRESS,
            Host.parse(ADDRESS),
            pick=random.Random(0).randrange,
            now_ms=NOW_MS,
        )
        try:
            return measure(state)
        finally:
            state.log.close()


def measure(state: BrokerState) -> list[Row]:
    fill(state)
    peer = Peer("127.0.0.1:40000")
    rows = []
    for name, text, kind in (
        ("all", "*", "TAG"),
        ("one tag", "TagA", "TAG"),
        ("SQL92", SQL, SQL92),
    ):
        wish = Subscription(topic=TOPIC, sub_string=text, sub_version=1, expression_type=kind)
        group = f"readers-{name.replace(' ', '-')}"
        subscribe(state, peer, group, wish)
        whole, store = best(
            partial(serve, state, peer, requests(group)),
            partial(read, state, selection(state, group, wish)),
        )
        rows.append(row(f"pull {BATCH} of 128 B, {name}", whole, "µs/pull"))
        rows.append(row(f"  besides the store, {name}", whole - store, "µs/pull", "<= 25"))
    state.topics.ensure("empty", 1, NOW_MS)
    empty = [pull_request("readers", "empty", 0) for _ in range(RECORDS // BATCH)]
    (nothing,) = best(partial(serve, state, peer, empty))
    rows.append(row("pull, nothing there", nothing, "µs/pull"))
    return rows


def fill(state: BrokerState) -> None:
    state.topics.ensure(TOPIC, 1, NOW_MS)
    host = Host.parse("10.0.0.2:40000")
    for number in range(RECORDS):
        message = NewMessage(
            topic=TOPIC,
            queue_id=0,
            body=bytes(128),
            properties={"TAGS": "TagA", "UNIQ_KEY": f"{number:032X}", "a": "6", "color": "red"},
            born_ms=NOW_MS,
            born_host=host,
            store_host=state.host,
        )
        append(state, message, NOW_MS)
    state.log.write()


def subscribe(state: BrokerState, peer: Peer, group: str, wish: Subscription) -> None:
    heartbeat = Heartbeat(
        client_id=group,
        consumer_data_set=(ConsumerGroup(group_name=group, subscription_data_set=(wish,)),),
    )
    state.clients.heartbeat(heartbeat, peer, "JAVA", 479, NOW_MS)
    state.filters.register(group, [wish], NOW_MS)


def selection(state: BrokerState, group: str, wish: Subscription) -> Selection:
    return tag_selection(wish.sub_string) if wish.is_tag else state.filters.wanted(TOPIC, group)


def pull_request(group: str, topic: str, offset: int) -> TypedRequest[Any]:
    header = PullMessage(
        consumer_group=group,
        topic=topic,
        queue_id=0,
        queue_offset=offset,
        max_msg_nums=BATCH,
        sys_flag=int(PullFlag.SUBSCRIPTION if topic != TOPIC else PullFlag.COMMIT_OFFSET),
        commit_offset=offset,
        suspend_timeout_millis=15_000,
        sub_version=1,
        expression_type="TAG",
        max_msg_bytes=262_144,
    )
    return TypedRequest(header=header, code=int(RequestCode.PULL_MESSAGE))


def requests(group: str) -> list[TypedRequest[Any]]:
    return [pull_request(group, TOPIC, offset) for offset in range(0, RECORDS, BATCH)]


def serve(state: BrokerState, peer: Peer, pulls: list[TypedRequest[Any]]) -> float:
    start = time.process_time()
    for request in pulls:
        answer = pull(request, state, peer, NOW_MS)
        assert isinstance(answer, Answer)
    return (time.process_time() - start) / len(pulls) * 1e6


def read(state: BrokerState, wanted: Selection) -> float:
    log = state.log
    start = time.process_time()
    for offset in range(0, RECORDS, BATCH):
        log.read(TOPIC, 0, QueueOffset(offset), BATCH, bytes_max=262_144, wanted=wanted)
    return (time.process_time() - start) / (RECORDS // BATCH) * 1e6


def best(*works: Callable[[], float]) -> list[float]:
    """The best of each; they run in turn, because other work on the machine disturbs both."""
    rounds = [[work() for work in works] for _ in range(ROUNDS)]
    return [min(costs) for costs in zip(*rounds, strict=True)]


def row(name: str, value: float, unit: str, goal: str | None = None) -> Row:
    found: Row = {"name": name, "value": value, "unit": unit}
    return found | ({"goal": goal} if goal else {})
