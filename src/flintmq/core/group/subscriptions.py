"""What a group wants of each of its topics, and which version of that the brokers know.

A subscription has a version, the time it was last changed; also a changed share of queues
counts as a change.  Brokers refuse a pull that knows a newer version than the last heartbeat
told them (codes 24, 25).  So a pull names the version that a heartbeat has delivered, never one
that is still on its way.

    changed ──► version = now ──► heartbeat ──► confirmed, and pulls name it

Invariant: a confirmed version is never newer than the current one, and neither goes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from flintmq.core.group.consumer_settings import ConsumerSettings, batch_bounds, check_range
from flintmq.errors import InvalidExpression, InvalidSetting
from flintmq.filter.tags import ALL, TagSubscription, parse_tags
from flintmq.model.group import ConsumeType, is_retry_topic, with_namespace
from flintmq.model.topic import check_topic_name
from flintmq.protocol.bodies.client import SQL92, TAG, ConsumerGroup, Subscription

TOPICS_MAX = 1_000
"""Topics of one group: each is asked about at every rebalance."""


@dataclass(frozen=True, slots=True)
class TopicSubscription:
    """One topic: tags as ``a || b``, or an SQL92 expression, not both.

    ``batch_max`` and ``ordered`` are those of the group unless they are given.
    """

    topic: str
    tags: str = ALL
    sql: str | None = None
    batch_max: int | None = None
    ordered: bool | None = None
    chosen: TagSubscription = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_topic_name(self.topic)
        if self.sql is not None:
            if self.tags != ALL:
                raise InvalidSetting("tags", self.tags, "give tags or sql, not both")
            if not self.sql.strip():
                raise InvalidExpression(self.sql, 1, "there is no expression")
        if self.batch_max is not None:
            check_range("batch_max", self.batch_max, batch_bounds())
        object.__setattr__(self, "chosen", parse_tags(self.tags))

    @property
    def expression_type(self) -> str:
        return TAG if self.sql is None else SQL92

    @property
    def text(self) -> str:
        return self.chosen.text if self.sql is None else self.sql

    @property
    def is_filtered_here(self) -> bool:
        """Whether tags are compared again: the broker knows only their hashes."""
        return self.sql is None and bool(self.chosen.tags)

    def to_wire(self, version: int) -> Subscription:
        tags = sorted(self.chosen.tags)
        return Subscription(
            topic=self.topic,
            expression_type=self.expression_type,
            sub_string=self.text,
            sub_version=version,
            tags_set=tuple(tags),
            code_set=tuple(sorted(self.chosen.codes)),
        )


class Subscriptions:
    """All topics of a group, its retry topic among them when the group shares messages."""

    def __init__(
        self, settings: ConsumerSettings, wanted: Iterable[TopicSubscription], now_ms: int
    ) -> None:
        self._settings = settings
        self._topics: dict[str, TopicSubscription] = {}
        for each in wanted:
            self._add(each)
        if not self._topics:
            raise InvalidSetting("topic", "", "a consumer needs at least one")
        if len(self._topics) > TOPICS_MAX:
            raise InvalidSetting("topic", str(len(self._topics)), f"{TOPICS_MAX} at most")
        self._own_topics = tuple(self._topics)
        if settings.is_clustering:
            self._topics[settings.retry_topic] = TopicSubscription(settings.retry_topic)
        self._versions = dict.fromkeys(self._topics, now_ms)
        self._confirmed: dict[str, int] = {}

    def _add(self, wanted: TopicSubscription) -> None:
        name = with_namespace(self._settings.namespace, wanted.topic)
        if name != wanted.topic:
            wanted = TopicSubscription(
                name, wanted.tags, wanted.sql, wanted.batch_max, wanted.ordered
            )
        if name in self._topics:
            raise InvalidSetting("topic", name, "is subscribed twice")
        self._topics[name] = wanted

    def __iter__(self) -> Iterator[TopicSubscription]:
        return iter(self._topics.values())

    def find(self, topic: str) -> TopicSubscription | None:
        return self._topics.get(topic)

    def is_ordered(self, topic: str) -> bool:
        """Retries are ordered only where everything is."""
        if self._is_retry(topic):
            return all(self.is_ordered(own) for own in self._own_topics)
        ordered = self._topics[topic].ordered
        return self._settings.ordered if ordered is None else ordered

    @property
    def has_ordered(self) -> bool:
        """Whether any topic is."""
        return any(map(self.is_ordered, self._topics))

    def batch_max(self, topic: str) -> int:
        found = self._topics.get(topic)
        if found is None or found.batch_max is None:
            return self._settings.batch_max
        return found.batch_max

    def changed(self, topic: str, now_ms: int) -> None:
        """Give a topic a newer version."""
        self._versions[topic] = max(now_ms, self._versions[topic] + 1)

    def confirmed(self, section: ConsumerGroup) -> None:
        """A heartbeat with this section has reached the brokers."""
        for each in section.subscription_data_set:
            known = self._confirmed.get(each.topic, 0)
            self._confirmed[each.topic] = max(known, each.sub_version)

    def confirmed_version(self, topic: str) -> int:
        """The version a pull may name; 0 as long as none was delivered."""
        return self._confirmed.get(topic, 0)

    def section(self) -> ConsumerGroup:
        """What the heartbeat of the client says about this group."""
        settings = self._settings
        return ConsumerGroup(
            group_name=settings.wire_group,
            consume_from_where=settings.start.where,
            consume_type=ConsumeType.PUSH,
            message_model=settings.model,
            subscription_data_set=tuple(
                each.to_wire(self._versions[topic]) for topic, each in self._topics.items()
            ),
            unit_mode=settings.unit_mode,
        )

    def _is_retry(self, topic: str) -> bool:
        return is_retry_topic(topic) and topic not in self._own_topics
