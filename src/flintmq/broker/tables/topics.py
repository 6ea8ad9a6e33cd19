"""The topics of this broker: found, created from a template, changed, removed.

Every change gets a new `DataVersion`, is kept for the next save, and is named in ``changed``
so that it is registered with the name servers at once.  Names are checked by whoever takes them
from a request; what the broker makes itself is not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.limits.log_rate import Seldom
from flintmq.broker.limits.name_budget import NameBudget
from flintmq.errors import Overloaded
from flintmq.logs import logger
from flintmq.model.group import is_retry_topic
from flintmq.model.topic import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    HALF_TOPIC,
    OFFSET_MOVED_TOPIC,
    OP_HALF_TOPIC,
    READ_WRITE,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_TOPICS,
    TIMER_TOPIC,
    TRACE_TOPIC,
    Permission,
    TopicFlag,
    is_system_topic,
    reply_topic,
)
from flintmq.net.refusals import Refusals
from flintmq.protocol.bodies.topic import TopicConfig, TopicTable
from flintmq.protocol.pop.journal import revive_topic

BENCHMARK_QUEUES = 1024
CLUSTER_QUEUES = 16

_INHERIT = int(Permission.INHERIT)

log = logger(__name__)


class BrokerTopics:
    """Topics by name.  A `TopicConfig` in here is never changed, only replaced."""

    def __init__(
        self,
        config: BrokerConfig,
        saved: TopicTable | None,
        now_ms: int,
        names: NameBudget | None = None,
        refusals: Refusals | None = None,
    ) -> None:
        self._config = config
        self._names = names or NameBudget()
        self._refusals = refusals or Refusals()
        self._table: dict[str, TopicConfig] = dict(saved.topic_config_table) if saved else {}
        self._saved = saved or TopicTable()
        self.version = self._saved.data_version
        self.changed: set[str] = set()
        """Topics that are not registered with the name servers yet."""
        self.is_dirty = saved is None
        self.when_made: Callable[[TopicConfig], None] = lambda topic: None  # noqa: ARG005  # nobody
        """Told of topics that a message made, but for those of groups."""
        self._full = Seldom()
        self._own_names = self._add_system_topics(now_ms)
        self.changed.clear()  # the first registration has all

    def __contains__(self, topic: str) -> bool:
        return topic in self._table

    def __iter__(self) -> Iterator[TopicConfig]:
        return iter(tuple(self._table.values()))

    def __len__(self) -> int:
        return len(self._table)

    @property
    def is_full(self) -> bool:
        """Whether clients may make no more; what the broker needs for itself it makes."""
        return len(self._table) >= self._config.topics_max

    def require_room(self, names: Iterable[str]) -> None:
        """Raise `Overloaded` when there would be too many topics with these."""
        more = len({name for name in names if name not in self._table})
        if more and len(self._table) + more > self._config.topics_max:
            raise Overloaded("topics", self._config.topics_max, "topicsMax")
        self._names.spend(more)

    def _require_derived_room(self) -> None:
        """The broker makes two topics for a group, which a peer may then delete, and again."""
        limit = self._config.topics_max + 2 * self._config.groups_max + len(SYSTEM_TOPICS)
        if len(self._table) >= limit:
            raise Overloaded("topics with those of groups", limit, "topicsMax and groupsMax")

    def find(self, topic: str) -> TopicConfig | None:
        return self._table.get(topic)

    def is_system(self, topic: str) -> bool:
        """Whether clients may neither create nor delete it."""
        return topic in self._own_names or is_system_topic(topic)

    @property
    def system_names(self) -> frozenset[str]:
        return self._own_names

    def table(self) -> TopicTable:
        """The whole table, to be saved or sent."""
        return replace(self._saved, data_version=self.version, topic_config_table=dict(self._table))

    # Changing

    def copy_from(self, table: TopicTable) -> bool:
        """Become the table of the master, with its version; whether it was another one."""
        if self.version.matches(table.data_version):
            return False
        self._table = dict(table.topic_config_table)
        self._saved = table
        self.version = table.data_version
        self.is_dirty = True
        return True

    def configure(self, config: BrokerConfig, now_ms: int) -> None:
        """Go on with changed settings."""
        self._config = config
        self._own_names = self._add_system_topics(now_ms)

    def create_or_replace(self, topic: TopicConfig, now_ms: int) -> None:
        """Create or replace a topic."""
        if self._table.get(topic.topic_name) == topic:
            return
        self._table[topic.topic_name] = topic
        self._mark_changed(topic.topic_name, now_ms)

    def remove(self, topic: str, now_ms: int) -> None:
        if self._table.pop(topic, None) is not None:
            self._mark_changed(topic, now_ms)

    def ensure(
        self,
        topic: str,
        queue_count: int,
        now_ms: int,
        *,
        perm: int = int(READ_WRITE),
        sys_flag: int = 0,
        order: bool = False,
    ) -> TopicConfig:
        """The topic, made by the broker for itself when it is not there."""
        found = self._table.get(topic)
        if found is None:
            self._require_derived_room()
            found = TopicConfig(
                attributes={},
                topic_name=topic,
                read_queue_nums=queue_count,
                write_queue_nums=queue_count,
                perm=perm,
                topic_sys_flag=sys_flag,
                order=order,
            )
            self.create_or_replace(found, now_ms)
        return found

    def create_by_send(
        self,
        topic: str,
        template: str | None,
        queue_count: int | None,
        now_ms: int,
        *,
        unit_mode: bool = False,
    ) -> TopicConfig | None:
        """What a first message makes: a copy of its template, if that may be inherited from."""
        found = self._table.get(template or AUTO_CREATE_TOPIC)
        sys_flag = 0
        if unit_mode:
            sys_flag = int(TopicFlag.UNIT_SUBSCRIPTION if is_retry_topic(topic) else TopicFlag.UNIT)
        if self.is_full:
            self._refusals.count("topicsMax")
            if count := self._full.happened(now_ms):
                log.warning(
                    "%s is not created: there are %d topics (%d times)",
                    topic,
                    len(self._table),
                    count,
                )
            return None
        if found is not None and found.perm & _INHERIT:
            self._names.spend()
            if queue_count is None or queue_count > found.write_queue_nums:
                queue_count = found.write_queue_nums
            made = TopicConfig(
                attributes={},
                topic_name=topic,
                read_queue_nums=max(0, queue_count),
                write_queue_nums=max(0, queue_count),
                perm=found.perm & ~_INHERIT,
                topic_filter_type=found.topic_filter_type,
                topic_sys_flag=sys_flag,
            )
            self.create_or_replace(made, now_ms)
            if not is_retry_topic(topic):
                self.when_made(made)
            return made
        if is_retry_topic(topic):
            return self.ensure(topic, 1, now_ms, sys_flag=sys_flag)
        return None

    def mark_order_topics(self, names: Iterable[str], now_ms: int) -> None:
        """The name server says these topics are ordered."""
        for name in names:
            found = self._table.get(name)
            if found is not None and not found.order:
                self.create_or_replace(replace(found, order=True), now_ms)

    def renew_version(self, now_ms: int) -> None:
        """Make a new version without a change, so that name servers take the next registration."""
        self.version = self.version.next(now_ms)

    def announce_all(self, now_ms: int) -> None:
        """Register every topic again: the permission of the broker has changed."""
        self.version = self.version.next(now_ms)
        self.changed.update(self._table)
        self.is_dirty = True

    def _mark_changed(self, topic: str, now_ms: int) -> None:
        self.version = self.version.next(now_ms)
        self.changed.add(topic)
        self.is_dirty = True

    def _add_system_topics(self, now_ms: int) -> frozenset[str]:
        config = self._config
        plain = int(READ_WRITE)
        inherited = plain | _INHERIT
        wanted = {
            SELF_TEST_TOPIC: (1, plain),
            BENCHMARK_TOPIC: (BENCHMARK_QUEUES, plain),
            config.cluster: (CLUSTER_QUEUES, inherited),
            config.broker_name: (1, inherited),
            OFFSET_MOVED_TOPIC: (1, plain),
            SCHEDULE_TOPIC: (len(config.store.delay_levels_ms), plain),
            reply_topic(config.cluster): (1, plain),
            HALF_TOPIC: (1, plain),
            OP_HALF_TOPIC: (1, plain),
            TIMER_TOPIC: (1, plain),
            revive_topic(config.cluster): (config.pop.revive_queues, plain),
        }
        if config.auto_create_topic:
            wanted[AUTO_CREATE_TOPIC] = (config.default_topic_queues, inherited)
        if config.trace_topic:
            wanted[TRACE_TOPIC] = (1, plain)
        for name, (queues, perm) in wanted.items():
            self.ensure(name, queues, now_ms, perm=perm)
        self._let_inherit(now_ms)
        self._widen(SCHEDULE_TOPIC, wanted[SCHEDULE_TOPIC][0], now_ms)
        return frozenset(wanted)

    def _let_inherit(self, now_ms: int) -> None:
        """The template is one exactly while topics may be made by a first message."""
        template = self._table.get(AUTO_CREATE_TOPIC)
        if template is not None:
            perm = template.perm & ~_INHERIT
            if self._config.auto_create_topic:
                perm |= _INHERIT
            self.create_or_replace(replace(template, perm=perm), now_ms)

    def _widen(self, topic: str, queue_count: int, now_ms: int) -> None:
        """Let a saved topic have at least so many queues."""
        found = self._table[topic]
        queue_count = max(queue_count, found.read_queue_nums, found.write_queue_nums)
        wider = replace(found, read_queue_nums=queue_count, write_queue_nums=queue_count)
        self.create_or_replace(wider, now_ms)
