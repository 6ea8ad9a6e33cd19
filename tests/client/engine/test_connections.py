"""Over TLS, to old brokers, and through many reconnects, a producer keeps its word."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from flintmq import Message, Producer, aio
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import FlintError, InvalidSetting, Unreachable
from flintmq.net.address import Address
from flintmq.net.channels.channel import Channel
from flintmq.net.servers.server import serve_commands
from flintmq.net.tls import ClientTls, ServerTls, TlsMode
from flintmq.protocol.bodies.route import BrokerEntry, QueueEntry, TopicRoute
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command, answer
from flintmq.protocol.headers.send import SendAnswer
from flintmq.protocol.version import version_number
from support.client.support import create_topic, nothing_left, run, sockets, stored
from support.net.certificates import Authority
from support.net.support import other_tasks


def test_a_producer_sends_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    server = ServerTls(certificate_file=authority.sign("server"), mode=TlsMode.ENFORCING)
    with EmbeddedBroker(tls=server) as servers:
        trusting = ClientTls(ca_file=authority.ca_file)
        with nothing_left(), Producer("p", namesrv=servers.namesrv, tls=trusting) as producer:
            producer.send(Message("secret", b"x"))
        with (
            Producer("p", namesrv=servers.namesrv, tls=True) as producer,
            pytest.raises(Unreachable, match="certificate"),
        ):
            producer.send(Message("secret", b"x"))


@pytest.mark.parametrize(("release", "is_new"), [("V4_9_8", False), ("V5_0_0", True)])
def test_a_time_of_delivery_needs_a_broker_that_knows_it(release: str, is_new: bool) -> None:
    sent: list[int] = []
    addresses: list[str] = []

    def serve(request: Command, _channel: Channel) -> Command:
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return answer(request, 0, body=_route(addresses[0]))
        if request.code == RequestCode.SEND_MESSAGE_V2:
            sent.append(request.code)
            return answer(request, 0, SendAnswer(msg_id="ID", queue_id=0, queue_offset=0))
        return replace(answer(request, 0), version=version_number(release))

    async def main() -> None:
        server = await serve_commands(Address("127.0.0.1", 0), serve)
        addresses.append(str(server.address))
        async with server, aio.Producer("p", namesrv=str(server.address)) as producer:
            message = Message("t", b"x", deliver_at_ms=1)
            if is_new:
                await producer.send(message)
                await producer.send_oneway(message)
            else:
                with pytest.raises(InvalidSetting, match=release):
                    await producer.send(message)
                with pytest.raises(InvalidSetting, match=release):
                    await producer.send_oneway(message)
            await producer.send(Message("t", b"x", delay_level=3))

    run(main())
    assert len(sent) == (3 if is_new else 1)


def test_many_reconnects_leave_neither_tasks_nor_sockets(own_broker: EmbeddedBroker) -> None:
    create_topic(own_broker, "reconnects")

    async def main() -> None:
        async with aio.Producer("p", namesrv=own_broker.namesrv) as producer:
            await producer.send(Message("reconnects", b"x"))
            tasks, before = len(other_tasks()), sockets()
            for _ in range(50):
                for channel in list(producer._engine.links._ready.values()):
                    channel.abort("cut by the test")
                async with asyncio.timeout(60):
                    while True:
                        try:
                            await producer.send(Message("reconnects", b"x"))
                            break
                        except FlintError:
                            await asyncio.sleep(0.005)
            assert len(other_tasks()) <= tasks
            assert sockets() <= before + 2

    with nothing_left():
        run(main())
    assert len(stored(own_broker, "reconnects")) >= 51


def _route(address: str) -> bytes:
    return TopicRoute(
        broker_datas=(BrokerEntry(broker_name="a", broker_addrs={0: address}),),
        queue_datas=(QueueEntry(broker_name="a", perm=6, read_queue_nums=1, write_queue_nums=1),),
    ).to_body()
