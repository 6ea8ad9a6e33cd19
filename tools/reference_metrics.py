"""The table of metrics in docs/reference/metrics.md, written from the families of the code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from flintmq.broker.monitoring import broker_families
from flintmq.metrics import client_metrics, exposition, run_counts
from flintmq.metrics.families import Family
from flintmq.nameserver import monitoring as namesrv
from flintmq.proxy import monitoring as proxy

INTRO: Final = (
    "\n[Metrics and traces](../metrics.md) says how to turn them on. What begins with `rocketmq_` "
    "has the name, the labels and the unit of RocketMQ 5; what begins with `flintmq_` is ours.\n"
)

PARTS: Final[tuple[tuple[str, str, Iterable[Family]], ...]] = (
    (
        "A broker",
        "All have the labels `cluster`, `node_type`, `node_id`, and those of `metricsLabel`.",
        broker_families.FAMILIES,
    ),
    (
        "A name server",
        "All have the labels `node_type` and `node_id`.",
        namesrv.FAMILIES,
    ),
    (
        "A proxy for gRPC clients",
        "All have the labels `cluster`, `node_type` and `node_id`.",
        proxy.FAMILIES,
    ),
    (
        "Producers and consumers",
        "Of a program with `ClientMetrics`; see [there](../metrics.md#producers-and-consumers).",
        client_metrics.FAMILIES,
    ),
    (
        "Queries of Spark",
        "Of a driver with `ClientMetrics`; see [there](../metrics.md#spark).",
        run_counts.FAMILIES,
    ),
    (
        "Every scrape",
        "Beside them, on Linux, `process_*` of prometheus-client: CPU time, memory, open files.",
        exposition.FAMILIES,
    ),
)


def rows() -> Iterator[str]:
    for title, about, families in PARTS:
        yield f"## {title}\n"
        yield f"{about}\n"
        yield "| metric | type | labels | meaning |"
        yield "|---|---|---|---|"
        for each in families:
            labels = ", ".join(f"`{label}`" for label in each.labels)
            about_it = each.help
            if each.bounds:
                ends = ", ".join(f"{bound:g}" for bound in each.bounds)
                about_it += f" Buckets: {ends}."
            yield f"| `{each.name}` | {each.kind.value} | {labels} | {about_it} |"
        yield ""
