"""Offsets and choices of queues, as options spell them.

    startingOffsets    earliest | latest | group | a time | an offset
                       | {"topic": {"broker": {"queue id": offset}}}
    assign             {"topic": {"broker": [queue ids]}}, or {"topic": [queue ids]}: those of
                       every broker that has the topic

Words, times and offsets are those of ``start_from`` in consumers (`flintmq.model.start_point`), but
"last" means the end here.  In JSON an offset of -2 is the oldest message that is kept, -1 the end,
as in Kafka's source.

Invariant: names of topics are those of the brokers, with their namespace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeAlias

from flintmq.core.admin.spans import END, START, Target, ToEnd, ToOffset, ToStart, ToTime
from flintmq.errors import InvalidName, InvalidSetting
from flintmq.model.group import ConsumeFromWhere, with_namespace
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.model.start_point import read_start
from flintmq.model.topic import check_topic_name
from flintmq.spark.options.option_table import WHOLE_MAX, NotAllowed, names

EARLIEST_OFFSET: Final = -2
LATEST_OFFSET: Final = -1

QUEUE_ID_MAX: Final = 2**31 - 1
"""An int on the wire."""

_MILLISECONDS = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class OfGroup:
    """Where a consumer group stands.

    In a topic in which it never committed: ``otherwise``.  In single queues of a topic in which
    it did commit: the oldest message, because those queues are new to it.
    """

    group: str
    otherwise: ToStart | ToEnd


@dataclass(frozen=True, slots=True)
class OfEach:
    """A place of its own for each queue; every queue that is read has to be there."""

    places: tuple[tuple[QueueRef, ToStart | ToEnd | ToOffset], ...]

    def by_queue(self) -> dict[QueueRef, ToStart | ToEnd | ToOffset]:
        return dict(self.places)


Place: TypeAlias = ToStart | ToEnd | ToTime | ToOffset | OfGroup | OfEach
"""Where a read starts or stops."""


@dataclass(frozen=True, slots=True)
class Topics:
    """All queues of these topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicsLike:
    """All queues of topics whose whole name, without ``namespace``, matches."""

    pattern: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class TheseQueues:
    """Queues by name; broker None stands for every broker that has the topic."""

    queues: tuple[tuple[str, str | None, int], ...]

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(topic for topic, _, _ in self.queues))


Choice: TypeAlias = Topics | TopicsLike | TheseQueues
"""Which queues a source reads."""


class Word(StrEnum):
    """A place given as a word; what it means depends on the other options."""

    GROUP = "group"


GivenPlace: TypeAlias = Word | Target | dict[str, Any]
"""An offset option as it is parsed alone; what ``group`` means depends on other options."""


def words_or_offsets(given: str) -> GivenPlace:
    """A word, a time, an offset, or JSON that `each_queue` reads once the namespace is known."""
    if given.strip().startswith("{"):
        return json_object(given)
    if given.strip().lower() == Word.GROUP:
        return Word.GROUP
    try:
        start = read_start(given)
    except InvalidSetting:
        example = '{"topic": {"broker": {"0": 42, "1": -2}}}'
        known = "earliest, latest, group, a time, an offset, or JSON"
        raise NotAllowed(f"give {known}: {example}") from None
    if isinstance(start, ConsumeFromWhere):
        if start is ConsumeFromWhere.TIMESTAMP:
            raise NotAllowed("give the time itself, as 2026-11-16T08:30:00+01:00")
        return START if start is ConsumeFromWhere.FIRST_OFFSET else END
    if start.offset is not None:
        return ToOffset(QueueOffset(start.offset))
    return END if start.time_ms is None else ToTime(start.time_ms)


def each_queue(tree: Mapping[str, Any], namespace: str, *, is_end: bool) -> OfEach:
    """``{topic: {broker: {queue id: offset}}}``; raises `NotAllowed`."""
    found: dict[QueueRef, ToStart | ToEnd | ToOffset] = {}
    for topic, broker, queue_id, number in _leaves(tree):
        ref = QueueRef(_topic(topic, namespace), broker, queue_id)
        if type(number) is not int or not EARLIEST_OFFSET <= number <= WHOLE_MAX:
            raise NotAllowed(f"{ref}: an offset is a whole number, -2 for earliest, -1 for latest")
        if number == EARLIEST_OFFSET:
            if is_end:
                raise NotAllowed(f"{ref}: nothing lies before the earliest; -1 is the latest")
            found[ref] = START
        else:
            found[ref] = END if number == LATEST_OFFSET else ToOffset(QueueOffset(number))
    return OfEach(tuple(sorted(found.items(), key=lambda item: item[0])))


