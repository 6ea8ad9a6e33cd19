"""What the settings of a group say about settling the messages of one queue."""

from __future__ import annotations

from flintmq.core.consumer_settings import ConsumerSettings
from flintmq.core.settle_concurrent import SettleRules
from flintmq.core.subscriptions import Subscriptions
from flintmq.model.group import with_namespace


def settle_rules(
    settings: ConsumerSettings, subscriptions: Subscriptions, topic: str
) -> SettleRules:
    """``topic`` is that of the queue, as on the wire."""
    ordered = subscriptions.is_ordered(topic)

    def batch_max_of(own_topic: str) -> int:
        return subscriptions.batch_max(with_namespace(settings.namespace, own_topic))

    return SettleRules(
        batch_max=subscriptions.batch_max(topic),
        tries_max=settings.tries_max(ordered=ordered),
        retry_topic=settings.retry_topic,
        consume_timeout_ms=settings.consume_timeout_ms,
        suspend_ms=settings.suspend_ms,
        batch_max_of=batch_max_of if topic == settings.retry_topic else None,
        is_broadcasting=not settings.is_clustering,
        is_dead_lettering=settings.bad_rule == "dead_letter",
        may_copy=not subscriptions.has_ordered,
    )
