"""Routes and clusters: which brokers there are, at which addresses, with which queues.

`TopicRoute` answers GET_ROUTEINFO_BY_TOPIC (105).  Go's client cuts ``brokerAddrs`` apart as raw
text, so the body must have no spaces.  Quoted keys are what every client reads; bare ones are what
name servers send to old versions.

`ClusterMembers` answers GET_BROKER_CLUSTER_INFO (106), `MemberGroup` answers
GET_BROKER_MEMBER_GROUP (901).  Both have bare integer keys, whatever version asks.
"""

from __future__ import annotations

from typing import Self

from flintmq.errors import MalformedBody
from flintmq.model.route import BrokerReplicas, QueueCounts, Route
from flintmq.model.topic import Permission
from flintmq.protocol import fastjson
from flintmq.protocol.bodies.body import Body, Json, wire_fields
from flintmq.protocol.fields import Int32, Int64


class BrokerEntry(Body, frozen=True, kw_only=True):
    """One broker name and its replicas by id.  The last two fields are of 5.x."""

    broker_addrs: dict[Int64, str] = {}
    broker_name: str
    cluster: str = ""
    enable_acting_master: bool | None = None
    zone_name: str | None = None


class QueueEntry(Body, frozen=True, kw_only=True):
    """The queues of the topic on one broker."""

    broker_name: str
    perm: Int32 = 0
    read_queue_nums: Int32 = 0
    topic_sys_flag: Int32 = 0
    write_queue_nums: Int32 = 0


class TopicRoute(Body, frozen=True, kw_only=True):
    """A route as it travels.  `to_route` is what a client works with."""

    broker_datas: tuple[BrokerEntry, ...] = ()
    filter_server_table: dict[str, tuple[str, ...]] = {}
    order_topic_conf: str | None = None
    queue_datas: tuple[QueueEntry, ...] = ()
    topic_queue_mapping_by_broker: dict[str, Json] | None = None

    def to_body(self, *, bare_keys: bool = False) -> bytes:
        """Standard JSON, in ASCII, or with ``bare_keys`` what versions before 4.9.4 get."""
        return fastjson.write(self, wire_fields, bare_keys=bare_keys, ascii_only=not bare_keys)

    def to_route(self) -> Route:
        """The route as a value of the model.  Raises `MalformedBody` for absurd numbers."""
        try:
            return Route(
                brokers=tuple(
                    BrokerReplicas(broker.cluster, broker.broker_name, broker.broker_addrs)
                    for broker in self.broker_datas
                ),
                queues=tuple(
                    QueueCounts(
                        queue.broker_name,
                        queue.read_queue_nums,
                        queue.write_queue_nums,
                        Permission(queue.perm & 0xF),
                    )
                    for queue in self.queue_datas
                ),
                order=self.order_topic_conf or "",
            )
        except ValueError as error:
            raise MalformedBody(type(self).__name__, str(error)) from error

    @classmethod
    def of(cls, route: Route) -> Self:
        return cls(
            broker_datas=tuple(
                BrokerEntry(
                    broker_addrs=dict(broker.addresses),
                    broker_name=broker.broker,
                    cluster=broker.cluster,
                )
                for broker in route.brokers
            ),
            order_topic_conf=route.order or None,
            queue_datas=tuple(
                QueueEntry(
                    broker_name=counts.broker,
                    perm=int(counts.permission),
                    read_queue_nums=counts.read_count,
                    write_queue_nums=counts.write_count,
                )
                for counts in route.queues
            ),
        )


class ClusterMembers(Body, frozen=True, kw_only=True):
    """Brokers by name, and the names of each cluster."""

    broker_addr_table: dict[str, BrokerEntry] = {}
    cluster_addr_table: dict[str, tuple[str, ...]] = {}


class BrokerMembers(Body, frozen=True, kw_only=True):
    """Addresses of one broker's replicas by id."""

    broker_addrs: dict[Int64, str] = {}
    broker_name: str
    cluster: str


class MemberGroup(Body, frozen=True, kw_only=True):
    """Answer to GET_BROKER_MEMBER_GROUP (901)."""

    broker_member_group: BrokerMembers | None = None
