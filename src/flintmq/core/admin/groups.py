"""Consumer groups: listed, made, deleted, and who is in them now.

A group is configured on each broker for itself; its members keep a connection to every broker
that has one of its topics.  So each question goes to all brokers and the answers are merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flintmq.core.admin.cluster import fetch_cluster, require_route
from flintmq.core.ask import CLIENT_CALL_MS, ask, ask_each
from flintmq.core.conversation import Conversation
from flintmq.core.routes import NameServers
from flintmq.errors import InvalidSetting
from flintmq.model.group import (
    PRESET_GROUPS,
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    check_group_name,
    dead_letter_topic,
    is_system_group,
    retry_topic,
)
from flintmq.protocol.bodies.client import (
    TAG,
    ClientConnection,
    ConsumerConnections,
    ProducerConnections,
)
from flintmq.protocol.bodies.client_call import RunningConsumer
from flintmq.protocol.bodies.group import GroupConfig, GroupTable
from flintmq.protocol.bodies.pop import RequestMode, RequestModes
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.client_call import DescribeConsumer
from flintmq.protocol.headers.common_headers import OfConsumerGroup, OfProducerGroup, OfTopic
from flintmq.protocol.headers.group import DeleteGroup
from flintmq.protocol.headers.topic import ForgetTopic
from flintmq.protocol.version import version_name

_ONLINE_OR_NOT = frozenset({int(ResponseCode.SUCCESS), int(ResponseCode.CONSUMER_NOT_ONLINE)})
_THERE_OR_NOT = frozenset({int(ResponseCode.SUCCESS), int(ResponseCode.SYSTEM_ERROR)})


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A group and the brokers that are set up for it."""

    name: str
    brokers: tuple[str, ...]
    retry_max: int
    is_enabled: bool
    is_system: bool


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """One client of a group, as the first broker that was asked sees it."""

    client_id: str
    address: str
    language: str
    version: str
    brokers: tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class Wish:
    """What a group wants of a topic."""

    topic: str
    expression: str
    kind: str = TAG


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """The members of a group that are online, and what the group subscribes to."""

    group: str
    members: tuple[Member, ...]
    wishes: tuple[Wish, ...]
    consume_type: ConsumeType
    message_model: MessageModel
    from_where: ConsumeFromWhere


@dataclass(frozen=True, slots=True)
class ConsumerDetail:
    """What a member tells of itself.  ``stacks`` is empty unless it was asked for."""

    group: str
    client_id: str
    running: RunningConsumer
    stacks: str

    @property
    def settings(self) -> Mapping[str, str]:
        return self.running.properties


def list_groups(namesrv: NameServers) -> Conversation[tuple[GroupSummary, ...]]:
    """The groups of every broker (GET_ALL_SUBSCRIPTIONGROUP_CONFIG, 201), merged by name."""
    cluster = yield from fetch_cluster(namesrv)
    found: dict[str, list[tuple[str, GroupConfig]]] = {}
    for broker, address in cluster.readable().items():
        reply = yield from ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        table = GroupTable.from_body(reply.body).subscription_group_table
        for name, config in table.items():
            found.setdefault(name, []).append((broker, config))
    return tuple(_summary(name, places) for name, places in sorted(found.items()))


def _summary(name: str, places: list[tuple[str, GroupConfig]]) -> GroupSummary:
    _, first = places[0]
    return GroupSummary(
        name,
        tuple(broker for broker, _ in places),
        first.retry_max_times,
        all(config.consume_enable for _, config in places),
        is_system_group(name) or name in PRESET_GROUPS,
    )


