"""A lite pull consumer hands out every message once, and loses none when it stops or moves."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from flintmq import ConsumeFromWhere, LitePullConsumer, MessageModel, QueueRef, aio
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.client.admin_aio import Admin
from flintmq.client.offsets.offset_file import read_offsets
from flintmq.client.offsets.offset_store import FileOffsets
from flintmq.core.admin.groups import ConsumerDetail
from flintmq.core.admin.spans import ToTime
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import InvalidSetting, WrongState
from flintmq.net.address import Address
from flintmq.net.channels.channel import Channel
from flintmq.net.servers.server import serve_commands
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, answer
from flintmq.protocol.headers.pull import PullMessage
from flintmq.protocol.version import version_number
from flintmq.store.files.store_config import Flush, StoreConfig
from support.client.pulling_support import BROKER, Spy, fill, polled, send
from support.client.support import create_topic, nothing_left, run, wait_for

FIRST = ConsumeFromWhere.FIRST_OFFSET


def committed(broker: EmbeddedBroker, group: str, queue: QueueRef) -> int | None:
    offsets = broker.call(lambda servers: servers.brokers[BROKER].state.offsets)
    return offsets.query(group, queue.topic, queue.queue_id)


# Subscribing


def test_every_message_of_a_topic_is_handed_out_once(broker: EmbeddedBroker) -> None:
    sent = fill(broker, "once", 3_000, queues=4)
    with nothing_left():
        with LitePullConsumer("once", namesrv=broker.namesrv, start_from=FIRST) as consumer:
            consumer.subscribe("once")
            bodies = polled(consumer, 3_000)
            assert consumer.poll(0) == []

        assert sorted(bodies) == sorted(sent)


def test_a_batch_has_messages_of_one_queue_in_order(broker: EmbeddedBroker) -> None:
    fill(broker, "order", 1_000, queues=2)
    with LitePullConsumer("order", namesrv=broker.namesrv, start_from=FIRST) as consumer:
        consumer.subscribe("order")
        next_offset = [0, 0]
        while sum(next_offset) < 1_000:
            messages = consumer.poll(60_000)
            (queue_id,) = {message.queue_id for message in messages}
            start = next_offset[queue_id]
            next_offset[queue_id] = start + len(messages)
            offsets = [message.queue_offset for message in messages]
            assert offsets == list(range(start, next_offset[queue_id]))


def test_who_comes_after_goes_on_where_the_last_one_stopped(broker: EmbeddedBroker) -> None:
    fill(broker, "after", 500, queues=2)
    with LitePullConsumer("after", namesrv=broker.namesrv, start_from=FIRST) as first:
        first.subscribe("after")
        polled(first, 500)
    more = send(broker, "after", range(500, 510), queues=2)

    with LitePullConsumer("after", namesrv=broker.namesrv) as second:
        second.subscribe("after")

        assert sorted(polled(second, 10)) == sorted(more)


def test_a_batch_that_was_being_worked_on_when_it_failed_comes_again(
    broker: EmbeddedBroker,
) -> None:
    fill(broker, "failed", 20)

    def consumer() -> LitePullConsumer:
        return LitePullConsumer(
            "failed", namesrv=broker.namesrv, start_from=FIRST, pull_batch_max=10
        )

    def fail() -> None:
        with consumer() as first:
            first.subscribe("failed")
            polled(first, 10)
            (message, *_) = first.poll(60_000)
            assert message.queue_offset == 10
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    with consumer() as second:
        second.subscribe("failed")
        assert second.poll(60_000)[0].queue_offset == 10


def test_messages_are_chosen_by_tags_or_by_sql(broker: EmbeddedBroker) -> None:
    fill(broker, "by-tags", 30, tags=["paid", "open"])
    fill(broker, "by-sql", 30)
    with LitePullConsumer("choosers", namesrv=broker.namesrv, start_from=FIRST) as consumer:
        consumer.subscribe("by-tags", tags="paid")
        consumer.subscribe("by-sql", sql="n >= 28")

        assert Counter(polled(consumer, 17)) == Counter(
            [b"%d" % number for number in (*range(0, 30, 2), 28, 29)]
        )


def test_two_members_share_a_topic_and_one_takes_over_from_the_other(
    broker: EmbeddedBroker,
) -> None:
    fill(broker, "moves", 400, queues=4)

    def consumer() -> LitePullConsumer:
        return LitePullConsumer("movers", namesrv=broker.namesrv, start_from=FIRST)

    with consumer() as first:
        first.subscribe("moves")
        with consumer() as second:
            second.subscribe("moves")
            wait_for(lambda: len(first.assignment) == 2 and len(second.assignment) == 2)
            assert not first.assignment & second.assignment
            polled(second, 1)
        wait_for(lambda: len(first.assignment) == 4)

        more = send(broker, "moves", range(400, 440), queues=4)
        seen = set(polled(first, 40))
        while not seen >= set(more):
            seen |= set(polled(first, 1))


def test_a_topic_can_be_given_up(broker: EmbeddedBroker) -> None:
    fill(broker, "kept", 5)
    fill(broker, "given", 5)
    with LitePullConsumer("givers", namesrv=broker.namesrv, start_from=FIRST) as consumer:
        consumer.subscribe("given")
        consumer.subscribe("kept")
        wait_for(lambda: len(consumer.assignment) == 2)

        consumer.unsubscribe("given")
        consumer.unsubscribe("given")

        assert {queue.topic for queue in consumer.assignment} == {"kept"}
        assert len(polled(consumer, 5)) == 5
        assert consumer.poll(0) == []


def test_the_listener_on_queues_is_told_of_its_share(broker: EmbeddedBroker) -> None:
    create_topic(broker, "listened", 3)
    told: list[tuple[int, int]] = []
    with LitePullConsumer("listeners", namesrv=broker.namesrv) as consumer:
        consumer.on_queues_changed(
            "listened", lambda _, queues, own: told.append((len(queues), len(own)))
        )
        consumer.subscribe("listened")

        wait_for(lambda: bool(told) and told[-1] == (3, 3))


# Assigning


def test_assigned_queues_are_consumed_whoever_else_reads_them(broker: EmbeddedBroker) -> None:
    fill(broker, "assigned", 40, queues=4)
    queue = QueueRef("assigned", BROKER, 2)
    with (
        LitePullConsumer("assigned", namesrv=broker.namesrv, start_from=FIRST) as first,
        LitePullConsumer("assigned", namesrv=broker.namesrv, start_from=FIRST) as second,
    ):
        first.assign([queue])
        second.assign([queue])

        assert first.assignment == {queue}
        assert len(polled(first, 10)) == 10
        assert len(polled(second, 10)) == 10


def test_assignments_before_the_start_count(broker: EmbeddedBroker) -> None:
    fill(broker, "before", 5)
    consumer = LitePullConsumer("before", namesrv=broker.namesrv, start_from=FIRST)
    consumer.assign([QueueRef("before", BROKER, 0)], tags="*")

    with consumer:
        assert len(polled(consumer, 5)) == 5


def test_new_queues_of_a_topic_are_told_to_who_assigns_by_itself(broker: EmbeddedBroker) -> None:
    create_topic(broker, "grows", 1)
    told: list[tuple[int, int]] = []
    consumer = LitePullConsumer("grows", namesrv=broker.namesrv, route_ms=100)
    consumer.on_queues_changed("grows", lambda _, queues, own: told.append((len(queues), len(own))))
    consumer.assign([QueueRef("grows", BROKER, 0)])
    with consumer:
        wait_for(lambda: told == [(1, 1)])

        create_topic(broker, "grows", 3)

        wait_for(lambda: told == [(1, 1), (3, 1)])


def test_subscribing_and_assigning_exclude_each_other(broker: EmbeddedBroker) -> None:
    queue = QueueRef("t", BROKER, 0)
    subscribed = LitePullConsumer("a", namesrv=broker.namesrv)
    subscribed.subscribe("t")
    with pytest.raises(WrongState, match="exclude each other"):
        subscribed.assign([queue])

    assigned = LitePullConsumer("b", namesrv=broker.namesrv)
    assigned.assign([queue])
    with pytest.raises(WrongState, match="exclude each other"):
        assigned.subscribe("t")


# Where to go on


def test_a_seek_goes_anywhere_in_the_queue_and_nowhere_else(broker: EmbeddedBroker) -> None:
    fill(broker, "sought", 100)
    queue = QueueRef("sought", BROKER, 0)
    with LitePullConsumer("seekers", namesrv=broker.namesrv, start_from=FIRST) as consumer:
        consumer.assign([queue])
        first = consumer.poll(60_000)[0]

        consumer.seek(queue, 40)
        assert consumer.poll(60_000)[0].queue_offset == 40
        consumer.seek_to_start(queue)
        assert consumer.poll(60_000)[0].queue_offset == 0
        consumer.seek_to_time(queue, first.store_ms)
        assert consumer.poll(60_000)[0].queue_offset == 0
        consumer.seek_to_end(queue)
        assert consumer.poll(0) == []
        assert consumer.position(queue) == 100
        consumer.seek(queue, 100)
        for offset in (101, 10**6):
            with pytest.raises(InvalidSetting, match="reaches from 0 to 100"):
                consumer.seek(queue, offset)
        with pytest.raises(InvalidSetting, match="not assigned"):
            consumer.seek(QueueRef("sought", BROKER, 7), 0)
        assert consumer.offset_at(queue, first.store_ms) == 0


def test_a_seek_back_is_what_is_committed(broker: EmbeddedBroker) -> None:
    fill(broker, "back", 50)
    queue = QueueRef("back", BROKER, 0)
    with LitePullConsumer(
        "back", namesrv=broker.namesrv, start_from=FIRST, pull_batch_max=10
    ) as consumer:
        consumer.assign([queue])
        polled(consumer, 50)
        consumer.commit()
        assert committed(broker, "back", queue) == 50

        consumer.seek(queue, 20)
        polled(consumer, 10)
        consumer.commit()

        assert committed(broker, "back", queue) == 30


@pytest.mark.parametrize(
    ("start_from", "start_at_ms", "expected"),
    [
        (ConsumeFromWhere.LAST_OFFSET, None, 10),
        (ConsumeFromWhere.FIRST_OFFSET, None, 0),
        (ConsumeFromWhere.TIMESTAMP, 0, 0),
    ],
)
def test_a_new_group_starts_where_it_wants_and_that_is_stored(
    broker: EmbeddedBroker,
    tmp_path: Path,
    start_from: ConsumeFromWhere,
    start_at_ms: int | None,
    expected: int,
) -> None:
    """A store of one's own: brokers say 0 for a queue that has lost nothing yet."""
    topic = f"starts-{start_from}"
    fill(broker, topic, 10)
    queue = QueueRef(topic, BROKER, 0)
    store = FileOffsets("me", "starts", directory=tmp_path)
    with LitePullConsumer(
        "starts",
        namesrv=broker.namesrv,
        start_from=start_from,
        start_at_ms=start_at_ms,
        offset_store=store,
    ) as consumer:
        consumer.assign([queue])
        wait_for(lambda: consumer.position(queue) is not None)
        assert consumer.position(queue) == expected

    assert read_offsets(store.path) == {queue: expected}


