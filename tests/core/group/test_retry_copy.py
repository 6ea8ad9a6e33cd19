"""The copy of a failed message says what it copies, how often it was tried, how long it waits."""

from __future__ import annotations

import pytest

from flintmq.core.group.actions import SendBack
from flintmq.core.group.retry_copy import REASON_CHARACTERS_MAX, copy_to_retry, retry_properties
from support.core.messages import QUEUE, received


def test_a_copy_keeps_the_properties_and_says_where_it_comes_from() -> None:
    message = received(5, tags="paid", times=2, color="red", TRAN_MSG="true", MIN_OFFSET="0")

    copy = retry_properties(message, 0, 16)

    assert (copy["TAGS"], copy["color"], copy["UNIQ_KEY"]) == ("paid", "red", message.message_id)
    assert copy["RETRY_TOPIC"] == "orders"
    assert copy["ORIGIN_MESSAGE_ID"] == message.offset_message_id
    assert (copy["RECONSUME_TIME"], copy["MAX_RECONSUME_TIMES"]) == ("3", "16")
    assert "TRAN_MSG" not in copy
    assert "MIN_OFFSET" not in copy


@pytest.mark.parametrize(("level", "times", "delay"), [(0, 0, "3"), (0, 4, "7"), (2, 4, "2")])
def test_the_broker_s_delay_grows_with_every_try(level: int, times: int, delay: str) -> None:
    assert retry_properties(received(5, times=times), level, 16)["DELAY"] == delay


def test_a_copy_of_a_copy_names_the_first_message() -> None:
    message = received(5, RETRY_TOPIC="orders", ORIGIN_MESSAGE_ID="first", times=1)

    copy = retry_properties(message, 0, 16)

    assert (copy["ORIGIN_MESSAGE_ID"], copy["RETRY_TOPIC"]) == ("first", "orders")


@pytest.mark.parametrize("times", [0, 3, 40])
def test_for_the_dead_letters_it_was_tried_more_often_than_allowed(times: int) -> None:
    copy = retry_properties(received(5, times=times), -1, 16)

    assert int(copy["RECONSUME_TIME"]) > int(copy["MAX_RECONSUME_TIMES"]) >= 0


def given_up(reason: str, *, times: int = 0, level: int = -1) -> SendBack:
    return SendBack(QUEUE, received(5, times=times), level, 16, reason, None)


@pytest.mark.parametrize(("times", "level"), [(0, -1), (3, -1), (16, 0), (16, 3), (20, 0)])
def test_a_message_that_is_given_up_carries_its_reason(times: int, level: int) -> None:
    copy = copy_to_retry(given_up("no order", times=times, level=level), "%RETRY%billing")

    assert (copy.properties["DLQ_REASON"], copy.properties["DELAY"]) == ("no order", "0")
    assert int(copy.properties["RECONSUME_TIME"]) > int(copy.properties["MAX_RECONSUME_TIMES"])


@pytest.mark.parametrize(("times", "level"), [(0, 0), (15, 0), (15, 18)])
def test_a_message_that_comes_again_has_none(times: int, level: int) -> None:
    assert (
        "DLQ_REASON" not in copy_to_retry(given_up("no", times=times, level=level), "r").properties
    )


def test_a_reason_is_one_printable_line_of_limited_length() -> None:
    nasty = "a\nb\x01c\x02d" + "x" * 10_000

    reason = copy_to_retry(given_up(nasty), "%RETRY%billing").properties["DLQ_REASON"]

    assert reason.isprintable()
    assert len(reason) == REASON_CHARACTERS_MAX
    assert reason.endswith("…")


def test_a_message_given_up_without_a_reason_says_at_which_try() -> None:
    copy = copy_to_retry(given_up("", times=16, level=0), "%RETRY%billing")

    assert copy.properties["DLQ_REASON"] == "not consumed at try 17"
