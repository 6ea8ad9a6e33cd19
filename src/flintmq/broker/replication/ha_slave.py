"""The side of a slave: it connects to its master's HA port, appends what comes, and reports.

    no master known ─► connecting ─► comparing ─► following
                          ▲             │             │ lost, silent, disk refuses
                          │             │             │ LogMismatch, once: the stream was damaged
                          ├─────────────┴─────────────┘ again, after a growing delay
                          └──── stopped ◄── the same LogMismatch again: the logs differ.  It is said
                                            so, and compared again every `RECHECK_MS`

The first report goes out at once, as 5.3's does; a 4.9 master takes that as well.  A report says
what is written, or with sync flush what is on disk.

A record whose queue offset contradicts its queue is asked for once more.  When the same bytes come
again they are what the master has, and they are stored.

Invariant: nothing is ever stored over bytes of the log, and nothing behind a gap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias, cast

from flintmq.broker.state.broker_state import BrokerState
from flintmq.core.replication.follow_status import Following
from flintmq.core.replication.slave_session import OVERLAP_BYTES, SlaveSession
from flintmq.errors import (
    DiskFailed,
    FlintError,
    InvalidSetting,
    LogMismatch,
    Unreachable,
)
from flintmq.logs import logger
from flintmq.model.queue import LogOffset
from flintmq.net.address import Address
from flintmq.net.clock import monotonic_ms
from flintmq.net.reasons import why_lost
from flintmq.net.servers.streams import open_stream
from flintmq.protocol.records.record import record_size
from flintmq.protocol.replication.ha_frames import PieceReader, encode_report
from flintmq.store.files.store_config import Flush
from flintmq.store.raw_log import QueueContradiction

log = logger(__name__)

CONNECT_MS = 5_000
"""How long a master has to accept the connection."""

RETRY_FIRST_MS = 50
RETRY_MAX_MS = 5_000
"""A slave waits twice as long each time before it connects again, up to what 5.3 waits."""

ASK_MS = 100
"""How often a slave looks whether a name server has told it its master."""

RECHECK_MS = 60_000
"""How often a slave that stopped compares its log with the master's again."""

SyncSoon: TypeAlias = Callable[[], "asyncio.Future[None] | None"]


