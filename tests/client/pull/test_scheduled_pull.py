"""A pull function runs for each queue of its topic, again and again, where it belongs."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from flintmq import MessageModel, PullConsumer, PullContext, QueueRef, ScheduledPull, aio
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import InvalidSetting, WrongState
from support.client.pulling_support import fill, send
from support.client.support import nothing_left, run, wait_for
from support.net.support import until


class Puller:
    """A plain function that pulls everything and remembers what it saw."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.threads: set[str] = set()

    def __call__(self, queue: QueueRef, context: PullContext[PullConsumer]) -> None:
        self.threads.add(threading.current_thread().name)
        offset = context.consumer.committed(queue) or 0
        result = context.consumer.pull(queue, offset)
        self.bodies += [message.body for message in result.messages]
        context.consumer.update_offset(queue, result.next_offset)
        context.next_delay_ms = 0 if result.messages else 20


def has_pulled(puller: Puller, count: int) -> bool:
    return len(puller.bodies) == count


def test_a_plain_function_pulls_every_queue_on_threads(broker: EmbeddedBroker) -> None:
    sent = fill(broker, "plain", 200, queues=4)
    puller = Puller()
    with nothing_left(), ScheduledPull("plain", namesrv=broker.namesrv) as schedule:
        schedule.register("plain", puller)
        wait_for(lambda: len(puller.bodies) == 200)
        more = send(broker, "plain", [200, 201], queues=4)
        wait_for(lambda: len(puller.bodies) == 202)

        assert len(schedule.queues) == 4
    assert sorted(puller.bodies) == sorted(sent + more)
    assert all(name.startswith("flintmq-scheduled") for name in puller.threads)


def test_an_async_function_runs_on_the_loop(broker: EmbeddedBroker) -> None:
    sent = fill(broker, "async", 100, queues=2)

    async def main() -> None:
        bodies: list[bytes] = []
        threads = set()

        async def pull(queue: QueueRef, context: PullContext[aio.PullConsumer]) -> None:
            threads.add(threading.current_thread())
            offset = await context.consumer.committed(queue) or 0
            result = await context.consumer.pull(queue, offset)
            bodies.extend(message.body for message in result.messages)
            context.consumer.update_offset(queue, result.next_offset)
            context.next_delay_ms = 0

        schedule = aio.ScheduledPull("async", namesrv=broker.namesrv)
        schedule.register("async", pull)
        async with schedule:
            await until(lambda: len(bodies) == 100)
        assert sorted(bodies) == sorted(sent)
        assert threads == {threading.current_thread()}

    run(main())


def test_plain_functions_work_under_asyncio_too(broker: EmbeddedBroker) -> None:
    fill(broker, "mixed", 50)
    puller = Puller()

    async def main() -> None:
        async with aio.ScheduledPull("mixed", namesrv=broker.namesrv) as schedule:
            schedule.register("mixed", puller)
            await until(lambda: len(puller.bodies) == 50)

    run(main())


def test_offsets_are_stored_at_the_end(broker: EmbeddedBroker) -> None:
    fill(broker, "stored", 50)
    puller = Puller()
    with ScheduledPull("stored", namesrv=broker.namesrv) as schedule:
        schedule.register("stored", puller)
        wait_for(lambda: len(puller.bodies) == 50)

    with PullConsumer("stored", namesrv=broker.namesrv) as consumer:
        (queue,) = consumer.queues("stored")
        assert consumer.committed(queue) == 50


def test_two_members_share_the_queues(broker: EmbeddedBroker) -> None:
    fill(broker, "shares", 8, queues=4)
    with (
        ScheduledPull("shares", namesrv=broker.namesrv) as first,
        ScheduledPull("shares", namesrv=broker.namesrv) as second,
    ):
        for schedule in (first, second):
            schedule.register("shares", Puller())
        wait_for(lambda: len(first.queues) == 2 and len(second.queues) == 2)

        assert not first.queues & second.queues


def test_broadcasting_runs_for_every_queue_in_each(broker: EmbeddedBroker, tmp_path: Path) -> None:
    sent = fill(broker, "cast", 20, queues=2)
    pullers = [Puller(), Puller()]
    schedules = [
        ScheduledPull(
            "cast",
            namesrv=broker.namesrv,
            model=MessageModel.BROADCASTING,
            offsets_dir=tmp_path,
            instance_name=name,
        )
        for name in ("one", "two")
    ]
    for schedule, puller in zip(schedules, pullers, strict=True):
        schedule.register("cast", puller)
        with schedule:
            wait_for(partial(has_pulled, puller, 20))

        assert sorted(puller.bodies) == sorted(sent)
    assert len(list(tmp_path.glob("*/cast/offsets.json"))) == 2


