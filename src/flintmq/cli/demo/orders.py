"""The shop of the demo: what it sends, and the app that consumes it.

The app is an app like any other.  The demo runs it on Spark and on threads; this runs it alone:

    flintmq run flintmq.cli.demo.orders:app --namesrv HOST:PORT

What goes wrong is decided by the number of an order, so that everybody knows beforehand how the
story has to end: some orders are paid at the second or third try, a few never.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from flintmq.client.run_app import App
from flintmq.core.group.listener_results import Retry
from flintmq.model.message import Message, ReceivedMessage

ORDERS: Final = "orders"
LEDGER: Final = "ledger"
GROUP: Final = "billing"

PAID, REFUNDED, OPEN = "paid", "refunded", "open"
"""The tags of orders.  Nobody asks for those that are still open."""

LATE: Final = 60
"""The last messages have no tag that nobody asks for.  A consumer learns of those at the end of a
queue only when its pull ends, which may be held for 20 seconds, and counts as behind until then."""

WANTED: Final = f"{PAID} || {REFUNDED}"
CUSTOMERS: Final = 12
NEVER: Final = 1_000_000
RETRY_MAX: Final = 2

BOOK: Final = "FLINTMQ_DEMO_BOOK"
"""The environment variable that names the file in which the ledger is written."""

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
    """Ask the bank for each order.  What it refuses comes again, and at last is a dead letter."""
    return [None if _bank_agrees(each) else Retry(reason="the bank said no") for each in messages]


@app.listener(LEDGER, ordered=True)
def post(messages: tuple[ReceivedMessage, ...]) -> Retry | None:
    """Write an entry into the book.  One that fails is tried in place: its order is kept."""
    (message,) = messages
    entry = json.loads(message.body)
    if entry["entry"] % 10 == 0 and message.reconsume_times == 0:
        return Retry(reason="the book is at the auditor's")
    if book := os.environ.get(BOOK):
        line = f"{entry['customer']} {entry['entry']}\n"
        handle = os.open(book, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line.encode())  # in one piece, whoever else writes
        finally:
            os.close(handle)
    return None


def _bank_agrees(message: ReceivedMessage) -> bool:
    number = int(message.keys[0].removeprefix("o-"))
    return message.reconsume_times >= refusals(number)


def refusals(number: int) -> int:
    """How often the bank refuses an order."""
    if number % 200 == 50:
        return NEVER
    if number % 100 == 63:
        return 2
    return 1 if number % 20 == 3 else 0


def tag_of(number: int) -> str:
    if number % 10 == 9:
        return OPEN
    return REFUNDED if number % 7 == 0 else PAID


class Planned(NamedTuple):
    """A message that the shop is going to send.  ``customer`` is whose order it keeps, if any."""

    message: Message
    customer: str | None
    is_wanted: bool
    is_hopeless: bool


def plan(count: int) -> Iterator[list[Planned]]:
    """So many messages, in parcels of one topic: four orders, an entry of the ledger, and so on."""
    for at in range(0, count, 5):
        orders = range(at // 5 * 4, at // 5 * 4 + min(4, count - at))
        yield [_order(number, is_late=at >= count - LATE) for number in orders]
        if count - at >= 5:
            yield [_entry(at // 5)]


def _order(number: int, *, is_late: bool) -> Planned:
    tag, customer = PAID if is_late else tag_of(number), _customer(number * 7)
    cents = 100 + number * 7_919 % 49_900
    body = {"order": f"o-{number:06}", "customer": customer, "cents": cents}
    message = Message(ORDERS, json.dumps(body).encode(), tags=tag, keys=[f"o-{number:06}"])
    return Planned(message, None, tag != OPEN, refusals(number) > RETRY_MAX)


def _entry(number: int) -> Planned:
    customer, entry = _customer(number), number // CUSTOMERS + 1
    body = {"customer": customer, "entry": entry, "cents": 100 + number * 104_729 % 99_900}
    message = Message(LEDGER, json.dumps(body).encode(), keys=[f"{customer}/{entry}"])
    return Planned(message, customer, is_wanted=True, is_hopeless=False)


def _customer(number: int) -> str:
    return f"c-{number % CUSTOMERS:02}"
