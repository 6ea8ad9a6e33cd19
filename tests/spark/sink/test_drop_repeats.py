"""A row that the sink sent twice reaches a listener once, and nothing else is ever dropped."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.core.group.listener_results import Ack, DeadLetter, ListenerResult, Retry
from flintmq.errors import InvalidSetting
from flintmq.model.host import Host
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.spark.sink.drop_repeats import _RUN_ROWS, DropRepeats
from flintmq.spark.sink.row_identity import ROW_PROPERTY, RowIdentity

Messages = tuple[ReceivedMessage, ...]
HOST = Host(bytes([127, 0, 0, 1]), 10911)


def message(
    row: int | None, body: bytes = b"x", *, batch: int = 0, topic: str = "bills"
) -> ReceivedMessage:
    """A message of the sink, or with ``row`` None of anybody else."""
    properties = {} if row is None else {ROW_PROPERTY: str(RowIdentity("job", batch, 3, row))}
    return ReceivedMessage(
        topic=topic,
        broker="b",
        queue_id=0,
        queue_offset=QueueOffset(0),
        log_offset=LogOffset(0),
        body=body,
        properties=properties,
        flag=0,
        sys_flag=0,
        born_ms=0,
        born_host=HOST,
        store_ms=0,
        store_host=HOST,
        reconsume_times=0,
        prepared_offset=LogOffset(0),
        stored_bytes=0,
    )


class Heard:
    """A listener that says what it is told to, and what it was given."""

    def __init__(self, *answers: Any) -> None:
        self.calls: list[Messages] = []
        self._answers = list(answers)

    def __call__(self, messages: Messages) -> ListenerResult:
        self.calls.append(messages)
        answer = self._answers.pop(0) if self._answers else None
        if isinstance(answer, BaseException):
            raise answer
        return answer


def test_a_repeat_is_dropped_and_counts_as_consumed() -> None:
    once, heard = DropRepeats(), Heard()
    listener = once(heard)

    assert listener((message(0), message(1))) is None
    assert listener((message(1), message(2), message(0))) == [None, None, None]
    assert listener((message(2),)) == [None]

    assert heard.calls == [(message(0), message(1)), (message(2),)]
    assert once.dropped == 3


def test_what_no_sink_sent_is_always_passed_on() -> None:
    heard = Heard()
    listener = DropRepeats()(heard)

    listener((message(None),))
    listener((message(None),))

    assert len(heard.calls) == 2


def test_another_topic_or_batch_is_another_row() -> None:
    heard = Heard()
    listener = DropRepeats()(heard)

    for other in (message(0), message(0, topic="copies"), message(0, batch=1)):
        listener((other,))

    assert len(heard.calls) == 3


def test_a_row_with_another_body_is_passed_on_and_told() -> None:
    once, heard = DropRepeats(), Heard()
    listener = once(heard)

    listener((message(0, b"first"),))
    listener((message(0, b"second"),))
    listener((message(0, b"second"),))

    assert [call[0].body for call in heard.calls] == [b"first", b"second"]
    assert (once.changed, once.dropped) == (1, 1)


@pytest.mark.parametrize("failure", [Retry(), ValueError("not now"), Retry(delay_level=2)])
def test_what_failed_comes_again_and_is_not_taken_for_a_repeat(failure: BaseException) -> None:
    heard = Heard(failure)
    listener = DropRepeats()(heard)

    with pytest.raises(type(failure)):
        listener((message(0),))

    assert listener((message(0),)) is None
    assert len(heard.calls) == 2


def test_what_is_given_up_is_not_given_again() -> None:
    heard = Heard(DeadLetter("broken"))
    listener = DropRepeats()(heard)

    with pytest.raises(DeadLetter):
        listener((message(0),))

    assert listener((message(0),)) == [None]


def test_each_message_of_a_mixed_delivery_has_its_own_result() -> None:
    heard = Heard(None, Ack(up_to=0), [None, DeadLetter("no")])
    listener = DropRepeats()(heard)
    listener((message(5),))

    results: Any = listener((message(5), message(0), message(1), message(0)))

    assert results[0] is None
    assert results[1] is None
    assert isinstance(results[2], Retry)
    assert results[3] is None
    assert heard.calls[1] == (message(0), message(1))
    results = listener((message(0), message(1), message(2)))
    assert results[:2] == [None, None]
    assert (type(results[2]), results[2].reason) == (DeadLetter, "no")


def test_raised_dead_letters_do_not_take_dropped_repeats_along() -> None:
    heard = Heard(None, DeadLetter("no"))
    listener = DropRepeats()(heard)
    listener((message(0),))

    results: Any = listener((message(0), message(1)))

    assert results[0] is None
    assert isinstance(results[1], DeadLetter)


def test_a_repeat_of_what_is_just_being_consumed_comes_again_later() -> None:
    once = DropRepeats()
    inside, go_on = threading.Event(), threading.Event()

    @once
    def slow(_messages: Messages) -> None:
        inside.set()
        assert go_on.wait(60)

    first = threading.Thread(target=slow, args=((message(0),),))
    first.start()
    assert inside.wait(60)
    meanwhile: Any = slow((message(0),))
    go_on.set()
    first.join(60)

    assert [type(result) for result in meanwhile] == [Retry]
    assert slow((message(0),)) == [None]


def test_a_coroutine_function_stays_one() -> None:
    calls: list[Messages] = []
    once = DropRepeats()

    @once
    async def listener(messages: Messages) -> ListenerResult:
        calls.append(messages)
        if len(calls) == 1:
            raise Retry
        return None

    async def deliver() -> ListenerResult:
        with pytest.raises(Retry):
            await listener((message(0),))
        await listener((message(0),))
        return await listener((message(0),))

    assert asyncio.run(deliver()) == [None]
    assert len(calls) == 2


def test_memory_is_bounded_and_the_oldest_rows_are_forgotten_first() -> None:
    once, heard = DropRepeats(rows_max=2 * _RUN_ROWS + 200), Heard()
    listener = once(heard)
    for batch in range(3):
        listener(tuple(message(row, batch=batch) for row in range(_RUN_ROWS)))
    assert once._cost <= 2 * _RUN_ROWS + 200
    heard.calls.clear()

    listener((message(7, batch=2),))
    assert heard.calls == []
    listener((message(7, batch=0),))
    assert len(heard.calls) == 1


def test_many_tiny_batches_are_bounded_too() -> None:
    once = DropRepeats(rows_max=10_000)
    listener = once(Heard())

    for batch in range(1_000):
        listener((message(0, batch=batch),))

    assert len(once._runs) < 160


def test_a_memory_too_small_for_one_run_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="from"):
        DropRepeats(rows_max=10)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 3_000), st.sampled_from([b"a", b"b"])), max_size=8),
        max_size=20,
    ),
    st.randoms(use_true_random=False),
)
def test_in_any_order_each_row_and_body_is_consumed_and_nothing_twice_in_a_row(
    deliveries: list[list[tuple[int, bytes]]], chance: Any
) -> None:
    consumed: list[tuple[str, bytes]] = []

    def listen(messages: Messages) -> ListenerResult:
        if chance.random() < 0.3:
            raise Retry
        consumed.extend((found.properties[ROW_PROPERTY], found.body) for found in messages)
        return None

    listener: Callable[[Messages], object] = DropRepeats()(listen)
    for delivery in deliveries:
        waiting = tuple(message(row, body) for row, body in delivery)
        while waiting:
            try:
                results: Any = listener(waiting)
            except Retry:
                continue
            again = results or [None] * len(waiting)
            waiting = tuple(m for m, result in zip(waiting, again, strict=True) if result)

    wanted = {(message(row).properties[ROW_PROPERTY], body) for d in deliveries for row, body in d}
    assert set(consumed) == wanted
    last: dict[str, bytes] = {}
    for identity, body in consumed:
        assert last.get(identity) != body
        last[identity] = body


def test_listeners_need_no_spark() -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None; from flintmq.spark.sink.drop_repeats import *"
    )

    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