class HaSlave:
    """The stream of one slave, to the master of its settings or to that of its name servers.

    An open connection goes on when the master moves; the next one goes to the new address.
    """

    def __init__(
        self,
        state: BrokerState,
        turn_is_due: Callable[[], None],
        sync_soon: SyncSoon,
        clock: Callable[[], int],
    ) -> None:
        self.state = state
        self.turn_is_due = turn_is_due
        self.sync_soon = sync_soon
        self.now_ms = clock
        self.status = state.following
        self.doubted: tuple[LogOffset, bytes] | None = None
        """A record that contradicts its queue and was asked for again, and where it lies."""
        self._task: asyncio.Task[None] | None = None
        self._stream: _Stream | None = None

    def start(self) -> None:
        """Connect, as soon as a master is known, and whenever the connection is lost."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Close the connection, and connect no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._stream is not None:
            self._stream.end(None)
        self.status.phase = Following.OFF

    async def _run(self) -> None:
        delay_ms = RETRY_FIRST_MS
        last: LogMismatch | None = None
        while True:
            master = self.state.config.ha_master_address or self.state.master_ha_address
            if master is None:
                self.status.phase, self.status.master = Following.NO_MASTER, None
                await asyncio.sleep(ASK_MS / 1000)
                continue
            began_to = self.state.log.end_offset
            failure = await self._follow_once(master)
            if isinstance(failure, LogMismatch) and last is not None and str(last) == str(failure):
                self._stopped(master, failure)
                delay_ms = RECHECK_MS
            else:
                self.status.reason = str(failure)
                log.warning("master %s: %s; connecting again", master, failure)
                has_grown = self.state.log.end_offset > began_to
                delay_ms = RETRY_FIRST_MS if has_grown else min(2 * delay_ms, RETRY_MAX_MS)
            last = failure if isinstance(failure, LogMismatch) else None
            await asyncio.sleep(delay_ms / 1000)

    def _stopped(self, master: str, failure: LogMismatch) -> None:
        if self.status.phase is not Following.STOPPED:
            log.error(
                "this slave has stopped following %s: %s. Nothing was changed. If the master's log "
                "is right: stop this slave, and run flintmq store set-aside on its directory",
                master, failure,
            )  # fmt: skip
        self.status.phase, self.status.reason = Following.STOPPED, str(failure)

    async def _follow_once(self, master: str) -> FlintError:
        """Follow a master until that ends; tell why it did."""
        self.status.master = master
        if self.status.phase is not Following.STOPPED:
            self.status.phase = Following.CONNECTING
        try:
            address = Address.parse(master)
            stream = await open_stream(address, lambda: _Stream(self, master), CONNECT_MS)
        except (Unreachable, InvalidSetting) as error:
            return error
        self._stream = stream
        self.status.connections += 1
        return await stream.ended


class _Stream(asyncio.Protocol):
    """One connection to a master."""

    def __init__(self, owner: HaSlave, master: str) -> None:
        self._owner = owner
        self._master = master
        self._log = owner.state.log
        self._config = owner.state.config.replication
        self._is_sync = owner.state.config.store.flush is Flush.SYNC
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[FlintError] = loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._pieces = PieceReader()
        self._session = SlaveSession(LogOffset(0), b"")
        self._waiting = bytearray()  # the start of a record whose rest has not come
        self._reported = LogOffset(-1)
        self._heard_ms = self._spoke_ms = monotonic_ms()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        assert not self._log.has_turn, "the turn of the last connection is over by now"
        raw = self._log.raw
        end = LogOffset(0) if raw.is_empty else self._log.end_offset
        self._session = SlaveSession(end, raw.tail(OVERLAP_BYTES))
        self._report(always=True)
        self._watch()

    def data_received(self, data: bytes) -> None:
        self._heard_ms = monotonic_ms()
        status = self._owner.status
        status.received_ms = self._owner.now_ms()
        status.received_bytes += len(data)
        try:
            for piece in self._pieces.feed(data):
                was_empty = self._session.is_empty
                self._waiting += self._session.receive(piece)
                if was_empty:
                    self._log.raw.begin_at(piece.start)
            status.received_to = self._session.position
            if not self._session.is_comparing:
                status.phase, status.reason = Following.FOLLOWING, None
            elif status.phase is not Following.STOPPED:
                status.phase = Following.COMPARING
            self._store()
        except FlintError as error:
            self.end(error)

    def _store(self) -> None:
        """Append the whole records that have come."""
        is_stored = False
        try:
            while self._waiting and (taken := self._append()):
                del self._waiting[:taken]
                is_stored = True
        finally:
            if is_stored:
                self._owner.state.after_write.append(self._written)
                self._owner.turn_is_due()
        if not is_stored:
            self._report()

    def _append(self) -> int:
        """Append some of what waits; tell how much."""
        owner, raw = self._owner, self._log.raw
        view = memoryview(bytes(self._waiting))
        place = LogOffset(self._session.position - len(view))
        doubted_at, doubted = owner.doubted or (None, b"")
        is_sure = doubted_at == place and bytes(view[: len(doubted)]) == doubted
        try:
            taken = raw.append(view, owner.now_ms(), is_sure=is_sure)
        except QueueContradiction:
            owner.doubted = place, bytes(view[: record_size(view, 0)])
            raise
        if is_sure and taken:
            owner.doubted = None
            log.warning(
                "master %s: the record at byte %d contradicts its queue; it is stored as the "
                "master has it",
                self._master, place,
            )  # fmt: skip
        return taken

    def _written(self, failure: DiskFailed | None) -> None:
        if failure is None:
            self._report()
        else:
            self.end(failure)

    # Reports

    def _report(self, *, always: bool = False) -> None:
        """Tell the master what is stored, if that is news."""
        if self._transport is None:
            return
        stored_to = LogOffset(0) if self._session.is_empty else self._log.end_offset
        if self._is_sync:
            stored_to = min(stored_to, self._log.durable_to)
        report = self._session.report(stored_to)
        if always or report > self._reported:
            self._transport.write(encode_report(report))
            self._reported = report
            self._spoke_ms = monotonic_ms()
            self._owner.status.reported_ms = self._owner.now_ms()
        if self._is_sync and self._log.durable_to < self._log.end_offset:
            syncing = self._owner.sync_soon()
            if syncing is not None:
                syncing.add_done_callback(lambda _: self._report())

    def _watch(self) -> None:
        now_ms = monotonic_ms()
        if now_ms - self._heard_ms > self._config.silence_ms:
            reason = f"nothing came for {self._config.silence_ms} ms"
            self.end(Unreachable(self._master, reason))
            return
        if now_ms - self._spoke_ms >= self._config.heartbeat_ms:
            self._report(always=True)
        delay_ms = min(self._config.heartbeat_ms, self._config.silence_ms) / 4
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._watch)

    # The end

    def connection_lost(self, exc: Exception | None) -> None:
        reason = why_lost(exc, in_frame=False, secure=False, heard=True)
        self.end(Unreachable(self._master, reason))

    def end(self, error: FlintError | None) -> None:
        """Close the connection; the first reason counts."""
        if self._timer is not None:
            self._timer.cancel()
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        if not self.ended.done():
            self.ended.set_result(error or Unreachable(self._master, "the slave was stopped"))
