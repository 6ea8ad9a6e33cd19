"""The producer stores what it is given, tells where, and says clearly why it could not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from flintmq import Message, Producer, QueueRef, SendReceipt, SendStatus, aio
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.client.engine.lifecycle import State
from flintmq.core.producer.send_draft import MESSAGE_BYTES_MAX
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import (
    BodyTooLarge,
    BrokerRefused,
    FlintError,
    InvalidName,
    InvalidSetting,
    NoRoute,
    PartlySent,
    SendFailed,
    Unreachable,
    WrongState,
)
from flintmq.model.sys_flag import COMPRESSED
from flintmq.net.address import Address
from flintmq.net.channels.channel import Channel
from flintmq.net.servers.server import serve_commands
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.command import Command, answer
from flintmq.store.files.store_config import Flush, StoreConfig
from support.client.support import (
    client_threads,
    create_topic,
    in_enough_time,
    nothing_left,
    run,
    stored,
    wait_for,
)
from support.net.support import closed_port, until


def test_a_message_arrives_as_it_was_sent(broker: EmbeddedBroker) -> None:
    message = Message(
        "arrives", b"body", tags="paid", keys=["o-1", "o-2"], properties={"a": "b"}, flag=9
    )
    with nothing_left(), Producer("shop", namesrv=broker.namesrv) as producer:
        receipt = producer.send(message)

    (found,) = stored(broker, "arrives")
    assert found.body == b"body"
    assert (found.tags, found.keys, found.flag) == ("paid", ("o-1", "o-2"), 9)
    assert found.properties["a"] == "b"
    assert receipt.status is SendStatus.OK
    assert receipt.message_id == found.message_id
    assert receipt.offset_message_id == found.offset_message_id
    assert receipt.queue == QueueRef("arrives", "broker-a", found.queue_id)
    assert receipt.queue_offset == found.queue_offset
    assert (receipt.region, receipt.trace_on) == ("DefaultRegion", True)


def test_the_asyncio_face_has_the_same_names(broker: EmbeddedBroker) -> None:
    async def main() -> list[SendReceipt]:
        async with aio.Producer("shop", namesrv=broker.namesrv) as producer:
            first = await producer.send(Message("faces", b"1"))
            second = await (await producer.send_async(Message("faces", b"2")))
            await producer.send_oneway(Message("faces", b"3"))
            batch = await producer.send_batch([Message("faces", b"4"), Message("faces", b"5")])
            await until(lambda: len(stored(broker, "faces")) == 5)
            return [first, second, *batch]

    receipts = run(main())

    found = {each.message_id: each.offset_message_id for each in stored(broker, "faces")}
    assert {each.message_id: each.offset_message_id for each in receipts}.items() < found.items()
    public = {name for name in vars(aio.Producer) if not name.startswith("_")}
    assert public - {
        "require_running",
        "direct_line",
        "send_past_loop",
        "send_batch_past_loop",
    } <= set(dir(Producer))


def test_queues_are_used_in_turn(broker: EmbeddedBroker) -> None:
    create_topic(broker, "turns")
    with Producer("shop", namesrv=broker.namesrv) as producer:
        used = [producer.send(Message("turns", b"x")).queue.queue_id for _ in range(8)]
        queues = producer.queues("turns")

    assert sorted(used) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert queues == [QueueRef("turns", "broker-a", number) for number in range(4)]


def test_a_queue_a_selector_or_a_key_decides_where_a_message_goes(broker: EmbeddedBroker) -> None:
    create_topic(broker, "chosen")
    wanted = QueueRef("chosen", "broker-a", 3)
    with Producer("shop", namesrv=broker.namesrv) as producer:
        by_queue = producer.send(Message("chosen", b"x"), queue=wanted)
        by_selector = producer.send(
            Message("chosen", b"x"), selector=lambda queues, message: queues[2]
        )
        by_key = {
            producer.send(Message("chosen", b"x"), sharding_key="customer-7").queue
            for _ in range(5)
        }
        with pytest.raises(InvalidSetting, match="one of queue, selector and sharding_key"):
            producer.send(Message("chosen", b"x"), queue=wanted, sharding_key="k")
        with pytest.raises(InvalidSetting, match="the message is for 'other'"):
            producer.send(Message("other", b"x"), queue=wanted)

    assert by_queue.queue == wanted
    assert by_selector.queue.queue_id == 2
    assert len(by_key) == 1
    keys = [each.properties.get("__SHARDINGKEY") for each in stored(broker, "chosen")]
    assert keys.count("customer-7") == 5


def test_a_large_body_travels_packed_and_arrives_whole(broker: EmbeddedBroker) -> None:
    sizes: list[int] = []

    class Watch:
        def before(self, address: str, request: Command) -> Command:
            sizes.append(len(request.body))
            return request

        def after(self, address: str, request: Command, answer: Command | None) -> None: ...

    body = b"x" * 100_000
    with Producer("shop", namesrv=broker.namesrv, request_hooks=(Watch(),)) as producer:
        producer.send(Message("packed", body))

    (found,) = stored(broker, "packed")
    assert found.body == body
    assert not found.sys_flag & COMPRESSED
    assert max(sizes) < 1_000


def test_a_delayed_message_comes_when_it_is_due(own_broker: EmbeddedBroker) -> None:
    create_topic(own_broker, "later")
    with Producer("shop", namesrv=own_broker.namesrv) as producer:
        producer.send(Message("later", b"level", delay_level=17))  # an hour
        producer.send(Message("later", b"delay", delay_ms=7_200_000))
        assert stored(own_broker, "later") == []
        own_broker.advance(3_600)
        wait_for(lambda: [each.body for each in stored(own_broker, "later")] == [b"level"])
        own_broker.advance(3_600)
        wait_for(lambda: len(stored(own_broker, "later")) == 2)


def test_a_oneway_message_is_stored_too(broker: EmbeddedBroker) -> None:
    with Producer("shop", namesrv=broker.namesrv) as producer:
        producer.send_oneway(Message("oneway", b"x"))

        wait_for(lambda: len(stored(broker, "oneway")) == 1)


def test_a_batch_is_split_and_every_message_has_its_receipt(broker: EmbeddedBroker) -> None:
    messages = [Message("batch", bytes([number]) * 300, tags="t") for number in range(10)]
    with Producer("shop", namesrv=broker.namesrv, batch_bytes_max=1_200) as producer:
        receipts = producer.send_batch(messages)

    found = {each.message_id: each for each in stored(broker, "batch")}
    assert [found[each.message_id].body for each in receipts] == [each.body for each in messages]
    for receipt in receipts:
        message = found[receipt.message_id]
        assert receipt.offset_message_id == message.offset_message_id
        assert (receipt.queue.queue_id, receipt.queue_offset) == (
            message.queue_id,
            message.queue_offset,
        )
    assert len({each.queue for each in receipts}) > 1, "several requests, several queues"


def test_a_batch_can_go_to_one_queue(broker: EmbeddedBroker) -> None:
    create_topic(broker, "batch-queue")
    queue = QueueRef("batch-queue", "broker-a", 2)
    with Producer("shop", namesrv=broker.namesrv, batch_bytes_max=200) as producer:
        receipts = producer.send_batch([Message("batch-queue", b"x" * 100)] * 4, queue=queue)

    assert [(each.queue, each.queue_offset) for each in receipts] == [
        (queue, offset) for offset in range(4)
    ]


def test_a_batch_that_fails_in_the_middle_says_how_far_it_came(own_broker: EmbeddedBroker) -> None:
    messages = [Message("partly", b"x" * 500) for _ in range(4)]
    sent = 0

    class Sever:
        def before(self, address: str, request: Command) -> Command:
            nonlocal sent
            if request.code == 320:
                sent += 1
                if sent == 3:
                    return Command(code=9_999)
            return request

        def after(self, address: str, request: Command, answer: Command | None) -> None: ...

    with (
        Producer(
            "shop", namesrv=own_broker.namesrv, batch_bytes_max=600, request_hooks=(Sever(),)
        ) as producer,
        pytest.raises(PartlySent) as caught,
    ):
        producer.send_batch(messages)

    assert (caught.value.stored, caught.value.total) == (2, 4)
    assert isinstance(caught.value.__cause__, BrokerRefused)
    assert len(stored(own_broker, "partly")) == 2


def test_many_sends_run_side_by_side_within_their_limit(broker: EmbeddedBroker) -> None:
    create_topic(broker, "async")
    with Producer("shop", namesrv=broker.namesrv, in_flight_max=10) as producer:
        futures = [producer.send_async(Message("async", b"x")) for _ in range(300)]
        producer.flush()

        assert all(future.done() for future in futures)
        assert len({future.result().message_id for future in futures}) == 300
    assert len(stored(broker, "async")) == 300


def test_a_callback_hears_of_the_receipt_or_of_the_error(broker: EmbeddedBroker) -> None:
    heard: list[object] = []

    def raises(outcome: object) -> None:
        raise ValueError(outcome)

    with Producer("shop", namesrv=broker.namesrv) as producer:
        producer.send_async(Message("callback", b"x"), callback=heard.append)
        too_large = Message("callback", bytes(MESSAGE_BYTES_MAX + 1))
        producer.send_async(too_large, callback=heard.append)
        producer.send_async(Message("callback", b"x"), callback=raises)
        producer.flush()
        wait_for(lambda: len(heard) == 2)

    assert {type(each) for each in heard} == {SendReceipt, BodyTooLarge}


def test_stop_waits_for_what_is_under_way(broker: EmbeddedBroker) -> None:
    create_topic(broker, "stopping")
    with Producer("shop", namesrv=broker.namesrv) as producer:
        futures = [producer.send_async(Message("stopping", b"x")) for _ in range(200)]

    assert [future.result().status for future in futures] == [SendStatus.OK] * 200
    assert len(stored(broker, "stopping")) == 200


def test_many_threads_may_use_one_producer(broker: EmbeddedBroker) -> None:
    create_topic(broker, "threads")
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(25):
                producer.send(Message("threads", b"x"))
        except BaseException as error:
            failures.append(error)

    with Producer("shop", namesrv=broker.namesrv) as producer:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert not failures
    assert len(stored(broker, "threads")) == 200


def test_topics_are_sent_to_inside_a_namespace(broker: EmbeddedBroker) -> None:
    with Producer("shop", namesrv=broker.namesrv, namespace="ns") as producer:
        receipt = producer.send(Message("spaced", b"x"))
        queue = producer.queues("spaced")[0]
        producer.send(Message("spaced", b"y"), queue=queue)
        producer.send_batch([Message("spaced", b"z")])

    found = stored(broker, "ns%spaced")
    assert [each.body for each in found] == [b"x", b"y", b"z"]
    assert {each.properties["INSTANCE_ID"] for each in found} == {"ns"}
    assert receipt.queue.topic == "spaced"
    assert queue.topic == "spaced"


# What can go wrong


def test_a_producer_that_is_not_running_says_so() -> None:
    producer = Producer("shop", namesrv="127.0.0.1:1")
    message = Message("t", b"x")
    calls: list[Callable[[], object]] = [
        lambda: producer.send(message),
        lambda: producer.send_async(message),
        lambda: producer.send_oneway(message),
        lambda: producer.send_batch([message]),
        lambda: producer.request(message),
        producer.flush,
        lambda: producer.queues("t"),
    ]

    states = [producer.state]
    for call in calls:
        with pytest.raises(WrongState, match="Producer 'shop' is created: start it first"):
            call()
    producer.stop()
    producer.stop()
    states.append(producer.state)
    for call in calls:
        with pytest.raises(WrongState, match="stopped"):
            call()
    with pytest.raises(WrongState, match="stopped"):
        producer.start()
    assert states == [State.CREATED, State.STOPPED]


def test_starting_twice_is_an_error_and_leaves_it_running(broker: EmbeddedBroker) -> None:
    with Producer("shop", namesrv=broker.namesrv) as producer:
        with pytest.raises(WrongState, match="started before"):
            producer.start()
        producer.send(Message("twice", b"x"))


def test_without_a_name_server_it_does_not_start_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, broker: EmbeddedBroker
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    producer = Producer("shop")
    with nothing_left(), pytest.raises(InvalidSetting, match="NAMESRV_ADDR"):
        producer.start()
    assert producer.state is State.FAILED
    assert client_threads() == set()

    monkeypatch.setenv("NAMESRV_ADDR", broker.namesrv)
    with producer:
        producer.send(Message("by-environment", b"x"))


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"namesrv": "http://x:1"}, "address"),
        ({"retries": -1}, "retries"),
        ({"in_flight_max": 0}, "in_flight_max"),
        ({"avoid_slow": "6"}, "avoid_slow"),
        ({"compression": "rar"}, "compression"),
        ({"heartbeat_ms": 0}, "heartbeat_ms"),
        ({"access_key": "a"}, "access_key"),
        ({"security_token": "a"}, "security_token"),
        ({"instance_name": "a@b"}, "instance_name"),
        ({"namespace": "a/b"}, "namespace"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused(settings: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        Producer("shop", **settings)
    assert caught.value.setting == name


def test_an_unknown_setting_is_told_with_the_nearest_known_one() -> None:
    with pytest.raises(InvalidSetting, match="did you mean retries"):
        Producer("shop", retrys=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("group", ["", "a b", "DEFAULT_PRODUCER", "x" * 256])
def test_a_group_brokers_would_refuse_is_refused(group: str) -> None:
    with pytest.raises(InvalidName):
        Producer(group)


def test_the_same_group_and_client_id_twice_is_an_error(broker: EmbeddedBroker) -> None:
    with Producer("shop", namesrv=broker.namesrv, instance_name="one") as first:
        second = Producer("shop", namesrv=broker.namesrv, instance_name="one")
        with (
            nothing_left(),
            pytest.raises(InvalidSetting, match="already has a producer of this group"),
        ):
            second.start()
        assert second.state is State.FAILED
        first.send(Message("t", b"x"))
    with second:
        second.send(Message("t", b"x"))


def test_client_ids_differ_unless_told_otherwise() -> None:
    one, two = Producer("shop"), Producer("shop")

    assert one.client_id != two.client_id
    named = Producer("shop", instance_name="n", unit_name="u", client_ip="10.0.0.1")
    assert named.client_id == "10.0.0.1@n@u"


def test_a_name_server_that_is_down_is_named() -> None:
    nowhere = closed_port()
    told = f"{nowhere}.*asking for the route of 't'.*asked .* times"

    def send(timeout_ms: int) -> None:
        with pytest.raises(Unreachable, match=told):
            producer.send(Message("t", b"x"), timeout_ms=timeout_ms)

    with nothing_left(), Producer("shop", namesrv=nowhere) as producer:
        in_enough_time(send)


def test_the_other_name_server_is_asked_when_one_is_down(broker: EmbeddedBroker) -> None:
    with Producer("shop", namesrv=f"{closed_port()};{broker.namesrv}") as producer:
        assert producer.send(Message("failover", b"x")).status is SendStatus.OK


def test_a_topic_that_nobody_makes_has_no_route() -> None:
    config = BrokerConfig(auto_create_topic=False, store=StoreConfig(flush=Flush.ASYNC))
    with (
        EmbeddedBroker(config=config) as servers,
        Producer("shop", namesrv=servers.namesrv) as producer,
    ):
        with pytest.raises(NoRoute, match="create the topic first"):
            producer.send(Message("unknown", b"x"))
        create_topic(servers, "unknown")
        producer.send(Message("unknown", b"x"))


def test_a_topic_that_may_not_be_written_has_no_queue(broker: EmbeddedBroker) -> None:
    create_topic(broker, "readonly", permission=4)
    with (
        Producer("shop", namesrv=broker.namesrv) as producer,
        pytest.raises(NoRoute, match="no queue that may be written"),
    ):
        producer.send(Message("readonly", b"x"))


def test_a_body_too_large_is_refused_before_any_broker_is_asked(broker: EmbeddedBroker) -> None:
    with (
        Producer("shop", namesrv=broker.namesrv) as producer,
        pytest.raises(BodyTooLarge, match="4194304"),
    ):
        producer.send(Message("large", b"x" * (4 * 1024 * 1024 + 1)))
    assert stored(broker, "large") == []


def test_what_a_broker_does_not_want_is_told_with_its_words(broker: EmbeddedBroker) -> None:
    mib = 1024 * 1024
    with (
        Producer(
            "shop",
            namesrv=broker.namesrv,
            message_bytes_max=8 * mib,
            compress_from_bytes=8 * mib,
        ) as producer,
        pytest.raises(BrokerRefused) as caught,
    ):
        producer.send(Message("refused", b"x" * (5 * mib)), timeout_ms=15_000)
    assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL
    assert caught.value.address == broker.broker


def test_a_broker_that_stopped_is_replaced_by_the_other(two_brokers: EmbeddedBroker) -> None:
    create_topic(two_brokers, "lost")
    with Producer("shop", namesrv=two_brokers.namesrv) as producer:
        assert {producer.send(Message("lost", b"x")).queue.broker for _ in range(8)} == {
            "broker-a",
            "broker-b",
        }
        two_brokers.stop_broker("broker-a")

        receipts = [producer.send(Message("lost", b"x")) for _ in range(8)]

        assert {receipt.queue.broker for receipt in receipts} == {"broker-b"}
        retries = producer.events("retry")
        assert retries
        assert "broker-a" in retries[0].subject


def test_with_no_broker_left_every_try_is_told(own_broker: EmbeddedBroker) -> None:
    create_topic(own_broker, "none-left")

    def send(timeout_ms: int) -> None:
        with pytest.raises(SendFailed) as caught:
            producer.send(Message("none-left", b"x"), timeout_ms=timeout_ms)
        assert caught.value.brokers == "broker-a"
        assert caught.value.tries >= 3
        assert isinstance(caught.value.__cause__, Unreachable)

    with nothing_left(), Producer("shop", namesrv=own_broker.namesrv) as producer:
        producer.send(Message("none-left", b"x"))
        own_broker.stop_broker("broker-a")
        in_enough_time(send)

        own_broker.start_broker("broker-a")
        wait_for(lambda: _works(lambda: producer.send(Message("none-left", b"x"))))


def test_a_broker_that_does_not_answer_ends_in_the_timeout(broker: EmbeddedBroker) -> None:
    async def main() -> None:
        silent = asyncio.Event()

        async def serve(request: Command, _channel: Channel) -> Command:
            if request.code == 105:
                return await _route_to(request, str(server.address))
            await silent.wait()
            return answer(request, 0)

        server = await serve_commands(Address("127.0.0.1", 0), serve)
        async with server, aio.Producer("shop", namesrv=str(server.address)) as producer:
            with pytest.raises(SendFailed, match="waiting for an answer to a send"):
                await producer.send(Message("t", b"x"), timeout_ms=300)
            silent.set()

    run(main())


def test_sends_after_a_reconnect_work_and_the_broker_knows_us_again(
    own_broker: EmbeddedBroker,
) -> None:
    create_topic(own_broker, "again")
    with Producer("shop", namesrv=own_broker.namesrv) as producer:
        producer.send(Message("again", b"x"))
        wait_for(lambda: _is_known(own_broker, producer.client_id))
        own_broker.stop_broker("broker-a")
        own_broker.start_broker("broker-a")

        wait_for(lambda: _works(lambda: producer.send(Message("again", b"x"))))
        assert _is_known(own_broker, producer.client_id)
    wait_for(lambda: not _is_known(own_broker, producer.client_id))


def test_a_cancelled_send_leaves_nothing_behind(broker: EmbeddedBroker) -> None:
    async def main() -> None:
        async with aio.Producer("shop", namesrv=broker.namesrv) as producer:
            task = asyncio.create_task(producer.send(Message("cancelled", b"x")))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await producer.send(Message("cancelled", b"y"))

    run(main())


def test_waiting_on_the_thread_that_serves_is_refused(broker: EmbeddedBroker) -> None:
    outcomes: Future[BaseException | None] = Future()

    def send_again(_outcome: object) -> None:
        try:
            producer.send(Message("inside", b"x"))
        except BaseException as error:
            outcomes.set_result(error)
        else:
            outcomes.set_result(None)

    with Producer("shop", namesrv=broker.namesrv) as producer:
        producer.send_async(Message("inside", b"x"), callback=send_again)
        error = outcomes.result(60)

    assert isinstance(error, WrongState)


def _works(act: Callable[[], object]) -> bool:
    try:
        act()
    except FlintError:
        return False
    return True


def _is_known(servers: EmbeddedBroker, client_id: str) -> bool:
    return servers.call(
        lambda running: (
            running.brokers["broker-a"].state.clients.producer_of_client(client_id) is not None
        )
    )


async def _route_to(request: Command, address: str) -> Command:
    from flintmq.protocol.bodies.route import BrokerEntry, QueueEntry, TopicRoute

    body = TopicRoute(
        broker_datas=(BrokerEntry(broker_name="a", broker_addrs={0: address}),),
        queue_datas=(QueueEntry(broker_name="a", perm=6, read_queue_nums=1, write_queue_nums=1),),
    ).to_body()
    return answer(request, 0, body=body)
