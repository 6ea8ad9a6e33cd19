"""Name servers and brokers on the running loop: started together, stopped together.

    name servers ─► brokers ─► every broker registered everywhere ─► ready
    stop: brokers leave their name servers ─► name servers

All of them go by one clock.  `flintmq serve` runs one of each; `EmbeddedBroker` runs them on a
thread of its own.

Invariant: `start` gives servers that all answer, or raises and leaves nothing running.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from flintmq.access.accounts import Accounts
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.server import BrokerServer
from flintmq.client.engine.client_config import ClientConfig
from flintmq.core.account import Account
from flintmq.embedded.account_files import AccountFiles, AccountPlan
from flintmq.embedded.audit_log import AuditLog
from flintmq.embedded.faults import Faults
from flintmq.embedded.grpc_door import GrpcDoor, GrpcPlan, open_door
from flintmq.embedded.movable_clock import MovableClock, MovableTiming
from flintmq.errors import StoreLocked, Unreachable
from flintmq.logs import logger
from flintmq.nameserver.config import NameServerConfig
from flintmq.nameserver.server import NameServer
from flintmq.nameserver.settings import Save
from flintmq.net.address import Address
from flintmq.net.servers.server import no_gate
from flintmq.net.tls import ClientTls, ServerTls, TlsMode
from flintmq.store.files.disk import Disk
from flintmq.store.files.layout import LOCK_FILE

if TYPE_CHECKING:
    from flintmq.metrics.pages import MetricsServer, Source

log = logger(__name__)

ANY_PORT = Address("127.0.0.1", 0)
"""A port of loopback that the system chooses."""

TICKS_MAX = 10_000
"""How often work that is due is looked for after the clock moved; the timer finds the rest."""

_taken: set[Path] = set()
"""Store directories that brokers of this process work on."""
_taken_lock = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerPlan:
    """One name server.  Without a file, what people put over the wire ends with the process."""

    config: NameServerConfig = field(default_factory=lambda: NameServerConfig(listen=ANY_PORT))
    settings_file: Path | None = None
    admin_listen: Address | None = None
    """The only address that serves requests of admins, if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPlan:
    """One broker and where its store is."""

    directory: Path
    config: BrokerConfig = field(default_factory=BrokerConfig)
    listen: Address = ANY_PORT
    advertise: Address | None = None
    admin_listen: Address | None = None
    """The only address that serves administrative requests, if there is one."""

    @property
    def key(self) -> str:
        """``broker-a`` for a master, ``broker-a/1`` for its slave with the id 1."""
        name, broker_id = self.config.broker_name, self.config.broker_id
        return f"{name}/{broker_id}" if broker_id else name


