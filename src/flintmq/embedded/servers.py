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
from pathlib import Path

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.server import BrokerServer
from flintmq.embedded.clock import MovableClock
from flintmq.embedded.faults import Faults
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPlan:
    """One broker and where its store is."""

    directory: Path
    config: BrokerConfig = field(default_factory=BrokerConfig)
    listen: Address = ANY_PORT
    advertise: Address | None = None


class Servers:
    """What runs.  `start` makes one."""

    def __init__(self, clock: MovableClock, tls: ServerTls | None) -> None:
        self.clock = clock
        self.faults: Faults | None = None
        """What is to go wrong here; nothing unless somebody asks for it before the start."""
        self.name_servers: list[NameServer] = []
        self.brokers: dict[str, BrokerServer] = {}
        """By broker name; only those that run."""
        self._tls = tls
        self._plans: dict[str, BrokerPlan] = {}

    @classmethod
    async def start(
        cls,
        brokers: Sequence[BrokerPlan],
        name_servers: Sequence[NameServerPlan] = (NameServerPlan(),),
        *,
        clock: MovableClock | None = None,
        tls: ServerTls | None = None,
        faults: Faults | None = None,
    ) -> Servers:
        """Start all of them and wait until every broker is registered."""
        servers = cls(clock or MovableClock(), tls)
        servers.faults = faults
        try:
            for plan in name_servers:
                servers.name_servers.append(await servers._start_name_server(plan))
            for broker in brokers:
                name = broker.config.broker_name
                assert name not in servers._plans, f"two brokers are called {name}"
                servers._plans[name] = broker
                await servers.start_broker(name)
        except BaseException:
            try:
                await servers.stop()
            except Exception:
                log.exception("while stopping after a start that failed")
            raise
        return servers

    @property
    def namesrv(self) -> tuple[Address, ...]:
        """Where the name servers listen."""
        return tuple(server.address for server in self.name_servers)

    async def start_broker(self, name: str) -> None:
        """Start a broker of the plan that does not run."""
        assert name not in self.brokers, name
        plan = self._plans[name]
        _take(plan.directory)
        try:
            broker = await BrokerServer.start(
                plan.directory,
                plan.config,
                listen=plan.listen,
                advertise=plan.advertise,
                namesrv=self.namesrv,
                clock=self.clock,
                tls=self._tls,
                client_tls=_tls_among_ourselves(self._tls),
                gate=no_gate if self.faults is None else self.faults.gate,
            )
        except BaseException:
            _give_back(plan.directory)
            raise
        self.brokers[name] = broker
        # started again, it is where clients look for it, and takes no other port than before
        config = replace(plan.config, fast_port=plan.config.fast_port and plan.listen.port != 0)
        self._plans[name] = replace(plan, listen=broker.address, config=config)
        await broker.registered.wait()
        for server in self.name_servers:
            if name not in server.state.routes.cluster().broker_addr_table:
                await self.stop_broker(name)
                raise Unreachable(str(server.address), _not_registered(name, self._tls))

    async def stop_broker(self, name: str) -> None:
        """Stop a broker; `start_broker` starts it again on the same port and directory."""
        broker = self.brokers.pop(name)
        try:
            await broker.stop()
        finally:
            _give_back(self._plans[name].directory)

    async def advance(self, delta_ms: int) -> None:
        """Move the clock, then do what has fallen due.  Connections and locks stay alive."""
        for server in self.name_servers:
            server.carry(delta_ms)
        for broker in self.brokers.values():
            broker.state.carry(delta_ms)
        self.clock.advance(delta_ms)
        for server in self.name_servers:
            server.tick(self.clock())
        for broker in self.brokers.values():
            await self._work_off(broker)

    async def stop(self) -> None:
        """Stop the brokers, then the name servers; the first failure is raised at the end."""
        brokers = (self.stop_broker(name) for name in tuple(self.brokers))
        failures = await asyncio.gather(*brokers, return_exceptions=True)
        name_servers, self.name_servers = self.name_servers, []
        failures += await asyncio.gather(
            *(server.stop() for server in name_servers), return_exceptions=True
        )
        for failure in failures:
            if failure is not None:
                raise failure

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
        )

    async def _work_off(self, broker: BrokerServer) -> None:
        for _ in range(TICKS_MAX):
            broker.clock_moved()
            await asyncio.sleep(0)  # others have their turn
            now_ms = self.clock()
            if broker.engine.next_due_ms(now_ms) > now_ms:
                return


def _take(directory: Path) -> None:
    """Keep others of this process out: the lock of the store keeps out other processes only."""
    path = directory.resolve()
    with _taken_lock:
        if path in _taken:
            raise StoreLocked(str(path / LOCK_FILE))
        _taken.add(path)


def _give_back(directory: Path) -> None:
    with _taken_lock:
        _taken.discard(directory.resolve())


def _tls_among_ourselves(tls: ServerTls | None) -> ClientTls | None:
    """How our brokers speak to our name servers: within one process nobody need be checked."""
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
