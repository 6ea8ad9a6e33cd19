"""An offset id leads back to its record; a unique id is unique and tells about when it was made."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import InvalidName
from flintmq.model.host import Host
from flintmq.model.message_id import (
    UniqueIds,
    offset_id,
    offset_id_prefix,
    parse_offset_id,
)
from flintmq.model.queue import LogOffset
from support.record_examples import hosts
from support.unique_ids import created_ms

DAY_MS = 86_400_000
MONTH_START_MS = 1_698_796_800_000
PREVIOUS_MONTH_START_MS = MONTH_START_MS - 31 * DAY_MS


def test_the_worked_example_of_an_offset_id() -> None:
    host = Host.parse("10.0.0.1:10911")

    assert offset_id(host, LogOffset(1024)) == "0A00000100002A9F0000000000000400"


@settings(max_examples=200, deadline=None)
@given(hosts(), st.integers(0, 2**63 - 1))
def test_an_offset_id_leads_back_to_its_record(host: Host, log_offset: int) -> None:
    text = offset_id(host, log_offset)

    assert parse_offset_id(text) == (host, log_offset)
    assert parse_offset_id(text.lower()) == (host, log_offset)
    assert text.startswith(offset_id_prefix(host))
    assert len(text) == (56 if host.is_v6 else 32)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0A",
        "0" * 31,
        "0" * 33,
        "0" * 55,
        "G" * 32,
        " " * 32,
        "0A 0" * 8,
        "٣" * 32,
        "0A00000100002A9FFFFFFFFFFFFFFFFF",
    ],
)
def test_what_is_no_offset_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        parse_offset_id(text)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60) | st.text("0123456789abcdefABCDEF ", min_size=32, max_size=32))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        host, log_offset = parse_offset_id(text)
    except InvalidName:
        return

    assert offset_id(host, log_offset) == text.upper()


def test_the_worked_example_of_a_unique_id() -> None:
    ids = UniqueIds(bytes([10, 0, 0, 2]), pid=1234, constant=0x18B4AAC2)
    ids.make(MONTH_START_MS, MONTH_START_MS)

    second = ids.make(MONTH_START_MS + DAY_MS, MONTH_START_MS)

    assert second == "0A00000204D218B4AAC205265C000001"


def test_ids_of_one_millisecond_differ_until_the_counter_wraps() -> None:
    ids = UniqueIds(bytes(16), pid=70_000, constant=1)

    made = [ids.make(MONTH_START_MS, MONTH_START_MS) for _ in range(65_537)]

    assert len(set(made)) == 65_536
    assert made[0] == made[-1]
    assert {len(text) for text in made} == {56}


def test_many_ids_are_those_that_would_be_made_one_by_one() -> None:
    one_by_one, at_once = (UniqueIds(bytes(4), 7, 9) for _ in range(2))

    made = [one_by_one.make(1_234, 0) for _ in range(5)]

    assert at_once.make_many(1_234, 0, 3) + at_once.make_many(1_234, 0, 2) == made
    assert at_once.make_many(1_234, 0, 0) == []


def test_a_clock_just_before_its_month_counts_as_its_start() -> None:
    ids = UniqueIds(bytes(4), pid=1, constant=1)

    assert ids.make(MONTH_START_MS - 5, MONTH_START_MS)[20:28] == "00000000"


def test_an_address_has_four_or_sixteen_bytes() -> None:
    with pytest.raises(ValueError, match="4 or 16 bytes"):
        UniqueIds(bytes(6), pid=1, constant=1)


@pytest.mark.parametrize("ip_length", [4, 16])
def test_the_time_of_an_id_comes_back(ip_length: int) -> None:
    ids = UniqueIds(bytes(ip_length), pid=1, constant=1)
    made_ms = MONTH_START_MS + 3 * DAY_MS

    text = ids.make(made_ms, MONTH_START_MS)

    assert (
        created_ms(
            text,
            now_ms=made_ms + DAY_MS,
            month_start_ms=MONTH_START_MS,
            previous_month_start_ms=PREVIOUS_MONTH_START_MS,
        )
        == made_ms
    )


def test_an_id_from_later_in_the_month_than_now_is_from_the_month_before() -> None:
    ids = UniqueIds(bytes(4), pid=1, constant=1)
    made_ms = PREVIOUS_MONTH_START_MS + 20 * DAY_MS
    text = ids.make(made_ms, PREVIOUS_MONTH_START_MS)

    found_ms = created_ms(
        text,
        now_ms=MONTH_START_MS + DAY_MS,
        month_start_ms=MONTH_START_MS,
        previous_month_start_ms=PREVIOUS_MONTH_START_MS,
    )

    assert found_ms == made_ms