def create_group(
    namesrv: NameServers,
    group: str,
    *,
    retry_max: int = 16,
    retry_queues: int = 1,
    broadcasting_allowed: bool = True,
    is_ordered: bool = False,
    is_enabled: bool = True,
    cluster: str | None = None,
    broker: str | None = None,
) -> Conversation[tuple[str, ...]]:
    """Create or update a group (UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, 200); the brokers that did."""
    check_group_name(group)
    known = yield from fetch_cluster(namesrv)
    config = GroupConfig(
        group_name=group,
        retry_max_times=retry_max,
        retry_queue_nums=retry_queues,
        consume_broadcast_enable=broadcasting_allowed,
        consume_enable=is_enabled,
        consume_message_orderly=is_ordered,
    )
    masters = known.masters(cluster, broker)
    for address in masters.values():
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        yield from ask(address, code, body=config.to_body())
    return tuple(masters)


def delete_group(
    namesrv: NameServers,
    group: str,
    *,
    with_offsets: bool = True,
    with_topics: bool = True,
    cluster: str | None = None,
) -> Conversation[tuple[str, ...]]:
    """Delete a group (DELETE_SUBSCRIPTIONGROUP, 207), its retry topic and its dead letters.

    ``with_topics=False`` keeps the topics, ``with_offsets=False`` the offsets.  A group that has
    members online is not deleted: they would bring it back at once.
    """
    check_group_name(group)
    online = yield from fetch_members(namesrv, group)
    if online is not None:
        names = ", ".join(member.client_id for member in online.members)
        raise InvalidSetting("group", group, f"has members online ({names}): stop them first")
    known = yield from fetch_cluster(namesrv)
    masters = known.masters(cluster)
    header = DeleteGroup(group_name=group, remove_offset=with_offsets, clean_offset=with_offsets)
    for address in masters.values():
        yield from ask(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)
    topics = (retry_topic(group), dead_letter_topic(group)) if with_topics else ()
    for topic in topics:
        for address in masters.values():
            yield from ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, OfTopic(topic=topic))
        yield from ask_each(
            namesrv,
            RequestCode.DELETE_TOPIC_IN_NAMESRV,
            ForgetTopic(topic=topic, cluster_name=cluster),
        )
    return tuple(masters)


# How a group takes messages


@dataclass(frozen=True, slots=True, order=True)
class ModeSetting:
    """How a group takes the messages of a topic, and the brokers that are set so."""

    topic: str
    group: str
    mode: str
    share_queues: int
    brokers: tuple[str, ...]


def change_consume_mode(
    namesrv: NameServers, group: str, topic: str, mode: str, *, share_queues: int = -1
) -> Conversation[tuple[str, ...]]:
    """Have a group pull or pop a topic (SET_MESSAGE_REQUEST_MODE, 401); the brokers that did.

    ``mode`` is pull or pop.  It counts for members that leave the mode to the broker: ours with
    ``mode="broker"``, those of Java with ``clientRebalance=false``.  ``share_queues`` above 0
    limits each member to its own queues and those of so many others.
    """
    check_group_name(group)
    if mode not in ("pull", "pop"):
        raise InvalidSetting("mode", mode, "is one of pull, pop")
    route = yield from require_route(namesrv, topic)
    body = RequestMode(
        consumer_group=group, mode=mode.upper(), pop_share_queue_num=share_queues, topic=topic
    )
    done = []
    for replicas in route.brokers:
        if replicas.master is not None:
            code = RequestCode.SET_MESSAGE_REQUEST_MODE
            yield from ask(replicas.master, code, body=body.to_body())
            done.append(replicas.broker)
    return tuple(done)


