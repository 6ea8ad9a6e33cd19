"""Topics: listed, shown, made, changed, deleted.

A topic has settings of its own on each broker, so changes go to every master that is meant.
`create_topic` never changes what is there: a topic that exists otherwise is refused, and one
that exists as wanted is left alone.  `update_topic` changes only what it is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from flintmq.core.admin.cluster import ClusterMap, fetch_cluster, readable_brokers, require_route
from flintmq.core.ask import ASK_MS, ask, ask_any, ask_each
from flintmq.core.conversation import Conversation, Pause, PausingConversation
from flintmq.core.routes import NameServers, fetch_route
from flintmq.errors import InvalidSetting, NoRoute
from flintmq.model.group import is_dead_letter_topic, is_retry_topic
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.model.topic import (
    AUTO_CREATE_TOPIC,
    READ_WRITE,
    Permission,
    check_topic_name,
    is_system_topic,
)
from flintmq.protocol.bodies.group import GroupList
from flintmq.protocol.bodies.stats import TopicStats
from flintmq.protocol.bodies.topic import SINGLE_TAG, TopicConfig, TopicList, TopicTable
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.common_headers import OfTopic
from flintmq.protocol.headers.topic import CreateTopic, ForgetTopic, TopicConfigOf

QUEUES_MAX = 65_536
"""On one broker; more is a slip of the hand."""

LOOK_MS = 20
LOOKS_MAX = 250
"""For five seconds the name server is looked at for a new topic."""

_NOT_THERE = (
    int(ResponseCode.SUCCESS),
    int(ResponseCode.TOPIC_NOT_EXIST),
    int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
)


class TopicKind(StrEnum):
    """Who made a topic, and what for."""

    NORMAL = "normal"
    RETRY = "retry"
    DEAD_LETTER = "dead-letter"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True, order=True)
class TopicName:
    name: str
    kind: TopicKind


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """A topic on one broker.  ``attributes`` are of 5.x."""

    broker: str
    read_queues: int
    write_queues: int
    permission: Permission = READ_WRITE
    is_ordered: bool = False
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicDetail:
    """What every broker that has a topic says of it."""

    topic: str
    brokers: tuple[TopicSettings, ...]
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QueueStats:
    """One queue: the oldest offset kept, the next one, and when it last grew."""

    queue: QueueRef
    min_offset: QueueOffset
    max_offset: QueueOffset
    last_ms: int | None

    @property
    def count(self) -> int:
        return self.max_offset - self.min_offset


@dataclass(frozen=True, slots=True)
class TopicSize:
    """How many queues and messages a topic has, and when it last grew."""

    topic: TopicName
    brokers: tuple[str, ...]
    queue_count: int
    messages: int
    last_ms: int | None


def kind_of(topic: str, cluster: ClusterMap) -> TopicKind:
    if is_retry_topic(topic):
        return TopicKind.RETRY
    if is_dead_letter_topic(topic):
        return TopicKind.DEAD_LETTER
    if is_system_topic(topic) or topic in cluster.own_topics:
        return TopicKind.SYSTEM
    return TopicKind.NORMAL


def list_topics(namesrv: NameServers) -> Conversation[tuple[TopicName, ...]]:
    """Every topic (GET_ALL_TOPIC_LIST_FROM_NAMESERVER, 206), in the order of names."""
    cluster = yield from fetch_cluster(namesrv)
    reply = yield from ask_any(namesrv, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    names = set(TopicList.from_body(reply.body).topic_list)
    return tuple(TopicName(name, kind_of(name, cluster)) for name in sorted(names))


def describe_topic(namesrv: NameServers, topic: str) -> Conversation[TopicDetail]:
    """Settings of a topic on every broker that has it, and the groups that read it."""
    route = yield from require_route(namesrv, topic)
    found = []
    groups: set[str] = set()
    for broker, address in readable_brokers(route).items():
        settings = yield from topic_settings(address, broker, topic)
        if settings is not None:
            found.append(settings)
            groups.update((yield from groups_of_topic(address, topic)))
    return TopicDetail(topic, tuple(found), tuple(sorted(groups)))


def groups_of_topic(address: str, topic: str) -> Conversation[tuple[str, ...]]:
    """The groups of a topic (QUERY_TOPIC_CONSUME_BY_WHO, 300).  5.3 puts the topic among them."""
    header = OfTopic(topic=topic)
    reply = yield from ask(address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header)
    groups = GroupList.from_body(reply.body).group_list
    return tuple(group for group in groups if group != topic)


def topic_settings(address: str, broker: str, topic: str) -> Conversation[TopicSettings | None]:
    """A topic's settings (GET_TOPIC_CONFIG, 351; GET_ALL_TOPIC_CONFIG, 21, at 4.9), or None."""
    reply = yield from ask(
        address,
        RequestCode.GET_TOPIC_CONFIG,
        TopicConfigOf(topic=topic, is_logical=True),
        accepted=_NOT_THERE,
    )
    if reply.code == ResponseCode.SUCCESS:
        return _settings(broker, TopicConfig.from_body(reply.body))
    if reply.code == ResponseCode.TOPIC_NOT_EXIST:
        return None
    reply = yield from ask(address, RequestCode.GET_ALL_TOPIC_CONFIG)
    config = TopicTable.from_body(reply.body).topic_config_table.get(topic)
    return None if config is None else _settings(broker, config)


