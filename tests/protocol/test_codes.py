"""The numbers are RocketMQ's, each once and each with a word on what it is for."""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path

import pytest

from flintmq.protocol import codes
from flintmq.protocol.codes import RequestCode, ResponseCode

SOURCE = Path(codes.__file__).read_text(encoding="utf-8")

REQUESTS = {
    *{10, 11, 12, 14, 15, 17, 18, 21, 25, 26, *range(28, 44), 45, 46, 47, *range(50, 55), 60, 61},
    *{*range(100, 107), *range(200, 209), 215, 216, 217, *range(219, 225), 300, *range(303, 330)},
    *{343, 345, 351, 352, 353, 361, 370, 400, 401, 402, 513, 901, *range(904, 909)},
    *{*range(2001, 2005), *range(3001, 3011), *range(200050, 200056), 200151},
}
RESPONSES = {
    *{*range(5), *range(10, 30), *range(200, 214), 215, 501, 604, 1500, *range(2000, 2017)},
    *{3001, 3002, -1000, -1002, -1004, -1006},
}


def test_every_request_of_the_protocol_is_listed() -> None:
    assert {int(code) for code in RequestCode} == REQUESTS


def test_every_response_of_the_protocol_is_listed() -> None:
    assert {int(code) for code in ResponseCode} == RESPONSES


@pytest.mark.parametrize("kind", [RequestCode, ResponseCode])
def test_no_number_has_two_names(kind: type[IntEnum]) -> None:
    assert len(kind.__members__) == len(kind)


@pytest.mark.parametrize("kind", [RequestCode, ResponseCode])
def test_every_code_says_what_it_is_for(kind: type[IntEnum]) -> None:
    explained = dict(re.findall(r"^    (\w+) = -?\d+  # (.+)$", SOURCE, re.MULTILINE))

    assert kind.__members__.keys() <= explained.keys()


def test_numbers_that_arrive_compare_with_names() -> None:
    arrived = 310

    assert arrived == RequestCode.SEND_MESSAGE_V2
    assert arrived in {RequestCode.SEND_MESSAGE_V2: "known"}
