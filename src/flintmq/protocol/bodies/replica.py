"""What replicas of a broker name copy from each other, and how far they are.

GET_TIMER_CHECK_POINT (60), GET_TIMER_METRICS (61) and GET_BROKER_HA_STATUS (907), all of 5.x;
`SavedRole` is a file of our own.
The check point is the only one that is not JSON: seven numbers of eight bytes.  To the timer
metrics our own broker adds its exact positions, which a Java slave skips.
"""

from __future__ import annotations

import struct
from typing import Self

import msgspec

from flintmq.errors import MalformedBody
from flintmq.protocol.bodies.body import Body
from flintmq.protocol.bodies.common_bodies import DataVersion
from flintmq.protocol.bodies.offset import TimerPositions
from flintmq.protocol.fields import Int32, Int64

_CHECK_POINT = struct.Struct(">7q")


class TimerCheckPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to GET_TIMER_CHECK_POINT (60).

    Timer messages before ``master_timer_queue_offset`` with a time up to ``last_read_time_ms``
    were delivered.
    """

    last_read_time_ms: int = 0
    last_timer_log_flush_pos: int = 0
    last_timer_queue_offset: int = 0
    master_timer_queue_offset: int = 0
    data_version: DataVersion = DataVersion()

    @classmethod
    def from_body(cls, body: bytes) -> Self:
        if len(body) < _CHECK_POINT.size:
            raise MalformedBody(cls.__name__, f"{len(body)} bytes are not {_CHECK_POINT.size}")
        read_ms, flushed, queue_offset, master_offset, state, timestamp, counter = (
            _CHECK_POINT.unpack_from(body)
        )
        return cls(
            last_read_time_ms=read_ms,
            last_timer_log_flush_pos=flushed,
            last_timer_queue_offset=queue_offset,
            master_timer_queue_offset=master_offset,
            data_version=DataVersion(counter=counter, state_version=state, timestamp=timestamp),
        )

    def to_body(self) -> bytes:
        version = self.data_version
        return _CHECK_POINT.pack(
            self.last_read_time_ms,
            self.last_timer_log_flush_pos,
            self.last_timer_queue_offset,
            self.master_timer_queue_offset,
            version.state_version or 0,
            version.timestamp,
            version.counter,
        )


class SavedRole(Body, frozen=True, kw_only=True):
    """The role that a broker was given while it ran, and the one of its settings at that time."""

    broker_id: Int64
    role: str
    set_broker_id: Int64
    set_role: str


class TimingCount(Body, frozen=True, kw_only=True):
    """Timer messages of a topic that wait."""

    count: Int64 = 0
    time_stamp: Int64 = 0


class TimerMetrics(Body, frozen=True, kw_only=True):
    """Answer to GET_TIMER_METRICS (61)."""

    data_version: DataVersion = DataVersion()
    flintmq_positions: TimerPositions | None = None
    """Where our own broker stands; Java brokers neither send nor read it."""
    timing_count: dict[str, TimingCount] = {}


class HaConnection(Body, frozen=True, kw_only=True):
    """One slave of a master, as its HA connection shows it."""

    addr: str
    diff: Int64 = 0
    in_sync: bool = False
    slave_ack_offset: Int64 = 0
    transfer_from_where: Int64 = 0
    transferred_byte_in_second: Int64 = 0


class HaClientProgress(Body, frozen=True, kw_only=True):
    """How far a slave is; zeros in the answer of a master."""

    last_read_timestamp: Int64 = 0
    last_write_timestamp: Int64 = 0
    master_addr: str | None = None
    master_flush_offset: Int64 = 0
    max_offset: Int64 = 0
    transferred_byte_in_second: Int64 = 0


class HaStatus(Body, frozen=True, kw_only=True):
    """Answer to GET_BROKER_HA_STATUS (907)."""

    ha_client_runtime_info: HaClientProgress = HaClientProgress()
    ha_connection_info: tuple[HaConnection, ...] = ()
    in_sync_slave_nums: Int32 = 0
    master: bool = True
    master_commit_log_max_offset: Int64 = 0