def test_a_new_group_misses_nothing_of_a_queue_that_has_lost_nothing(
    broker: EmbeddedBroker,
) -> None:
    fill(broker, "young", 10)
    with LitePullConsumer("young", namesrv=broker.namesrv) as consumer:
        consumer.subscribe("young")

        assert len(polled(consumer, 10)) == 10


# Committing


def test_what_was_handed_out_is_committed_every_few_seconds(broker: EmbeddedBroker) -> None:
    fill(broker, "auto", 30)
    queue = QueueRef("auto", BROKER, 0)
    with LitePullConsumer(
        "auto", namesrv=broker.namesrv, start_from=FIRST, auto_commit_ms=1_000
    ) as consumer:
        consumer.subscribe("auto")
        polled(consumer, 30)

        def is_committed() -> bool:
            consumer.poll(20)
            return committed(broker, "auto", queue) == 30

        wait_for(is_committed)


def test_without_auto_commit_the_program_commits(broker: EmbeddedBroker) -> None:
    fill(broker, "manual", 30)
    queue = QueueRef("manual", BROKER, 0)
    with LitePullConsumer(
        "manual", namesrv=broker.namesrv, start_from=FIRST, auto_commit=False
    ) as consumer:
        consumer.subscribe("manual")
        polled(consumer, 30)
        consumer.poll(0)
        assert committed(broker, "manual", queue) is None

        consumer.commit({queue: 12})
        assert committed(broker, "manual", queue) == 12
        consumer.commit({queue: 20}, persist=False)
        assert consumer.committed(queue) == 20
        consumer.commit()
        assert committed(broker, "manual", queue) == 30
        consumer.commit({queue: 25}, persist=False)

    assert committed(broker, "manual", queue) == 25


