"""The consumer groups this broker has settings for.

A group that is not known is made with defaults when that is allowed, at its first heartbeat,
pull or send-back, as RocketMQ does.  ``forbidden`` holds the topics a group may not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.limits.log_rate import Seldom
from flintmq.broker.limits.name_budget import NameBudget
from flintmq.errors import InvalidName, Overloaded
from flintmq.logs import logger
from flintmq.model.group import (
    GROUP_CHARACTERS_MAX,
    PRESET_GROUPS,
    check_group_name,
    is_system_group,
)
from flintmq.model.topic import Permission
from flintmq.net.refusals import Refusals
from flintmq.protocol.bodies.group import GroupConfig, GroupTable

READ_FORBIDDEN = int(Permission.READ)
"""The bit of the forbidden table that 5.x uses for reading; others are carried along."""


FORBIDDEN_MAX = 10_000
"""Pairs of group and topic whose reading was forbidden: neither has to exist."""

log = logger(__name__)


class Groups:
    """Groups by name.  A `GroupConfig` in here is never changed, only replaced."""

    def __init__(
        self,
        config: BrokerConfig,
        saved: GroupTable | None,
        now_ms: int,
        names: NameBudget | None = None,
        refusals: Refusals | None = None,
    ) -> None:
        self._config = config
        self._names = names or NameBudget()
        self._refusals = refusals or Refusals()
        self._set(saved or GroupTable())
        self.is_dirty = saved is None
        self._full = Seldom()
        for name in PRESET_GROUPS:
            if name not in self._table:
                self.create_or_replace(GroupConfig(group_name=name), now_ms)

    def __contains__(self, group: str) -> bool:
        return group in self._table

    def __iter__(self) -> Iterator[GroupConfig]:
        return iter(tuple(self._table.values()))

    def __len__(self) -> int:
        return len(self._table)

    def find(self, group: str) -> GroupConfig | None:
        return self._table.get(group)

    def find_or_create(self, group: str, now_ms: int) -> GroupConfig | None:
        """The group, or nothing when it is not there and may not be made."""
        found = self._table.get(group)
        if found is not None:
            return found
        if not (self._config.auto_create_group or is_system_group(group)):
            return None
        if group.strip():
            try:
                check_group_name(group)
            except InvalidName:
                return None
        elif len(group) > GROUP_CHARACTERS_MAX:
            return None
        if len(self._table) >= self._config.groups_max:
            self._refusals.count("groupsMax")
            if count := self._full.happened(now_ms):
                log.warning(
                    "%s is not created: there are %d groups (%d times)",
                    group,
                    len(self._table),
                    count,
                )
            return None
        self._names.spend()
        made = GroupConfig(group_name=group)
        self.create_or_replace(made, now_ms)
        return made

    def copy_from(self, table: GroupTable) -> bool:
        """Become the table of the master, with its version; whether it was another one."""
        if self.version.matches(table.data_version):
            return False
        self._set(table)
        self.is_dirty = True
        return True

    def _set(self, table: GroupTable) -> None:
        self._saved = table
        self._table = dict(table.subscription_group_table)
        self._forbidden = {
            group: dict(topics) for group, topics in (table.forbidden_table or {}).items()
        }
        self._forbidden_count = sum(map(len, self._forbidden.values()))  # pairs of all groups
        self.version = table.data_version

    def configure(self, config: BrokerConfig) -> None:
        """Go on with changed settings."""
        self._config = config

    def require_room(self, group: str) -> None:
        """Raise `Overloaded` when there would be too many groups with this one."""
        if group in self._table:
            return
        if len(self._table) >= self._config.groups_max:
            raise Overloaded("groups", self._config.groups_max, "groupsMax")
        self._names.spend()

    def create_or_replace(self, group: GroupConfig, now_ms: int) -> None:
        if self._table.get(group.group_name) != group:
            self._table[group.group_name] = group
            self._mark_changed(now_ms)

    def remove(self, group: str, now_ms: int) -> None:
        forbidden = self._forbidden.pop(group, None)
        self._forbidden_count -= len(forbidden or ())
        if self._table.pop(group, None) is not None or forbidden is not None:
            self._mark_changed(now_ms)

    # Reading that is forbidden

    def may_read(self, group: str, topic: str) -> bool:
        return not self._forbidden_bits(group, topic) & READ_FORBIDDEN

    def allow_reading(self, group: str, topic: str, now_ms: int, *, allowed: bool) -> None:
        if self.may_read(group, topic) == allowed:
            return
        bits = self._forbidden_bits(group, topic) ^ READ_FORBIDDEN
        is_new = topic not in self._forbidden.get(group, ())
        if is_new and self._forbidden_count >= FORBIDDEN_MAX:
            raise Overloaded("forbidden topics of groups", FORBIDDEN_MAX, "FORBIDDEN_MAX")
        topics = self._forbidden.setdefault(group, {})
        self._forbidden_count -= len(topics)
        if bits:
            topics[topic] = bits
        else:
            del topics[topic]
        self._forbidden_count += len(topics)
        if not topics:
            del self._forbidden[group]
        self._mark_changed(now_ms)

    def _forbidden_bits(self, group: str, topic: str) -> int:
        topics = self._forbidden.get(group)
        return 0 if topics is None else max(topics.get(topic, 0), 0)

    def table(self) -> GroupTable:
        """The whole table, to be saved or sent."""
        return replace(
            self._saved,
            data_version=self.version,
            forbidden_table={g: dict(topics) for g, topics in self._forbidden.items()},
            subscription_group_table=dict(self._table),
        )

    def _mark_changed(self, now_ms: int) -> None:
        self.version = self.version.next(now_ms)
        self.is_dirty = True
