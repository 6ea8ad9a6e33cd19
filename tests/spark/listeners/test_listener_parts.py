"""The tasks of a micro-batch cover it once, and a listener has as many as it asked for at most."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flintmq.core.group.consumer_settings import ConsumerSettings
from flintmq.core.group.subscriptions import Subscriptions, TopicSubscription
from flintmq.model.queue import QueueOffset, QueueRef, Span
from flintmq.spark.listeners.listener_parts import Task, share_out

RETRY = "%RETRY%group"


def made(spans: list[Span], tasks: dict[str, int | None], *, ordered: bool = False) -> list[Task]:
    wanted = [TopicSubscription(topic, ordered=ordered) for topic in tasks]
    subscriptions = Subscriptions(ConsumerSettings(group="group"), wanted, 0)
    return share_out(spans, subscriptions, tasks, origin=lambda _: "b:1", tasks_usual=4)


def span(topic: str, queue_id: int, count: int, start: int = 5) -> Span:
    queue = QueueRef(topic, "broker-a", queue_id)
    return Span(queue, QueueOffset(start), QueueOffset(start + count))


def topics_of(tasks: list[Task]) -> list[set[str]]:
    return [{part.span.queue.topic for part in task} for task in tasks]


@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=12),
    st.one_of(st.none(), st.integers(1, 9)),
    st.booleans(),
)
def test_every_message_is_in_one_task(sizes: list[int], limit: int | None, ordered: bool) -> None:
    spans = [span("orders", queue_id, size) for queue_id, size in enumerate(sizes)]
    tasks = made(spans, {"orders": limit}, ordered=ordered)
    parts = [part.span for task in tasks for part in task]
    for whole in spans:
        pieces = sorted(
            (part for part in parts if part.queue == whole.queue), key=lambda part: part.start
        )
        offsets = [at for part in pieces for at in range(part.start, part.stop)]
        assert offsets == list(range(whole.start, whole.stop))
        assert not ordered or len(pieces) <= 1
    assert limit is None or len(tasks) <= limit


def test_a_listener_gets_as_many_tasks_as_it_asks_for() -> None:
    one_queue = [span("orders", 0, 1_000)]
    assert len(made(one_queue, {"orders": 7})) == 7
    assert len(made(one_queue, {"orders": None})) == 4, "those of all cores"
    assert len(made(one_queue, {"orders": 7}, ordered=True)) == 1
    many = [span("orders", queue_id, 100) for queue_id in range(16)]
    tasks = made(many, {"orders": 3})
    assert sorted(sum(len(part.span) for part in task) for task in tasks) == [500, 500, 600]


def test_redelivered_messages_share_the_tasks_of_an_only_listener() -> None:
    spans = [span("orders", 0, 10), span(RETRY, 0, 10)]
    assert topics_of(made(spans, {"orders": 1})) == [{"orders", RETRY}]
    two = made([*spans, span("refunds", 0, 10)], {"orders": 1, "refunds": 2})
    assert {"orders"} in topics_of(two)
    assert topics_of(two).count({"refunds"}) == 2
    assert not any(RETRY in topics and len(topics) > 1 for topics in topics_of(two))
