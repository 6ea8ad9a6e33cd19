"""A record that cannot be decoded holds back commits until it is a dead letter, and no longer."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from flintmq.core.bad_record_rule import broken_frame
from flintmq.core.consumer.process_queue import ProcessQueue
from flintmq.core.consumer.settle_bad_records import AGAIN_MS, REFUSED_MAX, BadAction, BadSettling
from flintmq.core.group.actions import DeadLetterRecord, ReportEvent
from flintmq.core.group.requests import dead_letter_request
from flintmq.model.bad_record import BadRecord
from flintmq.model.host import Host
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.protocol.headers.group import SendBackHeader
from support.core.messages import QUEUE

BAD = replace(
    broken_frame(QUEUE, QueueOffset(7), "no zlib stream"),
    raw=b"record",
    log_offset=LogOffset(1_024),
    store_host=Host.parse("10.0.0.1:10911"),
)


@pytest.fixture
def cached() -> ProcessQueue:
    return ProcessQueue()


@pytest.fixture
def settling(cached: ProcessQueue) -> BadSettling:
    return BadSettling(QUEUE, cached, "home")


def asked(actions: list[BadAction]) -> DeadLetterRecord:
    [ask] = actions
    assert isinstance(ask, DeadLetterRecord)
    return ask


def test_it_is_held_until_the_broker_has_stored_it(
    settling: BadSettling, cached: ProcessQueue
) -> None:
    ask = asked(settling.send_to_dead_letters([BAD]))
    assert (cached.settled_to, settling.in_flight) == (7, 1)

    settling.stored(ask)

    assert (cached.settled_to, settling.in_flight) == (8, 0)


def test_without_an_answer_it_is_asked_again_as_often_as_it_takes(
    settling: BadSettling, cached: ProcessQueue
) -> None:
    ask = asked(settling.send_to_dead_letters([BAD]))
    for number in range(3 * REFUSED_MAX):
        now_ms = number * AGAIN_MS
        [report] = settling.failed(ask, "no answer", now_ms)
        assert isinstance(report, ReportEvent)
        assert settling.next_due_ms() == now_ms + AGAIN_MS
        assert settling.tick(now_ms + AGAIN_MS - 1) == []
        ask = asked(settling.tick(now_ms + AGAIN_MS))
        assert cached.settled_to == 7


def test_a_broker_that_refuses_again_and_again_makes_it_skipped_and_that_is_told(
    settling: BadSettling, cached: ProcessQueue
) -> None:
    ask = asked(settling.send_to_dead_letters([BAD]))
    for _ in range(REFUSED_MAX - 1):
        settling.refused(ask, "look message by offset failed", 0)
        assert cached.settled_to == 7
        ask = asked(settling.tick(AGAIN_MS))

    [report] = settling.refused(ask, "look message by offset failed", 0)

    assert isinstance(report, ReportEvent)
    assert (report.kind, report.level) == ("bad record", logging.ERROR)
    assert "at 7 cannot be decoded: no zlib stream" in report.text
    assert "look message by offset failed" in report.text
    assert (cached.settled_to, settling.next_due_ms(), settling.in_flight) == (8, None, 0)


def test_an_answer_to_a_question_that_is_not_asked_any_more_changes_nothing(
    settling: BadSettling, cached: ProcessQueue
) -> None:
    old = asked(settling.send_to_dead_letters([BAD]))
    settling.failed(old, "no answer", 0)
    new = asked(settling.tick(AGAIN_MS))

    settling.stored(old)
    assert settling.refused(old, "late", 0) == []

    assert cached.settled_to == 7
    settling.stored(new)
    assert cached.settled_to == 8


def test_what_no_broker_could_copy_is_settled_at_once(
    settling: BadSettling, cached: ProcessQueue
) -> None:
    frameless: BadRecord = broken_frame(QUEUE, QueueOffset(7), "bad magic")

    assert settling.send_to_dead_letters([frameless]) == []
    assert cached.settled_to == 8


def test_the_request_names_the_place_of_the_record_and_asks_for_the_dead_letters() -> None:
    ask = DeadLetterRecord(QUEUE, BAD, 0, None)

    header = dead_letter_request(ask, "billing", 16).header(SendBackHeader)

    assert (header.offset, header.group, header.delay_level) == (1_024, "billing", -1)
    assert header.origin_msg_id == "0A00000100002A9F0000000000000400"
    assert header.origin_topic == QUEUE.topic
