"""How every broker of a cluster is doing, in typed figures.

Brokers report figures as text under RocketMQ's names (GET_BROKER_RUNTIME_INFO, 28); what a version
does not report, or reports in another form, is None here.  A broker that does not answer is in the
result with its error: a status without it would look healthy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from flintmq.core.admin.cluster import fetch_cluster
from flintmq.core.ask import ask
from flintmq.core.conversation import Conversation
from flintmq.core.routes import NameServers
from flintmq.errors import BrokerRefused, FlintError, Unreachable
from flintmq.model.route import MASTER_ID
from flintmq.protocol.bodies.common_bodies import KvTable
from flintmq.protocol.bodies.group import GroupTable
from flintmq.protocol.bodies.replica import HaStatus
from flintmq.protocol.bodies.topic import TopicTable
from flintmq.protocol.codes import RequestCode, ResponseCode


@dataclass(frozen=True, slots=True)
class SlaveFigures:
    """One slave, as its master sees it: its connection and how far it is behind."""

    address: str
    behind_bytes: int
    is_in_sync: bool


@dataclass(frozen=True, slots=True)
class ReplicaFigures:
    """How the replicas of a broker are doing (GET_BROKER_HA_STATUS, 907).

    A master has ``slaves``; a slave has the HA address of its ``master`` and when it last heard
    from it.
    """

    slaves: tuple[SlaveFigures, ...] = ()
    master: str | None = None
    heard_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BrokerFigures:
    """What one replica reports of itself.  Rates are means over the last ten seconds.

    ``log_bytes`` is the size of the commit log, ``disk_ratio`` how full its disk is (0 to 1),
    ``put_p99_ms`` the 99th percentile of the time a send takes.
    """

    version: str | None
    started_ms: int | None
    sent_per_s: float | None
    delivered_per_s: float | None
    sent_today: int | None
    delivered_today: int | None
    log_bytes: int | None
    disk_ratio: float | None
    oldest_ms: int | None
    put_p99_ms: float | None
    topic_count: int
    group_count: int
    log_end: int | None = None
    damages: str | None = None
    """Damaged places of the log, as the scrub of a FlintMQ broker found them."""
    replicas: ReplicaFigures | None = None
    """None where the broker cannot tell, as one of 4.9."""


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """One replica of a broker: ``figures``, or the ``error`` that stands in their place."""

    cluster: str
    broker: str
    broker_id: int
    address: str
    figures: BrokerFigures | None
    error: str | None = None

    @property
    def role(self) -> str:
        return "master" if self.broker_id == MASTER_ID else "slave"


def cluster_status(
    namesrv: NameServers, *, broker: str | None = None
) -> Conversation[tuple[BrokerStatus, ...]]:
    """Ask every replica of every broker, or of the one that is named, in the order of names."""
    cluster = yield from fetch_cluster(namesrv)
    found = []
    for replicas in cluster.chosen(broker=broker):
        for broker_id, address in sorted(replicas.addresses.items()):
            figures, error = None, None
            try:
                figures = yield from _figures_at(address)
            except (Unreachable, BrokerRefused) as failure:
                error = _sentence(failure)
            found.append(
                BrokerStatus(replicas.cluster, replicas.broker, broker_id, address, figures, error)
            )
    return tuple(found)


def _sentence(error: FlintError) -> str:
    return str(error).partition("\n")[0]


def _figures_at(address: str) -> Conversation[BrokerFigures]:
    reply = yield from ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
    table = KvTable.from_body(reply.body).table
    reply = yield from ask(address, RequestCode.GET_ALL_TOPIC_CONFIG)
    topics = TopicTable.from_body(reply.body).topic_config_table
    reply = yield from ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    groups = GroupTable.from_body(reply.body).subscription_group_table
    figures = read_figures(table, topic_count=len(topics), group_count=len(groups))
    return replace(figures, replicas=(yield from _replicas_at(address)))


def _replicas_at(address: str) -> Conversation[ReplicaFigures | None]:
    accepted = (ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    reply = yield from ask(address, RequestCode.GET_BROKER_HA_STATUS, accepted=accepted)
    if reply.code != ResponseCode.SUCCESS:
        return None
    status = HaStatus.from_body(reply.body)
    slave = status.ha_client_runtime_info
    return ReplicaFigures(
        slaves=tuple(
            SlaveFigures(each.addr, each.diff, each.in_sync) for each in status.ha_connection_info
        ),
        master=None if status.master else slave.master_addr,
        heard_ms=None if status.master else slave.last_read_timestamp or None,
    )


def read_figures(
    table: Mapping[str, str], *, topic_count: int = 0, group_count: int = 0
) -> BrokerFigures:
    """Typed figures from RocketMQ's texts."""
    log_start, log_end = _whole(table, "commitLogMinOffset"), _whole(table, "commitLogMaxOffset")
    delivered = table.get("getTransferredTps", table.get("getTransferedTps", ""))  # 5.x; 4.9
    oldest_ms = _whole(table, "earliestMessageTimeStamp")
    put_p99_ms = _number(table.get("putLatency99", ""))
    return BrokerFigures(
        version=table.get("brokerVersionDesc"),
        started_ms=_whole(table, "bootTimestamp"),
        sent_per_s=_number(table.get("putTps", "").partition(" ")[0]),
        delivered_per_s=_number(delivered.partition(" ")[0]),
        sent_today=_growth(table, "msgPutTotal"),
        delivered_today=_growth(table, "msgGetTotal"),
        log_bytes=None if log_start is None or log_end is None else max(0, log_end - log_start),
        disk_ratio=_number(table.get("commitLogDiskRatio", "")),
        oldest_ms=None if oldest_ms is None or oldest_ms < 0 else oldest_ms,
        put_p99_ms=None if put_p99_ms is None or put_p99_ms < 0 else put_p99_ms,
        topic_count=topic_count,
        group_count=group_count,
        log_end=log_end,
        damages=table.get("scrubDamages"),
    )


def _growth(table: Mapping[str, str], prefix: str) -> int | None:
    """How much a total grew since midnight, as the broker counts it."""
    now, morning = _whole(table, f"{prefix}TodayNow"), _whole(table, f"{prefix}TodayMorning")
    return None if now is None or morning is None else max(0, now - morning)


def _whole(table: Mapping[str, str], name: str) -> int | None:
    try:
        return int(table.get(name, ""))
    except ValueError:
        return None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
