"""What leaves a producer is checked, named and packed, and the same for every try."""

from __future__ import annotations

import pytest

from flintmq.core.producer.send_draft import (
    DraftRules,
    draft_batches,
    draft_half,
    draft_message,
    draft_stored,
)
from flintmq.errors import BodyTooLarge, InvalidMessage, InvalidSetting
from flintmq.model.message import Message
from flintmq.model.sys_flag import Compression, TransactionType, compression
from flintmq.protocol.compression import unpack
from flintmq.protocol.records.batch import decode_batch
from flintmq.protocol.records.properties import parse_properties

RULES = DraftRules()

pytestmark = pytest.mark.usefixtures("each_kernel")


def test_all_that_a_message_says_becomes_properties() -> None:
    message = Message(
        "t",
        b"body",
        tags="paid",
        keys=["k1", "k2"],
        properties={"colour": "rød", "odd": "a\x01b"},
        flag=3,
        delay_level=4,
        wait_stored=False,
    )

    draft = draft_message(
        message, "ns%t", unique_id="ID", now_ms=5, rules=DraftRules(instance_id="ns")
    )

    assert (draft.topic, draft.body, draft.flag, draft.born_ms) == ("ns%t", b"body", 3, 5)
    assert (draft.code, draft.sys_flag, draft.message_id) == (310, 0, "ID")
    assert parse_properties(draft.properties) == {
        "UNIQ_KEY": "ID",
        "WAIT": "false",
        "TAGS": "paid",
        "KEYS": "k1 k2",
        "DELAY": "4",
        "INSTANCE_ID": "ns",
        "colour": "rød",
        "odd": "a\x01b",
    }
    assert parse_properties(draft.properties) == {
        **message.all_properties(),
        "UNIQ_KEY": "ID",
        "INSTANCE_ID": "ns",
    }


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (Message("t", b"x", delay_ms=5), "TIMER_DELAY_MS"),
        (Message("t", b"x", deliver_at_ms=5), "TIMER_DELIVER_MS"),
    ],
)
def test_a_timed_message_is_marked_as_such(message: Message, name: str) -> None:
    draft = draft_message(message, "t", unique_id="ID", now_ms=0, rules=RULES)

    assert draft.is_timed
    assert parse_properties(draft.properties)[name] == "5"


@pytest.mark.parametrize(("size_bytes", "is_packed"), [(4_095, False), (4_096, True)])
def test_bodies_of_4096_bytes_and_more_are_packed(size_bytes: int, is_packed: bool) -> None:
    body = b"x" * size_bytes

    draft = draft_message(Message("t", body), "t", unique_id="ID", now_ms=0, rules=RULES)

    assert (compression(draft.sys_flag) is Compression.ZLIB) == is_packed
    assert (unpack(draft.body, Compression.ZLIB, 10_000) if is_packed else draft.body) == body
    assert draft.sys_flag == (0x301 if is_packed else 0)


def test_a_body_that_does_not_shrink_is_left_alone() -> None:
    body = bytes(number * number % 251 for number in range(256)) * 16
    rules = DraftRules(compression_level=0)

    draft = draft_message(Message("t", body), "t", unique_id="ID", now_ms=0, rules=rules)

    assert draft.body == body
    assert draft.sys_flag == 0


def test_other_compressions_can_be_chosen() -> None:
    rules = DraftRules(compression=Compression.ZSTD, compress_from_bytes=10)

    draft = draft_message(Message("t", b"x" * 100), "t", unique_id="ID", now_ms=0, rules=rules)

    assert unpack(draft.body, Compression.ZSTD, 1_000) == b"x" * 100


def test_a_body_too_large_is_refused() -> None:
    with pytest.raises(BodyTooLarge):
        draft_message(
            Message("t", b"x" * 11),
            "t",
            unique_id="ID",
            now_ms=0,
            rules=DraftRules(message_bytes_max=10),
        )


def test_properties_over_the_limit_of_a_record_are_refused() -> None:
    message = Message("t", b"x", tags="é" * 16_000, properties={"long": "e" * 20_000})

    with pytest.raises(InvalidMessage, match="32767"):
        draft_message(message, "t", unique_id="ID", now_ms=0, rules=RULES)
    draft_message(
        Message("t", b"x", properties={"long": "e" * 20_000}),
        "t",
        unique_id="ID",
        now_ms=0,
        rules=RULES,
    )


def test_a_half_message_says_whose_it_is() -> None:
    draft = draft_half(Message("t", b"x"), "t", group="bank", unique_id="ID", now_ms=0, rules=RULES)

    properties = parse_properties(draft.properties)
    assert (properties["TRAN_MSG"], properties["PGROUP"]) == ("true", "bank")
    assert draft.sys_flag == TransactionType.PREPARED


