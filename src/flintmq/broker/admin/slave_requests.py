"""What a slave of 5.x asks of its master beside topics, groups and offsets, and how far it is.

Those are answered where admins ask for them too: GET_ALL_TOPIC_CONFIG (21) by `topic_admin`,
GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201) by `group_admin`, GET_ALL_CONSUMER_OFFSET (43) and
GET_ALL_DELAY_OFFSET (45) by `offset_admin`, GET_ALL_MESSAGE_REQUEST_MODE (402) by `assignment`.
"""

from __future__ import annotations

from flintmq.broker.requests.outcome import Answer, Outcome
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.core.replication.slave_acks import FALL_BEHIND_BYTES_MAX
from flintmq.protocol.bodies.common_bodies import DataVersion
from flintmq.protocol.bodies.replica import (
    HaClientProgress,
    HaConnection,
    HaStatus,
    TimerCheckPoint,
    TimerMetrics,
)
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.common_headers import NoFields
from flintmq.protocol.typed_request import TypedRequest


def timer_check_point(
    _request: TypedRequest[NoFields], state: BrokerState, _peer: Peer, now_ms: int
) -> Outcome:
    """GET_TIMER_CHECK_POINT (60): up to which time and place timer messages are delivered."""
    progress = state.timers.progress(now_ms)
    point = TimerCheckPoint(
        last_read_time_ms=progress.read_ms,
        last_timer_queue_offset=progress.queue_offset,
        master_timer_queue_offset=progress.queue_offset,
        data_version=_version(now_ms),
    )
    return Answer(body=point.to_body())


def timer_metrics(
    _request: TypedRequest[NoFields], state: BrokerState, _peer: Peer, now_ms: int
) -> Outcome:
    """GET_TIMER_METRICS (61): the exact positions, for a slave of our own.

    What waits is not counted by topic, so the table that RocketMQ has here is empty.
    """
    metrics = TimerMetrics(data_version=_version(now_ms), flintmq_positions=state.timers.table())
    return Answer(body=metrics.to_body())


def ha_status(
    _request: TypedRequest[NoFields], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """GET_BROKER_HA_STATUS (907): the slaves of a master, or how a slave follows its master."""
    end = state.log.end_offset
    connections = tuple(
        HaConnection(
            addr=slave.address,
            diff=end - slave.acked_to,
            in_sync=end - slave.acked_to < FALL_BEHIND_BYTES_MAX,
            slave_ack_offset=slave.acked_to,
            transfer_from_where=slave.sent_to,
        )
        for slave in state.slaves.slaves
        if slave.reported_ms is not None
    )
    progress = HaClientProgress()
    if not state.config.role.is_master:
        following = state.following
        progress = HaClientProgress(
            last_read_timestamp=following.received_ms or 0,
            last_write_timestamp=following.reported_ms or 0,
            master_addr=following.master or "",
            max_offset=end,
        )
    status = HaStatus(
        ha_client_runtime_info=progress,
        ha_connection_info=connections,
        in_sync_slave_nums=state.slaves.near_count(end),
        master=state.config.role.is_master,
        master_commit_log_max_offset=end if state.config.role.is_master else 0,
    )
    return Answer(body=status.to_body())


def _version(now_ms: int) -> DataVersion:
    """Another one at every request: positions move with the clock."""
    return DataVersion(counter=0, state_version=0, timestamp=now_ms)


PROCESSORS: dict[RequestCode, Processor] = {
    RequestCode.GET_TIMER_CHECK_POINT: timer_check_point,
    RequestCode.GET_TIMER_METRICS: timer_metrics,
    RequestCode.GET_BROKER_HA_STATUS: ha_status,
}
