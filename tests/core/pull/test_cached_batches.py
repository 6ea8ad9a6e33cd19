"""Batches that are handed out whole are counted as if they were kept message by message."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from flintmq.core.consumer.process_queue import ProcessQueue
from flintmq.core.pull.cached_batches import CachedBatches
from flintmq.model.message import ReceivedMessage
from support.core.messages import offsets_of, received, several


@given(st.lists(st.none() | st.lists(st.integers(0, 30), max_size=6), max_size=20))
def test_it_tells_what_a_process_queue_would(steps: list[list[int] | None]) -> None:
    """Whatever arrives, late or twice too; None hands a batch out."""
    batches, single = CachedBatches(), ProcessQueue()
    ready: list[Sequence[ReceivedMessage]] = []
    for step in steps:
        if step is None:
            if ready:
                batches.take()
                single.remove(ready.pop(0))
        else:
            messages = [received(offset, body=b"x" * (offset + 1)) for offset in step]
            new = batches.put(messages)
            assert offsets_of(new) == offsets_of(single.put_messages(messages))
            if new:
                ready.append(new)
        told = batches.count, batches.size_bytes, batches.lowest, batches.highest, batches.span
        assert told == (
            single.count,
            single.size_bytes,
            single.lowest,
            single.highest,
            single.span,
        )


def test_batches_leave_in_the_order_they_came() -> None:
    batches = CachedBatches()
    batches.put(several(5, 6, 9))
    batches.put(several(10))
    assert (batches.lowest, batches.span, batches.count) == (5, 5, 4)

    batches.take()
    assert (batches.lowest, batches.span, batches.count) == (10, 0, 1)
    batches.take()
    assert (batches.lowest, batches.highest, batches.count, batches.size_bytes) == (None, 10, 0, 0)
