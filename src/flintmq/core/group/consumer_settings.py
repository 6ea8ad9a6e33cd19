"""Everything a user may choose about a consuming group, checked once.

Defaults are RocketMQ's.  A value out of range is refused under the name it has here, with the
range, before anything is started.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from flintmq.core.bad_record_rule import OnBadRecord, check_rule
from flintmq.errors import InvalidName, InvalidSetting
from flintmq.model.group import (
    ConsumeFromWhere,
    MessageModel,
    check_group_name,
    retry_topic,
    with_namespace,
)
from flintmq.model.start_point import StartPoint, start_point

NOT_A_GROUP: Final = "DEFAULT_CONSUMER"
"""The name consumers have in RocketMQ before they are given one; no broker takes it."""

RETRY_MAX: Final = 16
"""How often a message is redelivered before it is a dead letter."""

UNLIMITED: Final = 2**31 - 1
"""How often in ordered consumption, where giving a message up breaks the order."""

BACKLOG_MS: Final = 30 * 60_000
"""How far back a group starts that asked for a time and gave none."""

ConsumeMode: TypeAlias = Literal["pull", "pop", "broker"]

MODES: Final[tuple[ConsumeMode, ...]] = ("pull", "pop", "broker")
"""Pull queues of one's own, pop what the broker hands out, or what the broker says."""

MIB: Final = 1_024 * 1_024

_DAY_MS: Final = 24 * 60 * 60_000

_RANGES: Final[dict[str, tuple[int, int]]] = {
    "batch_max": (1, 1_024),
    "threads_min": (1, 1_000),
    "threads_max": (1, 1_000),
    "span_max": (1, 65_535),
    "queue_count_max": (1, 65_535),
    "queue_mib_max": (1, 1_024),
    "topic_count_max": (1, 6_553_500),
    "topic_mib_max": (1, 102_400),
    "pull_interval_ms": (0, 65_535),
    "pull_batch_max": (1, 1_024),
    "pull_bytes_max": (1, 2**31 - 1),
    "pull_error_delay_ms": (10, _DAY_MS),
    "retry_max": (0, UNLIMITED),
    "ordered_suspend_ms": (10, 30_000),
    "consume_timeout_ms": (1_000, 7 * _DAY_MS),
    "commit_interval_ms": (100, _DAY_MS),
    "rebalance_interval_ms": (100, _DAY_MS),
    "invisible_ms": (5_000, 300_000),
    "unacked_max": (1, 65_535),
    "start_at_ms": (0, 2**63 - 1),
}
POP_STARTS: Final = (ConsumeFromWhere.FIRST_OFFSET, ConsumeFromWhere.LAST_OFFSET)
"""Where a new group may begin that pops."""

_ALONE: Final = "broadcasting has no dead letters, each member reads for itself"

