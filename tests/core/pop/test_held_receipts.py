"""A receipt that no longer counts is told apart from one that does, before a broker is asked."""

from __future__ import annotations

import pytest

from flintmq.core.pop.held_receipts import CLOCKS_APART_MS, HeldReceipts
from flintmq.errors import InvalidSetting, ReceiptExpired
from flintmq.model.message import ReceivedMessage
from flintmq.protocol.pop.receipts import ReceiptHandle
from support.core.messages import received

HANDLE = ReceiptHandle(0, 1_000, 30_000, 0, "0", "broker-a", 0, 0)
NEWER = HANDLE._replace(pop_ms=20_000)


def held(handle: ReceiptHandle = HANDLE) -> ReceivedMessage:
    return received(0, POP_CK=handle.text)


def test_a_receipt_counts_until_its_time_is_over_by_our_own_clock() -> None:
    receipts = HeldReceipts()
    receipts.add(HANDLE.text, 30_000, now_ms=500)

    assert receipts.find(held(), 30_499, wall_ms=10**15) == HANDLE
    with pytest.raises(ReceiptExpired, match="change_invisible"):
        receipts.find(held(), 30_500, wall_ms=0)


def test_after_a_change_either_receipt_means_the_newer_handle() -> None:
    receipts = HeldReceipts()
    receipts.add(HANDLE.text, 30_000, now_ms=0)

    receipts.replaced(held(), NEWER, 60_000, now_ms=20_000)

    for message in (held(), held(NEWER)):
        assert receipts.find(message, 79_999, wall_ms=0) == NEWER
        with pytest.raises(ReceiptExpired):
            receipts.find(message, 80_000, wall_ms=0)
    receipts.settled(held())
    assert len(receipts) == 0


def test_a_receipt_of_another_process_is_judged_by_the_time_in_it() -> None:
    receipts = HeldReceipts()

    assert receipts.find(held(), 0, wall_ms=31_000) == HANDLE
    with pytest.raises(ReceiptExpired):
        receipts.find(held(), 0, wall_ms=31_000 + CLOCKS_APART_MS)


def test_a_message_without_a_receipt_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="has no receipt"):
        HeldReceipts().find(received(0), 0, 0)


def test_a_text_that_is_no_receipt_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="is none"):
        HeldReceipts().find(received(0, POP_CK="1 2 3"), 0, 0)


def test_the_oldest_of_too_many_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flintmq.core.pop.held_receipts.HELD_MAX", 2)
    receipts = HeldReceipts()

    for pop_ms in (1, 2, 3):
        receipts.add(HANDLE._replace(pop_ms=pop_ms).text, 30_000, 0)

    assert len(receipts) == 2
