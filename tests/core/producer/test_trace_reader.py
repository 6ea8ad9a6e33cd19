"""Traces of clients of any age are read, and a line that makes no sense hides no other."""

from __future__ import annotations

import pytest

from flintmq.core.group.listener_results import ReturnKind
from flintmq.core.producer.trace_reader import read_trace
from flintmq.core.producer.trace_records import ConsumedRecord, Consuming, Published


def line(*fields: object) -> str:
    return "\x01".join(map(str, fields)) + "\x02"


HEAD = ("Pub", 99, "cn", "shop", "orders", "AC11", "null", "k", "10.0.0.1:10911", 5, 7, 0)


@pytest.mark.parametrize(
    ("tail", "offset_id"),
    [
        (("true",), None),  # 4.2
        (("0A00", "true"), "0A00"),  # 4.9
        (("0A00", "true", "10.0.0.9"), "0A00"),  # with the host of the client
    ],
)
def test_a_send_is_read_whatever_its_client_left_out(
    tail: tuple[str, ...], offset_id: str | None
) -> None:
    ((found,), unreadable) = read_trace(line(*HEAD, *tail))

    assert isinstance(found, Published)
    assert (found.message_id, found.tags, found.success) == ("AC11", None, True)
    assert (found.offset_message_id, unreadable) == (offset_id, 0)


def test_the_end_of_a_consumption_may_be_short() -> None:
    text = (
        line("SubBefore", 5, "cn", "readers", "R1", "AC11", 2, "null", "10.0.0.9")
        + line("SubAfter", "R1", "AC11", 3, "false", "null")
        + line("SubAfter", "R2", "AC11", 3, "false", "null", 2)
        + line("SubAfter", "R3", "AC11", 3, "true", "null", 0, 77, "readers")
    )

    begun, oldest, older, newest = read_trace(text).records

    assert isinstance(begun, Consuming)
    assert begun.retry_times == 2
    assert isinstance(oldest, ConsumedRecord)
    assert (oldest.success, oldest.group) == (False, None)
    assert isinstance(older, ConsumedRecord)
    assert older.returned is ReturnKind.EXCEPTION
    assert isinstance(newest, ConsumedRecord)
    assert (newest.at_ms, newest.group) == (77, "readers")


@pytest.mark.parametrize(
    "wrong",
    [
        line("Recall", 1, 2, 3),
        line("Pub"),
        line("SubAfter", "R1", "AC11", "soon", "true", "null"),
        line("SubAfter", "R1", "AC11", 1, "true", "null", 99),
        "\x01\x02",
    ],
)
def test_a_line_that_makes_no_sense_is_counted_and_left_out(wrong: str) -> None:
    records, unreadable = read_trace(wrong + line(*HEAD, "0A00", "true"))

    assert len(records) == 1
    assert unreadable == 1
