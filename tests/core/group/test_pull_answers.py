"""A pull's answer is one of four things, and whatever else a broker says is raised."""

from __future__ import annotations

import pytest

from flintmq.core.group.pull_answers import (
    MessagesFound,
    NoneMatched,
    NoNewMessage,
    OffsetMoved,
    Unreadable,
    read_pull_answer,
)
from flintmq.errors import BrokerRefused, MalformedHeader, RemoteProtocolError
from flintmq.model.host import Host
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.protocol.command import Command
from flintmq.protocol.headers.pull import PullAnswer
from flintmq.protocol.records.record import Record, Version, crc_of, encode_record
from support.core.messages import QUEUE
from support.core.peers import no, ok

HOST = Host.parse("127.0.0.1:10911")


def record(offset: int, body: bytes = b"hello") -> bytes:
    return encode_record(
        Record(
            version=Version.V1,
            body_crc=crc_of(body),
            queue_id=0,
            flag=0,
            queue_offset=QueueOffset(offset),
            log_offset=LogOffset(offset * 100),
            sys_flag=0,
            born_ms=1,
            born_host=HOST,
            store_ms=2,
            store_host=HOST,
            reconsume_times=0,
            prepared_offset=LogOffset(0),
            body=body,
            topic="orders",
            properties=b"",
        )
    )


def reply(code: int, next_offset: int = 9, body: bytes = b"") -> Command:
    header = PullAnswer(
        suggest_which_broker_id=1, next_begin_offset=next_offset, min_offset=2, max_offset=40
    )
    return ok(header, body, code=code)


@pytest.mark.parametrize(
    ("code", "kind"), [(19, NoNewMessage), (20, NoneMatched), (21, OffsetMoved)]
)
def test_an_answer_without_messages_says_where_to_go_on(code: int, kind: type[object]) -> None:
    answer = read_pull_answer(reply(code), QUEUE, "b:1")

    assert type(answer) is kind
    assert (answer.next_offset, answer.broker_id) == (9, 1)
    assert (answer.min_offset, answer.max_offset) == (2, 40)


def test_messages_come_with_the_queue_that_was_asked() -> None:
    answer = read_pull_answer(reply(0, body=record(7) + record(8)), QUEUE, "b:1")

    assert isinstance(answer, MessagesFound)
    assert [message.queue_offset for message in answer.messages] == [7, 8]
    assert answer.messages[0].broker == "broker-a"
    assert answer.messages[0].properties["MAX_OFFSET"] == "40"
    assert answer.fault is None


def test_what_follows_a_broken_record_is_pulled_again() -> None:
    answer = read_pull_answer(reply(0, body=record(7) + b"\0" * 100), QUEUE, "b:1")

    assert isinstance(answer, MessagesFound)
    assert (len(answer.messages), answer.next_offset) == (1, 8)
    assert answer.fault is not None


def test_an_answer_of_nothing_readable_says_so_and_where_it_would_lead() -> None:
    answer = read_pull_answer(reply(0, body=b"\0" * 100), QUEUE, "b:1")

    assert isinstance(answer, Unreadable)
    assert (answer.next_offset, answer.max_offset) == (9, 40)
    assert answer.fault.reason


def test_bad_records_come_beside_the_messages_and_the_answer_leads_past_them() -> None:
    wrong = bytearray(record(8))
    wrong[8:12] = b"\0\0\0\1"  # its checksum

    answer = read_pull_answer(reply(0, body=record(7) + bytes(wrong)), QUEUE, "b:1")

    assert isinstance(answer, MessagesFound)
    assert ([m.queue_offset for m in answer.messages], answer.next_offset) == ([7], 9)
    assert [(bad.queue_offset, bad.broker) for bad in answer.bad] == [(8, "broker-a")]
    assert answer.fault is None


def test_a_broken_frame_behind_a_bad_record_is_pulled_again_from_there() -> None:
    wrong = bytearray(record(7))
    wrong[8:12] = b"\0\0\0\1"

    answer = read_pull_answer(reply(0, body=bytes(wrong) + b"\0" * 100), QUEUE, "b:1")

    assert isinstance(answer, MessagesFound)
    assert (len(answer.bad), answer.next_offset) == (1, 8)
    assert answer.fault is not None


def test_any_other_code_is_a_refusal_with_the_address() -> None:
    with pytest.raises(BrokerRefused) as caught:
        read_pull_answer(no(25, "the consumer's subscription not latest"), QUEUE, "b:1")

    assert (caught.value.code, caught.value.address) == (25, "b:1")


def test_a_header_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="-5"):
        read_pull_answer(reply(19, -5), QUEUE, "b:1")
    with pytest.raises(MalformedHeader):
        read_pull_answer(ok(code=19), QUEUE, "b:1")


def test_a_small_answer_with_more_behind_it_is_a_part() -> None:
    few, many = record(7), b"".join(map(record, range(7, 72)))

    def is_part(next_offset: int, body: bytes) -> bool:
        answer = read_pull_answer(reply(0, next_offset, body), QUEUE, "b:1")
        assert isinstance(answer, MessagesFound)
        return answer.is_part

    assert is_part(8, few)
    assert not is_part(40, few)  # the end of the queue
    assert not is_part(8, many)
