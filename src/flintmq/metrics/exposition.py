"""Snapshots as the text that Prometheus reads.

Series of one name that come from several servers of a process are one family in the text.
Figures of the process itself, such as CPU time and memory, stand beside them.

Invariant: at most `SERIES_MAX` rows are written; how many were left out is one of the metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, NamedTuple

from flintmq.errors import MissingExtra
from flintmq.metrics.families import Distribution, Kind, Snapshot, gauge

if TYPE_CHECKING:
    from prometheus_client import Metric

SERIES_MAX = 50_000
"""Rows of one scrape, a histogram counted as one: RocketMQ's metricsOtelCardinalityLimit."""

LEFT_OUT = gauge(
    "flintmq_metrics_left_out",
    f"Series that the last scrape left out, because there were more than {SERIES_MAX}.",
)


BUILD = gauge("flintmq_build_info", "1; the version is a label.", "version")

FAMILIES = (BUILD, LEFT_OUT)
"""What every scrape has."""


class Text(NamedTuple):
    """An answer to a scrape, and its content type."""

    body: bytes
    content_type: str


def require_prometheus() -> None:
    """Raise `MissingExtra` where the package is missing, before anything is started."""
    try:
        import prometheus_client  # noqa: F401  # only who serves metrics waits for it to load
    except ImportError:
        raise MissingExtra("prometheus-client", "metrics") from None


def exposition(snapshots: Sequence[Snapshot], accept: str) -> Text:
    """The text of some snapshots, in the format that the scraper accepts."""
    from prometheus_client import ProcessCollector
    from prometheus_client.exposition import choose_encoder

    encode, content_type = choose_encoder(accept)
    process = ProcessCollector(registry=None)
    metrics = [*_metrics(snapshots), *process.collect()]
    return Text(encode(_Collected(metrics)), content_type)


def push_text(snapshots: Sequence[Snapshot], gateway: str, job: str) -> None:
    """Send snapshots to a push gateway, in place of what the job sent before."""
    from prometheus_client import ProcessCollector, push_to_gateway

    collected = _Collected([*_metrics(snapshots), *ProcessCollector(registry=None).collect()])
    push_to_gateway(gateway, job, collected)


class _Collected:
    """What the encoders of prometheus_client take for a registry."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


def _metrics(snapshots: Sequence[Snapshot]) -> list[Metric]:
    from prometheus_client import Metric

    found: dict[str, Metric] = {}
    left, left_out = SERIES_MAX, 0
    for snapshot in snapshots:
        for samples in snapshot.samples:
            family = samples.family
            name = family.name
            if family.kind is Kind.COUNTER:
                name = name.removesuffix("_total")  # the encoder appends it
            metric = found.get(name)
            if metric is None:
                metric = found[name] = Metric(name, family.help, family.kind.value)
            rows = samples.rows[:left]
            left -= len(rows)
            left_out += len(samples.rows) - len(rows)
            for values, value in rows:
                labels = {**snapshot.common, **dict(zip(family.labels, values, strict=True))}
                if isinstance(value, Distribution):
                    _add_distribution(metric, labels, value)
                else:
                    metric.add_sample(family.name, labels, value)
    for family, labels, value in (
        (LEFT_OUT, {}, left_out),
        (BUILD, {"version": _version()}, 1),
    ):
        metric = found[family.name] = Metric(family.name, family.help, family.kind.value)
        metric.add_sample(family.name, labels, value)
    return list(found.values())


@cache
def _version() -> str:
    return version("flintmq")


def _add_distribution(metric: Metric, labels: dict[str, str], value: Distribution) -> None:
    total = 0
    bounds = [*(f"{bound:.1f}" if bound >= 1 else str(bound) for bound in value.bounds), "+Inf"]
    for bound, count in zip(bounds, value.counts, strict=True):
        total += count
        metric.add_sample(f"{metric.name}_bucket", {**labels, "le": bound}, total)
    metric.add_sample(f"{metric.name}_count", labels, total)
    metric.add_sample(f"{metric.name}_sum", labels, value.sum)
