"""Everything a user may choose about a lite pull consumer, checked once.

Defaults are RocketMQ's but for one: it asks for 10 messages at once, which costs a request for
every 10 messages.  We ask for 256, and a broker of RocketMQ gives 32 of them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from flintmq.core.bad_record_rule import OnBadRecord, check_rule
from flintmq.core.consumer.pull_loop import CacheLimits
from flintmq.core.group.allocate import Strategy, allocate_averagely
from flintmq.core.group.consumer_settings import (
    MIB,
    NOT_A_GROUP,
    RETRY_MAX,
    UNLIMITED,
    ConsumerSettings,
    check_range,
    check_start,
    start_time_ms,
)
from flintmq.core.reading.pull_request import BYTES_MAX
from flintmq.errors import InvalidName, InvalidSetting
from flintmq.model.group import ConsumeFromWhere, MessageModel, check_group_name
from flintmq.model.start_point import StartPoint, start_point

_DAY_MS: Final = 24 * 60 * 60_000

_RANGES: Final[dict[str, tuple[int, int]]] = {
    "commit_interval_ms": (100, _DAY_MS),
    "rebalance_interval_ms": (100, _DAY_MS),
    "retry_max": (0, UNLIMITED),
    "hold_ms": (1, _DAY_MS),
    "hold_timeout_ms": (1, _DAY_MS),
    "pull_timeout_ms": (1, _DAY_MS),
    "auto_commit_ms": (1_000, _DAY_MS),
    "pull_batch_max": (1, 1_024),
    "queue_count_max": (1, 65_535),
    "queue_mib_max": (1, 1_024),
    "total_count_max": (1, 6_553_500),
    "span_max": (1, 65_535),
    "pull_error_delay_ms": (10, _DAY_MS),
}


_NO_DEAD_LETTERS: Final = "a consumer that pulls sends nothing back by itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class PullSettings:
    """The settings of consumers that pull by themselves."""

    model: MessageModel = MessageModel.CLUSTERING
    strategy: Strategy = allocate_averagely
    commit_interval_ms: int = 5_000
    """How often offsets that were updated are stored."""
    rebalance_interval_ms: int = 20_000
    retry_max: int = RETRY_MAX
    """How often a message may be sent back before it is a dead letter."""
    hold_ms: int = 20_000
    """How long a broker may keep a pull that finds nothing."""
    hold_timeout_ms: int = 30_000
    """How long to wait for its answer."""
    pull_timeout_ms: int = 10_000
    """How long to wait for the answer to a pull that the broker does not keep."""
    unit_mode: bool = False
    on_bad_record: OnBadRecord = "skip"
    """What becomes of a record that cannot be decoded: skip or stop."""

    def __post_init__(self) -> None:
        if not isinstance(self.model, MessageModel):
            raise InvalidSetting("model", str(self.model), "must be a MessageModel")
        if not callable(self.strategy):
            raise InvalidSetting("strategy", str(self.strategy), "must be a function")
        check_rule(self.on_bad_record, dead_letters=_NO_DEAD_LETTERS)
        for each in fields(self):
            if each.name in _RANGES:
                check_range(each.name, getattr(self, each.name), _RANGES[each.name])
        if self.hold_timeout_ms <= self.hold_ms:
            reason = f"must be greater than hold_ms, which is {self.hold_ms}"
            raise InvalidSetting("hold_timeout_ms", str(self.hold_timeout_ms), reason)

    @property
    def is_clustering(self) -> bool:
        return self.model is MessageModel.CLUSTERING


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteSettings(PullSettings):
    """``start_from`` counts only where the group has no offset yet."""

    start_from: ConsumeFromWhere | StartPoint = ConsumeFromWhere.LAST_OFFSET
    start_at_ms: int | None = None
    auto_commit: bool = True
    auto_commit_ms: int = 5_000
    pull_batch_max: int = 256
    queue_count_max: int = 1_000
    queue_mib_max: int = 100
    total_count_max: int = 10_000
    """Messages cached of all queues together."""
    span_max: int = 2_000
    pull_error_delay_ms: int = 1_000

    def __post_init__(self) -> None:
        PullSettings.__post_init__(self)  # `super` does not know a class with slots
        check_start(self.start_from)
        if self.start_at_ms is not None:
            check_range("start_at_ms", self.start_at_ms, (0, 2**63 - 1))

    @property
    def limits(self) -> CacheLimits:
        """How much of one queue may be cached."""
        return CacheLimits(self.queue_count_max, self.queue_mib_max * MIB, self.span_max)

    @property
    def start(self) -> StartPoint:
        """Where a group without an offset starts."""
        return start_point(self.start_from)

    def starts_at_ms(self, now_ms: int) -> int:
        """The time from which a group consumes that starts by time."""
        return start_time_ms(self.start, self.start_at_ms, now_ms)

    def of_pulls(self, group: str) -> ConsumerSettings:
        """What a `PullLoop` needs to know."""
        return ConsumerSettings(
            group=group,
            pull_batch_max=self.pull_batch_max,
            pull_bytes_max=BYTES_MAX,
            pull_error_delay_ms=self.pull_error_delay_ms,
            sends_subscription=True,
            on_bad_record=self.on_bad_record,
        )


def check_group(group: str) -> None:
    """Raise `InvalidName` for what is no group of one's own."""
    check_group_name(group)
    if group == NOT_A_GROUP:
        raise InvalidName("group", group, "is nobody's own: choose another name")
