"""Who is in a cluster: GET_BROKER_CLUSTER_INFO (106) and GET_BROKER_MEMBER_GROUP (901).

Both come with bare integer keys, whatever version asks.
"""

from __future__ import annotations

from flintmq.protocol.bodies.body import Body
from flintmq.protocol.bodies.route import BrokerEntry
from flintmq.protocol.fields import Int64


class Cluster(Body, frozen=True, kw_only=True):
    """Brokers by name, and the names of each cluster."""

    broker_addr_table: dict[str, BrokerEntry] = {}
    cluster_addr_table: dict[str, tuple[str, ...]] = {}


class BrokerMembers(Body, frozen=True, kw_only=True):
    """Addresses of one broker's replicas by id."""

    broker_addrs: dict[Int64, str] = {}
    broker_name: str
    cluster: str


class MemberGroup(Body, frozen=True, kw_only=True):
    """Answer to 901."""

    broker_member_group: BrokerMembers | None = None
