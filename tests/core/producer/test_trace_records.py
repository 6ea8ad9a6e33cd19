"""Traces are written as RocketMQ's clients write them, read back whole, and kept within limits."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.core.group.listener_results import ReturnKind
from flintmq.core.producer.send_draft import DraftRules, draft_half, draft_message
from flintmq.core.producer.trace_reader import read_trace
from flintmq.core.producer.trace_records import (
    BODY_BYTES_MAX,
    KEYS_BYTES_MAX,
    ConsumedRecord,
    Consuming,
    Happening,
    MessageKind,
    Published,
    Record,
    TransactionEnded,
    kind_of,
    pack,
    traced_to,
    write_record,
)
from flintmq.core.producer.transaction import TransactionState
from flintmq.errors import InvalidName
from flintmq.model import properties as names
from flintmq.model.message import Message

PUBLISHED = Published(
    at_ms=1_700_000_000_000,
    region="DefaultRegion",
    group="shop",
    topic="orders",
    message_id="AC11",
    tags="paid",
    keys="k1 k2",
    store_host="10.0.0.1:10911",
    body_bytes=5,
    spent_ms=7,
    kind=MessageKind.DELAYED,
    offset_message_id="0A00",
    success=True,
)
CONSUMING = Consuming(
    at_ms=1_700_000_000_001,
    region=None,
    group="readers",
    request_id="R1",
    message_id="AC11",
    retry_times=2,
    keys=None,
)
CONSUMED = ConsumedRecord(
    request_id="R1",
    message_id="AC11",
    spent_ms=3,
    success=False,
    keys="k1",
    returned=ReturnKind.EXCEPTION,
    at_ms=1_700_000_000_002,
    group="readers",
)
ENDED = TransactionEnded(
    at_ms=1_700_000_000_003,
    region="DefaultRegion",
    group="bank",
    topic="paid",
    message_id="AC12",
    tags=None,
    keys="k3",
    store_host="10.0.0.1:10911",
    kind=MessageKind.ENDED,
    transaction_id="AC12",
    state=TransactionState.COMMIT,
    from_check=False,
)
ALL: list[Record] = [PUBLISHED, CONSUMING, CONSUMED, ENDED]


def fields(record: Record) -> list[str]:
    text = write_record(record)
    assert text.endswith("\x02")
    return text[:-1].split("\x01")


def test_fields_stand_in_the_order_of_rocketmq() -> None:
    stored = ["10.0.0.1:10911", "5", "7", "3", "0A00", "true"]

    assert fields(PUBLISHED) == [
        *("Pub", "1700000000000", "DefaultRegion", "shop", "orders", "AC11", "paid", "k1 k2"),
        *stored,
    ]
    assert fields(CONSUMING) == [
        *("SubBefore", "1700000000001", "null", "readers", "R1", "AC11", "2", "null"),
    ]
    assert fields(CONSUMED) == [
        *("SubAfter", "R1", "AC11", "3", "false", "k1", "2", "1700000000002", "readers"),
    ]
    assert fields(ENDED) == [
        *("EndTransaction", "1700000000003", "DefaultRegion", "bank", "paid", "AC12", "null"),
        *("k3", "10.0.0.1:10911", "2", "AC12", "COMMIT_MESSAGE", "false"),
    ]


def test_a_body_of_all_kinds_is_read_back() -> None:
    assert read_trace("".join(map(write_record, ALL))).records == ALL


TEXTS = st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8"), max_size=20).filter(
    lambda text: text != "null"
)
NUMBERS = st.integers(0, 2**40)


@settings(max_examples=50)
@given(
    st.builds(
        Published,
        at_ms=NUMBERS,
        region=TEXTS | st.none(),
        group=TEXTS,
        topic=TEXTS,
        message_id=TEXTS,
        tags=TEXTS | st.none(),
        keys=TEXTS | st.none(),
        store_host=TEXTS,
        body_bytes=NUMBERS,
        spent_ms=NUMBERS,
        kind=st.sampled_from(MessageKind),
        offset_message_id=TEXTS | st.none(),
        success=st.booleans(),
    ),
    st.builds(
        ConsumedRecord,
        request_id=TEXTS,
        message_id=TEXTS,
        spent_ms=NUMBERS,
        success=st.booleans(),
        keys=TEXTS | st.none(),
        returned=st.sampled_from(ReturnKind),
        at_ms=NUMBERS,
        group=TEXTS | st.none(),
    ),
)
def test_what_is_written_is_read(published: Published, consumed: ConsumedRecord) -> None:
    assert read_trace(write_record(published) + write_record(consumed)).records == [
        published,
        consumed,
    ]


@pytest.mark.parametrize(
    ("number", "kind"),
    list(enumerate(["SUCCESS", "TIME_OUT", "EXCEPTION", "RETURNNULL", "FAILED"])),
)
def test_how_a_listener_ended_is_a_number(number: int, kind: str) -> None:
    record = ConsumedRecord("r", "m", 0, True, None, ReturnKind(kind), 0, "g")

    assert fields(record)[6] == str(number)


def test_text_of_a_user_cannot_tear_a_record_apart() -> None:
    record = Consuming(1, "r", "g", "q", "m", 0, "a\x01b\x02Pub\x01")

    assert fields(record)[7] == "abPub"


def happening(
    topic: str, *ids: str, region: str | None = "r", keys: str | None = None
) -> Happening:
    records = tuple(Consuming(0, region, "g", "q", each, 0, keys) for each in ids)
    return Happening(topic, region, records)


def test_a_message_has_one_topic_and_region_and_its_ids_and_keys() -> None:
    packed = pack(
        [
            happening("a", "1", keys="x y"),
            happening("b", "2"),
            happening("a", "3", "1", keys="y"),
            happening("a", "4", region=None),
        ]
    )

    assert [each.keys for each in packed] == [("1", "x", "y", "3"), ("2",), ("4",)]
    assert [each.record_count for each in packed] == [3, 1, 1]
    ids = [each.message_id for each in read_trace(packed[0].body.decode()).records]
    assert ids == ["1", "3", "1"]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 300), max_size=20), st.integers(0, 2_000))
def test_no_message_is_over_its_limits_and_none_is_lost(sizes: list[int], width: int) -> None:
    happenings = [
        happening("t", *(f"{number}-{each}" for each in range(size)), keys="ü" * width)
        for number, size in enumerate(sizes)
    ]

    packed = pack(happenings)

    written = [record for each in packed for record in read_trace(each.body.decode()).records]
    assert written == [record for each in happenings for record in each.records]
    for each in packed:
        assert len(each.body) <= BODY_BYTES_MAX
        assert len(" ".join(each.keys).encode()) <= KEYS_BYTES_MAX
        ids = {record.message_id for record in read_trace(each.body.decode()).records}
        assert ids <= set(each.keys)
    for one, two in pairwise(packed):
        bodies_bytes = len(one.body) + len(two.body)
        keys_bytes = len(" ".join(one.keys + two.keys).encode())
        assert bodies_bytes > BODY_BYTES_MAX or keys_bytes >= KEYS_BYTES_MAX - 2


def test_keys_that_can_never_fit_are_left_out() -> None:
    (packed,) = pack([happening("t", "id", keys="x" * KEYS_BYTES_MAX + " short")])

    assert packed.keys == ("id", "short")


def test_the_kind_of_a_message_is_what_makes_it_special() -> None:
    rules = DraftRules()
    plain, later = Message("t", b"x"), Message("t", b"x", delay_level=1)
    timed = Message("t", b"x", delay_ms=1_000)
    half = draft_half(plain, "t", group="g", unique_id="i", now_ms=0, rules=rules)

    def kind(message: Message, extra: dict[str, str] | None = None) -> MessageKind:
        draft = draft_message(message, "t", unique_id="i", now_ms=0, rules=rules, extra=extra)
        return kind_of(message, draft)

    assert kind(plain) is MessageKind.NORMAL
    assert kind_of(plain, half) is MessageKind.HALF
    assert kind(later) is kind(timed) is MessageKind.DELAYED
    assert kind(plain, {names.SHARDING_KEY: "k"}) is MessageKind.ORDERED


def test_a_topic_of_ones_own_turns_traces_on() -> None:
    assert traced_to(False, None) is None
    assert traced_to(True, None) == "RMQ_SYS_TRACE_TOPIC"
    assert traced_to(False, "my-traces") == "my-traces"
    with pytest.raises(InvalidName):
        traced_to(True, "no spaces")
