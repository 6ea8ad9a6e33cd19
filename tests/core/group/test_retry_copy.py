"""The copy of a failed message says what it copies, how often it was tried, how long it waits."""

from __future__ import annotations

import pytest

from flintmq.core.group.retry_copy import retry_properties
from support.core.messages import received


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
