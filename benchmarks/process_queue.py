"""What the consuming core costs for each message: put, deliver, settle, advance the offset.

    python -m benchmarks process_queue

A `GroupConsumer` gets pull answers of 32 messages that are already decoded, and is told of each
batch that its listener started and consumed it.  Nothing else runs: no socket, no listener.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from flintmq.core.consumer.group_consumer import GroupConsumer
from flintmq.core.consumer.process_queue import ProcessQueue
from flintmq.core.group.actions import (
    AskMembers,
    AskStartOffset,
    Deliver,
    LockQueues,
    SendHeartbeat,
)
from flintmq.core.group.consumer_settings import ConsumerSettings
from flintmq.core.group.pull_answers import MessagesFound
from flintmq.core.group.start_offset import StartOffset
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.reading.pull_request import Pull
from flintmq.model.host import Host
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import LogOffset, QueueOffset, QueueRef

QUEUE = QueueRef("orders", "broker-a", 0)
HOST = Host.parse("127.0.0.1:10911")
PULL_COUNT = 32
MESSAGES = 6_400
ROUNDS = 60

Row = dict[str, object]
T = TypeVar("T")


def run() -> list[Row]:
    messages = [message(offset) for offset in range(MESSAGES)]
    return [
        row("concurrent, batch 1", best(lambda: consume(messages, batch_max=1)), "<= 3"),
        row("concurrent, batch 32", best(lambda: consume(messages, batch_max=32)), "<= 1"),
        row("ordered, batch 1", best(lambda: consume(messages, batch_max=1, ordered=True))),
        row("ordered, batch 32", best(lambda: consume(messages, batch_max=32, ordered=True))),
        row("the process queue alone, batch 1", best(lambda: cache(messages, 1))),
        row("the process queue alone, batch 32", best(lambda: cache(messages, 32))),
    ]


def message(offset: int) -> ReceivedMessage:
    return ReceivedMessage(
        topic=QUEUE.topic,
        broker=QUEUE.broker,
        queue_id=QUEUE.queue_id,
        queue_offset=QueueOffset(offset),
        log_offset=LogOffset(offset * 300),
        body=b"x" * 128,
        properties={"UNIQ_KEY": f"{offset:032X}", "TAGS": "paid"},
        flag=0,
        sys_flag=0,
        born_ms=0,
        born_host=HOST,
        store_ms=0,
        store_host=HOST,
        reconsume_times=0,
        prepared_offset=LogOffset(0),
        stored_bytes=300,
    )


def consume(messages: list[ReceivedMessage], batch_max: int, *, ordered: bool = False) -> float:
    """CPU seconds for all messages."""
    settings = ConsumerSettings(group="billing", batch_max=batch_max, ordered=ordered)
    consumer = GroupConsumer(
        settings, "me", [TopicSubscription("orders")], now_ms=0, wall_ms=1_700_000_000_000
    )
    pull = begun(consumer)
    start = time.process_time()
    for at in range(0, len(messages), PULL_COUNT):
        found = MessagesFound(QueueOffset(at + PULL_COUNT), messages=messages[at : at + PULL_COUNT])
        actions = consumer.pull_answered(pull, found, 1)
        waiting: list[Deliver] = []
        for action in actions:
            if type(action) is Deliver:
                waiting.append(action)
            elif type(action) is Pull:
                pull = action
        for batch in waiting:
            if consumer.started(batch, 1):
                actions = consumer.consumed(batch, None, 1)
                if actions:  # the next batch of an ordered queue
                    waiting += [action for action in actions if type(action) is Deliver]
        consumer.next_due_ms()
    spent_s = time.process_time() - start
    assert consumer.offsets()[QUEUE] == len(messages)
    return spent_s


def begun(consumer: GroupConsumer) -> Pull:
    """Bring a consumer to where its first pull is under way."""
    consumer.heartbeat_done(only(consumer.start(0), SendHeartbeat), 0)
    ask = only(consumer.route_known("orders", [QUEUE], 0), AskMembers)
    actions = consumer.members_known(ask, ["me"], 0)
    if consumer.settings.ordered:
        actions = consumer.locked(only(actions, LockQueues), [QUEUE], 0)
    start = StartOffset(QueueOffset(0), is_stored=True)
    return only(consumer.start_known(only(actions, AskStartOffset), start, 0), Pull)


def only(actions: Iterable[object], kind: type[T]) -> T:
    (found,) = (action for action in actions if isinstance(action, kind))
    return found


def cache(messages: list[ReceivedMessage], batch_max: int) -> float:
    cached = ProcessQueue()
    start = time.process_time()
    for at in range(0, len(messages), PULL_COUNT):
        put = cached.put_messages(messages[at : at + PULL_COUNT])
        for first in range(0, PULL_COUNT, batch_max):
            cached.remove(put[first : first + batch_max])
            cached.settled_to  # noqa: B018
    spent_s = time.process_time() - start
    assert cached.settled_to == len(messages)
    return spent_s


def best(work: Callable[[], float]) -> float:
    """Microseconds for a message, the best of a few rounds: the others were disturbed."""
    gc.collect()
    gc.disable()
    try:
        return min(work() for _ in range(ROUNDS)) / MESSAGES * 1e6
    finally:
        gc.enable()


def row(name: str, value: float, goal: str | None = None) -> Row:
    found: Row = {"name": name, "value": value, "unit": "µs/message"}
    return found | ({"goal": goal} if goal else {})