def topic_stats(namesrv: NameServers, topic: str) -> Conversation[tuple[QueueStats, ...]]:
    """Every queue of a topic (GET_TOPIC_STATS_INFO, 202), in the order consumers sort them."""
    route = yield from require_route(namesrv, topic)
    found = []
    for address in readable_brokers(route).values():
        header = OfTopic(topic=topic)
        reply = yield from ask(address, RequestCode.GET_TOPIC_STATS_INFO, header)
        for queue, extent in TopicStats.from_body(reply.body).offset_table.items():
            last_ms = extent.last_update_timestamp
            found.append(
                QueueStats(
                    queue,
                    QueueOffset(max(0, extent.min_offset)),
                    QueueOffset(max(0, extent.max_offset)),
                    last_ms if last_ms > 0 else None,
                )
            )
    return tuple(sorted(found, key=lambda stats: stats.queue))


def topic_size(namesrv: NameServers, topic: TopicName) -> Conversation[TopicSize]:
    """The sums over the queues of a topic; one that is deleted meanwhile has none."""
    try:
        queues = yield from topic_stats(namesrv, topic.name)
    except NoRoute:
        queues = ()
    times = [each.last_ms for each in queues if each.last_ms is not None]
    return TopicSize(
        topic,
        tuple(sorted({each.queue.broker for each in queues})),
        len(queues),
        sum(each.count for each in queues),
        max(times, default=None),
    )


def create_topic(
    namesrv: NameServers,
    topic: str,
    *,
    queues: int = 8,
    permission: Permission = READ_WRITE,
    is_ordered: bool = False,
    attributes: Mapping[str, str] | None = None,
    cluster: str | None = None,
    broker: str | None = None,
) -> PausingConversation[TopicDetail]:
    """Create a topic (UPDATE_AND_CREATE_TOPIC, 17) on every master, of one cluster, or on one.

    It comes back when the name server knows the topic there, or is given up after a while:
    brokers tell their name servers after they answer.
    """
    check_topic_name(topic)
    known = yield from fetch_cluster(namesrv)
    masters = known.masters(cluster, broker)
    wanted = {
        name: TopicSettings(
            broker=name,
            read_queues=queues,
            write_queues=queues,
            permission=permission,
            is_ordered=is_ordered,
            attributes=attributes or {},
        )
        for name in masters
    }
    missing = []
    for name, address in masters.items():
        there = yield from topic_settings(address, name, topic)
        if there is None:
            missing.append(name)
        elif not _is_as_wanted(there, wanted[name]):
            reason = (
                f"exists on {name} with {there.read_queues} queues to read, "
                f"{there.write_queues} to write, {there.permission.letters}: update it instead"
            )
            raise InvalidSetting("topic", topic, reason)
    for name in missing:
        yield from _write_topic(masters[name], topic, wanted[name])
    yield from _until_known(namesrv, topic, set(masters))
    return TopicDetail(topic, tuple(wanted.values()), ())


