"""The shop of the demo: what it sends, and the app that consumes it.

The app is an app like any other.  The demo runs it on Spark and on threads; this runs it alone:

    flintmq run flintmq.cli.demo.orders:app --namesrv HOST:PORT

Failures are decided by the number of an order, so the outcome is known beforehand: some orders
are paid at the second or third try, a few never.  Inside the demo each call appends its results
to a file, in whichever process it runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from flintmq.client.run_app import App
from flintmq.core.group.listener_results import Retry
from flintmq.model.message import Message, ReceivedMessage
from flintmq.net.clock import wall_ms

ORDERS, LEDGER, GROUP = "orders", "ledger", "billing"
SPARK, THREADS = "Spark", "threads"
CONSUMED, SENT_BACK, DEAD = "consumed", "sent back", "dead"
PAID, REFUNDED, OPEN = "paid", "refunded", "open"
"""The tags of orders.  The app does not subscribe to those that are open."""

WANTED: Final = f"{PAID} || {REFUNDED}"
LATE: Final = 60
"""The last messages all have a wanted tag.  A consumer learns of unwanted ones at the end of a
queue only when its pull ends, which may be held for 20 seconds, and has a lag until then."""

CUSTOMERS: Final = 12
NEVER: Final = 1_000_000
RETRY_MAX: Final = 2

DIRECTORY: Final = "FLINTMQ_DEMO_DIRECTORY"
"""The environment variable that names the directory of a run; without it nothing is recorded."""

PROCESS: Final = "FLINTMQ_DEMO_PROCESS"
"""The environment variable with the id of the process whose threads consume."""

ATTEMPTS_FILE, LEDGER_FILE = "attempts.csv", "ledger.txt"

app = App(
    GROUP,
    start_from="first",
    retry_max=RETRY_MAX,
    ordered_suspend_ms=200,
    rebalance_interval_ms=1_000,
    commit_interval_ms=500,
)


@app.listener(ORDERS, tags=WANTED, batch_max=16)
def bill(messages: tuple[ReceivedMessage, ...]) -> list[Retry | None]:
    """Ask the bank for each order.  A refused one is redelivered, and at last a dead letter."""
    started_ms = wall_ms()
    results = [None if _is_paid(each) else Retry(reason="the bank said no") for each in messages]
    _record(started_ms, messages, results)
    return results


@app.listener(LEDGER, ordered=True)
def post(messages: tuple[ReceivedMessage, ...]) -> Retry | None:
    """Write an entry into the ledger.  One that fails is tried in place: its order is kept."""
    (message,) = messages
    entry = json.loads(message.body)
    if entry["entry"] % 10 == 0 and message.reconsume_times == 0:
        return Retry(reason="the ledger is closed")
    _append(LEDGER_FILE, f"{entry['customer']} {entry['entry']}\n")
    _record(wall_ms(), messages, [None])
    return None


def _is_paid(message: ReceivedMessage) -> bool:
    return message.reconsume_times >= refusals(int(message.keys[0].removeprefix("o-")))


def refusals(number: int) -> int:
    """How often the bank refuses an order."""
    if number % 200 == 50:
        return NEVER
    if number % 100 == 63:
        return 2
    return 1 if number % 20 == 3 else 0


def _record(
    started_ms: int, messages: Sequence[ReceivedMessage], results: Sequence[Retry | None]
) -> None:
    """Append one line for each message.  The broker buries what fails at the last try."""
    runner = THREADS if os.environ.get(PROCESS) == str(os.getpid()) else SPARK
    lines = []
    for message, result in zip(messages, results, strict=True):
        tries = message.reconsume_times + 1
        outcome = CONSUMED if result is None else DEAD if tries > RETRY_MAX else SENT_BACK
        lines.append(
            f"{runner},{message.topic},{message.message_id},{outcome},{tries},{started_ms}\n"
        )
    _append(ATTEMPTS_FILE, "".join(lines))


def _append(name: str, text: str) -> None:
    if directory := os.environ.get(DIRECTORY):
        handle = os.open(Path(directory, name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, text.encode())  # one write: other processes append too
        finally:
            os.close(handle)


class Planned(NamedTuple):
    """A message to send.  ``customer`` is the sharding key of a ledger entry."""

    message: Message
    customer: str | None
    is_wanted: bool
    is_hopeless: bool


def plan(count: int) -> Iterator[list[Planned]]:
    """``count`` messages, in batches of one topic: four orders, one ledger entry, and so on."""
    for at in range(0, count, 5):
        orders = range(at // 5 * 4, at // 5 * 4 + min(4, count - at))
        yield [_order(number, is_late=at >= count - LATE) for number in orders]
        if count - at >= 5:
            yield [_entry(at // 5)]


def _order(number: int, *, is_late: bool) -> Planned:
    tag = OPEN if number % 10 == 9 else REFUNDED if number % 7 == 0 else PAID
    tag, key = PAID if is_late else tag, f"o-{number:06}"
    cents = 100 + number * 7_919 % 49_900
    body = {"order": key, "customer": _customer(number * 7), "cents": cents}
    message = Message(ORDERS, json.dumps(body).encode(), tags=tag, keys=[key])
    return Planned(message, None, tag != OPEN, refusals(number) > RETRY_MAX)


def _entry(number: int) -> Planned:
    customer, entry = _customer(number), number // CUSTOMERS + 1
    body = {"customer": customer, "entry": entry, "cents": 100 + number * 104_729 % 99_900}
    message = Message(LEDGER, json.dumps(body).encode(), keys=[f"{customer}/{entry}"])
    return Planned(message, customer, is_wanted=True, is_hopeless=False)


def _customer(number: int) -> str:
    return f"c-{number % CUSTOMERS:02}"
