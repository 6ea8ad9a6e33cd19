"""QueryRoute and QueryAssignment: the queues of a topic, and where a client reaches them.

A client connects to the endpoints it is told.  They are those of its request, host by host, with
the port of the proxy: the name by which a client reached us works for it, whatever stands between.
Without endpoints in the request it is told the address the proxy was started with.

Nothing is made by asking: a topic that is not there is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

from flintmq.model.route import Route
from flintmq.model.topic import Permission
from flintmq.net.address import Address
from flintmq.protocol.bodies.common_bodies import ANY_QUEUE_ID
from flintmq.proxy.tables.cluster_facts import ClusterFacts
from flintmq.proxy.wire.caller import Caller
from flintmq.proxy.wire.grpc_codes import AddressScheme, Code, MessageType, QueuePermission
from flintmq.proxy.wire.message_classes import (
    Endpoints,
    MessageQueue,
    QueryAssignmentResponse,
    QueryRouteResponse,
)
from flintmq.proxy.wire.resource_names import group_of, topic_of
from flintmq.proxy.wire.statuses import StatusRefusal, ok


class Routing:
    """Answers about routes.  ``here`` is where the proxy is reached without a better name."""

    def __init__(self, facts: ClusterFacts, here: Address) -> None:
        self._facts = facts
        self._here = here

    async def query_route(self, request: Any, _caller: Caller) -> Any:
        topic = topic_of(request.topic)
        route = await self._facts.route(topic)
        types = await self._facts.types(topic)
        endpoints = endpoints_for(request.endpoints, self._here)
        queues = [
            _queue(topic, broker, queue_id, permission, endpoints, types)
            for broker, queue_id, permission in queues_of(route)
        ]
        return QueryRouteResponse(status=ok(), message_queues=queues)

    async def query_assignment(self, request: Any, _caller: Caller) -> Any:
        """One queue for each broker; for an ordered group each queue that can be read."""
        topic, group = topic_of(request.topic), group_of(request.group)
        route = await self._facts.route(topic)
        facts = await self._facts.group(group, topic)
        endpoints = endpoints_for(request.endpoints, self._here)
        readable = [
            (broker, queue_id, permission)
            for broker, queue_id, permission in queues_of(route)
            if permission in (QueuePermission.READ, QueuePermission.READ_WRITE)
        ]
        if not readable:
            raise StatusRefusal(Code.FORBIDDEN, "no readable queue")
        if not facts.is_ordered:
            brokers = dict.fromkeys(broker for broker, _, _ in readable)
            readable = [(broker, ANY_QUEUE_ID, QueuePermission.READ_WRITE) for broker in brokers]
        answer = QueryAssignmentResponse(status=ok())
        for broker, queue_id, permission in readable:
            queue = _queue(topic, broker, queue_id, permission, endpoints, frozenset())
            answer.assignments.add().message_queue.CopyFrom(queue)
        return answer


def queues_of(route: Route) -> Iterator[tuple[str, int, QueuePermission]]:
    """Broker, id and permission of every queue whose master is there.

    Where a broker has more queues of one direction than of the other, the surplus comes first.
    """
    masters = {replicas.broker for replicas in route.brokers if replicas.master is not None}
    for counts in sorted(route.queues, key=lambda counts: counts.broker):
        if counts.broker not in masters:
            continue
        may_read = bool(counts.permission & Permission.READ)
        may_write = bool(counts.permission & Permission.WRITE)
        if may_read and may_write:
            both = min(counts.read_count, counts.write_count)
            numbers = [QueuePermission.READ] * (counts.read_count - both)
            numbers += [QueuePermission.WRITE] * (counts.write_count - both)
            numbers += [QueuePermission.READ_WRITE] * both
        elif may_read:
            numbers = [QueuePermission.READ] * counts.read_count
        elif may_write:
            numbers = [QueuePermission.WRITE] * counts.write_count
        else:
            numbers = [QueuePermission.NONE] * max(counts.read_count, counts.write_count)
        for queue_id, permission in enumerate(numbers):
            yield counts.broker, queue_id, permission


def endpoints_for(asked: Any, here: Address) -> Any:
    """Where a client that asked through these endpoints goes on."""
    hosts = [each.host for each in asked.addresses if each.host.strip()] or [here.host]
    schemes = {_scheme(host) for host in hosts}
    scheme = schemes.pop() if len(schemes) == 1 else AddressScheme.DOMAIN_NAME
    told = Endpoints(scheme=scheme)
    for host in hosts:
        told.addresses.add(host=host, port=here.port)
    return told


def _scheme(host: str) -> AddressScheme:
    try:
        is_v6 = ip_address(host).version == 6
    except ValueError:
        return AddressScheme.DOMAIN_NAME
    return AddressScheme.IPv6 if is_v6 else AddressScheme.IPv4


def _queue(
    topic: str,
    broker: str,
    queue_id: int,
    permission: QueuePermission,
    endpoints: Any,
    types: frozenset[MessageType],
) -> Any:
    queue = MessageQueue(id=queue_id, permission=permission)
    queue.topic.name = topic
    queue.broker.name = broker
    queue.broker.endpoints.CopyFrom(endpoints)
    queue.accept_message_types.extend(sorted(types))
    return queue
