"""A running proxy: its relay, the gRPC server behind it, its engine and its tasks.

    start: address taken ─► engine ─► gRPC server on loopback ─► relay opens ─► ready
    stop:  no new connections ─► receives answered, streams ended ─► gRPC server ─► engine ─► relay

Invariant: `start` gives a proxy that answers, or raises and leaves nothing running; after `stop`
nothing is left either.
"""

from __future__ import annotations

from collections.abc import Sized
from contextlib import AsyncExitStack
from typing import Any, Final

import grpc

from flintmq.access.accounts import Accounts
from flintmq.access.rights import Context
from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.popping.pop_calls import PopCalls
from flintmq.errors import InvalidSetting
from flintmq.logs import logger
from flintmq.net.address import Address
from flintmq.net.servers.access_gate import Auditor
from flintmq.net.servers.relay import Relay, listen_for_relay
from flintmq.proxy.caller_rights import ProxyAccess
from flintmq.proxy.calls.receiving import ReceiveCalls
from flintmq.proxy.calls.renewing import Renewing
from flintmq.proxy.calls.routing import Routing
from flintmq.proxy.calls.sending import SendCalls
from flintmq.proxy.calls.settling import Settling
from flintmq.proxy.calls.telemetry import Telemetry
from flintmq.proxy.calls.transactions import Transactions
from flintmq.proxy.grpc_handlers import GrpcHandlers, Handle
from flintmq.proxy.server_settings import ProxyLimits, ProxySettings
from flintmq.proxy.tables.cluster_facts import ClusterFacts
from flintmq.proxy.tables.halves import Halves
from flintmq.proxy.tables.proxy_clients import ProxyClients

log = logger(__name__)

HTTP_2: Final = "h2"
INNER_HOST: Final = "127.0.0.1"
IDLE_MS: Final = 120_000
"""A connection without a call is closed after this time, as RocketMQ's proxy does."""

PING_MS: Final = 5_000
"""How often a client may ping; official ones do it every five minutes and faster ones are cut."""


class ProxyServer:
    """A proxy that runs.  `start` makes one."""

    def __init__(
        self,
        settings: ProxySettings,
        relay: Relay,
        accounts: Accounts | None,
        auditor: Auditor | None,
    ) -> None:
        self._settings = settings
        self._relay = relay
        self._engine = engine = ClientEngine(settings.client, what="proxy")
        self._halves = Halves(engine.clock)
        control = None if accounts is None else accounts.protect(Context(settings.cluster))
        access = ProxyAccess(control, auditor)
        facts, pops = ClusterFacts(engine), PopCalls(engine)
        self._renewing = Renewing(engine, pops)
        transactions = Transactions(engine, self._halves)
        self._telemetry = Telemetry(engine, facts, self._renewing, access.check_settings)
        self.clients = self._telemetry.clients = ProxyClients(
            engine,
            lambda topic, check: transactions.ask(self.clients, topic, check),
            self._telemetry.verify,
        )
        self._receiving = ReceiveCalls(engine, facts, pops, self._renewing)
        here = Address(settings.advertise or relay.address.host, relay.address.port)
        routing = Routing(facts, here)
        sending = SendCalls(engine, facts, self._halves)
        settling = Settling(engine, pops, self._renewing)
        unary: dict[str, Handle] = {
            "QueryRoute": routing.query_route,
            "QueryAssignment": routing.query_assignment,
            "SendMessage": sending.send_message,
            "RecallMessage": sending.recall_message,
            "EndTransaction": transactions.end_transaction,
            "AckMessage": settling.ack_message,
            "ChangeInvisibleDuration": settling.change_invisible_duration,
            "ForwardMessageToDeadLetterQueue": settling.forward,
            "Heartbeat": self._telemetry.heartbeat,
            "NotifyClientTermination": self._telemetry.terminate,
        }
        dispatch = GrpcHandlers(access, self._peer_of, unary, self._receiving, self._telemetry)
        self.counts = dispatch.counts
        self._grpc: Any = grpc.aio.server(
            options=_options(settings.limits),
            maximum_concurrent_rpcs=settings.limits.calls_max,
        )
        self._grpc.add_generic_rpc_handlers((dispatch.handlers(),))
        self._is_stopped = False

    @classmethod
    async def start(
        cls,
        settings: ProxySettings,
        accounts: Accounts | None = None,
        auditor: Auditor | None = None,
    ) -> ProxyServer:
        """Listen.  Raises `InvalidSetting` where an address or a file cannot be used."""
        async with AsyncExitStack() as undo:
            relay = listen_for_relay(
                settings.listen, tls=settings.tls, alpn=HTTP_2, limits=settings.limits.relay
            )
            undo.push_async_callback(relay.stop)
            proxy = cls(settings, relay, accounts, auditor)
            undo.push_async_callback(proxy._engine.stop)
            proxy._engine.start()
            await proxy._open()
            undo.pop_all()
            return proxy

    @property
    def address(self) -> Address:
        """Where clients connect."""
        return self._relay.address

    @property
    def cluster(self) -> str:
        return self._settings.cluster

    @property
    def connection_count(self) -> int:
        return self._relay.connection_count

    @property
    def receipts(self) -> Sized:
        """What is renewed for push consumers."""
        return self._renewing

    @property
    def is_stopping(self) -> bool:
        return self._is_stopped

    async def stop(self) -> None:
        """End streams and receives, let calls end, then close everything."""
        if self._is_stopped:
            return
        self._is_stopped = True
        try:
            await self._stop_serving()
        finally:
            await self._engine.stop()
            await self._relay.stop()

    async def _stop_serving(self) -> None:
        self._relay.stop_accepting()
        self._receiving.stop()
        self.clients.close_streams()
        await self._grpc.stop(self._settings.limits.stop_s)

    async def _open(self) -> None:
        try:
            port = self._grpc.add_insecure_port(f"{INNER_HOST}:0")
        except RuntimeError as error:
            raise InvalidSetting("inner address", INNER_HOST, str(error)) from None
        await self._grpc.start()
        self._engine.spawn(self._renewing.run(), "renewing receipts")
        self._engine.spawn(self._telemetry.sweep(self._halves.sweep), "looking for silent clients")
        self._relay.open(Address(INNER_HOST, port))

    def _peer_of(self, name: str) -> str | None:
        """Who is behind a connection: only the relay knows, and whoever came past it is nobody."""
        port = name.rpartition(":")[2]
        return self._relay.peer_of(int(port)) if port.isdigit() else None


def _options(limits: ProxyLimits) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", limits.request_bytes_max),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", limits.streams_max),
        ("grpc.max_metadata_size", limits.metadata_bytes_max),
        ("grpc.max_connection_idle_ms", IDLE_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", PING_MS),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.so_reuseport", 0),
    ]
