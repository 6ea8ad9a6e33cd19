"""A proxy serves plain and encrypted clients on one port, and stops without leaving calls."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.embedded.certificate_files import make_certificates
from flintmq.embedded.servers import Servers
from flintmq.errors import InvalidSetting
from flintmq.net.address import Address
from flintmq.net.tls import ServerTls, TlsMode
from flintmq.protocol.http2.h2_frames import PREFACE, FrameKind
from flintmq.proxy.calls import receiving
from flintmq.proxy.server import ProxyServer
from flintmq.proxy.tables import proxy_clients
from flintmq.proxy.wire.grpc_codes import Code
from flintmq.proxy.wire.message_classes import SERVICE
from support.proxy.grpc_client import (
    CALL_S,
    GrpcClient,
    new,
    producer_settings,
    receive_request,
)


def test_clients_with_and_without_tls_share_the_port(broker: EmbeddedBroker) -> None:
    """The certificate is self-made; some official clients look at none."""
    pem = self_made_authority(broker)
    credentials = grpc.ssl_channel_credentials(root_certificates=pem)
    channel = grpc.secure_channel(broker.grpc, credentials)

    with GrpcClient(broker.grpc, channel=channel) as client:
        request = new("QueryRoute")
        request.topic.name = "nowhere"
        assert client.call("QueryRoute", request).status.code == Code.TOPIC_NOT_FOUND
    with GrpcClient(broker.grpc) as client:
        assert client.call("QueryRoute", request).status.code == Code.TOPIC_NOT_FOUND


def self_made_authority(broker: EmbeddedBroker) -> bytes:
    def look(servers: Servers) -> bytes:
        assert servers.grpc is not None
        assert servers.grpc._made is not None
        return (Path(servers.grpc._made.name) / "ca.pem").read_bytes()

    return broker.call(look)


def test_a_proxy_that_enforces_tls_serves_nobody_without(tmp_path: Path) -> None:
    make_certificates(tmp_path, ["127.0.0.1"], 1)
    tls = ServerTls(
        certificate_file=str(tmp_path / "server.pem"),
        key_file=str(tmp_path / "server.key"),
        client_ca_file=str(tmp_path / "ca.pem"),
        mode=TlsMode.ENFORCING,
    )
    authority = (tmp_path / "ca.pem").read_bytes()
    known = grpc.ssl_channel_credentials(
        authority, (tmp_path / "client.key").read_bytes(), (tmp_path / "client.pem").read_bytes()
    )
    nobody = grpc.ssl_channel_credentials(authority)
    request = new("QueryRoute")
    request.topic.name = "nowhere"
    with EmbeddedBroker(grpc=True, tls=tls) as broker:
        with GrpcClient(broker.grpc, channel=grpc.secure_channel(broker.grpc, known)) as client:
            assert client.call("QueryRoute", request).status.code == Code.TOPIC_NOT_FOUND
        for channel in (
            grpc.secure_channel(broker.grpc, nobody),
            grpc.insecure_channel(broker.grpc),
        ):
            with (
                GrpcClient(broker.grpc, channel=channel) as client,
                pytest.raises(grpc.RpcError) as refused,
            ):
                client.call("QueryRoute", request)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("call", ["PullMessage", "GetOffset", "SyncLiteSubscription", "Other"])
def test_calls_that_are_not_served_say_so(broker: EmbeddedBroker, call: str) -> None:
    channel: Any = grpc.insecure_channel(broker.grpc)
    with channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(f"/{SERVICE}/{call}")(b"", timeout=30)

    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_bytes_that_are_no_message_harm_nobody(broker: EmbeddedBroker) -> None:
    channel: Any = grpc.insecure_channel(broker.grpc)
    with channel, pytest.raises(grpc.RpcError):
        channel.unary_unary(f"/{SERVICE}/SendMessage")(b"\xff" * 100, timeout=30)
    for noise in (b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 1000):
        with socket.create_connection(("127.0.0.1", int(broker.grpc.rpartition(":")[2]))) as peer:
            peer.sendall(noise)

    with GrpcClient(broker.grpc) as client:
        assert client.call("Heartbeat", new("Heartbeat")).status.code != Code.OK


def test_a_request_that_is_too_large_is_refused(broker: EmbeddedBroker) -> None:
    channel: Any = grpc.insecure_channel(
        broker.grpc, options=[("grpc.max_send_message_length", -1)]
    )
    with channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(f"/{SERVICE}/SendMessage")(bytes(33 * 1024 * 1024), timeout=60)

    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_stop_ends_streams_and_receives_well() -> None:
    """A client that waits is answered, and one with a stream sees its end, not an error."""
    with EmbeddedBroker(grpc=True) as broker, GrpcClient(broker.grpc) as client:
        with broker.admin() as admin:
            admin.create_topic("orders", queues=1)
        stream = client.telemetry()
        stream.tell(producer_settings("orders"))
        stream.hear()
        request = receive_request("orders", "g")
        request.long_polling_timeout.FromSeconds(20)
        receiving = client.stream(request)
        answers: list[Any] = []
        reading = threading.Thread(target=lambda: answers.extend(receiving))
        reading.start()
        broker.wait_for(lambda: held_pops(broker) == 1, 30)

        def stop(servers: Servers) -> None:
            assert servers.grpc is not None
            servers.grpc.proxy._engine.spawn(servers.grpc.proxy._stop_serving(), "stop")

        broker.call(stop)
        reading.join(30)

        assert [each.WhichOneof("content") for each in answers] == ["status", "delivery_timestamp"]
        assert answers[0].status.code == Code.MESSAGE_NOT_FOUND
        with pytest.raises(StopIteration):
            stream.hear()


def held_pops(broker: EmbeddedBroker) -> int:
    """Receives that wait at the proxy."""

    def count(_servers: Servers) -> int:
        names = [task.get_name() for task in asyncio.all_tasks()]
        return sum(name.startswith("flintmq pop of") for name in names)

    return broker.call(count)


def test_an_address_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidSetting, match=str(port)):
            EmbeddedBroker(tmp_path, grpc=Address("127.0.0.1", port)).start()
        with EmbeddedBroker(tmp_path):  # and nothing is left of the start that failed
            pass


def test_a_broker_without_a_proxy_says_so() -> None:
    with EmbeddedBroker() as broker, pytest.raises(RuntimeError, match="grpc=True"):
        _ = broker.grpc


def test_many_idle_clients_are_served(broker: EmbeddedBroker, topic: Callable[..., str]) -> None:
    """Each with a stream; a thousand of them are in the load test."""
    name = topic()
    clients = [GrpcClient(broker.grpc, f"idle-{number}") for number in range(50)]
    streams = [client.telemetry() for client in clients]
    for stream in streams:
        stream.tell(producer_settings(name))
    for stream in streams:
        assert stream.hear().status.code == Code.OK

    assert clients[0].send(name).status.code == Code.OK

    for stream, client in zip(streams, clients, strict=True):
        stream.close()
        client.__exit__(None, None, None)


def proxy_of(servers: Servers) -> ProxyServer:
    assert servers.grpc is not None
    return servers.grpc.proxy


def test_receives_that_were_given_up_count_until_the_broker_is_done_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker cannot be told that nobody waits: who gives up one receive after the other would
    have all of its holds.
    """
    monkeypatch.setattr(receiving, "LEFT_BEHIND_MAX", 3)
    with EmbeddedBroker(grpc=True) as broker, GrpcClient(broker.grpc) as client:
        with broker.admin() as admin:
            admin.create_topic("held", queues=1)

        def left_behind() -> int:
            counts = broker.call(lambda servers: dict(proxy_of(servers)._receiving._left_behind))
            return sum(counts.values())

        def streams() -> int:
            counts = broker.call(lambda servers: dict(proxy_of(servers).counts.open_streams))
            return counts.get("ReceiveMessage", 0)

        def gives_up() -> bool:
            waiting = client.stream(receive_request("held", "g"))
            broker.wait_for(lambda: streams() == 1, CALL_S)
            waiting.cancel()
            broker.wait_for(lambda: streams() == 0, CALL_S)
            return left_behind() == 3

        broker.wait_for(gives_up, CALL_S)
        assert client.receive("held", "g")[0].code == Code.TOO_MANY_REQUESTS
        client.send("held", b"x")
        client.send("held", b"y")
        client.send("held", b"z")
        broker.wait_for(lambda: left_behind() < 3, CALL_S)
        assert client.receive("held", "other")[0].code == Code.OK


