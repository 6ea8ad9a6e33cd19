"""Settings of metrics in a broker.conf, under RocketMQ's names.

Served is what Prometheus scrapes (PROM).  Exporters that send, OTLP_GRPC and LOG, are refused: a
collector that scrapes can send metrics anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

METRICS_HOST = "127.0.0.1"
METRICS_PORT = 5_557
"""RocketMQ's own."""

LABELS_MAX = 16
"""Labels that a broker.conf may add to every metric; each is written with every series."""

OWN_LABELS = frozenset(
    {
        "cluster",
        "consume_mode",
        "consumer_group",
        "invocation_status",
        "is_long_polling",
        "is_retry",
        "is_system",
        "kind",
        "language",
        "le",
        "limit",
        "message_type",
        "node_id",
        "node_type",
        "processor",
        "protocol_type",
        "request_code",
        "response_code",
        "result",
        "slave",
        "storage_medium",
        "storage_type",
        "timer_bound_s",
        "topic",
        "version",
    }
)
"""Labels that metrics of a broker have already."""

_EXPORTERS = {"PROM": True, "DISABLE": False}
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)


def read_exporter(text: str) -> bool:
    """Read metricsExporterType: whether metrics are served."""
    if text not in _EXPORTERS:
        raise ValueError("it must be PROM or DISABLE; a collector that scrapes can send them on")
    return _EXPORTERS[text]


def read_labels(text: str) -> tuple[tuple[str, str], ...]:
    """Read metricsLabel, ``name:value,name:value``."""
    labels = {}
    for part in filter(None, text.split(",")):
        name, colon, value = part.partition(":")
        if not colon or not _NAME.fullmatch(name) or name.startswith("__"):
            raise ValueError("it must be name:value,name:value")
        if name in OWN_LABELS:
            raise ValueError(f"{name} is a label that metrics have already")
        labels[name] = value
    if len(labels) > LABELS_MAX:
        raise ValueError(f"it may have {LABELS_MAX} labels at most")
    return tuple(labels.items())


def show_labels(labels: Sequence[tuple[str, str]]) -> str:
    return ",".join(f"{name}:{value}" for name, value in labels)
