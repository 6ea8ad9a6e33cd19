"""A bit set of acknowledgements is Java's, and names the offsets that were meant."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import MalformedBody
from flintmq.protocol.bodies.pop import BatchAck, BatchAcks, pack_bits


def test_bits_count_from_the_start_offset() -> None:
    acks = BatchAcks.from_body(
        b'{"acks":[{"b":"CQAC","c":"g","it":60000,"pt":1,"q":2,"r":"1","rq":3,"so":100,"t":"o"}],'
        b'"brokerName":"a"}'
    )

    (ack,) = acks.acks
    assert list(ack.queue_offsets()) == [100, 103, 117]
    assert (ack.consumer_group, ack.topic, ack.queue_id, ack.retry) == ("g", "o", 2, "1")


def test_long_names_mean_the_same_and_may_be_mixed_with_short_ones() -> None:
    short = BatchAcks.from_body(
        b'{"acks":[{"b":"CQAC","c":"g","it":60000,"pt":1,"q":2,"r":"1","rq":3,"so":100,"t":"o"}],'
        b'"brokerName":"a"}'
    )
    for text in (
        (
            '{"acks":[{"bitSet":"CQAC","consumerGroup":"g","invisibleTime":60000,"popTime":1,'
            '"queueId":2,"retry":"1","reviveQueueId":3,"startOffset":100,"topic":"o"}],'
            '"brokerName":"a"}'
        ),
        (
            '{"acks":[{"b":"CQAC","c":"g","it":60000,"pt":1,"q":2,"r":"1","rq":3,"startOffset":100,'
            '"t":"o","topic":"another"}],"brokerName":"a"}'
        ),
        (
            "{acks:[{b:'CQAC',c:'g',it:60000,pt:1,q:2,r:'1',rq:3,startOffset :100,t:'o'}],"
            "brokerName:'a'}"
        ),
    ):
        assert BatchAcks.from_body(text.encode()) == short


@pytest.mark.parametrize("entry", ["7", "[]", '{"topic":"t"}', '{"topic":"t","c":"g","q":"x"}'])
def test_an_entry_that_is_none_is_refused(entry: str) -> None:
    with pytest.raises(MalformedBody):
        BatchAcks.from_body(b'{"acks":[%s],"topic":1,"brokerName":"a"}' % entry.encode())


@given(st.sets(st.integers(0, 300)), st.integers(0, 2**40))
@settings(max_examples=60, deadline=None)
def test_packed_numbers_come_back_in_order(numbers: set[int], start: int) -> None:
    ack = BatchAck(
        bits=pack_bits(numbers), consumer_group="g", queue_id=0, start_offset=start, topic="t"
    )

    assert list(ack.queue_offsets()) == [start + number for number in sorted(numbers)]
    assert not ack.bits or ack.bits[-1] != 0


def test_what_is_no_base64_is_refused() -> None:
    with pytest.raises(MalformedBody):
        BatchAcks.from_body(b'{"acks":[{"b":"?","c":"g","q":2,"t":"o"}],"brokerName":"a"}')
