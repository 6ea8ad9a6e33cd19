"""A name server cannot make a client build endless lists or connect to everybody."""

from __future__ import annotations

import pytest

from flintmq.client.engine.client_config import ClientConfig
from flintmq.client.engine.client_engine import ClientEngine
from flintmq.errors import RemoteProtocolError
from flintmq.model.route import BROKERS_MAX, QUEUES_MAX
from flintmq.net.channels.channel import Channel
from flintmq.net.loop import run
from flintmq.net.servers.server import serve_commands
from flintmq.protocol.bodies.route import BrokerEntry, QueueEntry, TopicRoute
from flintmq.protocol.command import Command, answer
from support.net.support import HERE


def many_brokers() -> TopicRoute:
    names = [f"b{number}" for number in range(BROKERS_MAX + 1)]
    return TopicRoute(
        broker_datas=tuple(
            BrokerEntry(broker_name=name, broker_addrs={0: f"127.0.0.1:{port}"})
            for port, name in enumerate(names, 1_024)
        ),
        queue_datas=tuple(
            QueueEntry(broker_name=name, perm=6, read_queue_nums=1, write_queue_nums=1)
            for name in names
        ),
    )


def many_queues() -> TopicRoute:
    count = QUEUES_MAX + 1
    return TopicRoute(
        broker_datas=(BrokerEntry(broker_name="b", broker_addrs={0: "127.0.0.1:1"}),),
        queue_datas=(
            QueueEntry(broker_name="b", perm=6, read_queue_nums=count, write_queue_nums=count),
        ),
    )


@pytest.mark.parametrize("route", [many_brokers(), many_queues()], ids=["brokers", "queues"])
def test_a_route_over_the_limit_is_an_error_of_the_peer(route: TopicRoute) -> None:
    def tell(asked: Command, _channel: Channel) -> Command:
        return answer(asked, 0, body=route.to_body())

    async def main() -> None:
        async with await serve_commands(HERE, tell) as name_server:
            engine = ClientEngine(ClientConfig(namesrv=str(name_server.address)))
            engine.start()
            try:
                with pytest.raises(RemoteProtocolError, match="more than"):
                    await engine.route("orders")
                assert engine.routes.addresses == []
            finally:
                await engine.stop()

    run(main())
