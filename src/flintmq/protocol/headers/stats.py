"""Figures an admin asks a broker for."""

from __future__ import annotations

from flintmq.protocol.fields import Header


class ViewBrokerStats(Header, frozen=True, kw_only=True):
    """315 VIEW_BROKER_STATS_DATA."""

    stats_name: str
    stats_key: str


class BrokerConsumeStats(Header, frozen=True, kw_only=True):
    """317 GET_BROKER_CONSUME_STATS; of orderly groups only, or of the others only."""

    is_order: bool