def test_a_function_that_fails_runs_again_after_a_second(broker: EmbeddedBroker) -> None:
    fill(broker, "fails", 1)
    runs: list[float] = []

    def pull(queue: QueueRef, context: PullContext[PullConsumer]) -> None:
        runs.append(time.monotonic())
        if len(runs) == 1:
            raise RuntimeError("not yet")

    with ScheduledPull("fails", namesrv=broker.namesrv) as schedule:
        schedule.register("fails", pull)
        wait_for(lambda: len(runs) >= 3)

        assert "RuntimeError: not yet" in schedule.events("function")[0].text
    assert runs[1] - runs[0] >= 0.99
    assert runs[2] - runs[1] >= 0.19


def test_a_delay_that_is_none_is_a_failure(broker: EmbeddedBroker) -> None:
    fill(broker, "delays", 1)

    def pull(queue: QueueRef, context: PullContext[PullConsumer]) -> None:
        context.next_delay_ms = -1

    with ScheduledPull("delays", namesrv=broker.namesrv) as schedule:
        schedule.register("delays", pull)
        wait_for(lambda: schedule.events("function"))

        assert "next_delay_ms" in schedule.events("function")[0].text


def test_stopping_waits_for_what_runs(broker: EmbeddedBroker) -> None:
    fill(broker, "slow", 1)
    running, release, done = threading.Event(), threading.Event(), threading.Event()

    def pull(queue: QueueRef, context: PullContext[PullConsumer]) -> None:
        running.set()
        release.wait(60)
        context.consumer.commit(queue, 1)
        done.set()

    schedule = ScheduledPull("slow", namesrv=broker.namesrv)
    schedule.register("slow", pull)
    with nothing_left(), schedule:
        running.wait(60)
        threading.Timer(0.05, release.set).start()
    assert done.is_set()


def test_stopping_names_what_does_not_end(broker: EmbeddedBroker) -> None:
    fill(broker, "stuck", 1)
    running, release = threading.Event(), threading.Event()

    def pull(queue: QueueRef, context: PullContext[PullConsumer]) -> None:
        running.set()
        release.wait(60)

    schedule = ScheduledPull("stuck", namesrv=broker.namesrv).start()
    schedule.register("stuck", pull)
    running.wait(60)

    schedule.stop(timeout_s=0.05)

    release.set()
    assert "still runs" in schedule.events("stop")[0].text


def test_functions_cannot_stop_their_consumer(broker: EmbeddedBroker) -> None:
    fill(broker, "stops", 1)
    raised: list[BaseException] = []

    def pull(queue: QueueRef, context: PullContext[PullConsumer]) -> None:
        for act in (context.consumer.stop, context.consumer.start):
            try:
                act()
            except WrongState as error:
                raised.append(error)

    with ScheduledPull("stops", namesrv=broker.namesrv) as schedule:
        schedule.register("stops", pull)
        wait_for(lambda: len(raised) >= 2)

        assert "with its schedule" in str(raised[0])


def test_a_topic_has_one_function(broker: EmbeddedBroker) -> None:
    schedule = ScheduledPull("one", namesrv=broker.namesrv)
    schedule.register("t", Puller())

    with pytest.raises(InvalidSetting, match="has a function already"):
        schedule.register("t", Puller())
    with pytest.raises(InvalidSetting, match="threads"):
        ScheduledPull("one", threads=0)


def test_asyncio_functions_run_side_by_side(broker: EmbeddedBroker) -> None:
    fill(broker, "beside", 4, queues=4)

    async def main() -> None:
        waiting = set()

        async def pull(queue: QueueRef, context: PullContext[aio.PullConsumer]) -> None:
            waiting.add(queue)
            while len(waiting) < 4:  # noqa: ASYNC110  # all four have to be here at once
                await asyncio.sleep(0.001)

        async with aio.ScheduledPull("beside", namesrv=broker.namesrv) as schedule:
            schedule.register("beside", pull)
            await until(lambda: len(waiting) == 4)

    run(main())
