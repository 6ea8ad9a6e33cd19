"""A thread that pulls or polls alone does so past the loop, and gets what the loop would give."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from flintmq import ConsumeFromWhere, LitePullConsumer, PullConsumer, QueueRef
from flintmq.client.engine import loop_thread as threads
from flintmq.client.pull import lite_driver
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import BrokerRefused, InvalidSetting, WrongState
from flintmq.net.blocking.blocking_channel import BlockingChannel
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command
from support.client.pulling_support import BROKER, fill, polled
from support.client.support import nothing_left, wait_for

FIRST = ConsumeFromWhere.FIRST_OFFSET


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The fields of pulls that went past the loop."""
    fields: list[bytes] = []
    call = BlockingChannel.call

    def counted(channel: BlockingChannel, request: Command, timeout_ms: int) -> Command:
        if request.code == RequestCode.PULL_MESSAGE:
            fields.append(bytes(request.fields))
        return call(channel, request, timeout_ms)

    monkeypatch.setattr(BlockingChannel, "call", counted)
    return fields


@pytest.fixture
def errands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What threads had the loop do for them."""
    names: list[str] = []
    run = threads.LoopThread.run

    def counted(thread: threads.LoopThread, work: Any) -> object:
        names.append(work.__qualname__)
        return run(thread, work)

    monkeypatch.setattr(threads.LoopThread, "run", counted)
    return names


class Seeing:
    """A hook that changes nothing."""

    def before(self, _address: str, request: Command) -> Command:
        return request

    def after(self, *_: object) -> None:
        pass


def test_a_thread_alone_pulls_past_the_loop_what_the_loop_would_pull(
    broker: EmbeddedBroker, direct: list[bytes]
) -> None:
    fill(broker, "past", 10)
    queue = QueueRef("past", BROKER, 0)
    with nothing_left():
        with PullConsumer("g", namesrv=broker.namesrv) as consumer:
            consumer.max_offset(queue)  # now its broker is known
            ours = [consumer.pull(queue, offset, count_max=4) for offset in (0, 4, 8, 10, 99)]
            assert len(direct) == 5
            assert all(fields.count(b'"ReqT"') == 1 for fields in direct)
        with PullConsumer("g", namesrv=broker.namesrv, request_hooks=(Seeing(),)) as consumer:
            by_loop = [consumer.pull(queue, offset, count_max=4) for offset in (0, 4, 8, 10, 99)]
            assert len(direct) == 5
    assert ours == by_loop
    assert [len(each.messages) for each in ours] == [4, 4, 2, 0, 0]


def test_the_first_pull_to_a_broker_goes_by_the_loop(
    broker: EmbeddedBroker, direct: list[bytes], errands: list[str]
) -> None:
    fill(broker, "first", 3)
    with PullConsumer("g", namesrv=broker.namesrv) as consumer:
        assert len(consumer.pull(QueueRef("first", BROKER, 0), 0).messages) == 3
    assert "PullConsumer.pull" in errands
    assert direct == []


def test_sql_and_waiting_are_for_the_loop(broker: EmbeddedBroker, direct: list[bytes]) -> None:
    fill(broker, "rest", 3)
    queue = QueueRef("rest", BROKER, 0)
    with PullConsumer("g", namesrv=broker.namesrv) as consumer:
        consumer.pull(queue, 0)
        consumer.pull_blocking(queue, 0)
        with suppress(BrokerRefused):  # by those that do not filter
            consumer.pull(queue, 0, sql="n > 1")
        assert direct == []
        with pytest.raises(InvalidSetting):
            consumer.pull(queue, -1)
    with pytest.raises(WrongState):
        consumer.pull(queue, 0)


def test_threads_that_pull_at_once_all_get_what_they_asked_for(broker: EmbeddedBroker) -> None:
    sent = fill(broker, "many", 200, queues=4)
    found: list[bytes] = []

    def work(queue: QueueRef) -> None:
        offset = 0
        while messages := (result := consumer.pull(queue, offset, count_max=3)).messages:
            found.extend(message.body for message in messages)
            offset = result.next_offset

    with nothing_left(), PullConsumer("g", namesrv=broker.namesrv) as consumer:
        workers = [
            threading.Thread(target=work, args=(queue,)) for queue in consumer.queues("many")
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert sorted(found) == sorted(sent)


def test_a_poll_takes_what_is_there_without_the_loop(
    broker: EmbeddedBroker, errands: list[str]
) -> None:
    sent = fill(broker, "there", 1_000, queues=4)
    with LitePullConsumer("g", namesrv=broker.namesrv, start_from=FIRST) as consumer:
        consumer.subscribe("there")
        errands.clear()
        assert sorted(polled(consumer, 1_000)) == sorted(sent)
        assert consumer.poll(0) == []
        assert errands == []


def started(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_poll_that_waits_is_woken_by_a_message_and_by_a_stop(broker: EmbeddedBroker) -> None:
    fill(broker, "woken", 0)
    found: list[list[bytes]] = []

    def poll() -> None:
        found.append([message.body for message in consumer.poll(60_000)])

    with LitePullConsumer("g", namesrv=broker.namesrv, start_from=FIRST) as consumer:
        consumer.subscribe("woken")
        waiting = started(poll)
        (body,) = fill(broker, "woken", 1)
        waiting.join(60)
        assert found == [[body]]
        waiting = started(poll)
        wait_for(lambda: consumer._inner._puller._waiter is not None)
    waiting.join(60)
    assert found == [[body], []]


def test_of_two_polls_at_once_one_goes_by_the_loop(
    broker: EmbeddedBroker, errands: list[str]
) -> None:
    fill(broker, "two", 0)
    found: list[bytes] = []

    def poll() -> None:
        found.extend(message.body for message in consumer.poll(60_000))

    with LitePullConsumer("g", namesrv=broker.namesrv, start_from=FIRST) as consumer:
        consumer.subscribe("two")
        errands.clear()
        waiting = [started(poll), started(poll)]
        wait_for(lambda: errands == ["LitePullConsumer.poll"])
        sent = fill(broker, "two", 1) + fill(broker, "two", 1)
        for each in waiting:
            each.join(60)
    assert sorted(found) == sorted(sent)


def test_what_a_thread_took_is_committed_and_pulled_on(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for few messages every batch that is taken makes room for the next pull."""
    monkeypatch.setattr(lite_driver, "GATHERED_MAX", 2)
    sent = fill(broker, "room", 400)
    queue = QueueRef("room", BROKER, 0)
    settings: dict[str, Any] = {"namesrv": broker.namesrv, "start_from": FIRST}
    with LitePullConsumer(
        "g", pull_batch_max=10, queue_count_max=20, auto_commit_ms=1_000, **settings
    ) as consumer:
        consumer.assign([queue])
        assert polled(consumer, 400) == sent
        assert consumer.position(queue) == 400
    with LitePullConsumer("g", **settings) as consumer:
        consumer.assign([queue])
        assert consumer.poll(0) == []
        assert consumer.committed(queue) == 400
