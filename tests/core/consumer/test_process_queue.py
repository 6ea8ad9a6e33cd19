"""The lowest offset that is left is where the queue stands, in whatever order messages settle."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.core.consumer.process_queue import ProcessQueue
from flintmq.model.queue import QueueOffset
from support.core.messages import offsets_of, received, several


def cached(*offsets: int) -> ProcessQueue:
    queue = ProcessQueue()
    queue.put_messages(several(*offsets))
    return queue


def test_the_offset_to_commit_is_the_lowest_that_is_left() -> None:
    queue = cached(10, 20, 40, 50, 70, 100)

    steps = []
    for settled in ([20], [10], [50, 100], [40], [70]):
        queue.remove(several(*settled))
        steps.append(queue.settled_to)

    assert steps == [10, 40, 40, 70, 101]


def test_an_empty_queue_stands_after_the_highest_it_ever_had() -> None:
    queue = ProcessQueue()
    assert (queue.settled_to, queue.lowest, queue.highest, queue.span) == (None, None, None, 0)

    queue.put_messages(several(7))
    queue.remove(several(7))

    assert (queue.settled_to, queue.lowest, queue.highest, queue.span) == (8, None, 7, 0)


def test_counts_and_bytes_are_those_of_what_is_cached() -> None:
    queue = ProcessQueue()
    queue.put_messages([received(1, body=b"ab"), received(2, body=b"cde")])
    assert (queue.count, queue.size_bytes) == (2, 5)

    queue.remove([received(1, body=b"ab")])
    queue.remove([received(1, body=b"ab")])

    assert (queue.count, queue.size_bytes) == (1, 3)
    assert QueueOffset(2) in queue
    assert QueueOffset(1) not in queue


def test_the_span_is_from_the_lowest_to_the_highest() -> None:
    queue = cached(10, 20, 500)
    queue.remove(several(10))

    assert queue.span == 480


def test_what_is_cached_already_is_not_taken_again() -> None:
    queue = cached(1, 2, 3)

    new = queue.put_messages(several(2, 3, 4))

    assert offsets_of(new) == [4]
    assert (queue.count, queue.size_bytes) == (4, 20)


def test_messages_out_of_order_are_brought_into_order() -> None:
    queue = ProcessQueue()

    new = queue.put_messages(several(5, 3, 4, 3))

    assert offsets_of(new) == [3, 4, 5]
    assert (queue.lowest, queue.highest, queue.count) == (3, 5, 3)
    queue.remove(several(3))
    assert queue.lowest == 4


def test_messages_before_others_come_to_the_front() -> None:
    queue = cached(10, 11)

    assert offsets_of(queue.put_messages(several(4))) == [4]
    assert (queue.lowest, queue.highest) == (4, 11)


def test_nothing_put_is_nothing_new() -> None:
    assert list(ProcessQueue().put_messages([])) == []


def test_taken_messages_are_not_settled_until_they_are_committed() -> None:
    queue = cached(1, 2, 3, 4)

    taken = queue.take_messages(2)

    assert offsets_of(taken) == [1, 2]
    assert (queue.count, queue.settled_to, queue.has_untaken) == (4, 1, True)
    queue.commit()
    assert (queue.count, queue.settled_to, queue.size_bytes) == (2, 3, 10)


def test_a_part_of_what_is_taken_can_be_committed() -> None:
    queue = cached(1, 2, 3, 4)
    queue.take_messages(3)

    queue.commit(1)

    assert (queue.settled_to, offsets_of(queue.taken)) == (2, [2, 3])
    queue.roll_back()
    assert offsets_of(queue.take_messages(9)) == [2, 3, 4]


def test_what_is_rolled_back_comes_first_again_in_its_newer_form() -> None:
    queue = cached(1, 2, 3)
    queue.take_messages(2)

    queue.roll_back([received(1, times=1)])

    again = queue.take_messages(3)
    assert offsets_of(again) == [1, 2, 3]
    assert [message.reconsume_times for message in again] == [1, 0, 0]


def test_what_is_settled_is_not_taken() -> None:
    queue = cached(1, 2, 3)
    queue.remove(several(1))

    assert offsets_of(queue.take_messages(2)) == [2, 3]
    assert repr(queue) == "<ProcessQueue of 2 messages, 10 bytes>"


def test_taking_twice_is_a_bug() -> None:
    queue = cached(1, 2)
    queue.take_messages(1)

    with pytest.raises(AssertionError, match="taken twice"):
        queue.take_messages(1)


def test_late_messages_do_not_disturb_what_is_taken() -> None:
    queue = cached(5, 6)
    queue.take_messages(1)

    queue.put_messages(several(3, 5))

    assert queue.lowest == 3
    queue.commit()
    assert offsets_of(queue.take_messages(9)) == [3, 6]


def test_a_cleared_queue_knows_nothing() -> None:
    queue = cached(1, 2)
    queue.take_messages(1)

    queue.clear()

    assert (queue.count, queue.size_bytes, queue.settled_to, queue.has_untaken) == (
        0,
        0,
        None,
        False,
    )


@settings(max_examples=60)
@given(st.lists(st.sets(st.integers(0, 60), min_size=1, max_size=8), max_size=8), st.randoms())
def test_it_behaves_like_a_sorted_map(pulls: list[set[int]], chance: object) -> None:
    queue, model = ProcessQueue(), dict[int, int]()
    highest = -1
    for pull in pulls:
        offsets = sorted(pull)
        queue.put_messages(several(*offsets))
        for offset in offsets:
            model.setdefault(offset, 5)
        highest = max(highest, *offsets)
        gone = chance.sample(sorted(model), k=len(model) // 2)  # type: ignore[attr-defined]
        queue.remove(several(*gone))
        for offset in gone:
            del model[offset]

        assert queue.count == len(model)
        assert queue.size_bytes == sum(model.values())
        assert queue.lowest == min(model, default=None)
        assert queue.settled_to == min(model, default=highest + 1)


# Offsets without a message


def test_an_offset_that_is_passed_over_is_settled() -> None:
    cached = ProcessQueue()

    cached.pass_over(QueueOffset(4))

    assert (cached.settled_to, cached.count) == (5, 0)


def test_nothing_from_a_held_offset_on_is_settled_until_it_is_released() -> None:
    cached = ProcessQueue()
    first, last = several(3, 5)
    cached.put_messages([first, last])
    cached.hold(QueueOffset(4))

    cached.remove([last])
    assert (cached.lowest, cached.settled_to, cached.count) == (3, 3, 2)
    cached.remove([first])
    assert (cached.lowest, cached.settled_to, cached.count, cached.span) == (4, 4, 1, 1)
    cached.release(QueueOffset(4))
    assert (cached.lowest, cached.settled_to, cached.count) == (None, 6, 0)


def test_a_held_offset_is_never_taken() -> None:
    cached = ProcessQueue()
    cached.put_messages(several(3, 5))
    cached.hold(QueueOffset(4))

    assert [message.queue_offset for message in cached.take_messages(9)] == [3, 5]
    assert not cached.has_untaken
    cached.commit()
    assert cached.settled_to == 4
