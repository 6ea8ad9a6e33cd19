"""The SQL92 filters of groups, and the bits they own in the bit map of a message.

A heartbeat registers what its group subscribes to in each topic.  The version of a subscription
says which is newer: an older one changes nothing, an equal one brings a dead filter back, and a
newer one replaces the text.  A filter whose group left, or no longer subscribes, is dead; it is
kept for a day, because the group may come back to messages that were evaluated for it.  For
the same reason dead filters go on being evaluated.

    register ──► alive ── unsubscribed, unregistered, loaded ──► dead ── 24 h, at a save ──► deleted
                   ▲                                              │
                   └───────────────── register ───────────────────┘

Invariant: every filter in here compiles, and has the bits of `BLOOM`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from flintmq.broker.tables.selections import is_compiled, predicate_of, properties_of, selection_of
from flintmq.errors import InvalidExpression
from flintmq.filter.bloom import bloom_filter
from flintmq.logs import logger
from flintmq.model.properties import RETRY_TOPIC
from flintmq.protocol.bodies.client import SQL92, Subscription
from flintmq.protocol.bodies.group import BloomBits, FilterTable, GroupFilter, TopicFilters
from flintmq.store.queues.selection import Selection

if TYPE_CHECKING:
    from flintmq.filter.sql_eval import SqlPredicate

log = logger(__name__)

BLOOM = bloom_filter()

DEAD_KEPT_MS = 24 * 3_600_000
"""How long a dead filter is kept."""

LOADED_DEAD_MS = 30_000
"""A filter that was alive when the broker stopped counts as dead for so long."""

FILTERS_MAX = 20_000
"""Filters kept.  More are not taken, and pulls that need them are refused."""


FILTERS_CHARACTERS_MAX = 2 * 1024 * 1024
"""Characters of all filters: what is compiled takes 50 to 240 times as many bytes."""

SHOWN_CHARACTERS = 200
"""What the log shows of an expression."""


class _Kept(msgspec.Struct, gc=False):
    filter: GroupFilter
    predicate: SqlPredicate
    wanted: Selection
    """By the record alone."""
    wanted_by_bits: Selection
    """By the bit map first, for messages stored since the filter was born."""


class ConsumerFilters:
    """Filters by topic and group."""

    def __init__(self, saved: FilterTable | None, now_ms: int) -> None:
        self._topics: dict[str, dict[str, _Kept]] = {}
        self._topics_of: dict[str, set[str]] = {}
        self._count = 0
        self._characters = 0  # of all expressions
        self.is_dirty = saved is None
        """Whether it changed since it was last saved."""
        if saved is not None:
            self._load(saved, now_ms)

    # Registering

    def register(
        self,
        group: str,
        subscriptions: Iterable[Subscription],
        now_ms: int,
        may_compile: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Register filters of a heartbeat; those of topics no longer subscribed are marked dead.

        A text that ``may_compile`` says no to is left to the next heartbeat.
        """
        topics = set()
        for each in subscriptions:
            topics.add(each.topic)
            if not each.is_tag and each.sub_string:
                self._register(group, each, now_ms, may_compile)
        for topic in self._topics_of.get(group, frozenset()) - topics:
            self._die(topic, group, now_ms)

    def unregister(self, group: str, now_ms: int) -> None:
        """The last member of a group left."""
        for topic in self._topics_of.get(group, ()):
            self._die(topic, group, now_ms)

    def _register(
        self,
        group: str,
        subscription: Subscription,
        now_ms: int,
        may_compile: Callable[[str], bool],
    ) -> None:
        topic, version = subscription.topic, subscription.sub_version
        kept = self._topics.get(topic, {}).get(group)
        if kept is not None and version <= kept.filter.client_version:
            if version == kept.filter.client_version and kept.filter.dead:
                self._change(kept, dead=False, dead_time=0)
            return
        if kept is not None and (
            kept.filter.expression == subscription.sub_string
            and kept.filter.expression_type == subscription.expression_type
        ):
            self._change(kept, dead=False, dead_time=0, client_version=version)
            return
        predicate = None
        if subscription.expression_type == SQL92:
            text = subscription.sub_string
            is_new = not is_compiled(text)
            if is_new and not may_compile(text):
                return
            predicate = _compile(group, subscription, is_new=is_new)
        if predicate is None:
            self._remove(topic, group)
            return
        made = GroupFilter(
            bloom_filter_data=bits_of(group, topic),
            born_time=now_ms,
            client_version=version,
            consumer_group=group,
            expression=subscription.sub_string,
            expression_type=subscription.expression_type,
            topic=topic,
        )
        log.info("%s wants %.*r of %s", group, SHOWN_CHARACTERS, made.expression, topic)
        self._add(made, predicate)

    # Looking

    def find(self, topic: str, group: str) -> GroupFilter | None:
        """The filter of a group, dead or alive."""
        groups = self._topics.get(topic)
        kept = None if groups is None else groups.get(group)
        return None if kept is None else kept.filter

    def wanted(self, topic: str, group: str, *, by_bits: bool = False) -> Selection:
        """What the filter of a group, which must be there, takes."""
        kept = self._topics[topic][group]
        return kept.wanted_by_bits if by_bits else kept.wanted

    def wanted_again(self, group: str) -> Selection:
        """What a group takes of its retry topic, by its filter of the topic each record is from."""

        def takes(record: memoryview) -> bool:
            properties = properties_of(record)
            if properties is None:
                return False
            kept = self._topics.get(properties.get(RETRY_TOPIC, ""), {}).get(group)
            return kept is None or kept.predicate.matches(properties)

        return Selection(record=takes)

    def predicate(self, expression: str) -> SqlPredicate:
        """The compiled expression, from a bounded cache.  Raises `InvalidExpression`."""
        return predicate_of(expression)

    def bit_map(self, topic: str, properties: Mapping[str, str]) -> bytes:
        """The bits of all filters of the topic that match; none when there is no filter."""
        groups = self._topics.get(topic)
        if not groups:
            return b""
        return BLOOM.bit_map(
            _positions(kept.filter)
            for kept in groups.values()
            if kept.predicate.matches(properties)
        )

    # Saving

    def forget_dead(self, now_ms: int) -> None:
        """Delete filters that are dead for too long."""
        for topic, groups in list(self._topics.items()):
            for group, kept in list(groups.items()):
                if kept.filter.dead and now_ms - kept.filter.dead_time >= DEAD_KEPT_MS:
                    self._remove(topic, group)

    def table(self, now_ms: int) -> FilterTable:
        """The whole table, to be saved, without filters that are dead for too long."""
        self.forget_dead(now_ms)
        return FilterTable(
            filter_data_by_topic={
                topic: TopicFilters(
                    group_filter_data={group: kept.filter for group, kept in groups.items()},
                    topic=topic,
                )
                for topic, groups in self._topics.items()
            }
        )

    def _load(self, saved: FilterTable, now_ms: int) -> None:
        for topic, filters in saved.filter_data_by_topic.items():
            for group, found in filters.group_filter_data.items():
                if found.bloom_filter_data != bits_of(group, topic):
                    log.warning("the filter of %s in %s has other bits: left out", group, topic)
                    continue
                try:
                    predicate = predicate_of(found.expression)
                except InvalidExpression as error:
                    log.warning("the filter of %s in %s is left out: %s", group, topic, error)
                    continue
                dead_ms = found.dead_time or max(now_ms - LOADED_DEAD_MS, found.born_time)
                found = replace(
                    found, topic=topic, consumer_group=group, dead=True, dead_time=dead_ms
                )
                self._add(found, predicate)

    # Inside

    def _add(self, made: GroupFilter, predicate: SqlPredicate) -> None:
        topic, group = made.topic, made.consumer_group
        before = self._topics.get(topic, {}).get(group)
        characters = self._characters + len(made.expression)
        if before is not None:
            characters -= len(before.filter.expression)
        elif self._count >= FILTERS_MAX:
            log.warning("no filter for %s in %s: there are %d", group, topic, FILTERS_MAX)
            return
        if characters > FILTERS_CHARACTERS_MAX:
            log.warning("no filter for %s in %s: all of them are too long", group, topic)
            return
        self._count += before is None
        self._characters = characters
        wanted = selection_of(predicate)
        by_bits = Selection(bit_map=_bit_test(made), record=wanted.record, cost=wanted.cost)
        kept = _Kept(made, predicate, wanted, by_bits)
        self._topics.setdefault(topic, {})[group] = kept
        self._topics_of.setdefault(group, set()).add(topic)
        self.is_dirty = True

    def _remove(self, topic: str, group: str) -> None:
        groups = self._topics.get(topic, {})
        removed = groups.pop(group, None)
        if removed is None:
            return
        self._count -= 1
        self._characters -= len(removed.filter.expression)
        self._topics_of[group].discard(topic)
        if not self._topics_of[group]:
            del self._topics_of[group]
        if not groups:
            del self._topics[topic]
        self.is_dirty = True

    def _die(self, topic: str, group: str, now_ms: int) -> None:
        kept = self._topics[topic][group]
        if not kept.filter.dead:
            self._change(kept, dead=True, dead_time=max(now_ms, kept.filter.born_time))

    def _change(self, kept: _Kept, **changes: int) -> None:
        """Change what does not touch the tests of a filter."""
        kept.filter = replace(kept.filter, **changes)
        self.is_dirty = True


def bits_of(group: str, topic: str) -> BloomBits:
    return BloomBits(bit_num=BLOOM.bit_count, bit_pos=BLOOM.positions(f"{group}#{topic}"))


def _positions(found: GroupFilter) -> tuple[int, ...]:
    assert found.bloom_filter_data is not None
    return found.bloom_filter_data.bit_pos


def _bit_test(made: GroupFilter) -> Callable[[bytes, int], bool]:
    positions, born_ms = _positions(made), made.born_time

    def may_match(bit_map: bytes, store_ms: int) -> bool:
        return store_ms <= born_ms or BLOOM.may_match(bit_map, positions)

    return may_match


def _compile(group: str, subscription: Subscription, *, is_new: bool) -> SqlPredicate | None:
    try:
        return predicate_of(subscription.sub_string)
    except InvalidExpression as error:
        if is_new:  # else it was said before: every heartbeat brings the text again
            log.warning("%s: no filter for %s: %s", group, subscription.topic, error.reason)
        return None
