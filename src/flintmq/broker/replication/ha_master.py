"""The side of a master: slaves connect to the HA port, and each is sent the log as it grows.

    connected ─► admitted ─► first report ─┬─► sending from there; 0 is the start of the last file
       │ not one of ours                   └─► outside our log: told nothing is there, and closed
       ▼
    closed after a while

Only what is written is sent, and with sync flush only what is on disk: a slave is never ahead of
what its master has after a crash.  Bytes go from the map of the log into the socket; a slave that
reads slowly is sent no more until it has read, and with flow control no slave more than its share
of a second.

Who reaches this port can read everything and acknowledge what it does not have.  So a peer is
admitted by its address: on the list ``allowed_slaves``, registered as a slave of this broker's
name, or, where there are neither name servers nor a list, of this machine.

A peer that is refused is kept for a while before it is closed: a slave of RocketMQ 4.9 connects
again at once, thousands of times a second.

Invariant: a slave is sent bytes one after the other, each once, none across the end of a file in
one frame.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias, cast

from flintmq.broker.state.broker_state import BrokerState
from flintmq.core.replication.slave_acks import ConnectedSlave
from flintmq.core.replication.transfer_pace import TransferPace
from flintmq.errors import MalformedFrame
from flintmq.logs import logger
from flintmq.model.queue import LogOffset
from flintmq.net.address import Address
from flintmq.net.clock import monotonic_ms
from flintmq.net.servers.streams import StreamServer, listen_for_streams, send_at_once
from flintmq.protocol.replication.ha_frames import ReportReader, encode_header
from flintmq.store.files.store_config import Flush

log = logger(__name__)

CONNECTIONS_MAX = 64
"""Slaves, and peers on their way to be refused, that may be connected at once."""

REFUSED_MS = 5_000
"""How long a refused peer is kept: RocketMQ's slaves wait as long where they wait at all."""

WATCH_MS = 500
"""How often heartbeats and silent slaves are looked at."""

BUFFERED_BYTES_MAX = 256 * 1024
"""What may wait for a slow slave in our memory; the rest waits in the log."""

TURN_BYTES_MAX = 1024 * 1024
"""What one slave is sent before everybody else has a turn."""

JOINED_BYTES_MAX = 16 * 1024
"""Up to this size header and bytes are one write: copying costs less than a second packet."""

REFUSALS_KEPT_MAX = 1_000
"""Reports beyond our end that are remembered."""

Admit: TypeAlias = Callable[[str], Awaitable[bool]]
"""Whether slaves may come from an address."""


