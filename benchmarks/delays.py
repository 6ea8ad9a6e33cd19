"""What a delivery costs: delayed messages, timer messages, and looking when the next is due.

A delivery is everything from `deliver` to the end of the turn's write; the send before it is
not in it.  An idle look is what every turn pays for the question when to wake up.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.scheduled.append import NewMessage
from flintmq.broker.state.broker_state import BrokerState
from flintmq.broker.state.opening import open_state
from flintmq.broker.state.put_message import put_message
from flintmq.model.host import Host
from flintmq.store.files.store_config import Flush, StoreConfig

NOW_MS = 1_700_000_000_000
HOST = Host.parse("10.0.0.1:10911")
BORN_HOST = Host.parse("10.0.0.2:40000")
STORE = StoreConfig(commit_log_file_bytes=256 * 1024 * 1024, flush=Flush.ASYNC)

RECORDS = 10_000
ROUNDS = 3
LOOKS = 20_000

Row = dict[str, object]


def run() -> list[Row]:
    rows: list[Row] = []
    for name, wish in (("level", {"DELAY": "3"}), ("timer", {"TIMER_DELAY_MS": "10000"})):
        cost = min(delivering(wish) for _ in range(ROUNDS))
        rows.append({"name": f"deliver, {name}", "value": cost, "unit": "µs/message"})
    rows.append({"name": "when next, nothing waits", "value": looking({}), "unit": "µs/turn"})
    waiting = looking({"DELAY": "3"})
    rows.append({"name": "when next, a level waits", "value": waiting, "unit": "µs/turn"})
    return rows


def delivering(wish: dict[str, str]) -> float:
    """Microseconds of CPU for each of many messages that are due at once."""

    def work(state: BrokerState) -> float:
        send(state, wish, RECORDS)
        take_in(state)
        now_ms = NOW_MS + 10_000
        start = time.process_time()
        while state.log.max_offset("orders", 0) < RECORDS:
            state.delays.deliver(state, now_ms)
            state.timers.deliver(state, now_ms)
            end_turn(state)
        return (time.process_time() - start) * 1e6 / RECORDS

    return with_state(work)


def looking(wish: dict[str, str]) -> float:
    """Microseconds of CPU to tell when the next delivery is due."""

    def work(state: BrokerState) -> float:
        if wish:
            send(state, wish, 1)
        take_in(state)
        start = time.process_time()
        for _ in range(LOOKS):
            state.delays.next_due_ms(state, NOW_MS)
            state.timers.next_due_ms(state, NOW_MS)
        return (time.process_time() - start) * 1e6 / LOOKS

    return with_state(work)


def with_state(work: Callable[[BrokerState], float]) -> float:
    with tempfile.TemporaryDirectory(prefix="flintmq-bench-") as scratch:
        state, _ = open_state(
            Path(scratch),
            BrokerConfig(store=STORE),
            str(HOST),
            HOST,
            pick=lambda _: 0,
            now_ms=NOW_MS,
        )
        try:
            return work(state)
        finally:
            state.log.close()


def send(state: BrokerState, wish: dict[str, str], count: int) -> None:
    for number in range(count):
        properties = {"TAGS": "TagA", "KEYS": f"key-{number}", "UNIQ_KEY": f"{number:032X}", **wish}
        message = NewMessage("orders", 0, b"x" * 1_024, properties, NOW_MS, BORN_HOST, HOST)
        put_message(state, message, NOW_MS)
        if number % 100 == 99:
            end_turn(state)
    end_turn(state)


def take_in(state: BrokerState) -> None:
    """Let the timers read what was sent."""
    while state.timers.next_due_ms(state, NOW_MS) == NOW_MS:
        state.timers.deliver(state, NOW_MS)


def end_turn(state: BrokerState) -> None:
    callbacks, state.after_write = state.after_write, []
    state.log.write()
    for callback in callbacks:
        callback(None)


if __name__ == "__main__":
    for row in run():
        print(f"{row['name']:30} {row['value']:10.2f} {row['unit']}")