def _until_known(namesrv: NameServers, topic: str, brokers: set[str]) -> PausingConversation[None]:
    for _ in range(LOOKS_MAX):
        route = yield from fetch_route(namesrv, topic, ASK_MS)
        if route is not None and brokers <= {counts.broker for counts in route.queues}:
            return
        yield Pause(LOOK_MS)


def update_topic(
    namesrv: NameServers,
    topic: str,
    *,
    read_queues: int | None = None,
    write_queues: int | None = None,
    permission: Permission | None = None,
    is_ordered: bool | None = None,
    attributes: Mapping[str, str] | None = None,
    broker: str | None = None,
) -> Conversation[TopicDetail]:
    """Change a topic (UPDATE_AND_CREATE_TOPIC, 17) where it is.  What is None stays as it is.

    An attribute with an empty value is removed.
    """
    known = yield from fetch_cluster(namesrv)
    changed = []
    for name, address in known.masters(broker=broker).items():
        there = yield from topic_settings(address, name, topic)
        if there is None:
            continue
        wanted = replace(
            there,
            read_queues=there.read_queues if read_queues is None else read_queues,
            write_queues=there.write_queues if write_queues is None else write_queues,
            permission=there.permission if permission is None else permission,
            is_ordered=there.is_ordered if is_ordered is None else is_ordered,
        )
        yield from _write_topic(address, topic, wanted, attributes or {})
        kept = {**there.attributes, **(attributes or {})}
        left = {key: value for key, value in kept.items() if value}
        changed.append(replace(wanted, attributes=left))
    if not changed:
        raise NoRoute(topic, "no broker has such a topic")
    return TopicDetail(topic, tuple(changed), ())


def delete_topic(
    namesrv: NameServers, topic: str, *, cluster: str | None = None
) -> Conversation[tuple[str, ...]]:
    """Delete a topic (DELETE_TOPIC_IN_BROKER, 215, and _IN_NAMESRV, 216); the brokers it was on."""
    check_topic_name(topic)
    known = yield from fetch_cluster(namesrv)
    masters = known.masters(cluster)
    had = []
    for name, address in masters.items():
        if (yield from topic_settings(address, name, topic)) is not None:
            yield from ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, OfTopic(topic=topic))
            had.append(name)
    header = ForgetTopic(topic=topic, cluster_name=cluster)
    yield from ask_each(namesrv, RequestCode.DELETE_TOPIC_IN_NAMESRV, header)
    if not had:
        raise NoRoute(topic, "no broker has such a topic")
    return tuple(had)


def _write_topic(
    address: str,
    topic: str,
    wanted: TopicSettings,
    changes: Mapping[str, str] | None = None,
) -> Conversation[None]:
    for count in (wanted.read_queues, wanted.write_queues):
        if not 0 < count <= QUEUES_MAX:
            raise InvalidSetting("queues", str(count), f"a topic has 1 to {QUEUES_MAX} queues")
    attributes = wanted.attributes if changes is None else changes
    header = CreateTopic(
        topic=topic,
        default_topic=AUTO_CREATE_TOPIC,
        read_queue_nums=wanted.read_queues,
        write_queue_nums=wanted.write_queues,
        perm=int(wanted.permission),
        topic_filter_type=SINGLE_TAG,
        topic_sys_flag=0,
        order=wanted.is_ordered,
        attributes=_as_changes(attributes),
    )
    yield from ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)


def _as_changes(attributes: Mapping[str, str]) -> str:
    """Attributes as changes in the form of 5.x: ``+key=value,-key``."""
    return ",".join(f"+{key}={value}" if value else f"-{key}" for key, value in attributes.items())


def _settings(broker: str, config: TopicConfig) -> TopicSettings:
    return TopicSettings(
        broker=broker,
        read_queues=config.read_queue_nums,
        write_queues=config.write_queue_nums,
        permission=config.permission,
        is_ordered=config.order,
        attributes=config.attributes or {},
    )


def _is_as_wanted(there: TopicSettings, wanted: TopicSettings) -> bool:
    """4.9 keeps neither order nor attributes, so only what all brokers keep is compared."""
    return (there.read_queues, there.write_queues, there.permission) == (
        wanted.read_queues,
        wanted.write_queues,
        wanted.permission,
    )
