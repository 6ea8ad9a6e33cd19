"""Handles, offset texts, retry topics and journal bodies are those of a running 5.3.3."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import MalformedHeader
from flintmq.model import properties as names
from flintmq.model.host import Host
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.protocol.bodies.body import Body
from flintmq.protocol.headers.pop import InvisibleTimeAnswer, PopAnswer
from flintmq.protocol.pop.journal import (
    AckRecord,
    CheckpointRecord,
    PopKey,
    ack_of,
    checkpoint_of,
    revive_topic,
)
from flintmq.protocol.pop.offset_texts import (
    MarkedQueue,
    message_offsets_entry,
    order_count_entries,
    parse_message_offsets,
    parse_order_counts,
    parse_start_offsets,
    start_offset_entry,
)
from flintmq.protocol.pop.receipts import ReceiptHandle, receipts_of
from flintmq.protocol.pop.retry_topics import (
    mark_of,
    marked_topic,
    retry_topic_v1,
    retry_topic_v2,
    topic_behind,
)

POPPED_MS = 1794845719458
KEY = PopKey("T", "G", 0, 0, POPPED_MS, "broker-a")
HOST = Host.parse("127.0.0.1:10911")


def message(offset: int, properties: dict[str, str] | None = None) -> ReceivedMessage:
    return ReceivedMessage(
        "T", "broker-a", 0, QueueOffset(offset), LogOffset(0), b"", properties or {},
        0, 0, 0, HOST, 0, HOST, 0, LogOffset(0), 0,
    )  # fmt: skip


def test_a_checkpoint_is_written_as_the_real_broker_writes_it() -> None:
    checkpoint = checkpoint_of(KEY, [0, 1, 2], 6000)

    assert checkpoint.to_body() == (
        b'{"bm":0,"bn":"broker-a","c":"G","d":[0,1,2],"it":6000,"n":3,"pt":1794845719458,"q":0,'
        b'"reviveTime":1794845725458,"ro":0,"so":0,"t":"T"}'
    )
    assert checkpoint.unique_key == "T@0@0@G@1794845719458@broker-a@ck"
    assert CheckpointRecord.from_body(checkpoint.to_body()) == checkpoint
    assert (checkpoint.key, checkpoint.due_ms) == (KEY, 1794845725458)


def test_an_acknowledgement_is_written_as_the_real_broker_writes_it() -> None:
    one, several = ack_of(KEY, [0]), ack_of(KEY, [1, 2])

    assert one.to_body() == (
        b'{"ao":0,"bn":"broker-a","c":"G","pt":1794845719458,"q":0,"so":0,"t":"T"}'
    )
    assert one.unique_key == "T@0@0@G@1794845719458@broker-a@ack"
    assert several.to_body() == (
        b'{"ao":-1,"aol":[1,2],"bn":"broker-a","c":"G","pt":1794845719458,"q":0,"so":0,"t":"T"}'
    )
    assert several.unique_key == "T@0@-1@G@1794845719458@broker-a@ack"
    assert (one.tag, several.tag) == ("ack", "bAck")
    for ack, offsets in ((one, [0]), (several, [1, 2])):
        read = AckRecord.from_body(ack.to_body())
        assert (read.key, list(read.acked_offsets())) == (KEY, offsets)


def test_all_bits_of_a_checkpoint_fit_javas_signed_number() -> None:
    checkpoint = checkpoint_of(KEY, range(32), 6000, acked=(1 << 31) | 1)

    assert checkpoint.bit_map == -(2**31) + 1
    again = CheckpointRecord.from_body(checkpoint.to_body())
    assert again.unacked_offsets == list(range(1, 31))


def test_a_checkpoint_without_distances_counts_from_its_start() -> None:
    body = b'{"bn":"b","c":"G","it":1,"n":3,"pt":5,"q":0,"so":7,"t":"T","rp":"1"}'
    assert CheckpointRecord.from_body(body).offsets == [7, 8, 9]


def test_a_handle_is_eight_fields_and_a_ninth_of_a_proxy_is_kept() -> None:
    text = f"0 {POPPED_MS} 6000 0 0 broker-a 0 2"
    handle = ReceiptHandle.parse(text)

    assert handle == ReceiptHandle(0, POPPED_MS, 6000, 0, "0", "broker-a", 0, 2)
    assert (handle.text, handle.expires_ms, handle.is_ordered) == (text, POPPED_MS + 6000, False)
    assert ReceiptHandle.parse(text + " 4096").log_offset == 4096
    assert ReceiptHandle.parse(text + " 4096").text == text + " 4096"


@pytest.mark.parametrize("text", ["", "0 1 2 3 0 b 0", "0 1 2 3 0 b 0 x", "0 1 2 3 0 b 0 1 2 3"])
def test_what_is_no_handle_is_refused(text: str) -> None:
    with pytest.raises(MalformedHeader):
        ReceiptHandle.parse(text)


def test_a_renewed_handle_starts_at_its_own_message() -> None:
    old = ReceiptHandle.parse(f"0 {POPPED_MS} 6000 3 1 broker-a 0 2")
    answer = InvisibleTimeAnswer(pop_time=POPPED_MS + 9, invisible_time=70, revive_qid=3)
    assert old.renewed(answer).text == f"2 {POPPED_MS + 9} 70 3 1 broker-a 0 2"


def test_offset_texts_are_read_and_written() -> None:
    one, two = MarkedQueue("0", 1), MarkedQueue("0", 0)
    assert parse_start_offsets("0 1 0;0 0 4") == {one: 0, two: 4}
    assert parse_message_offsets("0 1 0,1;0 0 4,5,6") == {one: (0, 1), two: (4, 5, 6)}
    assert ";".join([start_offset_entry(one, 0), start_offset_entry(two, 4)]) == "0 1 0;0 0 4"
    assert message_offsets_entry(two, [4, 5, 6]) == "0 0 4,5,6"
    assert parse_start_offsets("") == parse_start_offsets(None) == {}


def test_order_counts_name_offsets_and_then_the_queue() -> None:
    queue = MarkedQueue("0", 0)
    assert order_count_entries(queue, [2, 3], {2: 1}) == "0 qo0%2 1;0 0 0"
    counts = parse_order_counts("0 qo0%2 1;0 0 0")
    assert (counts.times(queue, 2), counts.times(queue, 3)) == (1, 0)


@pytest.mark.parametrize("text", ["0 0 1;0 0 2", "0 0", "0 x 1", "0 0 y", "0 0 1;"])
def test_texts_that_cannot_be_meant_are_refused(text: str) -> None:
    with pytest.raises(MalformedHeader):
        parse_start_offsets(text)


def test_retry_topics_have_two_forms_and_a_mark() -> None:
    v1, v2 = retry_topic_v1("G", "T"), retry_topic_v2("G", "T")
    assert (v1, v2) == ("%RETRY%G_T", "%RETRY%G+T")
    assert [mark_of(topic) for topic in ("T", v1, v2)] == ["0", "1", "2"]
    assert [marked_topic(mark, "G", "T") for mark in "012"] == ["T", v1, v2]
    assert topic_behind(v1, "G") == topic_behind(v2, "G") == "T"
    assert topic_behind("%RETRY%G", "G") is None
    assert revive_topic("DefaultCluster") == "rmq_sys_REVIVE_LOG_DefaultCluster"
    with pytest.raises(MalformedHeader):
        marked_topic("3", "G", "T")


def test_a_client_makes_handles_from_the_answer() -> None:
    answer = PopAnswer(
        pop_time=POPPED_MS, invisible_time=6000, revive_qid=0, rest_num=1,
        start_offset_info="0 0 0;1 0 0", msg_offset_info="0 0 1,2;1 0 1",
    )  # fmt: skip
    carried = "0 1794845729464 30000 3 1 broker-a 0 1"
    messages = [
        message(1),
        message(2, {names.FIRST_POP_TIME: "17"}),
        message(1, {names.POP_CK: carried}),
    ]

    receipts = receipts_of(answer, messages, "broker-a")

    assert [receipt.handle.text for receipt in receipts] == [
        f"0 {POPPED_MS} 6000 0 0 broker-a 0 1",
        f"0 {POPPED_MS} 6000 0 0 broker-a 0 2",
        carried,
    ]
    assert [receipt.first_pop_ms for receipt in receipts] == [POPPED_MS, 17, POPPED_MS]
    assert receipts[2].handle.topic("G", "T") == "%RETRY%G_T"


def test_ordered_messages_are_counted_by_the_answer() -> None:
    answer = PopAnswer(
        pop_time=1, invisible_time=2, revive_qid=999, rest_num=0,
        start_offset_info="0 0 2", msg_offset_info="0 0 2,3", order_count_info="0 qo0%2 4;0 0 0",
    )  # fmt: skip
    receipts = receipts_of(answer, [message(2), message(3)], "b")
    assert [receipt.reconsume_times for receipt in receipts] == [4, 0]
    assert all(receipt.handle.is_ordered for receipt in receipts)


def test_a_message_that_the_answer_does_not_tell_of_is_refused() -> None:
    answer = PopAnswer(
        pop_time=1, invisible_time=2, revive_qid=0, rest_num=0,
        start_offset_info="0 1 0", msg_offset_info="0 1 0",
    )  # fmt: skip
    with pytest.raises(MalformedHeader, match="queue 0"):
        receipts_of(answer, [message(0)], "b")


@given(
    st.tuples(*[st.integers(0, 2**62)] * 3, st.integers(0, 999)),
    st.sampled_from("012"),
    st.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**62),
    st.none() | st.integers(0, 2**62),
)
@settings(max_examples=60, deadline=None)
def test_handles_survive_their_text(
    numbers: tuple[int, int, int, int],
    mark: str,
    broker: str,
    queue_id: int,
    offset: int,
    log_offset: int | None,
) -> None:
    handle = ReceiptHandle(*numbers, mark, broker, queue_id, offset, log_offset)
    assert ReceiptHandle.parse(handle.text) == handle


@pytest.mark.parametrize("name", ["orders", "b\u00fccher", 'a"b\\c', "\ud800", "tab\there"])
def test_an_acknowledgement_is_written_as_every_body_is(name: str) -> None:
    """It has a writer of its own, because there is one for each message."""
    ack = ack_of(PopKey(name, f"g-{name}", 3, 17, 1_794_845_719_458, f"b-{name}"), [19])

    assert ack.to_body() == Body.to_body(ack)
