"""Every request that can be typed is, and an answer has the header that its code promises."""

from __future__ import annotations

import pytest

from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.headers.common_headers import NoFields
from flintmq.protocol.headers.lookup import QueryAnswer
from flintmq.protocol.headers.offset import OffsetAnswer
from flintmq.protocol.headers.pop import PopAnswer
from flintmq.protocol.headers.pull import PullAnswer, PullMessage, PullRefusal
from flintmq.protocol.headers.send import SendAnswer, SendMessage, SendMessageV2, SendRefusal
from support.protocol.answer_headers import (
    ANSWER_HEADERS,
    GIVING_CODES,
    REFUSAL_HEADERS,
    answer_header,
)

UNTYPED = {
    513,  # static topics
    *(906, 908),  # between replicas of a controller
    *range(2001, 2005),  # cold data
}


def test_every_request_is_typed_but_those_we_leave_out_on_purpose() -> None:
    assert {int(code) for code in RequestCode} - set(REQUEST_HEADERS) == UNTYPED


def test_every_typed_request_has_a_typed_answer() -> None:
    assert ANSWER_HEADERS.keys() == REQUEST_HEADERS.keys() == GIVING_CODES.keys()
    assert REFUSAL_HEADERS.keys() <= REQUEST_HEADERS.keys()


def test_answers_with_fields_are_those_of_the_protocol() -> None:
    with_fields = {int(code) for code, kind in ANSWER_HEADERS.items() if kind is not NoFields}

    assert with_fields == {
        *(10, 310, 320, 324, 325, 370),  # sends
        *(11, 361, 200050, 200053, 200054, 200055),  # pulls and pops
        *(12, 14, 29, 30, 31, 32),  # lookups
        *(26, 34, 52, 101, 103, 205, 322, 327),  # the rest
    }


@pytest.mark.parametrize("code", [10, 324])
def test_long_names_go_with_the_first_send_codes(code: int) -> None:
    assert REQUEST_HEADERS[RequestCode(code)] is SendMessage


@pytest.mark.parametrize("code", [310, 320, 325])
def test_letters_go_with_the_later_ones(code: int) -> None:
    assert REQUEST_HEADERS[RequestCode(code)] is SendMessageV2


@pytest.mark.parametrize("code", [11, 361])
def test_a_lite_pull_is_a_pull(code: int) -> None:
    assert REQUEST_HEADERS[RequestCode(code)] is PullMessage


@pytest.mark.parametrize("response", [0, 10, 11, 12])
@pytest.mark.parametrize("request_code", [10, 310, 320, 324, 325])
def test_a_message_that_was_taken_has_an_id(request_code: int, response: int) -> None:
    assert answer_header(request_code, response) is SendAnswer


@pytest.mark.parametrize("response", [1, 2, 13, 14, 16, 17, 999])
def test_a_message_that_was_not_taken_has_none(response: int) -> None:
    assert answer_header(310, response) is SendRefusal


@pytest.mark.parametrize(
    ("response", "kind"),
    [(0, PullAnswer), (19, PullAnswer), (20, PullAnswer), (21, PullAnswer), (24, PullRefusal)],
)
def test_a_pull_has_offsets_in_all_its_normal_answers(response: int, kind: type) -> None:
    assert answer_header(11, response) is answer_header(361, response) is kind


def test_not_found_is_told_with_a_header_only_where_it_has_one() -> None:
    not_found = ResponseCode.QUERY_NOT_FOUND

    assert answer_header(RequestCode.QUERY_MESSAGE, not_found) is QueryAnswer
    assert answer_header(RequestCode.QUERY_CONSUMER_OFFSET, not_found) is NoFields
    assert answer_header(RequestCode.QUERY_CONSUMER_OFFSET, 0) is OffsetAnswer


@pytest.mark.parametrize("response", [0, 19, 209, 210])
def test_a_pop_has_its_times_whether_it_found_something_or_not(response: int) -> None:
    assert answer_header(200050, response) is PopAnswer


def test_a_refusal_has_no_header_unless_it_says_so() -> None:
    assert answer_header(30, 1) is NoFields


@pytest.mark.parametrize("code", [906, 2001, 9999, -5])
def test_untyped_requests_have_untyped_answers(code: int) -> None:
    assert answer_header(code, 0) is None
    assert answer_header(code, 1) is None


def test_the_catalogue_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        REQUEST_HEADERS[RequestCode.HEART_BEAT] = SendMessage  # type: ignore[index]