def test_a_half_message_cannot_be_delayed() -> None:
    with pytest.raises(InvalidSetting, match="not delayed"):
        draft_half(
            Message("t", b"x", delay_level=1),
            "t",
            group="bank",
            unique_id="ID",
            now_ms=0,
            rules=RULES,
        )


def test_a_retried_message_carries_its_counts_in_the_header() -> None:
    properties = {"RECONSUME_TIME": "3", "MAX_RECONSUME_TIMES": "16", "UNIQ_KEY": "ID", "a": "b"}

    draft = draft_stored("%RETRY%g", b"x", properties, now_ms=0, flag=1, sys_flag=8)
    plain = draft_stored("t", b"x", properties, now_ms=0)

    assert (draft.reconsume_times, draft.max_reconsume_times) == (3, 16)
    assert parse_properties(draft.properties) == {"UNIQ_KEY": "ID", "a": "b"}
    assert (draft.message_id, draft.flag, draft.sys_flag) == ("ID", 1, 8)
    assert (plain.reconsume_times, plain.max_reconsume_times) == (0, None)
    assert parse_properties(plain.properties) == properties


def batches(messages: list[Message], **rules: int) -> list[tuple[int, list[bytes]]]:
    drafts = draft_batches(
        messages,
        "t",
        unique_ids=[f"ID{number}" for number in range(len(messages))],
        now_ms=9,
        rules=DraftRules(**rules),  # type: ignore[arg-type]  # only numbers are given here
    )
    found = []
    for draft in drafts:
        entries = decode_batch(draft.body)
        assert draft.is_batch
        assert draft.code == 320
        assert draft.count == len(entries) == len(draft.message_id.split(","))
        ids = [parse_properties(entry.properties)["UNIQ_KEY"] for entry in entries]
        assert ",".join(ids) == draft.message_id
        found.append((draft.count, [entry.body for entry in entries]))
    return found


def test_a_batch_holds_messages_in_their_order() -> None:
    messages = [Message("t", b"one", tags="a"), Message("t", b"two", flag=7)]

    assert batches(messages) == [(2, [b"one", b"two"])]


def test_each_message_of_a_batch_has_its_own_properties() -> None:
    messages = [
        Message("t", b"0", tags="a"),
        Message("t", b"1", tags="a"),
        Message("t", b"2", tags="a", keys="k"),
        Message("t", b"3", tags="a", properties={"p": "v"}),
        Message("t", b"4", tags="a"),
        Message("t", b"5", tags="b"),
        Message("t", b"6"),
        Message("t", b"7"),
    ]
    ids = [f"ID{number}" for number in range(len(messages))]

    (draft,) = draft_batches(messages, "t", unique_ids=ids, now_ms=0, rules=RULES)

    for message, unique_id, entry in zip(messages, ids, decode_batch(draft.body), strict=True):
        expected = {**message.all_properties(), "UNIQ_KEY": unique_id}
        assert parse_properties(entry.properties) == expected
        assert entry.body == message.body


def test_a_batch_over_the_limit_becomes_several() -> None:
    messages = [Message("t", bytes([number]) * 400) for number in range(5)]

    found = batches(messages, batch_bytes_max=1_000)

    assert [number for number, _ in found] == [2, 2, 1]
    assert [body for _, bodies in found for body in bodies] == [each.body for each in messages]


def test_a_message_larger_than_a_batch_goes_alone() -> None:
    messages = [Message("t", b"a"), Message("t", b"x" * 5_000), Message("t", b"b")]

    assert [number for number, _ in batches(messages, batch_bytes_max=1_000)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([Message("t", b"x"), Message("u", b"x")], "one topic"),
        ([Message("t", b"x"), Message("t", b"x", wait_stored=False)], "wait_stored"),
        ([Message("t", b"x", delay_level=1)], "not delayed"),
        ([Message("t", b"x", delay_ms=1)], "not delayed"),
    ],
)
def test_what_does_not_go_together_is_no_batch(messages: list[Message], reason: str) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        batches(messages)


def test_neither_nothing_nor_a_retry_topic_makes_a_batch() -> None:
    with pytest.raises(InvalidMessage, match="needs a message"):
        batches([])
    with pytest.raises(InvalidSetting, match="one by one"):
        draft_batches(
            [Message("%RETRY%g", b"x")], "%RETRY%g", unique_ids=["ID"], now_ms=0, rules=RULES
        )


def test_rules_that_cannot_be_meant_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="message_bytes_max"):
        DraftRules(message_bytes_max=0)
    with pytest.raises(InvalidSetting, match="compression_level"):
        DraftRules(compression_level=10)