def test_one_address_is_not_all_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_clients, "ADDRESS_CLIENTS_MAX", 1)
    with EmbeddedBroker(grpc=True) as broker:
        with broker.admin() as admin:
            admin.create_topic("orders", queues=1)
        with GrpcClient(broker.grpc, "a") as first, GrpcClient(broker.grpc, "b") as second:
            stream = first.telemetry()
            stream.tell(producer_settings("orders"))
            assert stream.hear().status.code == Code.OK
            other = second.telemetry()
            other.tell(producer_settings("orders"))
            assert other.hear().status.code == Code.TOO_MANY_REQUESTS
            first.call("NotifyClientTermination", new("NotifyClientTermination"))
            again = second.telemetry()
            again.tell(producer_settings("orders"))
            assert again.hear().status.code == Code.OK
            for each in (stream, other, again):
                each.close()


def test_the_port_has_the_limits_of_its_broker() -> None:
    config = BrokerConfig(connections_max=10, connections_per_address_max=2)
    with EmbeddedBroker(grpc=True, config=config) as broker:
        where = Address.parse(broker.grpc)
        with ExitStack() as stack:
            peers = [
                stack.enter_context(socket.create_connection((where.host, where.port), CALL_S))
                for _ in range(3)
            ]
            assert peers[2].recv(9) == b""
            peers[0].sendall(PREFACE)
            assert peers[0].recv(9)[3] == FrameKind.SETTINGS
            refused = broker.call(lambda servers: dict(proxy_of(servers).refusals.counts))
            assert refused == {"connectionsPerAddressMax": 1}