_MAY_BE_NONE: Final = frozenset({"topic_count_max", "topic_mib_max", "retry_max", "start_at_ms"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """How a group consumes.

    ``start_from`` counts only where the group has no offset yet (`model.start_point` says what it
    may be), ``start_at_ms`` only with TIMESTAMP.  ``topic_count_max`` and ``topic_mib_max`` are
    shared out among the queues of a topic and then stand in for the limits of a queue.
    ``retry_max`` is 16, or without end in ordered consumption, unless it is given.
    """

    group: str
    namespace: str = ""
    model: MessageModel = MessageModel.CLUSTERING
    ordered: bool = False
    start_from: ConsumeFromWhere | StartPoint = ConsumeFromWhere.LAST_OFFSET
    start_at_ms: int | None = None
    batch_max: int = 1
    threads_min: int = 20
    threads_max: int = 20
    span_max: int = 2_000
    queue_count_max: int = 1_000
    queue_mib_max: int = 100
    topic_count_max: int | None = None
    topic_mib_max: int | None = None
    pull_interval_ms: int = 0
    pull_batch_max: int = 32
    pull_bytes_max: int = 262_144
    pull_error_delay_ms: int = 3_000
    retry_max: int | None = None
    ordered_suspend_ms: int = 1_000
    consume_timeout_ms: int = 15 * 60_000
    commit_interval_ms: int = 5_000
    rebalance_interval_ms: int = 20_000
    mode: ConsumeMode = "pull"
    """Whether queues are pulled (pull), messages popped (pop), or what the broker has set for
    group and topic (broker)."""
    invisible_ms: int = 60_000
    """How long a popped message is hidden from others; it is renewed while a listener runs."""
    unacked_max: int = 96
    """Messages popped from one broker, or one queue, that are not settled yet."""
    sends_subscription: bool = False
    unit_mode: bool = False
    on_bad_record: OnBadRecord | None = None
    """What becomes of a record that cannot be decoded: dead letters in a group, in broadcasting
    it is skipped."""

    def __post_init__(self) -> None:
        check_group_name(self.group)
        if self.group == NOT_A_GROUP:
            raise InvalidName("group", self.group, "is nobody's own: choose another name")
        _check_kind("model", self.model, MessageModel)
        check_start(self.start_from)
        for name, bounds in _RANGES.items():
            value = getattr(self, name)
            if value is not None or name not in _MAY_BE_NONE:
                check_range(name, value, bounds)
        if self.threads_min > self.threads_max:
            reason = f"is larger than threads_max, which is {self.threads_max}"
            raise InvalidSetting("threads_min", str(self.threads_min), reason)
        self._check_mode()
        if self.on_bad_record is not None:
            check_rule(self.on_bad_record, dead_letters="" if self.is_clustering else _ALONE)

    def _check_mode(self) -> None:
        if self.mode not in MODES:
            raise InvalidSetting("mode", str(self.mode), f"is one of {', '.join(MODES)}")
        if self.mode == "pull":
            return
        if self.on_bad_record == "stop":
            reason = "where messages are popped no queue is one's own to stop"
            raise InvalidSetting("on_bad_record", "stop", f"{reason}; use dead_letter or skip")
        if self.mode == "pop":
            if not self.is_clustering:
                raise InvalidSetting("mode", "pop", "broadcasting needs mode='pull'")
            if self.ordered:
                raise InvalidSetting("mode", "pop", "ordered consumption needs mode='pull'")
            if self.start_from not in POP_STARTS:
                reason = "a broker that hands messages out starts at first or last"
                raise InvalidSetting("start_from", str(self.start_from), reason)

    def is_shared_by_broker(self, *, ordered: bool) -> bool:
        """Whether the broker assigns; queues of ordered topics the members share themselves."""
        return self.mode != "pull" and self.is_clustering and not ordered

    @property
    def wire_group(self) -> str:
        """The group as brokers know it."""
        return with_namespace(self.namespace, self.group)

    @property
    def retry_topic(self) -> str:
        return retry_topic(self.wire_group)

    @property
    def is_clustering(self) -> bool:
        return self.model is MessageModel.CLUSTERING

    @property
    def bad_rule(self) -> OnBadRecord:
        """What becomes of a record that cannot be decoded."""
        if self.on_bad_record is not None:
            return self.on_bad_record
        return "dead_letter" if self.is_clustering else "skip"

    def tries_max(self, *, ordered: bool) -> int:
        """How often a message may be redelivered."""
        if self.retry_max is not None:
            return self.retry_max
        return UNLIMITED if ordered else RETRY_MAX

    @property
    def start(self) -> StartPoint:
        """Where a group without an offset starts."""
        return start_point(self.start_from)

    def starts_at_ms(self, now_ms: int) -> int:
        """The time from which a group consumes that starts by time."""
        return start_time_ms(self.start, self.start_at_ms, now_ms)


def start_time_ms(start: StartPoint, start_at_ms: int | None, now_ms: int) -> int:
    """The time of a start by time: its own, the setting's, or half an hour ago."""
    if start.time_ms is not None:
        return start.time_ms
    return start_at_ms if start_at_ms is not None else now_ms - BACKLOG_MS


def check_start(value: object) -> None:
    """Raise `InvalidSetting` for what is no start of a group."""
    if not isinstance(value, ConsumeFromWhere | StartPoint):
        raise InvalidSetting("start_from", str(value), "must be a ConsumeFromWhere or a StartPoint")


def check_range(name: str, value: object, bounds: tuple[int, int]) -> None:
    """Raise `InvalidSetting` for what is no whole number within the bounds."""
    low, high = bounds
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidSetting(name, str(value), f"must be a whole number from {low} to {high}")
    if not low <= value <= high:
        raise InvalidSetting(name, str(value), f"is out of range, {low} to {high}")


def batch_bounds() -> tuple[int, int]:
    """How many messages a listener may take at once."""
    return _RANGES["batch_max"]


def _check_kind(name: str, value: object, kind: type[MessageModel]) -> None:
    if not isinstance(value, kind):
        raise InvalidSetting(name, str(value), f"must be a {kind.__name__}")
