"""What consumers that pull by themselves may be told beyond what every client is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from flintmq.client.engine.client_config import ClientSettings
from flintmq.client.engine.setting_names import Model, StartFrom
from flintmq.client.hooks.receive_hooks import ReceiveHook
from flintmq.client.offsets.offset_store import OffsetStore
from flintmq.core.bad_record_rule import OnBadRecord
from flintmq.core.group.allocate import Strategy
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.producer.trace_records import traced_to
from flintmq.core.pull.lite_settings import LiteSettings, PullSettings
from flintmq.errors import InvalidSetting
from flintmq.filter.sql_eval import compile_sql
from flintmq.filter.tags import ALL

if TYPE_CHECKING:
    from flintmq.metrics.client_metrics import ClientMetrics

RENAMED: Final = {"suspend_ms": "hold_ms", "suspend_timeout_ms": "hold_timeout_ms"}
"""Deprecated names of settings, and their new ones."""


class PullConsumerSettings(ClientSettings, total=False):
    """Keyword arguments of a pull consumer: the fields of `PullConfig` and `ClientConfig`."""

    model: Model
    strategy: Strategy
    commit_interval_ms: int
    rebalance_interval_ms: int
    retry_max: int
    hold_ms: int
    hold_timeout_ms: int
    pull_timeout_ms: int
    unit_mode: bool
    on_bad_record: OnBadRecord
    consume_hooks: tuple[ReceiveHook, ...]
    metrics: ClientMetrics | None
    offset_store: OffsetStore | None
    offsets_dir: Path | str | None


class LitePullSettings(PullConsumerSettings, total=False):
    """Keyword arguments of a lite pull consumer."""

    start_from: StartFrom
    start_at_ms: int | None
    auto_commit: bool
    auto_commit_ms: int
    pull_batch_max: int
    queue_count_max: int
    queue_mib_max: int
    total_count_max: int
    span_max: int
    pull_error_delay_ms: int
    trace: bool
    trace_topic: str | None


class ScheduledPullSettings(PullConsumerSettings, total=False):
    """Keyword arguments of a scheduled pull."""

    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PullConfig(PullSettings):
    consume_hooks: tuple[ReceiveHook, ...] = ()
    """See each pull that brought messages, and what is committed and sent back."""
    metrics: ClientMetrics | None = None
    """Count messages and time pulls there."""
    offset_store: OffsetStore | None = None
    """A store of one's own in place of the brokers, or of the file in broadcasting."""
    offsets_dir: Path | str | None = None
    """Where a broadcasting consumer keeps its file."""

    def __post_init__(self) -> None:
        PullSettings.__post_init__(self)  # `super` does not know a class with slots
        check_metrics(self.metrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteConfig(LiteSettings):
    consume_hooks: tuple[ReceiveHook, ...] = ()
    metrics: ClientMetrics | None = None
    offset_store: OffsetStore | None = None
    offsets_dir: Path | str | None = None
    trace: bool = False
    """Leave traces of every message that is handed out, in RocketMQ's trace topic."""
    trace_topic: str | None = None
    """Leave them in this topic instead."""

    def __post_init__(self) -> None:
        LiteSettings.__post_init__(self)  # `super` does not know a class with slots
        check_metrics(self.metrics)
        traced_to(self.trace, self.trace_topic)  # refuses a topic that cannot be


def check_metrics(metrics: object) -> None:
    """Refuse what is no `ClientMetrics`."""
    if metrics is not None and not hasattr(metrics, "consumer"):
        raise InvalidSetting("metrics", repr(metrics), "give a ClientMetrics")


@lru_cache(maxsize=256)
def subscription_to(topic: str, tags: str | None, sql: str | None) -> TopicSubscription:
    """What is wanted of a topic; an expression that no broker would take is refused."""
    if sql is not None:
        compile_sql(sql)
    return TopicSubscription(topic, ALL if tags is None else tags, sql)
