"""The receipts that a simple consumer has given out, and which of them still counts.

    received ──► held ──ack──► forgotten
                  │ └──hidden for longer──► its newer receipt counts, under the older one too
                  └──invisible time over──► expired: `ReceiptExpired`

Brokers answer an acknowledgement that comes too late, or by a replaced receipt, as if it were good,
and the message comes again all the same.  So the client has to know.

A receipt that is not known here, of another process or long ago, is judged by the time in it.

Invariant: at most `HELD_MAX` receipts are remembered; the oldest is forgotten first.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from flintmq.errors import InvalidSetting, MalformedHeader, ReceiptExpired
from flintmq.model.message import ReceivedMessage
from flintmq.protocol.pop.receipts import ReceiptHandle

HELD_MAX: Final = 100_000
"""More messages than a program has under way; each takes some hundred bytes."""

CLOCKS_APART_MS: Final = 60_000
"""How far the clocks of a client and a broker may be apart."""


class _Held(NamedTuple):
    handle: ReceiptHandle
    expires_ms: int


class HeldReceipts:
    """Receipts by their text.  ``now_ms`` is a clock that never goes back."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, receipt: str, invisible_ms: int, now_ms: int) -> None:
        """A message was received just now."""
        while len(self._held) >= HELD_MAX:
            del self._held[next(iter(self._held))]
        self._held[receipt] = _Held(ReceiptHandle.parse(receipt), now_ms + invisible_ms)

    def find(self, message: ReceivedMessage, now_ms: int, wall_ms: int) -> ReceiptHandle:
        """The handle that counts now for a message.  Raises `ReceiptExpired`."""
        receipt = receipt_of(message)
        held = self._held.get(receipt)
        if held is None:
            handle = read_receipt(receipt)
            late_ms = wall_ms - CLOCKS_APART_MS - handle.expires_ms
        else:
            handle, late_ms = held.handle, now_ms - held.expires_ms
        if late_ms >= 0:
            raise ReceiptExpired(
                f"the receipt of {message.message_id}",
                "expired",
                f"its invisible time of {handle.invisible_ms} ms is over, so the message comes "
                "again: receive with a longer invisible_ms, or call change_invisible in time",
            )
        return handle

    def replaced(
        self, message: ReceivedMessage, newer: ReceiptHandle, invisible_ms: int, now_ms: int
    ) -> None:
        """A message is hidden anew: the newer handle counts, by whichever receipt it is named."""
        held = _Held(newer, now_ms + invisible_ms)
        self.add(newer.text, invisible_ms, now_ms)
        self._held[receipt_of(message)] = held

    def settled(self, message: ReceivedMessage) -> None:
        """A message is acknowledged."""
        held = self._held.pop(receipt_of(message), None)
        if held is not None:
            self._held.pop(held.handle.text, None)


def receipt_of(message: ReceivedMessage) -> str:
    """The receipt of a popped message; `InvalidSetting` for any other."""
    if message.receipt is None:
        reason = "has no receipt: only messages that a SimpleConsumer received have one"
        raise InvalidSetting("message", message.message_id, reason)
    return message.receipt


def read_receipt(receipt: str) -> ReceiptHandle:
    try:
        return ReceiptHandle.parse(receipt)
    except MalformedHeader as error:
        raise InvalidSetting("receipt", receipt[:80], f"is none: {error.reason}") from None
