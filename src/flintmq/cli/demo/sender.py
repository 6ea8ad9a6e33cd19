"""The shop's producer: a thread that sends what is planned, at a steady pace, as far as it may.

    allow(n) ──► sends up to n messages ──► waits for the next allow, or for the end

A parcel is one request, and the next waits for its answer: so the entries of the ledger are stored
in their order.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from flintmq.cli.demo.orders import Planned, plan
from flintmq.client.producer.threaded_producer import Producer
from flintmq.core.producer.receipt import SendReceipt
from flintmq.net.clock import wall_ms

SENDING_S: Final = 30.0
"""How long sending takes if nobody waits for anybody."""

RATE_MIN: Final = 100.0
"""Messages a second at least: a small demo is a short one."""

SEND_MS: Final = 15_000
"""How long a send may take on a machine that is very busy."""

LATE_S: Final = 0.2
"""What a pause of more than this took is not made up for: the pace stays steady."""

LOOK_S: Final = 0.02


@dataclass(slots=True)
class Sent:
    """What the broker has acknowledged, by message id."""

    wanted: set[str] = field(default_factory=set)
    unwanted: set[str] = field(default_factory=set)
    hopeless: set[str] = field(default_factory=set)
    entries: Counter[str] = field(default_factory=Counter)
    """How many entries of the ledger each customer has."""


class Sender(threading.Thread):
    """Sends; `sent` is complete once the thread has ended."""

    def __init__(self, producer: Producer, count: int) -> None:
        super().__init__(name="flintmq-demo-shop", daemon=True)
        self.sent = Sent()
        self.seconds: Counter[int] = Counter()
        """Messages acknowledged in each second since 1970."""
        self.error: BaseException | None = None
        self._producer = producer
        self._count = count
        self._rate = max(RATE_MIN, count / SENDING_S)
        self._allowed = 0
        self._acknowledged = 0
        self._stopping = threading.Event()

    @property
    def acknowledged(self) -> int:
        return self._acknowledged

    def allow(self, count: int) -> None:
        """Let it send up to so many messages in all."""
        self._allowed = count

    def stop(self) -> None:
        """Send no more."""
        self._stopping.set()

    def run(self) -> None:
        try:
            self._send_all()
        except BaseException as error:
            self.error = error

    def _send_all(self) -> None:
        due_s = time.monotonic()
        for parcel in plan(self._count):
            while self._acknowledged >= self._allowed:
                if self._stopping.wait(LOOK_S):
                    return
                due_s = time.monotonic()
            if self._stopping.wait(max(0.0, due_s - time.monotonic())):
                return
            due_s = max(due_s, time.monotonic() - LATE_S) + len(parcel) / self._rate
            self._note(parcel, self._send(parcel))

    def _send(self, parcel: list[Planned]) -> list[SendReceipt]:
        customer = parcel[0].customer
        if customer is None:
            messages = [each.message for each in parcel]
            return self._producer.send_batch(messages, timeout_ms=SEND_MS)
        message = parcel[0].message
        return [self._producer.send(message, sharding_key=customer, timeout_ms=SEND_MS)]

    def _note(self, parcel: list[Planned], receipts: list[SendReceipt]) -> None:
        sent = self.sent
        for planned, receipt in zip(parcel, receipts, strict=True):
            (sent.wanted if planned.is_wanted else sent.unwanted).add(receipt.message_id)
            if planned.is_hopeless:
                sent.hopeless.add(receipt.message_id)
            if planned.customer is not None:
                sent.entries[planned.customer] += 1
        self._acknowledged += len(parcel)
        self.seconds[wall_ms() // 1_000] += len(parcel)
