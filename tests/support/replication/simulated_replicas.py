"""A master and its slave behind the route that clients see, without sockets, all from one seed.

    clients ─► whoever the route shows: the master, or its slave while the master is gone
                  │ master: sends, as SYNC_MASTER        slave: pulls, commits, locks
                  └── frames, lost, repeated, bent, cut ──► slave

Brokers are real engines; tables are copied, offsets handed back and roles changed by the code that
does it on sockets.  What is simulated is the way of the bytes, and the clock.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from flintmq.broker.admin.role_change import change_role
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.config.replication_config import ReplicationConfig
from flintmq.broker.engine import BrokerEngine
from flintmq.broker.replication.returning import take_offsets_back
from flintmq.broker.requests.peer import Peer
from flintmq.broker.role_switch import RoleSwitch
from flintmq.broker.table_copy import TableCopy
from flintmq.core.conversation import Call, Conversation
from flintmq.core.replication.slave_acks import ConnectedSlave
from flintmq.core.replication.slave_session import OVERLAP_BYTES, SlaveSession
from flintmq.errors import FlintError
from flintmq.model.broker_role import BrokerRole
from flintmq.model.queue import LogOffset
from flintmq.protocol.bodies.route import BrokerMembers, MemberGroup
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import ANSWER_BIT, Command
from flintmq.protocol.replication.ha_frames import TRANSFER_BYTES, PieceReader, encode_header
from support.core.simulated_broker import STORE, Clock, Connection, Faults, SimulatedBroker

T = TypeVar("T")

NAMES, SLAVE_AT, MASTER_AT = "names:9876", "slave:10911", "master:10911"
LINK_MS = 20
RELINK_MS = 600
BEAT_MS = 1_000
STALL_MS_MAX = 3_000
COPY_MS = 2_000
SWITCH_MS_MAX = 4_000
SLAVE_TIMEOUT_MS = 1_000

MASTER_CONFIG = BrokerConfig(
    store=STORE,
    role=BrokerRole.SYNC_MASTER,
    ha_port=0,
    acting_master=True,
    replication=ReplicationConfig(slave_timeout_ms=SLAVE_TIMEOUT_MS),
)
SLAVE_CONFIG = replace(MASTER_CONFIG, role=BrokerRole.SLAVE, broker_id=1)


class _Here(Executor):
    """Runs what it is given at once."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        done: Future[T] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


