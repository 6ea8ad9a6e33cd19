"""A name server and a broker inside the caller's process, for tests, demos and one machine.

    with EmbeddedBroker() as broker, broker.producer("shop") as producer:
        producer.send(Message("orders", b"…", delay_level=3))
        broker.advance(10)  # what waits for ten seconds is due now
        assert len(broker.messages("orders")) == 1

They are the real ones, on real sockets, on an event loop of their own in one thread.  Every
method may be called from any thread.  Without a directory they work on a temporary one, which
is removed when they stop.

Invariant: `start` gives servers that answer, or raises what went wrong and leaves nothing
behind: no thread, no port, no temporary directory.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar

from flintmq.access.rules import Dialect
from flintmq.broker.config.broker_config import BROKERS_MAX, BrokerConfig
from flintmq.broker.listening import limits_of
from flintmq.broker.state.broker_state import BrokerState
from flintmq.client.engine.loop_thread import LoopThread
from flintmq.embedded.account_files import ACCOUNTS, AccountPlan
from flintmq.embedded.clients import EmbeddedClients
from flintmq.embedded.embedded_users import EmbeddedUser, write_users
from flintmq.embedded.faults import Faults, Lost
from flintmq.embedded.grpc_door import GrpcPlan
from flintmq.embedded.inside import delayed_in, lag_of, messages_of
from flintmq.embedded.plans import broker_plans
from flintmq.embedded.servers import ANY_PORT, NameServerPlan, Servers
from flintmq.errors import DiskFailed
from flintmq.model.message import ReceivedMessage
from flintmq.nameserver.config import NameServerConfig
from flintmq.net.address import Address
from flintmq.net.tls import ClientTls, ServerTls
from flintmq.store.files.store_config import Flush, StoreConfig

T = TypeVar("T")

NAME_SERVERS_MAX = 8
"""Two show all there is to see of several."""

SLAVES_MAX = 8
"""Of one broker.  Two show all there is to see of several."""

LOOK_S: Final = 0.005
"""How often `wait_for` looks."""


@dataclass(slots=True)
class _Running:
    """Servers, thread and directory, which exist only while the servers run."""

    servers: Servers
    thread: LoopThread
    directory: Path
    temporary: tempfile.TemporaryDirectory[str] | None


class EmbeddedBroker(EmbeddedClients):
    """One name server and one broker, or several; usable with ``with`` and ``async with``.

    ``directory`` is the store of the one broker; several, and slaves, have a directory each in it.
    They listen on free ports of loopback; one of a kind may be given an address.
    Unless ``flush`` or ``config`` says otherwise, sends are acknowledged when the system has
    them: what a power cut would take, tests do not mind.
    ``tls`` is what the servers show and ask for, ``client_tls`` what their clients do.
    With ``accounts`` only these users are served, by what they may do (ACL 2.0).
    With ``slaves`` every broker is a master with so many slaves; `stop_broker` and `start_broker`
    call them ``broker-a/1``.
    With ``metrics`` Prometheus can scrape that address; it needs ``flintmq[metrics]``.
    With ``grpc`` RocketMQ's gRPC clients are served too; it needs ``flintmq[grpc]``.
    """

    def __init__(
        self,
        directory: Path | str | None = None,
        *,
        brokers: int = 1,
        slaves: int = 0,
        name_servers: int = 1,
        config: BrokerConfig | None = None,
        flush: Literal["sync", "async"] | None = None,
        tls: ServerTls | None = None,
        client_tls: ClientTls | None = None,
        accounts: Sequence[EmbeddedUser] | None = None,
        namesrv_listen: Address = ANY_PORT,
        broker_listen: Address = ANY_PORT,
        metrics: Address | None = None,
        grpc: Address | bool = False,
    ) -> None:
        if not 1 <= brokers <= BROKERS_MAX:
            raise ValueError(f"brokers must be 1 to {BROKERS_MAX}")
        if not 1 <= name_servers <= NAME_SERVERS_MAX:
            raise ValueError(f"name_servers must be 1 to {NAME_SERVERS_MAX}")
        if not 0 <= slaves <= SLAVES_MAX:
            raise ValueError(f"slaves must be 0 to {SLAVES_MAX}")
        for listen, count in ((namesrv_listen, name_servers), (broker_listen, brokers)):
            if count > 1 and listen.port:
                raise ValueError(f"{count} of a kind cannot all listen on {listen}")
        self._namesrv_listen = namesrv_listen
        self._broker_listen = broker_listen
        self._metrics = metrics
        self._grpc = ANY_PORT if grpc is True else grpc or None
        config = config or BrokerConfig(store=StoreConfig(flush=Flush.ASYNC))
        if flush is not None:
            config = replace(config, store=replace(config.store, flush=Flush(flush)))
        self._config = config
        self._broker_count = brokers
        self._slave_count = slaves
        self._name_server_count = name_servers
        self._given = None if directory is None else Path(directory)
        self._tls = tls
        super().__init__(accounts, client_tls)
        self._accounts = accounts
        self._lock = threading.Lock()
        self._running: _Running | None = None

    def __repr__(self) -> str:
        running = self._running
        return f"<EmbeddedBroker {self.namesrv if running else 'not running'}>"

    # Life

    def start(self) -> Self:
        """Start, and come back when the brokers are registered."""
        with self._lock:
            if self._running is not None:
                raise RuntimeError("this embedded broker is running already")
            self._running = self._launch()
        return self

    def stop(self) -> None:
        """Stop everything that runs, and remove the directory if it was a temporary one."""
        with self._lock:
            running, self._running = self._running, None
        if running is None:
            return
        try:
            _stop(running.servers, running.thread)
        finally:
            if running.temporary is not None:
                running.temporary.cleanup()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.stop)

    # Where things are

    @property
    def namesrv(self) -> str:
        """The name servers for clients: ``host:port``, with ``;`` between several."""
        return ";".join(map(str, self._require().servers.namesrv))

    @property
    def broker(self) -> str:
        """``host:port`` of the first broker that runs."""
        return self.brokers[0]

    @property
    def brokers(self) -> tuple[str, ...]:
        """``host:port`` of every master that runs, in the order of their names."""
        return tuple(self._of_each_broker(lambda state: state.address))

    @property
    def slaves(self) -> tuple[str, ...]:
        """``host:port`` of every slave that runs, in the order of names and ids."""
        return self.call(
            lambda servers: tuple(
                servers.brokers[name].state.address
                for name in sorted(servers.brokers)
                if not servers.brokers[name].state.config.role.is_master
            )
        )

    @property
    def metrics(self) -> str:
        """``host:port`` where metrics are served."""
        pages = self._require().servers.metrics
        if pages is None:
            raise RuntimeError("this embedded broker was made without metrics=")
        return str(pages.address)

    @property
    def grpc(self) -> str:
        """``host:port`` where gRPC clients are served, with TLS and without."""
        door = self._require().servers.grpc
        if door is None:
            raise RuntimeError("this embedded broker was made without grpc=True")
        return str(door.address)

    @property
    def directory(self) -> Path:
        return self._require().directory

    @property
    def failure(self) -> DiskFailed | None:
        """Why a broker stores nothing any more, and what to do; `stop` raises it."""
        found = self._of_each_broker(lambda state: state.log.failed)
        return next((failure for failure in found if failure is not None), None)

    # What can be done

    def advance(self, seconds: float) -> None:
        """Move the clock, and come back when what fell due at the brokers is done.

        Connections, queue locks and registrations stay as alive as they were.  Clients that
        were made here move too, and do what fell due for them soon after.
        """
        delta_ms = round(seconds * 1000)
        self._run(lambda servers: servers.advance(delta_ms))
        self._advance_clients(delta_ms)

    def pause(self) -> AbstractContextManager[None]:
        """Let requests to the brokers wait until `resume`, or to the end of a ``with``."""
        self.call(lambda servers: _faults(servers).pause())
        return self._paused()

    def resume(self) -> None:
        """Serve what waited, in the order it came."""
        self.call(lambda servers: _faults(servers).resume())

    def drop_next(
        self,
        code: int,
        *,
        lost: Literal["request", "answer", "connection"] = "request",
        count: int = 1,
    ) -> None:
        """Lose the next requests with a code, as ``RequestCode.SEND_MESSAGE_V2``.

        A lost ``request`` is not served; with a lost ``answer`` it is; with a lost
        ``connection`` it is not, and the client notices at once.
        """
        if count < 1:
            raise ValueError("count must be 1 or more")
        self.call(lambda servers: _faults(servers).drop(int(code), Lost(lost), count))

    # What can be seen

    def messages(self, topic: str) -> list[ReceivedMessage]:
        """All messages of a topic, in the order they were stored; none if there is no topic.

        Retries of a group are in ``%RETRY%group``, its dead letters in ``%DLQ%group``.
        """
        found = self._of_each_broker(lambda state: list(messages_of(state, topic)))
        merged = [message for messages in found for message in messages]
        return sorted(merged, key=lambda message: (message.store_ms, message.log_offset))

    def lag(self, group: str, topic: str | None = None) -> int:
        """Messages the group has yet to consume, by the offsets it has committed."""
        return sum(self._of_each_broker(lambda state: lag_of(state, group, topic)))

    def delayed(self) -> int:
        """Messages that wait for a delay level or for a time; retries are among them."""
        return sum(self._of_each_broker(delayed_in))

    def wait_for(self, condition: Callable[[], object], timeout_s: float = 30.0) -> None:
        """Wait until something is so; `TimeoutError` when it does not come true."""
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"it did not come true within {timeout_s:g} s")
            time.sleep(LOOK_S)

    def stop_broker(self, name: str) -> None:
        """Stop one broker of several, as ``broker-b``."""
        self._run(lambda servers: servers.stop_broker(name))

    def start_broker(self, name: str) -> None:
        """Start a stopped broker again, on the same port and directory."""
        self._run(lambda servers: servers.start_broker(name))

    def call(self, act: Callable[[Servers], T]) -> T:
        """Look at the servers, or do something to them, on the thread they run in."""

        async def on_the_loop(servers: Servers) -> T:
            return act(servers)

        return self._run(on_the_loop)

    # Inside

    @contextmanager
    def _paused(self) -> Iterator[None]:
        try:
            yield
        finally:
            if self._running is not None:
                self.resume()

    def _of_each_broker(self, see: Callable[[BrokerState], T]) -> list[T]:
        return self.call(lambda servers: [see(broker.state) for broker in servers.masters])

    def _require(self) -> _Running:
        running = self._running
        if running is None:
            raise RuntimeError("this embedded broker is not running")
        return running

    def _run(self, work: Callable[[Servers], Coroutine[Any, Any, T]]) -> T:
        with self._lock:  # so that nobody stops the loop meanwhile
            running = self._require()
            return running.thread.run(work(running.servers))

    def _launch(self) -> _Running:
        temporary: tempfile.TemporaryDirectory[str] | None = None
        directory = self._given
        if directory is None:
            temporary = tempfile.TemporaryDirectory(prefix="flintmq-")
            directory = Path(temporary.name)
        thread = LoopThread("flintmq-embedded")
        starting = asyncio.run_coroutine_threadsafe(self._start_servers(directory), thread.loop)
        try:
            servers = starting.result()
        except BaseException:
            wait((starting,))
            if starting.exception() is None:  # it was not the start that failed
                _stop(starting.result(), thread)
            else:
                thread.end()
            if temporary is not None:
                temporary.cleanup()
            raise
        return _Running(servers, thread, directory, temporary)

    async def _start_servers(self, directory: Path) -> Servers:
        acting = self._config.acting_master
        config = NameServerConfig(listen=self._namesrv_listen, support_acting_master=acting)
        name_servers = [NameServerPlan(config=config)] * self._name_server_count
        plans = broker_plans(
            directory, self._config, self._broker_listen, self._broker_count, self._slave_count
        )
        return await Servers.start(
            plans,
            name_servers,
            grpc=None if self._grpc is None else self._grpc_plan(self._grpc),
            tls=self._tls,
            metrics=self._metrics,
            faults=Faults(),
            accounts=self._account_plan(directory / ACCOUNTS),
        )

    def _grpc_plan(self, listen: Address) -> GrpcPlan:
        return GrpcPlan(listen=listen, tls=self._tls, connections=limits_of(self._config))

    def _account_plan(self, directory: Path) -> AccountPlan | None:
        if self._accounts is None:
            return None
        write_users(self._accounts, directory)
        return AccountPlan(Dialect.AUTH, directory, inner=self._inner)


def _faults(servers: Servers) -> Faults:
    assert servers.faults is not None
    return servers.faults


def _stop(servers: Servers, thread: LoopThread) -> None:
    """Stop the servers and their thread, to the end even when the caller is interrupted."""
    stopping = asyncio.run_coroutine_threadsafe(servers.stop(), thread.loop)
    try:
        stopping.result()
    finally:
        wait((stopping,))
        thread.end()