class HaMaster:
    """The slaves of one broker.  `start` it, tell it when the log has grown, `stop` it."""

    def __init__(self, state: BrokerState, acknowledged: Callable[[], None], admit: Admit) -> None:
        self._state = state
        self._acknowledged = acknowledged
        self._admit = admit
        self._feeds: set[_Feed] = set()
        self._server: StreamServer | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._foreign: dict[tuple[str, LogOffset], None] = {}

    async def start(self, listen: Address) -> None:
        """Listen for slaves."""
        self._server = await listen_for_streams(listen, lambda: _Feed(self))
        log.info("slaves are served at %s", self._server.address)
        self._watch()

    @property
    def address(self) -> Address:
        """Where slaves connect to."""
        assert self._server is not None, "it was not started"
        return self._server.address

    def stop(self) -> None:
        """Accept no more, and close every connection."""
        if self._server is not None:
            self._server.stop()
        if self._timer is not None:
            self._timer.cancel()
        for feed in tuple(self._feeds):
            feed.close("the broker stops")

    def grown(self) -> None:
        """The log has more to send, or less of it waits for the disk."""
        for feed in tuple(self._feeds):
            feed.send()

    @property
    def sendable_to(self) -> LogOffset:
        """Where the part of the log ends that slaves may have."""
        messages = self._state.log
        is_sync = self._state.config.store.flush is Flush.SYNC
        return min(messages.durable_to, messages.end_offset) if is_sync else messages.end_offset

    def why_not_from(self, host: str, report: LogOffset) -> str | None:
        """Why a slave cannot go on where it ends, or None when it can."""
        messages = self._state.log
        end, start = messages.end_offset, messages.extent.start_offset
        if report > end or (host, report) in self._foreign:
            if len(self._foreign) >= REFUSALS_KEPT_MAX:
                self._foreign.clear()
            self._foreign[host, report] = None
            return (
                f"its log ends at {report}, beyond ours at {end} when it first came: it is not a "
                "copy of this broker's log; give it an empty store"
            )
        if 0 < report < start:
            return (
                f"its log ends at {report}, and ours begins at {start}: retention has removed what "
                "it lacks; give it a copy of this store, or an empty one"
            )
        return None

    def first_of(self, report: LogOffset) -> LogOffset:
        """Where to begin for a slave that reports for the first time."""
        if report:
            return report
        end = self.sendable_to
        start = LogOffset(end - end % self._state.log.raw.file_bytes)
        return max(start, self._state.log.extent.start_offset)

    # Connections

    def joined(self, feed: _Feed) -> bool:
        """Take a connection in, if there is room for it."""
        if len(self._feeds) >= CONNECTIONS_MAX:
            log.warning("%s: refused, %d slaves are connected", feed.peer, len(self._feeds))
            return False
        self._feeds.add(feed)
        return True

    def left(self, feed: _Feed) -> None:
        self._feeds.discard(feed)
        self._uncount(feed)

    def refused(self, feed: _Feed, reason: str) -> None:
        """A peer is not served; what it reported does not count."""
        log.error("%s: refused as a slave: %s", feed.peer, reason)
        self._state.slaves.refused(feed.peer, reason)
        self._uncount(feed)

    def _uncount(self, feed: _Feed) -> None:
        if feed.slave in self._state.slaves.slaves:
            self._state.slaves.slaves.remove(feed.slave)

    async def admits(self, host: str) -> bool:
        return await self._admit(host)

    def reported(self, feed: _Feed) -> None:
        """A slave has stored more."""
        if feed.slave not in self._state.slaves.slaves:
            self._state.slaves.slaves.append(feed.slave)
        self._acknowledged()

    @property
    def state(self) -> BrokerState:
        return self._state

    def _watch(self) -> None:
        now_ms = monotonic_ms()
        for feed in tuple(self._feeds):
            feed.watch(now_ms)
        self._timer = asyncio.get_running_loop().call_later(WATCH_MS / 1000, self._watch)


