"""Our pulling consumers work with our broker and with the real ones of both releases."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest

from flintmq import (
    ConsumeFromWhere,
    LitePullConsumer,
    Message,
    PullConsumer,
    PullContext,
    PullResult,
    PullStatus,
    QueueRef,
    ScheduledPull,
)
from flintmq.errors import BrokerRefused, InvalidExpression
from flintmq.model.message import ReceivedMessage
from support.client.support import nothing_left, stored
from support.interop.filled import (
    BROKER,
    filled,
    new_topic,
    numbered,
    patiently,
    send_to,
    stands_at,
)
from support.interop.ours import Kind, Served

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),  # the first test starts servers
]

CALL_MS = 15_000
HELD_MS = 3_000
FIRST = ConsumeFromWhere.FIRST_OFFSET


def bodies(result: PullResult) -> list[bytes]:
    return [message.body for message in result.messages]


def test_a_pull_says_what_it_found_and_where_to_go_on(each: Served) -> None:
    queues = new_topic(each, "pulled", 2)
    tags = ("a", "b")
    send_to(
        each,
        [
            Message("pulled", body, tags=tags[n % 2], properties={"n": str(n)})
            for n, body in enumerate(numbered(40))
        ],
        queues[:1],
    )
    with nothing_left(), PullConsumer("pullers", namesrv=each.namesrv) as consumer:
        assert sorted(consumer.queues("pulled")) == queues
        full, empty = queues
        first = consumer.pull(full, 0, count_max=10)
        tagged = consumer.pull(full, 0, tags="b || c", count_max=6)
        chosen = consumer.pull(full, 0, sql="n >= 30 AND TAGS = 'a'")
        none = consumer.pull(full, 0, tags="z")
        at_end = consumer.pull(full, 40)
        beyond = consumer.pull(full, 99)
        nothing = consumer.pull(empty, 0)
        with pytest.raises(BrokerRefused):
            consumer.pull(QueueRef("pulled", BROKER, 9), 0)
        with pytest.raises(InvalidExpression):
            consumer.pull(full, 0, sql="n >=")

    assert bodies(first) == numbered(10)
    assert first[0::2] == (PullStatus.FOUND, 10, 40)
    assert bodies(tagged) == numbered(40)[1:12:2][: len(tagged.messages)] != []
    assert tagged.next_offset == 2 * len(tagged.messages)
    assert set(bodies(chosen)) <= {b"%04d" % n for n in range(30, 40, 2)}
    assert none.status is PullStatus.NONE_MATCHED
    assert (at_end.status, at_end.next_offset) == (PullStatus.NO_NEW_MESSAGE, 40)
    assert (beyond.status, beyond.next_offset) == (PullStatus.OFFSET_MOVED, 40)
    assert (nothing.status, nothing.max_offset) == (PullStatus.NO_NEW_MESSAGE, 0)


def test_sql_finds_all_that_match_and_nothing_else(each: Served) -> None:
    queues = new_topic(each, "by-sql", 1)
    prices = [Message("by-sql", b"%d" % n, properties={"price": str(n)}) for n in range(50)]
    send_to(each, prices, queues)
    found: list[bytes] = []
    offset = 0
    with PullConsumer("sql-pullers", namesrv=each.namesrv) as consumer:
        while offset < 50:
            result = consumer.pull(queues[0], offset, sql="price BETWEEN 20 AND 24 OR price > 47")
            assert result.next_offset > offset
            found += bodies(result)
            offset = result.next_offset

    assert found == [b"20", b"21", b"22", b"23", b"24", b"48", b"49"]


def test_a_pull_is_held_until_a_message_that_fits_comes(each: Served) -> None:
    queues = new_topic(each, "held", 1)
    (queue,) = queues
    with PullConsumer("held", namesrv=each.namesrv, hold_ms=HELD_MS) as consumer:
        start_s = time.monotonic()
        nothing = consumer.pull_blocking(queue, 0)
        waited_s = time.monotonic() - start_s

    results: list[PullResult] = []
    with PullConsumer("held", namesrv=each.namesrv) as consumer:

        def pull() -> None:
            offset = 0
            while not results or not results[-1].messages:
                results.append(consumer.pull_blocking(queue, offset, tags="b"))
                offset = results[-1].next_offset

        thread = threading.Thread(target=pull)
        thread.start()
        send_to(each, [Message("held", b"other", tags="a")], queues)
        send_to(each, [Message("held", b"ours", tags="b")], queues)
        start_s = time.monotonic()
        thread.join(CALL_MS / 1_000)
        woken_s = time.monotonic() - start_s

    assert nothing.status is PullStatus.NO_NEW_MESSAGE
    assert HELD_MS / 1_000 - 0.5 <= waited_s < 15  # a real broker looks every 5 s
    assert bodies(results[-1]) == [b"ours"]
    assert woken_s < 5


def test_offsets_are_asked_for_and_stored(each: Served) -> None:
    (queue,) = queues = filled(each, "offsets", numbered(5), queues=1)
    time.sleep(0.05)  # no message may share the millisecond that divides them
    between_ms = time.time_ns() // 1_000_000
    time.sleep(0.05)
    send_to(each, [Message("offsets", body) for body in numbered(5, 5)], queues)

    with PullConsumer("standing", namesrv=each.namesrv) as consumer:
        assert (consumer.min_offset(queue), consumer.max_offset(queue)) == (0, 10)
        # Between two messages 4.9 may mean the earlier one.
        may_be = (4, 5) if each.kind is Kind.REAL_4_9 else (5,)
        assert consumer.offset_at(queue, between_ms) in may_be
        assert consumer.offset_at(queue, 0) == 0
        before = consumer.committed(queue)
        consumer.commit(queue, 7)
        assert stands_at(each, "standing", "offsets") == 7
        assert consumer.committed(queue, from_store=True) == 7
        consumer.update_offset(queue, 9)

    assert before in (None, 0)  # a young queue is read from its start
    assert stands_at(each, "standing", "offsets") == 9  # a stop stores what was remembered


def test_no_offset_of_a_new_group_is_lost(each: Served) -> None:
    """4.9 makes the table of a group with its first commit, and loses one of two at once."""
    queues = filled(each, "first-commits", numbered(16), queues=16)
    for number in range(20):
        group = f"newcomers-{number}"
        with PullConsumer(group, namesrv=each.namesrv) as consumer:
            for queue in queues:
                consumer.update_offset(queue, 1)
        for queue in queues:
            patiently(partial(_stands_at_one, each, group, queue))


def _stands_at_one(served: Served, group: str, queue: QueueRef) -> bool:
    return stands_at(served, group, queue.topic, queue.queue_id) == 1


def test_what_is_sent_back_comes_again_on_the_retry_topic(each: Served) -> None:
    (queue,) = filled(each, "back", [b"again"], queues=1)
    with PullConsumer("returning", namesrv=each.namesrv) as consumer:
        (message,) = consumer.pull(queue, 0).messages
        consumer.send_back(message, delay_level=1)
        patiently(lambda: stored(each, consumer.retry_topic))
        retry = QueueRef(consumer.retry_topic, BROKER, 0)
        (again,) = consumer.pull(retry, 0).messages
        consumer.send_back(again, delay_level=-1)
        patiently(lambda: stored(each, "%DLQ%returning"))

    (dead,) = stored(each, "%DLQ%returning")
    assert (again.body, again.reconsume_times, again.topic) == (b"again", 1, "back")
    assert again.message_id == dead.message_id == message.message_id
    assert dead.properties["ORIGIN_MESSAGE_ID"] == message.offset_message_id


def lite(served: Served, group: str, **more: object) -> LitePullConsumer:
    settings = {"start_from": FIRST, "call_timeout_ms": CALL_MS, **more}
    return LitePullConsumer(group, namesrv=served.namesrv, **settings)  # type: ignore[arg-type]


def poll(consumer: LitePullConsumer, into: list[ReceivedMessage]) -> int:
    into.extend(consumer.poll(100))
    return len(into)


def polled(consumer: LitePullConsumer, count: int) -> list[bytes]:
    """The bodies of the next messages."""
    got: list[ReceivedMessage] = []
    patiently(lambda: poll(consumer, got) >= count)
    return [message.body for message in got]


def test_two_lite_members_share_a_topic_and_one_takes_over(each: Served) -> None:
    queues = filled(each, "lite", numbered(40), queues=4)
    with nothing_left(), lite(each, "lite") as first:
        first.subscribe("lite")
        seen = polled(first, 40)
        first.commit()
        assert {stands_at(each, "lite", "lite", n) for n in range(4)} == {10}
        with lite(each, "lite") as second:
            second.subscribe("lite")
            patiently(lambda: len(first.assignment) == len(second.assignment) == 2)
            assert sorted([*first.assignment, *second.assignment]) == queues
            send_to(each, [Message("lite", body) for body in numbered(40, 40)], queues)
            seen += polled(first, 20) + polled(second, 20)
        patiently(lambda: len(first.assignment) == 4)
        send_to(each, [Message("lite", body) for body in numbered(8, 80)], queues)
        seen += polled(first, 8)

    assert sorted(seen) == numbered(88)
    assert {stands_at(each, "lite", "lite", n) for n in range(4)} == {22}


def test_lite_filters_work_on_a_subscription(each: Served) -> None:
    for topic in ("lite-tags", "lite-sql"):
        messages = [
            Message(topic, b"%d" % n, tags="ab"[n % 2], properties={"n": str(n)}) for n in range(10)
        ]
        send_to(each, messages, new_topic(each, topic, 2))
    with lite(each, "lite-filters") as consumer:
        consumer.subscribe("lite-tags", tags="b")
        consumer.subscribe("lite-sql", sql="n > 7")
        seen = polled(consumer, 7)

    assert sorted(seen) == [b"1", b"3", b"5", b"7", b"8", b"9", b"9"]


def test_an_assigned_queue_is_read_from_where_it_is_told(each: Served) -> None:
    queues = filled(each, "assigned", numbered(20), queues=2)
    (_, second) = queues
    with lite(each, "assigned", auto_commit=False) as consumer:
        consumer.assign([second])
        assert polled(consumer, 10) == numbered(20)[1::2]
        consumer.seek(second, 7)
        assert polled(consumer, 3) == numbered(20)[15::2]
        assert not stands_at(each, "assigned", "assigned", 1)
        consumer.commit()
        assert consumer.committed(second) == stands_at(each, "assigned", "assigned", 1) == 10
        consumer.seek_to_start(second)
        assert polled(consumer, 10) == numbered(20)[1::2]
        consumer.seek_to_end(second)
        send_to(each, [Message("assigned", b"late")], [second])
        assert polled(consumer, 1) == [b"late"]
        consumer.commit({second: 3})

    assert stands_at(each, "assigned", "assigned", 1) == 3


def test_what_was_handed_out_is_committed_by_itself(each: Served) -> None:
    filled(each, "auto", numbered(10), queues=1)
    with lite(each, "auto", auto_commit_ms=1_000) as consumer:
        consumer.subscribe("auto")
        assert sorted(polled(consumer, 10)) == numbered(10)
        patiently(lambda: consumer.poll(100) == [] and stands_at(each, "auto", "auto") == 10)


def test_a_scheduled_pull_reads_every_queue_and_stores_how_far_it_is(each: Served) -> None:
    filled(each, "scheduled", numbered(40), queues=4)
    seen: list[bytes] = []

    def pull(queue: QueueRef, context: PullContext[PullConsumer]) -> None:
        result = context.consumer.pull(queue, context.consumer.committed(queue) or 0)
        seen.extend(bodies(result))
        context.consumer.update_offset(queue, result.next_offset)
        context.next_delay_ms = 50

    schedule = ScheduledPull("scheduled", namesrv=each.namesrv, call_timeout_ms=CALL_MS)
    schedule.register("scheduled", pull)
    with nothing_left(), schedule:
        patiently(partial(_has, seen, 40))

    assert sorted(seen) == numbered(40)
    assert {stands_at(each, "scheduled", "scheduled", n) for n in range(4)} == {10}


def _has(seen: list[bytes], count: int) -> bool:
    return len(seen) >= count
