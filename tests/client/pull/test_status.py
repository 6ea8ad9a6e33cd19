"""A consumer that pulls says of each queue what it waits for and why."""

from __future__ import annotations

import threading

import pytest

from flintmq import (
    ConsumeFromWhere,
    LitePullConsumer,
    PullConsumer,
    PullContext,
    QueueRef,
    ScheduledPull,
    aio,
)
from flintmq.client.push.push_status import PullingStatus, QueueStatus
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import WrongState
from support.client.pulling_support import BROKER, fill
from support.client.support import create_topic, run, wait_for

FIRST = ConsumeFromWhere.FIRST_OFFSET


def only(status: PullingStatus) -> QueueStatus:
    (queue,) = status.queues
    return queue


def test_a_lite_pull_consumer_tells_its_limits_and_its_pulls(broker: EmbeddedBroker) -> None:
    fill(broker, "told", 50)
    consumer = LitePullConsumer(
        "told", namesrv=broker.namesrv, start_from=FIRST, queue_count_max=15, pull_batch_max=10
    )
    with consumer:
        consumer.subscribe("told")
        wait_for(lambda: any(each.waits_for == "count" for each in consumer.status().queues))
        full = only(consumer.status())
        assert full.queue == QueueRef("told", BROKER, 0)
        assert full.why == "20 messages cached, the limit is 15"
        assert (full.cached_count, full.next_offset, full.settled_to) == (20, 20, 0)
        while consumer.poll(100):
            pass
        wait_for(lambda: only(consumer.status()).waits_for == "pull")
        idle = only(consumer.status())
        assert (idle.stage, idle.next_offset, idle.settled_to) == ("pulling", 50, 50)
        consumer.pause()
        assert only(consumer.status()).stage == "paused"
        status = consumer.status()
        assert (status.group, status.state, status.troubles) == ("told", "running", {})
    with pytest.raises(WrongState):
        consumer.status()


def test_the_limit_of_all_queues_is_told_as_such(broker: EmbeddedBroker) -> None:
    fill(broker, "total", 60, queues=2)
    consumer = LitePullConsumer(
        "total", namesrv=broker.namesrv, start_from=FIRST, total_count_max=5, pull_batch_max=10
    )
    with consumer:
        consumer.subscribe("total")
        wait_for(
            lambda: (
                {each.why for each in consumer.status().queues}
                == {"too many messages cached of all queues"}
            )
        )


def test_names_are_those_the_program_knows(broker: EmbeddedBroker) -> None:
    create_topic(broker, "shop%named", 1)
    consumer = LitePullConsumer("named", namesrv=broker.namesrv, namespace="shop")
    with consumer:
        consumer.subscribe("named")
        wait_for(lambda: consumer.status().queues)
        assert only(consumer.status()).queue.topic == "named"


def test_a_broker_that_is_gone_is_trouble(own_broker: EmbeddedBroker) -> None:
    fill(own_broker, "gone", 5)
    consumer = LitePullConsumer("gone", namesrv=own_broker.namesrv, rebalance_interval_ms=1_000)
    with consumer:
        consumer.subscribe("gone")
        wait_for(lambda: consumer.status().queues)
        address = own_broker.broker
        own_broker.stop_broker(BROKER)
        wait_for(lambda: only(consumer.status()).waits_for == "failed")
        failed = only(consumer.status())
        assert failed.wait_ms is not None
        assert address in failed.why
        wait_for(lambda: "gone" in consumer.status().troubles)


def test_a_pull_consumer_tells_its_pulls_and_what_it_knows(broker: EmbeddedBroker) -> None:
    fill(broker, "asked", 5)
    queue = QueueRef("asked", BROKER, 0)
    with PullConsumer("asked", namesrv=broker.namesrv, hold_ms=2_000) as consumer:
        assert consumer.status().queues == ()
        consumer.update_offset(queue, 3)
        known = only(consumer.status())
        assert (known.queue, known.waits_for, known.settled_to) == (queue, "program", 3)
        waiting = threading.Thread(target=lambda: consumer.pull_blocking(queue, 5))
        waiting.start()
        wait_for(lambda: only(consumer.status()).waits_for == "pull")
        assert only(consumer.status()).why.startswith("pulls from 5 since ")
        waiting.join()
        assert only(consumer.status()).waits_for == "program"


def test_a_schedule_tells_which_functions_run_and_when_the_others_do(
    broker: EmbeddedBroker,
) -> None:
    fill(broker, "planned", 5)
    gate, fail = threading.Event(), threading.Event()

    def pull(queue: QueueRef, context: PullContext[PullConsumer]) -> None:
        if fail.is_set():
            raise ValueError("no")
        gate.wait(60)
        context.consumer.update_offset(queue, 5)
        context.next_delay_ms = 20 if gate.is_set() else 60_000

    with ScheduledPull("planned", namesrv=broker.namesrv) as schedule:
        schedule.register("planned", pull)
        wait_for(lambda: any(each.waits_for == "function" for each in schedule.status().queues))
        assert only(schedule.status()).why.startswith("its function runs since ")
        gate.set()
        seen = [only(schedule.status())]

        def rests_now() -> bool:  # for 20 ms only: what is looked at is what was waited for
            seen[0] = only(schedule.status())
            return seen[0].waits_for == "delay"

        wait_for(rests_now)
        rests = seen[0]
        assert rests.wait_ms is not None
        assert rests.settled_to == 5
        fail.set()
        wait_for(lambda: "raised" in only(schedule.status()).why)


def test_the_faces_for_asyncio_tell_the_same(broker: EmbeddedBroker) -> None:
    fill(broker, "both", 1)

    async def main() -> None:
        async with aio.LitePullConsumer("both", namesrv=broker.namesrv) as lite:
            assert (await lite.status()).queues == ()
        async with aio.PullConsumer("both", namesrv=broker.namesrv) as pulling:
            assert (await pulling.status()).state == "running"
        async with aio.ScheduledPull("both", namesrv=broker.namesrv) as schedule:
            assert (await schedule.status()).group == "both"

    run(main())
