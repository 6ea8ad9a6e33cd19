"""Masters and slaves on real sockets, and a wire between them that can be cut and bent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.config.replication_config import ReplicationConfig
from flintmq.broker.server import BrokerServer
from flintmq.model.broker_role import BrokerRole
from flintmq.store.files.store_config import Flush, StoreConfig
from support.broker.servers import connected, sending, serving

SMALL_FILES = StoreConfig(
    commit_log_file_bytes=64 * 1024,
    queue_file_bytes=2_000,
    index_slots=100,
    index_entries=500,
    flush=Flush.ASYNC,
    message_bytes_max=32 * 1024,
)

QUICK = ReplicationConfig(heartbeat_ms=100, silence_ms=60_000, slave_timeout_ms=60_000)
"""Heartbeats come often, and no deadline is reached that a test does not mean to reach."""

PATIENCE_S = 60.0


def master_config(
    role: BrokerRole = BrokerRole.ASYNC_MASTER,
    store: StoreConfig = SMALL_FILES,
    replication: ReplicationConfig = QUICK,
) -> BrokerConfig:
    return BrokerConfig(role=role, ha_port=0, store=store, replication=replication)


def slave_config(
    master: str, store: StoreConfig = SMALL_FILES, replication: ReplicationConfig = QUICK
) -> BrokerConfig:
    return BrokerConfig(
        role=BrokerRole.SLAVE,
        broker_id=1,
        ha_master_address=master,
        store=store,
        replication=replication,
    )


def ha_address(broker: BrokerServer) -> str:
    assert broker.replication.master is not None
    return str(broker.replication.master.address)


@asynccontextmanager
async def pair(
    directory: Path, role: BrokerRole = BrokerRole.ASYNC_MASTER, store: StoreConfig = SMALL_FILES
) -> AsyncIterator[tuple[BrokerServer, BrokerServer]]:
    """A master and the slave that follows it."""
    async with serving(directory / "master", master_config(role, store)) as master:
        config = slave_config(ha_address(master), store)
        async with serving(directory / "slave", config) as slave:
            yield master, slave


async def send_all(broker: BrokerServer, count: int, size_bytes: int = 500) -> None:
    """Send messages of one topic, one after the other."""
    channel = await connected(broker)
    for number in range(count):
        reply = await channel.call(sending(number.to_bytes(4) * (size_bytes // 4)), 60_000)
        assert reply.code == 0, reply
    await channel.close(0)


def log_of(broker: BrokerServer) -> tuple[int, bytes]:
    """Where a broker's log begins, and its bytes."""
    octets = broker.state.log.raw.tail(2**40)
    return broker.state.log.end_offset - len(octets), octets


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition; fail when it does not come true on the slowest machine."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - conditions of any kind, and a deadline
            await asyncio.sleep(0.002)


async def until_equal(master: BrokerServer, slave: BrokerServer) -> None:
    """Wait until the slave has the master's log."""
    await until(lambda: slave.state.log.end_offset == master.state.log.end_offset)


class Wire:
    """A listener that passes on bytes to a master, and does to them what a test asks for."""

    def __init__(self, target: Callable[[], str]) -> None:
        self._target = target
        self.cut_after: int | None = None
        """Bytes of the master that the next connection passes on before it is cut."""
        self.flip_at: int | None = None
        """Which byte of the next connection has a bit flipped."""
        self.connections = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> str:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.drop()

    def drop(self) -> None:
        """Cut every connection."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        left, self.cut_after = self.cut_after, None
        flip_at, self.flip_at = self.flip_at, None
        host, _, port = self._target().rpartition(":")
        try:
            from_master, to_master = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, to_master}

        async def back() -> None:
            while data := await reader.read(65_536):
                to_master.write(data)

        backwards = asyncio.ensure_future(back())
        passed = 0
        try:
            while data := await from_master.read(65_536 if left is None else max(1, left - passed)):
                if flip_at is not None and passed <= flip_at < passed + len(data):
                    bent = bytearray(data)
                    bent[flip_at - passed] ^= 4
                    data = bytes(bent)
                passed += len(data)
                writer.write(data)
                if left is not None and passed >= left:
                    await writer.drain()
                    break
        except (OSError, RuntimeError):  # a loop may say either of a transport that is closed
            pass
        finally:
            backwards.cancel()
            for each in (writer, to_master):
                each.close()
                self._writers.discard(each)


def with_silence(config: BrokerConfig, silence_ms: int) -> BrokerConfig:
    """The same settings with less patience."""
    return replace(config, replication=replace(config.replication, silence_ms=silence_ms))