class _Feed(asyncio.Protocol):
    """One connection of a slave."""

    def __init__(self, owner: HaMaster) -> None:
        self._owner = owner
        self._config = owner.state.config.replication
        self._reports = ReportReader()
        self._pace = TransferPace(self._config.pace)
        self._transport: asyncio.Transport | None = None
        self._admission: asyncio.Task[None] | None = None
        self._is_sending = False
        self._is_full = False
        self._is_refused = False
        self._is_scheduled = False
        self._heard_ms = self._sent_ms = monotonic_ms()
        self.peer = "?"
        self.slave = ConnectedSlave("", "", 0)

    # What the loop says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = made = cast(asyncio.Transport, transport)
        host, port = transport.get_extra_info("peername")[:2]
        self.peer = str(Address(host, port))
        self.slave = ConnectedSlave(self.peer, host, monotonic_ms())
        if not self._owner.joined(self):
            made.abort()
            return
        send_at_once(transport)
        made.set_write_buffer_limits(high=BUFFERED_BYTES_MAX)
        made.pause_reading()
        self._admission = asyncio.get_running_loop().create_task(self._enter(host))

    async def _enter(self, host: str) -> None:
        is_admitted = await self._owner.admits(host)
        if self._transport is None:
            return
        if is_admitted:
            self._transport.resume_reading()
        else:
            self._refuse(
                "it is no slave that is registered under this broker's name; "
                "haAllowedSlaves lists addresses that may connect"
            )

    def data_received(self, data: bytes) -> None:
        self._heard_ms = monotonic_ms()
        try:
            reports = self._reports.feed(data)
        except MalformedFrame as error:
            self.close(str(error))
            return
        if not reports or self._is_refused:
            return
        if not self._is_sending:
            self._begin(reports[0])
        self._note(reports[-1])

    def _begin(self, report: LogOffset) -> None:
        reason = self._owner.why_not_from(self.slave.host, report)
        if reason is not None:
            self._send_nothing(report)
            self._refuse(reason)
            return
        self.slave.sent_to = self._owner.first_of(report)
        self._is_sending = True
        log.info("%s: a slave connected, its log ends at %d", self.peer, report)

    def _note(self, report: LogOffset) -> None:
        if self._is_refused:
            return
        if report > self._owner.state.log.end_offset:
            self._refuse(f"it reports {report}, beyond the end of the log")
            return
        self.slave.acked_to = report
        self.slave.reported_ms = self._heard_ms
        self._owner.reported(self)
        self.send()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_sending and not self._is_refused:
            log.info("%s: a slave is gone%s", self.peer, f": {exc}" if exc else "")
        self._transport = None
        if self._admission is not None:
            self._admission.cancel()
        self._owner.left(self)

    # Sending

    def send(self) -> None:
        """Send what there is and the slave has room for."""
        if not self._is_sending or self._is_refused or self._is_scheduled:
            return
        slave, raw = self.slave, self._owner.state.log.raw
        if slave.sent_to < self._owner.state.log.extent.start_offset:
            self._refuse("retention has removed what it was to get next: it reads too slowly")
            return
        stop, batch = self._owner.sendable_to, self._config.transfer_bytes
        turn_stop = slave.sent_to + TURN_BYTES_MAX
        while slave.sent_to < stop and not self._is_full and self._transport is not None:
            if slave.sent_to >= turn_stop:
                self._is_scheduled = True
                asyncio.get_running_loop().call_soon(self._go_on)
                return
            room = self._pace.room(now_ms := monotonic_ms())
            if room <= 0:
                self._is_scheduled = True
                wait_s = self._pace.wait_ms(now_ms) / 1000
                asyncio.get_running_loop().call_later(wait_s, self._go_on)
                return
            view = raw.view(slave.sent_to, LogOffset(min(stop, slave.sent_to + min(batch, room))))
            header = encode_header(slave.sent_to, len(view))
            if len(view) <= JOINED_BYTES_MAX:
                self._write(header + view)
            else:
                self._write(header)
                self._write(view)
            slave.sent_to = LogOffset(slave.sent_to + len(view))
            self._pace.sent(len(view))

    def _go_on(self) -> None:
        self._is_scheduled = False
        if self._transport is not None:
            self.send()

    def _send_nothing(self, start: LogOffset) -> None:
        """Say twice that there is nothing: a slave of ours takes the second time for an answer."""
        self._write(encode_header(start, 0) * 2)

    def _write(self, data: bytes | memoryview) -> None:
        if self._transport is not None:
            self._transport.write(data)
            self._sent_ms = monotonic_ms()

    def watch(self, now_ms: int) -> None:
        """Send a heartbeat when it is time for one; close a slave that is silent."""
        if now_ms - self._heard_ms > self._config.silence_ms:
            self.close(f"it has not reported for {self._config.silence_ms} ms")
        elif self._is_sending and not self._is_refused:
            if now_ms - self._sent_ms > self._config.heartbeat_ms and not self._is_full:
                self._write(encode_header(self.slave.sent_to, 0))
            self.send()

    def _refuse(self, reason: str) -> None:
        self._is_refused = True
        self._owner.refused(self, reason)
        asyncio.get_running_loop().call_later(REFUSED_MS / 1000, self.close, "")

    def close(self, reason: str) -> None:
        """End the connection."""
        if self._transport is not None:
            if reason:
                log.info("%s: closed, %s", self.peer, reason)
            self._transport.abort()
