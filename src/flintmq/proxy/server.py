"""A running proxy: its listener, the gRPC server behind it, its engine and its tasks.

    start: address taken ─► engine ─► listener opens ─► ready
    stop:  no new connections ─► receives answered, streams ended ─► gRPC server ─► engine

Invariant: `start` gives a proxy that answers, or raises and leaves nothing running; after `stop`
nothing is left either.
"""

from __future__ import annotations

from collections.abc import Sized
from contextlib import AsyncExitStack
from typing import Final

from flintmq.access.accounts import Accounts
from flintmq.access.rights import Context
from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.popping.pop_calls import PopCalls
from flintmq.logs import logger
from flintmq.net.address import Address
from flintmq.net.channels.partial_frames import PartialFrames
from flintmq.net.channels.unread_bytes import UnreadBytes
from flintmq.net.http2.call_server import H2Limits
from flintmq.net.http2.grpc_server import GrpcServer
from flintmq.net.limits import LIMITS
from flintmq.net.refusals import Refusals
from flintmq.net.servers.access_gate import Auditor
from flintmq.net.servers.mixed_listener import MixedListener, listen_mixed
from flintmq.proxy.caller_rights import ProxyAccess
from flintmq.proxy.calls.receiving import ReceiveCalls
from flintmq.proxy.calls.renewing import Renewing
from flintmq.proxy.calls.routing import Routing
from flintmq.proxy.calls.sending import SendCalls
from flintmq.proxy.calls.settling import Settling
from flintmq.proxy.calls.telemetry import Telemetry
from flintmq.proxy.calls.transactions import Transactions
from flintmq.proxy.grpc_handlers import GrpcHandlers, Handle
from flintmq.proxy.server_settings import ProxySettings
from flintmq.proxy.tables.cluster_facts import ClusterFacts
from flintmq.proxy.tables.halves import Halves
from flintmq.proxy.tables.proxy_clients import ProxyClients

log = logger(__name__)

HTTP_2: Final = "h2"


class ProxyServer:
    """A proxy that runs.  `start` makes one."""

    def __init__(
        self,
        settings: ProxySettings,
        listener: MixedListener,
        accounts: Accounts | None,
        auditor: Auditor | None,
        refusals: Refusals,
    ) -> None:
        self.refusals = refusals
        """What limits of connections refused."""
        self._settings = settings
        self._listener = listener
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
        here = Address(settings.advertise or listener.address.host, listener.address.port)
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
        dispatch = GrpcHandlers(access, unary, self._receiving, self._telemetry)
        self.counts = dispatch.counts
        limits = settings.limits
        self._grpc = GrpcServer(
            dispatch.methods(),
            H2Limits(limits.request_bytes_max, limits.streams_max, limits.metadata_bytes_max),
            limits.calls_max,
            partial=PartialFrames(limits.connections.partial_bytes_max, refusals=refusals),
            unread=UnreadBytes(
                LIMITS.write_bytes_max, limits.connections.unread_bytes_max, refusals
            ),
        )
        self._is_stopped = False

    @classmethod
    async def start(
        cls,
        settings: ProxySettings,
        accounts: Accounts | None = None,
        auditor: Auditor | None = None,
    ) -> ProxyServer:
        """Listen.  Raises `InvalidSetting` where an address or a file cannot be used."""
        refusals = Refusals()
        async with AsyncExitStack() as undo:
            listener = listen_mixed(
                settings.listen,
                tls=settings.tls,
                alpn=HTTP_2,
                limits=settings.limits.connections,
                refusals=refusals,
            )
            undo.push_async_callback(listener.stop)
            proxy = cls(settings, listener, accounts, auditor, refusals)
            undo.push_async_callback(proxy._engine.stop)
            proxy._engine.start()
            proxy._open()
            undo.pop_all()
            return proxy

    @property
    def address(self) -> Address:
        """Where clients connect."""
        return self._listener.address

    @property
    def cluster(self) -> str:
        return self._settings.cluster

    @property
    def connection_count(self) -> int:
        return self._listener.connection_count

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
            await self._listener.stop()

    async def _stop_serving(self) -> None:
        self._listener.stop_accepting()
        self._receiving.stop()
        self.clients.close_streams()
        await self._grpc.stop(self._settings.limits.stop_s)

    def _open(self) -> None:
        self._engine.spawn(self._renewing.run(), "renewing receipts")
        self._engine.spawn(self._telemetry.sweep(self._halves.sweep), "looking for silent clients")
        self._listener.open(self._grpc.connection)
