"""An offset of a stream comes back from Spark as it was, and says the same in the same text."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import InvalidSetting
from flintmq.model.queue import QueueOffset, QueueRef, Span
from flintmq.spark.source.stream_offset import StreamOffset, key_of, queue_of

names = st.text("%|ab25C7é/ ", min_size=1, max_size=8)
refs = st.builds(QueueRef, names, names, st.integers(0, 20))
ranges = st.tuples(st.integers(0, 2**62), st.integers(0, 1000)).map(lambda p: (p[0], p[0] + p[1]))
offsets = st.dictionaries(refs, ranges, max_size=6).map(
    lambda found: StreamOffset.of(
        Span(queue, QueueOffset(start), QueueOffset(stop)) for queue, (start, stop) in found.items()
    )
)

A, B, C = (QueueRef("t", "b", number) for number in range(3))


def span(queue: QueueRef, start: int, stop: int) -> Span:
    return Span(queue, QueueOffset(start), QueueOffset(stop))


def at(places: dict[QueueRef, int]) -> dict[QueueRef, QueueOffset]:
    return {queue: QueueOffset(offset) for queue, offset in places.items()}


def test_the_form_is_the_one_that_checkpoints_hold() -> None:
    offset = StreamOffset.of([span(QueueRef("%RETRY%g", "a|b", 10), 0, 0), span(A, 5, 10)])

    assert json.dumps(offset.to_json()) == (
        '{"v": 1, "q": {"%25RETRY%25g|a%7Cb|10": {"from": 0, "to": 0}, '
        '"t|b|0": {"from": 5, "to": 10}}}'
    )


@settings(max_examples=60, deadline=None)
@given(offsets)
def test_an_offset_comes_back_as_it_was(offset: StreamOffset) -> None:
    text = json.dumps(offset.to_json())

    again = StreamOffset.from_json(json.loads(text))

    assert again == offset
    assert json.dumps(again.to_json()) == text


@settings(max_examples=60, deadline=None)
@given(refs, refs)
def test_keys_are_unambiguous(one: QueueRef, other: QueueRef) -> None:
    assert queue_of(key_of(one)) == one
    assert (key_of(one) == key_of(other)) == (one == other)


@settings(max_examples=30, deadline=None)
@given(offsets, st.randoms(use_true_random=False))
def test_the_text_does_not_depend_on_the_order_of_making(
    offset: StreamOffset, chance: random.Random
) -> None:
    spans = list(offset.spans)
    chance.shuffle(spans)

    assert json.dumps(StreamOffset.of(spans).to_json()) == json.dumps(offset.to_json())


@pytest.mark.parametrize("version", [2, None, "1", 0])
def test_an_offset_of_another_version_is_refused_with_advice(version: object) -> None:
    with pytest.raises(InvalidSetting, match=r"this is version 1.*new checkpoint"):
        StreamOffset.from_json({"v": version, "q": {}})


@pytest.mark.parametrize(
    "tree",
    [
        {"v": 1},
        {"v": 1, "q": [1]},
        {"v": 1, "q": {"t|b": {"from": 0, "to": 0}}},
        {"v": 1, "q": {"t|b|x": {"from": 0, "to": 0}}},
        {"v": 1, "q": {"t|b|0": {"from": 2, "to": 1}}},
        {"v": 1, "q": {"t|b|0": {"from": -1, "to": 1}}},
        {"v": 1, "q": {"t|b|0": {"from": "0", "to": 1}}},
        {"v": 1, "q": {"t|b|0": {"to": 1}}},
        {"v": 1, "q": {"t|b|0": 5}},
    ],
)
def test_a_damaged_offset_is_refused_with_advice(tree: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting, match=r"cannot be read.*new checkpoint"):
        StreamOffset.from_json(tree)


def test_each_queue_is_there_once() -> None:
    with pytest.raises(ValueError, match="each there once"):
        StreamOffset.of([span(A, 0, 1), span(A, 1, 2)])
    with pytest.raises(ValueError, match="must be sorted"):
        StreamOffset((span(B, 0, 1), span(A, 1, 2)))


def test_a_batch_goes_on_where_the_last_one_ended() -> None:
    before = StreamOffset.of([span(A, 0, 5), span(B, 7, 7)])

    after = before.advance(at({A: 9, B: 7}))

    assert after == StreamOffset.of([span(A, 5, 9), span(B, 7, 7)])
    assert (before.message_count, after.message_count) == (5, 4)


def test_new_and_regained_queues_start_where_they_are_told() -> None:
    before = StreamOffset.of([span(A, 0, 5), span(B, 0, 8)])

    after = before.advance(at({A: 9, B: 30, C: 4}), at({B: 20, C: 1}))

    assert after == StreamOffset.of([span(A, 5, 9), span(B, 20, 30), span(C, 1, 4)])


def test_a_queue_nobody_speaks_of_is_left_out() -> None:
    before = StreamOffset.of([span(A, 0, 5), span(B, 0, 8)])

    assert before.advance(at({A: 6})) == StreamOffset.of([span(A, 5, 6)])


def test_without_anything_new_the_offset_stays_so_that_no_batch_is_run() -> None:
    before = StreamOffset.of([span(A, 0, 5), span(B, 0, 8)])

    assert before.advance(at({A: 5, B: 8})) is before
    assert before.advance(at({A: 5})) is before
    assert before.advance(at({A: 3, B: 8})) is before


def test_a_queue_that_is_new_needs_a_start() -> None:
    with pytest.raises(ValueError, match="nobody said where it starts"):
        StreamOffset().advance(at({A: 5}))


def test_a_first_offset_has_read_nothing() -> None:
    assert StreamOffset.at(at({B: 3, A: 1})).spans == (span(A, 1, 1), span(B, 3, 3))