def test_broadcasting_gives_everything_to_each_and_keeps_a_file(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    fill(broker, "cast", 20, queues=2)

    def consumer(name: str) -> LitePullConsumer:
        return LitePullConsumer(
            "cast",
            namesrv=broker.namesrv,
            model=MessageModel.BROADCASTING,
            start_from=FIRST,
            offsets_dir=tmp_path,
            instance_name=name,
        )

    with consumer("one") as first, consumer("two") as second:
        for each in (first, second):
            each.subscribe("cast")
        assert sorted(polled(first, 20)) == sorted(polled(second, 20))
    send(broker, "cast", [20], queues=2)
    with consumer("one") as first:
        first.subscribe("cast")
        assert polled(first, 1) == [b"20"]
        assert first.poll(0) == []


def test_a_store_of_ones_own_takes_the_place_of_the_broker(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    fill(broker, "own-store", 10)
    queue = QueueRef("own-store", BROKER, 0)
    store = FileOffsets("me", "own-store", directory=tmp_path)
    with LitePullConsumer(
        "own-store", namesrv=broker.namesrv, start_from=FIRST, offset_store=store
    ) as consumer:
        consumer.subscribe("own-store")
        polled(consumer, 10)

    assert store.clone() == {queue: 10}
    assert committed(broker, "own-store", queue) is None


# Pausing, waiting, stopping


def test_a_paused_queue_rests(broker: EmbeddedBroker) -> None:
    fill(broker, "paused", 40, queues=2)
    resting, other = QueueRef("paused", BROKER, 0), QueueRef("paused", BROKER, 1)
    with LitePullConsumer("paused", namesrv=broker.namesrv, start_from=FIRST) as consumer:
        consumer.assign([resting, other])
        consumer.pause(resting)

        assert len(polled(consumer, 20)) == 20
        assert consumer.poll(50) == []
        consumer.resume(resting)
        assert {message.queue_id for message in consumer.poll(60_000)} == {0}


def test_everything_can_be_paused(broker: EmbeddedBroker) -> None:
    fill(broker, "all-paused", 10)
    with LitePullConsumer("all-paused", namesrv=broker.namesrv, start_from=FIRST) as consumer:
        consumer.assign([QueueRef("all-paused", BROKER, 0)])
        consumer.pause()
        assert consumer.poll(50) == []

        consumer.resume()

        assert len(polled(consumer, 10)) == 10


def test_a_poll_wakes_when_a_message_comes(broker: EmbeddedBroker) -> None:
    create_topic(broker, "wakes", 1)
    queue = QueueRef("wakes", BROKER, 0)
    with LitePullConsumer("wakes", namesrv=broker.namesrv, start_from=FIRST) as consumer:
        consumer.assign([queue])
        wait_for(lambda: consumer.position(queue) is not None)
        came: list[bytes] = []
        thread = threading.Thread(target=lambda: came.extend(polled(consumer, 1)))
        thread.start()

        send(broker, "wakes", [1])
        thread.join(60)

        assert came == [b"1"]


def test_a_poll_comes_back_empty_when_the_consumer_stops(broker: EmbeddedBroker) -> None:
    async def main() -> None:
        consumer = aio.LitePullConsumer("stopping", namesrv=broker.namesrv)
        await consumer.start()
        polling = asyncio.create_task(consumer.poll(60_000))
        await asyncio.sleep(0)
        await consumer.stop()
        assert await polling == []
        with pytest.raises(WrongState, match="stopped"):
            await consumer.poll()

    run(main())


def test_calls_at_the_wrong_time_say_so(broker: EmbeddedBroker) -> None:
    consumer = LitePullConsumer("states", namesrv=broker.namesrv)
    with pytest.raises(WrongState, match="start it first"):
        consumer.poll()
    with pytest.raises(WrongState, match="start it first"):
        consumer.pause()
    with pytest.raises(InvalidSetting, match="greater than hold_ms"):
        LitePullConsumer("g", hold_ms=40_000)


# What goes over the wire


@pytest.mark.parametrize(("version", "code"), [("V4_9_8", 11), ("V5_3_3", 361)])
def test_lite_pull_speaks_as_the_broker_understands(version: str, code: int) -> None:
    """4.9 does not know 361; its version is what it says in the answer to a heartbeat."""
    heard: list[Command] = []
    pulls: list[PullMessage] = []

    def serve(request: Command, _channel: Channel) -> Command:
        heard.append(request)
        if request.code in (11, 361):
            pulls.append(request.header(PullMessage))
        return _old(_served(request, str(server_address[0])), version_number(version))

    server_address: list[Address] = []

    async def main() -> None:
        server = await serve_commands(Address("127.0.0.1", 0), serve)
        server_address.append(server.address)
        consumer = aio.LitePullConsumer("g", namesrv=str(server.address), start_from=FIRST)
        async with server, consumer:
            consumer.assign([QueueRef("t", BROKER, 0)])
            assert await consumer.poll(100) == []

    run(main())

    assert {request.code for request in heard} & {11, 361} == {code}
    assert (pulls[0].sys_flag, pulls[0].max_msg_bytes) == (22, 2**31 - 1)
    assert pulls[0].suspend_timeout_millis == 20_000


def _served(request: Command, address: str) -> Command:
    """What a broker and name server with one empty queue say."""
    if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
        body = (
            f'{{"brokerDatas":[{{"brokerAddrs":{{0:"{address}"}},"brokerName":"{BROKER}","cluster":"c"}}],'
            f'"queueDatas":[{{"brokerName":"{BROKER}","perm":6,"readQueueNums":1,"writeQueueNums":1,'
            '"topicSysFlag":0}]}'
        )
        return answer(request, 0, body=body.encode())
    if request.code == RequestCode.QUERY_CONSUMER_OFFSET:
        return answer(request, ResponseCode.QUERY_NOT_FOUND)
    if request.code in (11, 361):
        return answer(request, ResponseCode.SYSTEM_ERROR, remark="not now")
    return answer(request, 0)


def _old(command: Command, version: int) -> Command:
    return replace(command, version=version)


def test_our_broker_is_asked_for_many_at_once(broker: EmbeddedBroker) -> None:
    fill(broker, "large", 1_000)
    spy = Spy()
    with LitePullConsumer(
        "large", namesrv=broker.namesrv, start_from=FIRST, request_hooks=(spy,), pull_batch_max=500
    ) as consumer:
        consumer.subscribe("large")

        assert len(consumer.poll(60_000)) == 500
        assert RequestCode.LITE_PULL_MESSAGE in spy.codes()


# Trouble


def test_it_goes_on_after_the_broker_was_restarted(own_broker: EmbeddedBroker) -> None:
    fill(own_broker, "restarts", 10)
    with (
        nothing_left(),
        LitePullConsumer(
            "restarts", namesrv=own_broker.namesrv, start_from=FIRST, pull_error_delay_ms=50
        ) as consumer,
    ):
        consumer.subscribe("restarts")
        polled(consumer, 10)
        own_broker.stop_broker(BROKER)
        wait_for(lambda: consumer.events("pull"))
        own_broker.start_broker(BROKER)

        send(own_broker, "restarts", range(10, 15))

        assert sorted(polled(consumer, 5)) == [b"10", b"11", b"12", b"13", b"14"]


@pytest.mark.parametrize("server_side", [True, False])
def test_a_reset_moves_a_running_consumer(server_side: bool) -> None:
    store = StoreConfig(flush=Flush.ASYNC)
    config = BrokerConfig(store=store, server_side_reset=server_side)
    with EmbeddedBroker(config=config) as broker:
        fill(broker, "reset", 20)
        queue = QueueRef("reset", BROKER, 0)
        with LitePullConsumer("reset", namesrv=broker.namesrv, start_from=FIRST) as consumer:
            consumer.subscribe("reset")
            polled(consumer, 20)
            consumer.commit()

            async def reset() -> None:
                async with Admin(namesrv=broker.namesrv) as admin:
                    plan = await admin.plan_reset("reset", "reset", ToTime(0))
                    await admin.apply_reset(plan)

            run(reset())
            if server_side:  # the next pull is told, and the one that waits is woken by a message
                send(broker, "reset", [20])

            offsets: list[int] = []
            while 0 not in offsets:
                messages = consumer.poll(60_000)
                assert messages
                offsets += [message.queue_offset for message in messages]
            assert consumer.position(queue) is not None


def test_messages_that_are_sent_back_come_to_who_subscribes_to_them(
    own_broker: EmbeddedBroker,
) -> None:
    fill(own_broker, "retried", 1)
    with LitePullConsumer("retried", namesrv=own_broker.namesrv, start_from=FIRST) as consumer:
        consumer.subscribe("retried")
        consumer.subscribe(consumer.retry_topic)
        (message,) = consumer.poll(60_000)

        consumer.send_back(message, delay_level=1)
        own_broker.advance(2)

        (again,) = consumer.poll(60_000)
        assert (again.topic, again.body, again.reconsume_times) == ("retried", b"0", 1)


def test_a_namespace_is_not_seen(broker: EmbeddedBroker) -> None:
    fill(broker, "ns%lite", 5)
    with LitePullConsumer(
        "g", namesrv=broker.namesrv, namespace="ns", start_from=FIRST
    ) as consumer:
        consumer.subscribe("lite")
        messages = consumer.poll(60_000)

        assert {message.topic for message in messages} == {"lite"}
        assert consumer.assignment == {QueueRef("lite", BROKER, 0)}
    assert committed(broker, "ns%g", QueueRef("ns%lite", BROKER, 0)) == 5


def test_both_faces_have_the_same_names() -> None:
    threaded = {name for name in dir(LitePullConsumer) if not name.startswith("_")}
    awaited = {name for name in dir(aio.LitePullConsumer) if not name.startswith("_")}

    assert awaited - threaded == {"require_running", "poll_past_loop"}
    assert threaded <= awaited


def test_an_admin_is_told_how_it_is_doing(broker: EmbeddedBroker) -> None:
    fill(broker, "told", 5)
    queue = QueueRef("told", BROKER, 0)

    async def describe(client_id: str) -> ConsumerDetail:
        async with Admin(namesrv=broker.namesrv) as admin:
            return await admin.describe_consumer("told", client_id)

    with LitePullConsumer("told", namesrv=broker.namesrv, start_from=FIRST) as consumer:
        consumer.subscribe("told", tags="*")
        polled(consumer, 5)

        detail = run(describe(consumer.client_id))

    assert detail.settings["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
    assert detail.settings["pull_batch_max"] == "256"
    assert detail.running.mq_table[queue].commit_offset == 5
    assert [each.topic for each in detail.running.subscription_set] == ["told"]