class SimulatedReplicas:
    """The two brokers of one name.  Clients take it for a `SimulatedBroker`."""

    def __init__(self, directory: Path, clock: Clock, chance: Random, hidden_ms: int) -> None:
        self._directory = directory
        self._clock = clock
        self._chance = chance
        self._hidden_ms = hidden_ms  # for how long a change of the route shows nobody
        self._shown_from_ms = 0
        self._runner = asyncio.Runner()
        self._owners: dict[Connection, SimulatedBroker] = {}
        self._names = 0
        self.master = self._made(MASTER_CONFIG)
        self.slave = self._made(SLAVE_CONFIG)
        self.is_switching = False
        self.link = SimulatedLink(self, clock, chance)
        self._copy_later()

    def close(self) -> None:
        self._runner.close()

    def _made(self, config: BrokerConfig) -> SimulatedBroker:
        self._names += 1
        place = self._directory / f"b{self._names}"
        return SimulatedBroker(place, self._clock, self._chance, config)

    # What clients see

    @property
    def shown(self) -> SimulatedBroker | None:
        """The broker that the route has as its master."""
        if self._clock.now_ms < self._shown_from_ms:
            return None
        return next((one for one in (self.master, self.slave) if one.engine is not None), None)

    @property
    def engine(self) -> BrokerEngine | None:
        shown = self.shown
        return None if shown is None else shown.engine

    def connect(
        self, on_note: Callable[[Command], None], on_lost: Callable[[], None]
    ) -> Connection | None:
        shown = self.shown
        made = None if shown is None else shown.connect(on_note, on_lost)
        if shown is not None and made is not None:
            self._owners[made] = shown
        return made

    def cut(self, connection: Connection) -> None:
        self._of(connection).cut(connection)

    def call(
        self,
        connection: Connection | None,
        request: Command,
        timeout_ms: int,
        then: Callable[[Command | FlintError], None],
        served: Callable[[Command], None] | None = None,
    ) -> None:
        self._of(connection).call(connection, request, timeout_ms, then, served)

    def converse(
        self,
        connection: Connection | None,
        conversation: Conversation[T],
        then: Callable[[T], None],
        failed: Callable[[FlintError], None],
    ) -> None:
        self._of(connection).converse(connection, conversation, then, failed)

    def _of(self, connection: Connection | None) -> SimulatedBroker:
        return self.master if connection is None else self._owners[connection]

    def set_faults(self, faults: Faults) -> None:
        self.master.faults = self.slave.faults = faults

    def set_on_arrival(self, see: Callable[[Command], None]) -> None:
        self.master.on_arrival = self.slave.on_arrival = see

    def _route_changes(self) -> None:
        """Clients learn of another master: at once, or one by one where order does not matter."""
        if self._hidden_ms:
            self._shown_from_ms = self._clock.now_ms + self._hidden_ms
        for connection, owner in list(self._owners.items()):
            if not connection.is_open:
                del self._owners[connection]
            elif owner is not self.shown:
                late_ms = 0 if self._hidden_ms else self._chance.randint(0, SWITCH_MS_MAX)
                self._clock.after(late_ms, lambda o=owner, c=connection: o.cut(c))  # type: ignore[misc]

    # What happens to them

    def stop_master(self, *, saved: bool) -> None:
        self.link.cut()
        self.master.stop(saved=saved)
        self._route_changes()

    def start_master(self) -> None:
        """The master is back, takes offsets over, and only then is found."""
        self.master.start()
        assert self.master.engine is not None
        lines = _Lines(self)
        self._run(take_offsets_back(self.master.engine.state, (NAMES,), lines))  # type: ignore[arg-type]
        self._route_changes()

    def stop_slave(self, *, saved: bool) -> None:
        self.link.cut()
        self.slave.stop(saved=saved)
        self._route_changes()

    def start_slave(self) -> None:
        self.slave.start()

    def fence(self, *, fenced: bool) -> None:
        """The master stores nothing any more, or goes on."""
        assert self.master.engine is not None
        change_role({"flintmqFenced": str(fenced).lower()}, self.master.engine.state, _ADMIN)

    def promote(self) -> bool:
        """The fenced master and its slave change places, if the slave has everything."""
        master, slave = self.master.engine, self.slave.engine
        assert master is not None
        assert slave is not None
        end = master.state.log.end_offset
        if slave.state.log.end_offset != end:
            return False
        copy = self._copy()
        if copy is None:
            return False
        wanted = {"brokerRole": "SYNC_MASTER", "brokerId": "0", "flintmqLogEnd": str(end)}
        change_role(wanted, slave.state, _ADMIN)
        change_role({"brokerRole": "SLAVE", "brokerId": "1"}, master.state, _ADMIN)
        self.link.cut()
        for broker in (self.slave, self.master):
            self._change_role(broker, copy)
        self.master, self.slave = self.slave, self.master
        self.master.start()
        self.slave.start()
        self._route_changes()
        return True

    def promote_alone(self) -> None:
        """The master is lost for good: its slave takes its place, and another one copies that."""
        assert self.master.engine is None
        slave = self.slave.engine
        assert slave is not None
        end = str(slave.state.log.end_offset)
        wanted = {"brokerRole": "SYNC_MASTER", "brokerId": "0", "flintmqLogEnd": end}
        change_role({**wanted, "flintmqMasterGone": "true"}, slave.state, _ADMIN)
        self._change_role(self.slave, self._copier(slave))
        lost = self.master.directory
        shutil.rmtree(lost)
        shutil.copytree(self.slave.directory, lost)
        for role in (lost / "config").glob("flintmqRole.json*"):
            role.unlink()
        self.master, self.slave = self.slave, self.master
        self.slave.config = SLAVE_CONFIG
        self.master.start()
        self.slave.start()
        self._route_changes()

    def _change_role(self, broker: SimulatedBroker, copy: TableCopy) -> None:
        assert broker.engine is not None
        switch = RoleSwitch(broker.engine.state, broker.tables.role, copy, _Here())
        self._run(switch.run())
        assert switch.changed.is_set(), broker.engine.state.role_fault
        broker.stop(saved=True)

    # Tables

    def _copy_later(self) -> None:
        self._clock.after(self._chance.randint(COPY_MS // 2, COPY_MS), self._copy_now)

    def _copy_now(self) -> None:
        copy = self._copy()
        if copy is not None:
            self._run(copy.run())
        self._copy_later()

    def _copy(self) -> TableCopy | None:
        slave = self.slave.engine
        if slave is None or self.master.engine is None:
            return None
        return self._copier(slave)

    def _copier(self, slave: BrokerEngine) -> TableCopy:
        slave.state.master_address = MASTER_AT
        lines: Any = _Lines(self)
        return TableCopy(slave.state, lines, _Here(), lambda: self.slave.now_ms, catch_up_ms=0)

    def _run(self, work: Any) -> None:
        self._runner.run(work)


_ADMIN = Peer("127.0.0.1:19999")


class _Lines:
    """What a broker asks others, answered at once."""

    def __init__(self, replicas: SimulatedReplicas) -> None:
        self._replicas = replicas

    async def make(self, call: Call) -> Command:
        return await self.call(call.address, call.request, call.timeout_ms)

    async def call(self, address: str, request: Command, _timeout_ms: int) -> Command:
        await asyncio.sleep(0)
        replicas = self._replicas
        if address != NAMES:
            return (replicas.master if address == MASTER_AT else replicas.slave).ask(request)
        assert request.code == RequestCode.GET_BROKER_MEMBER_GROUP
        there = {} if replicas.slave.engine is None else {1: SLAVE_AT}
        members = BrokerMembers(broker_addrs=there, broker_name="broker-a", cluster="c")
        body = MemberGroup(broker_member_group=members).to_body()
        return Command(code=0, flag=ANSWER_BIT, body=body)


class SimulatedLink:
    """The HA connection: it breaks at any byte, stalls, and frames are lost, repeated and bent."""

    def __init__(self, replicas: SimulatedReplicas, clock: Clock, chance: Random) -> None:
        self._replicas = replicas
        self._clock = clock
        self._chance = chance
        self.trouble = 0.0
        self.mismatches = 0
        self._slave: ConnectedSlave | None = None
        self._session = SlaveSession(LogOffset(0), b"")
        self._reader = PieceReader()
        self._waiting = b""
        self._beat_ms = 0
        self._step()

    def cut(self) -> None:
        """The connection is gone; both sides see it."""
        master = self._replicas.master.engine
        if master is not None:
            master.state.slaves.slaves.clear()
        self._slave = None

    def _step(self) -> None:
        master, slave = self._replicas.master.engine, self._replicas.slave.engine
        delay_ms = self._chance.randint(1, LINK_MS)
        if master is None or slave is None:
            self._slave = None
            delay_ms = RELINK_MS
        elif self._slave is None:
            self._connect(master, slave)
        else:
            is_alive = self._send(master, slave, self._slave)
            if not is_alive:
                delay_ms = self._chance.randint(LINK_MS, RELINK_MS)
            elif self._chance.random() < self.trouble:
                delay_ms = self._chance.randint(LINK_MS, STALL_MS_MAX)
        self._clock.after(delay_ms, self._step)

    def _connect(self, master: BrokerEngine, slave: BrokerEngine) -> None:
        log = slave.state.log
        end = LogOffset(0) if log.raw.is_empty else log.end_offset
        assert end <= master.state.log.end_offset, "the slave is ahead of its master"
        self._session = SlaveSession(end, log.raw.tail(OVERLAP_BYTES))
        self._reader, self._waiting = PieceReader(), b""
        self._slave = ConnectedSlave("127.0.0.1:1", "127.0.0.1", self._clock.now_ms)
        self._slave.sent_to = self._session.report(end)
        master.state.slaves.slaves[:] = [self._slave]
        self._report(slave)

    def _send(self, master: BrokerEngine, slave: BrokerEngine, connected: ConnectedSlave) -> bool:
        """Send some frames; whether the connection lives on."""
        log, chance = master.state.log, self._chance
        for _ in range(chance.randint(1, 4)):
            size_bytes = chance.choice((50, 1_000, TRANSFER_BYTES))
            stop = LogOffset(min(connected.sent_to + size_bytes, log.end_offset))
            if stop == connected.sent_to and self._clock.now_ms < self._beat_ms:
                break
            view = log.raw.view(connected.sent_to, stop) if stop > connected.sent_to else b""
            frame = encode_header(connected.sent_to, len(view)) + bytes(view)
            self._beat_ms = self._clock.now_ms + BEAT_MS
            connected.sent_to = LogOffset(connected.sent_to + len(view))
            if not self._arrives(frame, slave):
                self.cut()
                return False
        return True

    def _arrives(self, frame: bytes, slave: BrokerEngine) -> bool:
        """Whether the connection lives on after a frame and what happened to it."""
        chance, fate = self._chance, self._chance.random()
        frames = [frame]
        is_cut = False
        if fate < self.trouble / 4:
            frames = []
        elif fate < self.trouble / 2:
            frames = [frame, frame]
        elif fate < self.trouble * 3 / 4:
            at = chance.randrange(12)
            frames = [frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1 :]]
        elif fate < self.trouble:
            frames, is_cut = [frame[: chance.randrange(len(frame))]], True
        try:
            for each in frames:
                self._take(each, slave)
        except FlintError:
            self.mismatches += 1
            return False
        finally:
            self._replicas.slave.turn()
        self._report(slave)
        return not is_cut

    def _take(self, octets: bytes, slave: BrokerEngine) -> None:
        raw = slave.state.log.raw
        for piece in self._reader.feed(octets):
            was_empty = self._session.is_empty
            self._waiting += self._session.receive(piece)
            if was_empty:
                raw.begin_at(piece.start)
        while self._waiting and (taken := raw.append(self._waiting, self._replicas.slave.now_ms)):
            self._waiting = self._waiting[taken:]

    def _report(self, slave: BrokerEngine) -> None:
        """Tell the master what is stored; that takes its time, or is lost with the connection."""
        stored_to = LogOffset(0) if self._session.is_empty else slave.state.log.end_offset
        report, connected = self._session.report(stored_to), self._slave

        def reported() -> None:
            master = self._replicas.master.engine
            if connected is None or connected is not self._slave or master is None:
                return
            connected.acked_to = max(connected.acked_to, report)
            connected.reported_ms = self._clock.now_ms
            master.replicated()
            self._replicas.master.turn()

        self._clock.after(self._chance.randint(1, LINK_MS), reported)