def list_consume_modes(namesrv: NameServers) -> Conversation[tuple[ModeSetting, ...]]:
    """What is set on every broker (GET_ALL_MESSAGE_REQUEST_MODE, 402)."""
    cluster = yield from fetch_cluster(namesrv)
    found: dict[tuple[str, str, str, int], list[str]] = {}
    for broker, address in cluster.masters().items():
        reply = yield from ask(address, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        for topic, groups in RequestModes.from_body(reply.body).message_request_mode_map.items():
            for group, set_to in groups.items():
                key = (topic, group, set_to.mode.lower(), set_to.pop_share_queue_num)
                found.setdefault(key, []).append(broker)
    return tuple(ModeSetting(*key, tuple(brokers)) for key, brokers in sorted(found.items()))


# Who is online


def fetch_members(namesrv: NameServers, group: str) -> Conversation[GroupMembers | None]:
    """The members of a group, of every broker (GET_CONSUMER_CONNECTION_LIST, 203), or None."""
    cluster = yield from fetch_cluster(namesrv)
    seen: dict[str, tuple[ClientConnection, list[str]]] = {}
    wishes: set[Wish] = set()
    last: ConsumerConnections | None = None
    for broker, address in cluster.readable().items():
        connections = yield from connections_at(address, group)
        if connections is None:
            continue
        last = connections
        for client in connections.connection_set:
            seen.setdefault(client.client_id, (client, []))[1].append(broker)
        wishes |= {
            Wish(topic, wish.sub_string, wish.expression_type or TAG)
            for topic, wish in connections.subscription_table.items()
        }
    if last is None:
        return None
    return GroupMembers(
        group,
        tuple(sorted(_member(client, brokers) for client, brokers in seen.values())),
        tuple(sorted(wishes)),
        last.consume_type,
        last.message_model,
        last.consume_from_where,
    )


def connections_at(address: str, group: str) -> Conversation[ConsumerConnections | None]:
    """The members one broker knows (GET_CONSUMER_CONNECTION_LIST, 203); None without any."""
    reply = yield from ask(
        address,
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        OfConsumerGroup(consumer_group=group),
        accepted=_ONLINE_OR_NOT,
    )
    if reply.code != ResponseCode.SUCCESS:
        return None
    return ConsumerConnections.from_body(reply.body)


def fetch_producers(namesrv: NameServers, group: str) -> Conversation[tuple[Member, ...]]:
    """The clients of a producer group (GET_PRODUCER_CONNECTION_LIST, 204), of every broker."""
    cluster = yield from fetch_cluster(namesrv)
    seen: dict[str, tuple[ClientConnection, list[str]]] = {}
    for broker, address in cluster.readable().items():
        reply = yield from ask(
            address,
            RequestCode.GET_PRODUCER_CONNECTION_LIST,
            OfProducerGroup(producer_group=group),
            accepted=_THERE_OR_NOT,  # 1 is what a broker says that knows none
        )
        if reply.code == ResponseCode.SUCCESS:
            for client in ProducerConnections.from_body(reply.body).connection_set:
                seen.setdefault(client.client_id, (client, []))[1].append(broker)
    return tuple(sorted(_member(client, brokers) for client, brokers in seen.values()))


def describe_consumer(
    namesrv: NameServers, group: str, client_id: str, *, with_stacks: bool = False
) -> Conversation[ConsumerDetail]:
    """307 through a broker the client is connected to: its settings, queues, rates and stacks."""
    members = yield from fetch_members(namesrv, group)
    online = () if members is None else members.members
    member = next((known for known in online if known.client_id == client_id), None)
    if member is None:
        names = ", ".join(known.client_id for known in online) or "nobody"
        raise InvalidSetting("client", client_id, f"is not online in {group}; online: {names}")
    cluster = yield from fetch_cluster(namesrv)
    address = cluster.readable().get(member.brokers[0])
    if address is None:
        raise InvalidSetting("client", client_id, f"its broker {member.brokers[0]} has gone")
    header = DescribeConsumer(consumer_group=group, client_id=client_id, jstack_enable=with_stacks)
    reply = yield from ask(
        address, RequestCode.GET_CONSUMER_RUNNING_INFO, header, timeout_ms=CLIENT_CALL_MS
    )
    running = RunningConsumer.from_body(reply.body)
    return ConsumerDetail(group, client_id, running, running.jstack or "")


def _member(client: ClientConnection, brokers: list[str]) -> Member:
    return Member(
        client.client_id,
        client.client_addr,
        client.language or "?",
        version_name(client.version),
        tuple(brokers),
    )