class Servers:
    """The name servers and brokers that run.  `start` makes one."""

    def __init__(self, clock: MovableClock, tls: ServerTls | None) -> None:
        self.clock = clock
        self.faults: Faults | None = None
        """What is to go wrong here; nothing unless somebody asks for it before the start."""
        self.name_servers: list[NameServer] = []
        self.brokers: dict[str, BrokerServer] = {}
        """Those that run, masters by name, slaves by name and id: ``broker-a/1``."""
        self._tls = tls
        self._files: AccountFiles | None = None
        self._watch: asyncio.Task[None] | None = None
        self._plans: dict[str, BrokerPlan] = {}
        self.metrics: MetricsServer | None = None
        """Where metrics are served, if they are."""
        self.grpc: GrpcDoor | None = None
        """Where gRPC clients are served, if they are."""
        self._grpc_timing = MovableTiming()
        self._restarts: dict[str, asyncio.Task[None]] = {}
        self._switching = asyncio.Lock()  # held while a broker starts again with another role

    @classmethod
    async def start(
        cls,
        brokers: Sequence[BrokerPlan],
        name_servers: Sequence[NameServerPlan] = (NameServerPlan(),),
        *,
        clock: MovableClock | None = None,
        tls: ServerTls | None = None,
        faults: Faults | None = None,
        accounts: AccountPlan | None = None,
        metrics: Address | None = None,
        grpc: GrpcPlan | None = None,
    ) -> Servers:
        """Start all of them and wait until every broker is registered."""
        servers = cls(clock or MovableClock(), tls)
        servers.faults = faults
        if accounts is not None:
            servers.protect(accounts)
        try:
            for plan in name_servers:
                servers.name_servers.append(await servers._start_name_server(plan))
            for broker in brokers:
                assert broker.key not in servers._plans, f"two brokers are called {broker.key}"
                servers._plans[broker.key] = broker
                await servers.start_broker(broker.key)
            if metrics is not None:
                from flintmq.metrics.pages import serve_metrics  # most starts do not need it

                servers.metrics = await serve_metrics(metrics, servers._sources())
            if grpc is not None:
                await servers._open_grpc(grpc)
        except BaseException:
            try:
                await servers.stop()
            except Exception:
                log.exception("while stopping after a start that failed")
            raise
        return servers

    def protect(self, plan: AccountPlan) -> None:
        """Turn access control on, before anything is started."""
        self._files = AccountFiles(plan)
        self._files.open()
        self._watch = asyncio.ensure_future(self._files.watch())

    async def _open_grpc(self, plan: GrpcPlan) -> None:
        inner = self.inner
        namesrv = ";".join(str(reachable(each)) for each in self.namesrv)
        client = ClientConfig(
            namesrv=namesrv,
            access_key=None if inner is None else inner.access_key,
            secret_key=None if inner is None else inner.secret_key,
            tls=tls_among_ourselves(self._tls) or False,
            _timing=self._grpc_timing,
        )
        self.grpc = await open_door(plan, client, self.accounts, self._auditor)
        if self.metrics is not None:
            self.metrics.sources = self._sources()

    @property
    def accounts(self) -> Accounts | None:
        """Who may do what; None where access control is off."""
        return None if self._files is None else self._files.accounts

    @property
    def inner(self) -> Account | None:
        """The account with which our servers prove themselves; None without access control."""
        return None if self._files is None else self._files.inner

    @property
    def _auditor(self) -> AuditLog | None:
        return None if self._files is None else self._files.auditor

    @property
    def namesrv(self) -> tuple[Address, ...]:
        """The addresses of the name servers."""
        return tuple(server.address for server in self.name_servers)

    @property
    def masters(self) -> list[BrokerServer]:
        """The masters that run, in the order of their names."""
        found = (self.brokers[name] for name in sorted(self.brokers))
        return [each for each in found if each.state.config.role.is_master]

    async def start_broker(self, name: str) -> None:
        """Start a broker of the plan that does not run."""
        assert name not in self.brokers, name
        plan = self._plans[name]
        _claim(plan.directory)
        try:
            broker = await BrokerServer.start(
                plan.directory,
                plan.config,
                listen=plan.listen,
                advertise=plan.advertise,
                namesrv=self.namesrv,
                clock=self.clock,
                tls=self._tls,
                client_tls=tls_among_ourselves(self._tls),
                gate=no_gate if self.faults is None else self.faults.gate,
                accounts=self.accounts,
                inner=self.inner,
                auditor=self._auditor,
                admin_listen=plan.admin_listen,
            )
        except BaseException:
            _give_back(plan.directory)
            raise
        self.brokers[name] = broker
        if self.metrics is not None:
            self.metrics.sources = self._sources()
        self._restarts[name] = asyncio.ensure_future(self._restart(name, broker))
        config = with_same_ports(plan.config, plan.listen, broker)
        self._plans[name] = replace(plan, listen=broker.address, config=config)
        await broker.registered.wait()
        for server in self.name_servers:
            if plan.config.broker_name not in server.state.routes.cluster().broker_addr_table:
                await self.stop_broker(name)
                raise Unreachable(str(server.address), _not_registered(name, self._tls))

    async def stop_broker(self, name: str) -> None:
        """Stop a broker; `start_broker` starts it again on the same port and directory."""
        broker = self.brokers.pop(name)
        restart = self._restarts.pop(name)
        if restart is not asyncio.current_task():
            restart.cancel()
        try:
            await broker.stop()
        finally:
            if self.metrics is not None:
                self.metrics.sources = self._sources()
            _give_back(self._plans[name].directory)

    async def _restart(self, name: str, broker: BrokerServer) -> None:
        """Start a broker again that was given another role."""
        await broker.roles.changed.wait()
        async with self._switching:
            if self.brokers.get(name) is broker:
                await self.stop_broker(name)
                await self.start_broker(name)

    async def advance(self, delta_ms: int) -> None:
        """Move the clock, then do what has fallen due.  Connections and locks stay alive."""
        for server in self.name_servers:
            server.carry(delta_ms)
        for broker in self.brokers.values():
            broker.state.carry(delta_ms)
        self.clock.advance(delta_ms)
        self._grpc_timing.advance(delta_ms)
        for server in self.name_servers:
            server.tick(self.clock())
        for broker in self.brokers.values():
            await self._work_off(broker)

    async def stop(self) -> None:
        """Stop the brokers, then the name servers; the first failure is raised at the end."""
        if self._watch is not None:
            self._watch.cancel()
        if self.grpc is not None:
            await self.grpc.stop()
        async with self._switching:
            await self._stop_all()

    async def _stop_all(self) -> None:
        brokers = (self.stop_broker(name) for name in tuple(self.brokers))
        failures = await asyncio.gather(*brokers, return_exceptions=True)
        name_servers, self.name_servers = self.name_servers, []
        failures += await asyncio.gather(
            *(server.stop() for server in name_servers), return_exceptions=True
        )
        if self.metrics is not None:
            await self.metrics.stop()
        if self._files is not None:
            self._files.close()
        for failure in failures:
            if failure is not None:
                raise failure

    def _sources(self) -> list[Source]:
        from flintmq.broker.monitoring.broker_source import broker_source
        from flintmq.nameserver.monitoring import name_server_source

        return [
            *(broker_source(broker, node_id=key) for key, broker in self.brokers.items()),
            *map(name_server_source, self.name_servers),
            *([] if self.grpc is None else [self.grpc.source]),
        ]

    async def _start_name_server(self, plan: NameServerPlan) -> NameServer:
        loaded: bytes | None = None
        save: Save | None = None
        path = plan.settings_file
        if path is not None:
            disk = Disk()
            disk.make_directory(path.parent)
            if disk.is_file(path):
                loaded = disk.read_all(path)

            def save(content: bytes) -> None:
                disk.replace(path, content)

        return await NameServer.start(
            plan.config,
            clock=self.clock,
            tls=self._tls,
            loaded=loaded,
            save=save,
            gate=no_gate if self.faults is None else self.faults.open_gate,
            accounts=self.accounts,
            auditor=self._auditor,
            admin_listen=plan.admin_listen,
        )

    async def _work_off(self, broker: BrokerServer) -> None:
        for _ in range(TICKS_MAX):
            broker.clock_moved()
            await asyncio.sleep(0)  # others have their turn
            now_ms = self.clock()
            if broker.engine.next_due_ms(now_ms) > now_ms:
                return


