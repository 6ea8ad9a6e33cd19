"""A conversation can be held by hand: it is a generator of calls and nothing more."""

from __future__ import annotations

import pickle

import pytest

from flintmq.core.conversation import SENT, Call, Conversation
from flintmq.errors import Unreachable
from flintmq.protocol.command import Command, request


def ask_twice() -> Conversation[list[int]]:
    first = yield Call("a:1", request(105), timeout_ms=3_000)
    try:
        second = yield Call("b:1", request(106), timeout_ms=1_000)
    except Unreachable:
        return [first.code]
    return [first.code, second.code]


def test_it_yields_calls_takes_replies_and_returns_its_result() -> None:
    conversation = ask_twice()

    assert next(conversation) == Call("a:1", request(105), 3_000)
    assert conversation.send(Command(code=17)) == Call("b:1", request(106), 1_000)
    with pytest.raises(StopIteration) as done:
        conversation.send(Command(code=0))

    assert done.value.value == [17, 0]


def test_an_error_can_be_thrown_in() -> None:
    conversation = ask_twice()
    next(conversation)
    conversation.send(Command(code=17))

    with pytest.raises(StopIteration) as done:
        conversation.throw(Unreachable("b:1", "refused"))

    assert done.value.value == [17]


def test_what_stands_for_the_answer_to_a_oneway_request_is_an_empty_answer() -> None:
    assert SENT.is_answer
    assert (SENT.code, SENT.body, SENT.remark) == (0, b"", None)


def test_a_call_can_be_pickled() -> None:
    call = Call("a:1", request(105, body=b"x"), 3_000)

    assert pickle.loads(pickle.dumps(call)) == call
