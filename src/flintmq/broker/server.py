"""The broker on its sockets, its disk and its clock.

    frames of all connections ─► engine ─► one turn ─► one write ─► answers
                                              └─► sync in a worker thread ─► answers

Everything happens on one event loop, but for what waits for the disk: syncs, and saves and scrubs.

Positions are saved as they were before a sync that has ended.  So a table on disk never speaks
of records that a crash could still lose.  Topics and groups are saved as soon as they
change: messages without a topic are out of reach.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

from flintmq.access.accounts import Accounts
from flintmq.broker.announcing import LEAVE_MS, Announcer
from flintmq.broker.client_session import BrokerSession
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.engine import BrokerEngine
from flintmq.broker.engine_port import Request
from flintmq.broker.guard import broker_guard
from flintmq.broker.listening import Listeners, Port, listen_at_all
from flintmq.broker.log_syncs import LogSyncs
from flintmq.broker.replication.replication import Replication
from flintmq.broker.requests.answers import encode_answer
from flintmq.broker.requests.outcome import Answer
from flintmq.broker.requests.peer import Peer
from flintmq.broker.role_switch import RoleSwitch
from flintmq.broker.state.broker_state import BrokerState
from flintmq.broker.state.hand_over import hand_over, move_outdated
from flintmq.broker.state.opening import open_state
from flintmq.broker.table_copy import TableCopy
from flintmq.broker.table_saver import TableSaver
from flintmq.broker.tables.registration import register_parts
from flintmq.broker.upkeep.periodic import upkeep
from flintmq.broker.upkeep.scrubbing import Scrubber
from flintmq.core.account import Account
from flintmq.errors import DiskFailed, FlintError
from flintmq.filter.sql_eval import load_parser
from flintmq.logs import logger
from flintmq.model.host import Host
from flintmq.net.address import Address
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.channel_pool import Channels, resolve
from flintmq.net.channels.session import Session
from flintmq.net.channels.watchdog import LoopWatch, Stalls
from flintmq.net.clock import wall_ms
from flintmq.net.limits import CUT_MS, LINGER_MS
from flintmq.net.refusals import Refusals
from flintmq.net.servers.accepting import ServerLimits
from flintmq.net.servers.access_gate import Auditor
from flintmq.net.servers.loop_parts import InParts
from flintmq.net.servers.server import Gate, no_gate
from flintmq.net.servers.stopping import Stopping
from flintmq.net.tls import ClientTls, ServerTls
from flintmq.protocol.command import Command
from flintmq.store.files.disk import Disk
from flintmq.store.files.json_tables import Tables

log = logger(__name__)

STOP_MS = 5_000
"""How long a broker that stops waits for the disk before it closes connections."""

STOP_LIMIT_MS = 20_000
"""Over the whole of a stop: its steps with limits of their own, and five seconds for the store."""

ASKS_MAX = 1_000
"""Questions to clients that may be open at once; more count as not answered."""

Then: TypeAlias = Callable[[Command | None], None]


class BrokerServer:
    """A broker that serves.  `start` makes one."""

    def __init__(
        self,
        state: BrokerState,
        tables: Tables,
        namesrv: Sequence[Address],
        clock: Callable[[], int],
        client_tls: ClientTls | None,
        inner: Account | None = None,
        auditor: Auditor | None = None,
    ) -> None:
        self.state = state
        self._tables = tables
        self._watch = LoopWatch(state.stalls)
        self.engine = BrokerEngine(state, self)
        self.failed = asyncio.Event()
        """Set when nothing is ever stored again: `stop` it, and it raises why."""
        self.namesrv = tuple(str(address) for address in namesrv)
        self.now_ms = clock
        self._loop = asyncio.get_running_loop()
        self._channels: dict[Peer, Channel] = {}
        self._outgoing = Channels(tls=client_tls, account=inner)
        self._announcer = Announcer(state, self.namesrv, self._outgoing, clock)
        self.registered = self._announcer.registered
        self._turn_due = self._stopped = False
        self._large_answers = InParts(self._step)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._syncs = LogSyncs(self.engine, clock)
        self.sync_soon = self._syncs.begin
        self.replication = Replication(
            state,
            self.namesrv,
            self._outgoing,
            acknowledged=self.engine.replicated,
            turn_is_due=self.turn_is_due,
            sync_soon=self.sync_soon,
            clock=clock,
        )
        self._syncs.when_synced = self.replication.grown
        self._saver = TableSaver(state, tables, clock, self.sync_soon, self._spawn)
        self.save_soon = self._saver.save_soon
        self.copy = TableCopy(state, self._outgoing, self._saver.thread, clock, self.registered)
        self.roles = RoleSwitch(state, tables.role, self.copy, self._saver.thread)
        thread = self._saver.thread
        self.scrubber = Scrubber(state, self.namesrv, self._outgoing, thread, inner, self._spawn)
        self._periodic = upkeep(self, clock())
        self.guard = broker_guard(self.engine, clock, auditor)
        self.listeners: Listeners

    @classmethod
    async def start(
        cls,
        directory: Path,
        config: BrokerConfig,
        *,
        listen: Address,
        advertise: Address | None = None,
        namesrv: Sequence[Address] = (),
        clock: Callable[[], int] = wall_ms,
        tls: ServerTls | None = None,
        client_tls: ClientTls | None = None,
        disk: Disk | None = None,
        limits: ServerLimits | None = None,
        gate: Gate = no_gate,
        accounts: Accounts | None = None,
        inner: Account | None = None,
        auditor: Auditor | None = None,
        admin_listen: Address | None = None,
    ) -> BrokerServer:
        """Open the store, listen, and register with the name servers, signed by ``inner``.

        With ``admin_listen`` administrative requests are served there and nowhere else.
        """
        ip = await resolve(advertise or listen)
        started: list[BrokerServer] = []  # filled before the loop can accept anybody
        stalls, refusals = Stalls(), Refusals()

        def open_session(channel: Channel, port: Port) -> Session:
            broker = started[0]
            elsewhere = None if port is Port.ADMIN else broker.listeners.admin_at
            session = BrokerSession(
                broker, channel, pulls=port is not Port.FAST, admin_at=elsewhere
            )
            return gate(broker.guard(session, channel), channel)

        listeners = await listen_at_all(
            listen, open_session, config, tls, limits, stalls, refusals, admin_listen
        )
        try:
            public = advertise or listeners.main.address
            public = Address(public.host, public.port or listeners.main.address.port)
            state, tables = open_state(
                directory,
                config,
                str(public),
                Host(ip, public.port),
                pick=random.randrange,
                now_ms=clock(),
                disk=disk,
                refusals=refusals,
            )
            state.stalls = stalls
            state.accounts = accounts
            broker = cls(state, tables, namesrv, clock, client_tls, inner, auditor)
        except BaseException:
            await asyncio.gather(*(each.stop(0) for each in listeners))
            raise
        broker.listeners = listeners
        started.append(broker)
        await broker._begin(listen)
        return broker

    async def _begin(self, asked: Address) -> None:
        """Replicate, register, and do what falls due; ``asked`` is where it was told to listen."""
        try:
            await self._announcer.require_no_other_master()
            await self.replication.start(asked, self.address)
        except BaseException:
            await self.stop()
            raise
        self.clock_moved()
        self.announce_all()
        if not self.state.config.role.is_master:
            self.copy_tables()
        if self.state.config.property_filter:
            self._saver.thread.submit(load_parser)  # the first filter must not hold up the loop

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self.listeners.main.address

    @property
    def peers(self) -> tuple[Peer, ...]:
        """Everybody who is connected."""
        return tuple(self._channels)

    @property
    def is_registered(self) -> bool:
        """Whether a name server has it."""
        return bool(self._announcer.accepted_by)

    def clock_moved(self) -> None:
        """The clock was moved from outside: do what is due now."""
        self._tick()

    async def stop(self) -> None:
        """No new sends; answer, sync and save everything; leave the name servers; close."""
        if self._stopped:
            return
        self._stopped = self.state.is_stopping = True
        if self._timer is not None:
            self._timer.cancel()
        self._watch.stop()
        stopping = Stopping("the broker", STOP_LIMIT_MS)
        await stopping.step("leaving the name servers", self._announcer.leave(), LEAVE_MS)
        now_ms = self.now_ms()
        self.engine.release_holds(now_ms)
        self.engine.end_turn(now_ms)
        hand_over(self.state, now_ms)
        self.engine.end_turn(now_ms)
        if not await stopping.step("saving", self._saver.save(), STOP_MS):
            log.error("stopping without saving the last changes")
        elif not self.state.is_read_only:
            move_outdated(self._tables)
        await stopping.step("leaving master and slaves", self.replication.stop(), CUT_MS)
        await stopping.step("closing connections", self.listeners.stop(), LINGER_MS + 2 * CUT_MS)
        await stopping.step("ending tasks", self._end_tasks(), CUT_MS)
        stopping.failures.clear()  # they are logged; that of the store is raised too
        is_closed = await stopping.step("closing the store", self._syncs.close_store())
        self._syncs.shutdown(wait=is_closed)
        self._saver.shutdown(wait=is_closed and "saving" not in stopping.cut)
        for failure in stopping.failures:
            raise failure
        if not is_closed:
            raise DiskFailed("the store", "close", "the disk does not answer")

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._outgoing.close()

    # What the engine asks for

    def answer(self, peer: Peer, request: Request, answer: Answer) -> None:
        channel = self._channels.get(peer)
        if channel is not None:
            channel.write(encode_answer(request.opaque, answer))

    def send_oneway(self, peer: Peer, request: Command) -> None:
        channel = self._channels.get(peer)
        if channel is not None and not channel.is_closed:
            channel.send_oneway_now(request)

    def ask_client(self, peer: Peer | None, request: Command, timeout_ms: int, then: Then) -> None:
        if len(self._tasks) < ASKS_MAX:
            self._spawn(self._ask(peer, request, timeout_ms, then))
        else:
            self._loop.call_soon(then, None)

    def close(self, peer: Peer, reason: str) -> None:
        channel = self._channels.get(peer)
        if channel is not None:
            log.info("%s: closed, %s", peer.address, reason)
            channel.abort(reason)

    async def _ask(self, peer: Peer | None, asked: Command, timeout_ms: int, then: Then) -> None:
        reply = None
        if peer is None:
            reply = await self._announcer.ask_any(asked, timeout_ms)
        elif (channel := self._channels.get(peer)) is not None:
            try:
                reply = await channel.call(asked, timeout_ms)
            except FlintError as error:
                log.info("%s: request %d failed: %s", peer.address, asked.code, error)
        then(reply)
        self.turn_is_due()

    # Turns

    def joined(self, peer: Peer, channel: Channel) -> None:
        self._channels[peer] = channel

    def left(self, peer: Peer) -> None:
        if self._channels.pop(peer, None) is not None:
            self.engine.lost(peer, self.now_ms())
            self.turn_is_due()

    def turn_is_due(self) -> None:
        """End the turn when every connection that has data was read."""
        if not self._turn_due:
            self._turn_due = True
            self.state.put_times.begin(self.now_ms())
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._turn_due = False
        started_s, now_ms = perf_counter(), self.now_ms()
        self.engine.end_turn(now_ms)
        self._after_turn(now_ms)
        self.state.stalls.record(perf_counter() - started_s, "a turn of the store")

    def _step(self, is_over: Callable[[], bool]) -> bool:
        self.engine.step(is_over)
        self.turn_is_due()
        return bool(self.engine.stepping)

    def _after_turn(self, now_ms: int) -> None:
        self.state.put_times.end(self.engine.waits_up_to, now_ms, self.now_ms)
        if self.engine.stepping:
            self._large_answers.go_on()
        if self.engine.wants_sync:
            self.sync_soon()
        self.replication.grown()
        if self.state.log.failed is not None and not self.failed.is_set():
            self.failed.set()
            log.critical("nothing is stored any more: %s", self.state.log.failed)
        if self.roles.is_asked:
            self._spawn(self.roles.run())
        if self.state.has_new_names and not self._stopped:
            self._saver.save_names_soon()
        if self._timer is None or self.engine.deadlines_moved:
            due_ms = self.engine.next_due_ms(now_ms)
            if self._timer is None or due_ms < self._timer_ms:
                self._wake_at(due_ms, now_ms)

    # The clock

    def _tick(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._stopped:
            return
        started_s, now_ms = perf_counter(), self.now_ms()
        for task in self._periodic:
            task.run_if_due(now_ms)
        self.engine.tick(now_ms)
        self._after_turn(now_ms)
        self.state.stalls.record(perf_counter() - started_s, "work that fell due")

    def _wake_at(self, due_ms: int, now_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._stopped:
            return
        self._timer_ms = min(due_ms, *(task.due_ms for task in self._periodic))
        self._timer = self._loop.call_later(max(0, self._timer_ms - now_ms) / 1000, self._tick)

    # Name servers and the master

    def announce_all(self) -> None:
        if self.state.is_fenced:
            return  # another master takes its place
        self._spawn(self._announcer.register(register_parts(self.state, None, self.now_ms())))

    def beat(self) -> None:
        self._spawn(self._announcer.beat(self.announce_all))

    def copy_tables(self) -> None:
        self._spawn(self.copy.run())

    def announce(self, topics: set[str], then: Callable[[], None]) -> None:
        if self._stopped or not self.namesrv:
            then()
        else:
            parts = register_parts(self.state, topics, self.now_ms())
            self._spawn(self._announcer.register(parts, then))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