def with_same_ports(config: BrokerConfig, asked: Address, broker: BrokerServer) -> BrokerConfig:
    """Settings to start a broker again where clients and slaves look for it, and nowhere else.

    ``asked`` is where it was told to listen the first time.
    """
    ha_address = broker.state.ha_address
    return replace(
        config,
        fast_port=config.fast_port and asked.port != 0,
        ha_port=config.ha_port if ha_address is None else Address.parse(ha_address).port,
    )


def reachable(listen: Address) -> Address:
    """Where this process reaches a server of its own that listens everywhere."""
    try:
        is_everywhere = ip_address(listen.host).is_unspecified
    except ValueError:
        return listen
    return replace(listen, host="::1" if listen.is_v6 else "127.0.0.1") if is_everywhere else listen


def _claim(directory: Path) -> None:
    """Keep others of this process out: the lock of the store keeps out other processes only."""
    path = directory.resolve()
    with _taken_lock:
        if path in _taken:
            raise StoreLocked(str(path / LOCK_FILE))
        _taken.add(path)


def _give_back(directory: Path) -> None:
    with _taken_lock:
        _taken.discard(directory.resolve())


def tls_among_ourselves(tls: ServerTls | None) -> ClientTls | None:
    """How our brokers speak to our name servers: within one machine nobody need be checked."""
    if tls is None or tls.mode is not TlsMode.ENFORCING:
        return None
    return ClientTls(
        certificate_file=tls.certificate_file,
        key_file=tls.key_file,
        key_password=tls.key_password,
        verify=False,
    )


def _not_registered(name: str, tls: ServerTls | None) -> str:
    reason = f"{name} could not be registered"
    if tls is not None and tls.client_ca_file is not None:
        reason += "; it shows its own certificate there, so the client CA must have signed that too"
    return reason