def _leaves(tree: Mapping[str, Any]) -> Iterator[tuple[str, str, int, Any]]:
    shape = 'write {"topic": {"broker": {"queue id": offset}}}'
    if not tree:
        raise NotAllowed(f"names no queue: {shape}")
    for topic, brokers in tree.items():
        if not isinstance(brokers, dict) or not brokers:
            raise NotAllowed(f"{topic}: {shape}")
        for broker, offsets in brokers.items():
            if not isinstance(offsets, dict) or not offsets:
                raise NotAllowed(f"{topic}, {broker}: {shape}")
            for queue_id, number in offsets.items():
                yield topic, broker, _queue_id(queue_id, f"{topic}, {broker}"), number


def these_queues(tree: Mapping[str, Any], namespace: str) -> TheseQueues:
    """``{topic: {broker: [queue ids]}}`` or ``{topic: [queue ids]}``; raises `NotAllowed`."""
    found: list[tuple[str, str | None, int]] = []
    shape = 'write {"topic": {"broker": [0, 1]}}, or {"topic": [0, 1]} for every broker'
    if not tree:
        raise NotAllowed(f"names no queue: {shape}")
    for name, chosen in tree.items():
        topic = _topic(name, namespace)
        of_brokers = chosen if isinstance(chosen, dict) else {None: chosen}
        if not of_brokers:
            raise NotAllowed(f"{name}: {shape}")
        for broker, queue_ids in of_brokers.items():
            if not isinstance(queue_ids, list) or not queue_ids:
                raise NotAllowed(f"{name}: {shape}")
            found += [(topic, broker, _queue_id(each, name)) for each in queue_ids]
    return TheseQueues(tuple(dict.fromkeys(found)))


def topics(given: str, namespace: str) -> Topics:
    """Topics with commas between them."""
    return Topics(tuple(_topic(name, namespace) for name in names(given)))


def pattern(given: str) -> str:
    """A regular expression of Python for whole names."""
    try:
        re.compile(given)
    except re.error as error:
        raise NotAllowed(f"is no regular expression of Python: {error}") from None
    return given


def time_ms(given: str) -> int:
    """Milliseconds since 1970, or ISO 8601 with its offset from UTC."""
    given = given.strip()
    if _MILLISECONDS.fullmatch(given):
        return int(given)
    try:
        when = datetime.fromisoformat(given)
        if when.tzinfo is not None and when.year >= 1970:
            return round(when.timestamp() * 1000)
    except ValueError:
        pass
    raise NotAllowed("give milliseconds since 1970, or a time such as 2026-11-16T08:30:00+01:00")


def json_object(given: str) -> dict[str, Any]:
    """A JSON object in which no name comes twice."""
    try:
        tree = json.loads(given, object_pairs_hook=_without_repeats)
    except ValueError as error:
        raise NotAllowed(f"is no JSON: {error}") from None
    if not isinstance(tree, dict):
        raise NotAllowed("give a JSON object: {…}")
    return tree


def in_namespace(given: str, namespace: str, check: Callable[[str], None]) -> str:
    """A name as the brokers know it; raises `NotAllowed`."""
    name = with_namespace(namespace, given)
    try:
        check(name)
    except InvalidName as error:
        raise NotAllowed(str(error)) from None
    return name


def _topic(given: str, namespace: str) -> str:
    return in_namespace(given, namespace, check_topic_name)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"{next(key for key in keys if keys.count(key) > 1)!r} is there twice")
    return found


def _queue_id(given: object, where: str) -> int:
    number = int(given) if isinstance(given, str) and given.isdecimal() else given
    if type(number) is not int or not 0 <= number <= QUEUE_ID_MAX:
        raise NotAllowed(f"{where}: a queue id is a whole number from 0 on, not {given!r}")
    return number
