"""The engine keeps routes fresh and brokers informed, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from flintmq.client.engine import client_engine
from flintmq.client.engine.client_config import ClientConfig
from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.engine.lifecycle import State
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import InvalidSetting, NoRoute, Unreachable, WrongState
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.client import ConsumerIds
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import VERSION, Command, request
from flintmq.protocol.headers.common_headers import OfConsumerGroup
from flintmq.protocol.signature import verify
from support.client.member import Consumer, Producer, members_of, running
from support.client.support import create_topic, run
from support.net.support import closed_port, until

# Life


def test_it_can_do_nothing_before_its_start_and_after_its_stop(broker: EmbeddedBroker) -> None:
    async def main() -> None:
        engine = ClientEngine(ClientConfig(namesrv=broker.namesrv), what="consumer 'g'")
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: engine.call("h:1", request(105)),
            lambda: engine.send_oneway("h:1", request(105)),
            lambda: engine.route("t"),
            lambda: engine.publish_queues("t"),
            engine.heartbeat,
        ]
        for call in calls:
            with pytest.raises(WrongState, match="consumer 'g' is created"):
                await call()
        engine.start()
        with pytest.raises(WrongState, match="started before"):
            engine.start()
        await engine.stop()
        await engine.stop()
        for call in calls:
            with pytest.raises(WrongState, match="stopped"):
                await call()

    run(main())


def test_a_start_that_fails_can_be_tried_again(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        monkeypatch.delenv("NAMESRV_ADDR", raising=False)
        engine = ClientEngine(ClientConfig())
        with pytest.raises(InvalidSetting, match="no name server is set"):
            engine.start()
        states = [engine.state]
        monkeypatch.setenv("NAMESRV_ADDR", broker.namesrv)
        engine.start()
        states.append(engine.state)
        await engine.stop()
        assert states == [State.FAILED, State.RUNNING]

    run(main())


def test_one_that_was_never_started_can_be_stopped() -> None:
    async def main() -> None:
        engine = ClientEngine(ClientConfig(namesrv="h:1"))
        await engine.stop()
        assert engine.state is State.STOPPED

    run(main())


def test_stopping_while_a_call_waits_ends_the_call(broker: EmbeddedBroker) -> None:
    async def main() -> None:
        engine = ClientEngine(ClientConfig(namesrv=broker.namesrv))
        engine.start()
        task = asyncio.create_task(engine.route("endless"))
        await asyncio.sleep(0)
        await engine.stop()
        with pytest.raises((WrongState, Unreachable, NoRoute)):
            await task

    run(main())


def test_one_that_is_leaving_asks_for_no_routes(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(broker, "left")
    monkeypatch.setattr(client_engine, "UNREGISTER_MS", 300)
    broker.drop_next(RequestCode.UNREGISTER_CLIENT, lost="answer")

    async def main() -> None:
        engine = ClientEngine(ClientConfig(namesrv=broker.namesrv, route_ms=1))
        engine.add_consumer(Consumer("leaving", "left"))
        engine.start()
        await engine.route("left")
        await engine.meet_brokers()

        await engine.stop()

        assert [event.text for event in engine.events.latest() if "stopped" in event.text] == []

    run(main())


# Routes


def test_a_route_is_fetched_once_for_all_who_want_it(broker: EmbeddedBroker) -> None:
    create_topic(broker, "shared", queues=3)
    asked: list[int] = []

    class Count:
        def before(self, address: str, request: Command) -> Command:
            asked.append(request.code)
            return request

        def after(self, address: str, request: Command, answer: Command | None) -> None: ...

    async def main() -> None:
        config = ClientConfig(namesrv=broker.namesrv, request_hooks=(Count(),))
        async with running(broker, config=config) as engine:
            routes = await asyncio.gather(*(engine.route("shared") for _ in range(20)))
            assert all(each is routes[0] for each in routes)
            queues = await engine.subscribe_queues("shared")
            assert queues == [QueueRef("shared", "broker-a", number) for number in range(3)]
            assert engine.address_of("broker-a") == broker.broker
            assert engine.address_of("broker-a", 1) is None
            assert await engine.some_broker("shared") == broker.broker
            found = engine.locate("broker-a", 1)
            assert found is not None
            assert found.address == broker.broker

    run(main())
    assert asked.count(RequestCode.GET_ROUTEINFO_BY_TOPIC) == 1


def test_a_topic_nobody_knows_has_no_route_to_consume_from(broker: EmbeddedBroker) -> None:
    async def main() -> None:
        async with running(broker) as engine:
            with pytest.raises(NoRoute, match="knows none"):
                await engine.route("nowhere")
            assert await engine.refresh_route("nowhere") is None

    run(main())


def test_routes_are_refreshed_and_changes_are_told(own_broker: EmbeddedBroker) -> None:
    create_topic(own_broker, "growing", queues=2)

    async def main() -> None:
        config = ClientConfig(namesrv=own_broker.namesrv, route_ms=50)
        heard: list[tuple[str, int]] = []
        async with running(own_broker, config=config) as engine:
            engine.on_route_change(
                lambda topic, route: heard.append((topic, len(route.subscribe_queues(topic))))
            )
            await engine.route("growing")
            await asyncio.to_thread(create_topic, own_broker, "growing", 5)
            await until(lambda: ("growing", 5) in heard)
            assert heard[0] == ("growing", 2)
            assert len(await engine.subscribe_queues("growing")) == 5

    run(main())


def test_a_doubted_route_is_asked_for_soon(own_broker: EmbeddedBroker) -> None:
    create_topic(own_broker, "doubted", queues=2)

    async def main() -> None:
        async with running(own_broker) as engine:
            await engine.route("doubted")
            await asyncio.to_thread(create_topic, own_broker, "doubted", 5)
            engine.doubt_route("doubted")
            await until(lambda: len(engine.routes.publish_queues("doubted") or ()) == 5)

    run(main())


def test_a_name_server_that_is_down_does_not_stop_the_rest(own_broker: EmbeddedBroker) -> None:
    create_topic(own_broker, "kept")

    async def main() -> None:
        config = ClientConfig(namesrv=own_broker.namesrv, route_ms=30)
        async with running(own_broker, config=config) as engine:
            route = await engine.route("kept")
            await asyncio.to_thread(own_broker.stop)
            await until(lambda: engine.events.latest(kind="route")[-1:][0].text.count("refused"))
            assert engine.routes.find("kept") == route

    run(main())


def test_a_broker_no_route_names_any_more_is_forgotten(two_brokers: EmbeddedBroker) -> None:
    create_topic(two_brokers, "shrinking")

    async def main() -> None:
        config = ClientConfig(namesrv=two_brokers.namesrv, route_ms=30, heartbeat_ms=30)
        async with running(two_brokers, Producer("p"), config=config) as engine:
            await engine.route("shrinking")
            await engine.meet_brokers()
            assert len(engine.routes.masters) == 2
            await asyncio.to_thread(two_brokers.stop_broker, "broker-b")
            await until(lambda: len(engine.routes.masters) == 1)
            assert any("no route names" in event.text for event in engine.events.latest())

    run(main())


# Heartbeats


def test_the_broker_knows_a_consumer_before_its_first_call(broker: EmbeddedBroker) -> None:
    create_topic(broker, "heartbeats")

    async def main() -> None:
        consumer = Consumer("beating", "heartbeats")
        async with running(broker, consumer) as engine:
            await engine.route("heartbeats")
            header = OfConsumerGroup(consumer_group="beating")
            answer = await engine.call(
                broker.broker, request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
            )
            assert ConsumerIds.from_body(answer.body).consumer_id_list == (engine.client_id,)
            assert engine.known_version(broker.broker) == VERSION
            assert await engine.version_of(broker.broker) == VERSION
            assert await engine.heartbeat() == {}
        assert await members_of(broker.broker, "beating") == ()

    run(main())


def test_heartbeats_go_on_by_themselves(own_broker: EmbeddedBroker) -> None:
    create_topic(own_broker, "regular")
    beats: list[int] = []

    class Count:
        def before(self, address: str, request: Command) -> Command:
            if request.code == RequestCode.HEART_BEAT:
                beats.append(request.code)
            return request

        def after(self, address: str, request: Command, answer: Command | None) -> None: ...

    async def main() -> None:
        config = ClientConfig(namesrv=own_broker.namesrv, heartbeat_ms=20, request_hooks=(Count(),))
        async with running(own_broker, Producer("p"), config=config) as engine:
            await engine.route("regular")
            await until(lambda: len(beats) >= 5)

    run(main())


def test_a_heartbeat_that_fails_is_told_by_address(own_broker: EmbeddedBroker) -> None:
    create_topic(own_broker, "failing")

    async def main() -> None:
        async with running(own_broker, Consumer("g")) as engine:
            await engine.route("failing")
            address = own_broker.broker
            await asyncio.to_thread(own_broker.stop_broker, "broker-a")
            await until(lambda: not engine.links.is_open(address))
            failures = await engine.heartbeat()
            assert list(failures) == [address]
            assert engine.events.latest(kind="heartbeat")

    run(main())


def test_after_a_restart_the_broker_knows_the_consumer_again(own_broker: EmbeddedBroker) -> None:
    create_topic(own_broker, "restart")

    async def main() -> None:
        async with running(own_broker, Consumer("again", "restart")) as engine:
            await engine.route("restart")
            await engine.heartbeat()
            address = own_broker.broker
            await asyncio.to_thread(own_broker.stop_broker, "broker-a")
            await asyncio.to_thread(own_broker.start_broker, "broker-a")
            header = OfConsumerGroup(consumer_group="again")
            command = request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
            async with asyncio.timeout(60):
                while True:
                    try:
                        answer = await engine.call(address, command)
                        break
                    except Unreachable:
                        await asyncio.sleep(0.01)
            assert ConsumerIds.from_body(answer.body).consumer_id_list == (engine.client_id,)

    run(main())


def test_a_member_that_comes_later_is_told_at_once(broker: EmbeddedBroker) -> None:
    create_topic(broker, "later")

    async def main() -> None:
        async with running(broker, Producer("p")) as engine:
            await engine.route("later")
            engine.add_consumer(Consumer("late", "later"))
            async with asyncio.timeout(60):
                while not await members_of(broker.broker, "late"):  # noqa: ASYNC110 - a deadline
                    await asyncio.sleep(0.005)

    run(main())


def test_two_consumers_of_one_group_and_id_are_refused_in_one_process(
    broker: EmbeddedBroker,
) -> None:
    async def main() -> None:
        config = ClientConfig(namesrv=broker.namesrv, instance_name="same")
        async with running(broker, Consumer("twice"), config=config):
            second = ClientEngine(config)
            second.add_consumer(Consumer("twice"))
            with pytest.raises(InvalidSetting, match="already has a consumer"):
                second.start()
        second.start()
        await second.stop()

    run(main())


# Hooks and accounts


def test_hooks_see_every_request_and_answer_and_one_that_raises_changes_nothing(
    broker: EmbeddedBroker,
) -> None:
    seen: list[tuple[str, int, int | None]] = []

    class Watch:
        def before(self, address: str, request: Command) -> Command:
            seen.append(("before", request.code, None))
            return request

        def after(self, address: str, request: Command, answer: Command | None) -> None:
            seen.append(("after", request.code, None if answer is None else answer.code))

    class Forgetful:
        def before(self, address: str, request: Command) -> Command:
            return None  # type: ignore[return-value]

        def after(self, address: str, request: Command, answer: Command | None) -> None: ...

    class Broken:
        def before(self, address: str, request: Command) -> Command:
            raise ValueError("broken")

        def after(self, address: str, request: Command, answer: Command | None) -> None:
            raise ValueError("broken")

    async def main() -> None:
        config = ClientConfig(
            namesrv=broker.namesrv, request_hooks=(Broken(), Forgetful(), Watch())
        )
        async with running(broker, config=config) as engine:
            await engine.call(broker.namesrv, request(RequestCode.GET_BROKER_CLUSTER_INFO))
            await engine.send_oneway(broker.broker, request(RequestCode.UPDATE_CONSUMER_OFFSET))

    run(main())
    assert seen == [
        ("before", 106, None),
        ("after", 106, 0),
        ("before", 15, None),
        ("after", 15, None),
    ]


def test_every_request_is_signed_after_the_hooks(broker: EmbeddedBroker) -> None:
    sent: list[Command] = []

    class Spy:
        def before(self, address: str, request: Command) -> Command:
            return request

        def after(self, address: str, request: Command, answer: Command | None) -> None:
            sent.append(request)

    async def main() -> None:
        config = ClientConfig(
            namesrv=broker.namesrv,
            access_key="user",
            secret_key="secret",
            security_token="token",
            request_hooks=(Spy(),),
        )
        assert "secret" not in repr(config)
        assert "token" not in repr(config.account)
        async with running(broker, Producer("p"), config=config) as engine:
            await engine.publish_queues("signed")
            await engine.meet_brokers()

    run(main())
    assert {command.code for command in sent} >= {105, 34, 35}
    for command in sent:
        assert command.field_texts()["AccessKey"] == "user"
        assert command.field_texts()["SecurityToken"] == "token"
        assert verify(command, "secret")


def test_a_peer_that_is_not_there_is_unreachable() -> None:
    async def main() -> None:
        engine = ClientEngine(ClientConfig(namesrv=closed_port()))
        engine.start()
        with pytest.raises(Unreachable):
            await engine.call(engine.name_servers[0], request(106))
        with pytest.raises(Unreachable):
            await engine.publish_queues("t")
        await engine.stop()

    run(main())
