"""What a push consumer may be told: how its group consumes, and what the program adds.

Names and ranges of the group's part are in `core.group.consumer_settings`; here are the few that
need a program around them: hooks, a store, a strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from flintmq.client.engine.client_config import ClientConfig, ClientSettings, split_settings
from flintmq.client.engine.setting_names import Model, StartFrom
from flintmq.client.hooks.consume_hooks import ConsumeHook, FilterHook
from flintmq.client.offsets.offset_store import OffsetStore
from flintmq.core.bad_record_rule import OnBadRecord
from flintmq.core.group.actions import QueuesChanged
from flintmq.core.group.allocate import Strategy, allocate_averagely
from flintmq.core.group.consumer_settings import ConsumeMode, ConsumerSettings
from flintmq.core.producer.trace_records import traced_to
from flintmq.errors import InvalidSetting

if TYPE_CHECKING:
    from flintmq.metrics.client_metrics import ClientMetrics

BROADCASTING_INSTANCE: Final = "DEFAULT"
"""The instance name of broadcasting consumers: a restart finds its offset file again."""

THREADS: Final = 20
"""As many as RocketMQ's consumers have, at least and at most."""

OnConflict: TypeAlias = Literal["error", "warn"]

RENAMED: Final = {"suspend_ms": "ordered_suspend_ms"}
"""Deprecated names of settings, and their new ones."""


class PushSettings(ClientSettings, total=False):
    """Keyword arguments of every push consumer: the fields of `PushConfig` and `ClientConfig`."""

    model: Model
    ordered: bool
    start_from: StartFrom
    start_at_ms: int | None
    batch_max: int
    threads_min: int
    threads_max: int
    span_max: int
    queue_count_max: int
    queue_mib_max: int
    topic_count_max: int | None
    topic_mib_max: int | None
    pull_interval_ms: int
    pull_batch_max: int
    pull_bytes_max: int
    pull_error_delay_ms: int
    retry_max: int | None
    ordered_suspend_ms: int
    consume_timeout_ms: int
    commit_interval_ms: int
    rebalance_interval_ms: int
    mode: ConsumeMode
    invisible_ms: int
    unacked_max: int
    sends_subscription: bool
    unit_mode: bool
    on_bad_record: OnBadRecord | None
    strategy: Strategy
    on_conflict: OnConflict
    on_queues: Callable[[QueuesChanged], object] | None
    consume_hooks: tuple[ConsumeHook, ...]
    filter_hooks: tuple[FilterHook, ...]
    trace: bool
    trace_topic: str | None
    metrics: ClientMetrics | None
    offset_store: OffsetStore | None
    offsets_dir: Path | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PushConfig(ConsumerSettings):
    """Settings of one push consumer.

    ``threads_max`` also bounds how many ``async def`` listeners run at once.
    """

    strategy: Strategy = allocate_averagely
    on_conflict: OnConflict = "error"
    """What to do at the start when other members of the group subscribe to something else."""
    on_queues: Callable[[QueuesChanged], object] | None = None
    """Called with every change of our queues, on the loop; it must not block."""
    consume_hooks: tuple[ConsumeHook, ...] = ()
    filter_hooks: tuple[FilterHook, ...] = ()
    trace: bool = False
    """Leave traces of every call of a listener, in RocketMQ's trace topic."""
    trace_topic: str | None = None
    """Leave them in this topic instead."""
    metrics: ClientMetrics | None = None
    """Count messages and time listeners there."""
    offset_store: OffsetStore | None = None
    """In place of the broker, or of the file in broadcasting."""
    offsets_dir: Path | str | None = None

    def __post_init__(self) -> None:
        ConsumerSettings.__post_init__(self)  # a class with slots has no super() here
        if self.on_conflict not in ("error", "warn"):
            raise InvalidSetting("on_conflict", str(self.on_conflict), "is error or warn")
        if not callable(self.strategy):
            raise InvalidSetting("strategy", str(self.strategy), "must be a function")
        if self.metrics is not None and not hasattr(self.metrics, "consumer"):
            raise InvalidSetting("metrics", repr(self.metrics), "give a ClientMetrics")
        traced_to(self.trace, self.trace_topic)  # refuses a topic that cannot be


def read_settings(group: str, settings: Mapping[str, Any]) -> tuple[ClientConfig, PushConfig]:
    """Keyword arguments as the two kinds of settings.

    ``threads_max`` alone also lowers the minimum, and the minimum alone raises the maximum.
    """
    given = dict(settings)
    if "group" in given:
        raise InvalidSetting("group", str(given["group"]), "is given once, as the first argument")
    low, high = given.get("threads_min"), given.get("threads_max")
    if isinstance(high, int) and low is None:
        given["threads_min"] = min(high, THREADS)
    if isinstance(low, int) and high is None:
        given["threads_max"] = max(low, THREADS)
    common, config = split_settings({**given, "group": group}, PushConfig, RENAMED)
    if not config.is_clustering and common.instance_name is None:
        common = replace(common, instance_name=BROADCASTING_INSTANCE)
    return common, config
