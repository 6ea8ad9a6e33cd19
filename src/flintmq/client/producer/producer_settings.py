"""What a producer may be told beyond what every client is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from flintmq.client.engine.client_config import ClientSettings
from flintmq.client.hooks.send_hooks import SendHook
from flintmq.core.producer.broker_faults import Avoidance
from flintmq.core.producer.publisher import RETRIES, SendRules
from flintmq.core.producer.send_draft import (
    BATCH_BYTES_MAX,
    COMPRESS_FROM_BYTES,
    MESSAGE_BYTES_MAX,
    DraftRules,
)
from flintmq.core.producer.trace_records import traced_to
from flintmq.errors import InvalidSetting
from flintmq.model.sys_flag import Compression

if TYPE_CHECKING:
    from flintmq.metrics.client_metrics import ClientMetrics

SEND_MS: Final = 3_000
"""How long a send may take, retries included, as in RocketMQ."""

IN_FLIGHT_MAX: Final = 10_000
"""Sends under way at once; a few megabytes of small messages."""

_COMPRESSIONS = {"zlib": Compression.ZLIB, "lz4": Compression.LZ4, "zstd": Compression.ZSTD}
_AVOIDANCES = {kind.value: kind for kind in Avoidance}


class ProducerSettings(ClientSettings, total=False):
    """Keyword arguments of every producer: the fields of `ProducerConfig` and `ClientConfig`."""

    retries: int
    retry_unsafe: bool
    avoid_slow: Literal["off", "4.9", "5.x"]
    message_bytes_max: int
    batch_bytes_max: int
    compress_from_bytes: int
    compression: Literal["zlib", "lz4", "zstd"]
    compression_level: int
    default_queue_count: int
    in_flight_max: int
    auto_batch: bool
    send_hooks: tuple[SendHook, ...]
    trace: bool
    trace_topic: str | None
    metrics: ClientMetrics | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """Settings of one producer.  Numbers are RocketMQ's."""

    retries: int = RETRIES
    """Further tries of a send that failed."""
    retry_unsafe: bool = False
    """Send again what was stored, but not flushed or copied in time."""
    avoid_slow: str = "off"
    """Leave brokers alone that were slow: by the table of ``4.9``, of ``5.x``, or ``off``."""
    message_bytes_max: int = MESSAGE_BYTES_MAX
    batch_bytes_max: int = BATCH_BYTES_MAX
    compress_from_bytes: int = COMPRESS_FROM_BYTES
    compression: str = "zlib"
    compression_level: int = 5
    default_queue_count: int = 4
    """Queues of a topic that the first message makes."""
    in_flight_max: int = IN_FLIGHT_MAX
    auto_batch: bool = False
    """Let small messages given to `send_async` while others are under way share requests."""
    send_hooks: tuple[SendHook, ...] = ()
    trace: bool = False
    """Leave traces of every message that is stored, in RocketMQ's trace topic."""
    trace_topic: str | None = None
    """Leave them in this topic instead."""
    metrics: ClientMetrics | None = None
    """Count and time sends there."""

    def __post_init__(self) -> None:
        if self.in_flight_max <= 0:
            raise InvalidSetting("in_flight_max", str(self.in_flight_max), "give a number above 0")
        if self.avoid_slow not in _AVOIDANCES:
            raise InvalidSetting("avoid_slow", self.avoid_slow, "is off, 4.9 or 5.x")
        if self.compression not in _COMPRESSIONS:
            raise InvalidSetting("compression", self.compression, "is zlib, lz4 or zstd")
        self.send_rules()
        self.draft_rules("")
        if self.metrics is not None and not hasattr(self.metrics, "producer"):
            raise InvalidSetting("metrics", repr(self.metrics), "give a ClientMetrics")
        traced_to(self.trace, self.trace_topic)  # refuses a topic that cannot be

    def send_rules(self) -> SendRules:
        return SendRules(
            retries=self.retries,
            retry_unsafe=self.retry_unsafe,
            avoidance=_AVOIDANCES[self.avoid_slow],
            default_queue_count=self.default_queue_count,
        )

    def draft_rules(self, namespace: str) -> DraftRules:
        return DraftRules(
            message_bytes_max=self.message_bytes_max,
            batch_bytes_max=self.batch_bytes_max,
            compress_from_bytes=self.compress_from_bytes,
            compression=_COMPRESSIONS[self.compression],
            compression_level=self.compression_level,
            instance_id=namespace,
        )
