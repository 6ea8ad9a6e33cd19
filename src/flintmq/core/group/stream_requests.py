"""Pulls of consumers that decide by themselves when to pull, and what may be asked of a broker.

They bring their filter along, so brokers need not know the subscription, and commit nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.errors import InvalidSetting
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.bodies.client import TAG
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import LANGUAGE, VERSION, Command
from flintmq.protocol.headers.pull import PullFlag
from flintmq.protocol.headers.pull_template import pull_fields
from flintmq.protocol.version import SQL92_SINCE, version_name, version_number

BYTES_MAX: Final = 2**31 - 1
"""As many bytes as the broker likes; one that sees this may give more than 32 messages."""

COUNT_MAX: Final = 4_096
"""Messages asked for at once: what our own broker gives at most."""

LITE_PULL_SINCE: Final = version_number("V5_0_0")
"""Brokers from here on have a code of its own for lite pull, so that it can be forbidden."""

_PULL = int(RequestCode.PULL_MESSAGE)
_LITE_PULL = int(RequestCode.LITE_PULL_MESSAGE)
_SUSPEND = int(PullFlag.SUSPEND)
_SUBSCRIPTION = int(PullFlag.SUBSCRIPTION)
_LITE = int(PullFlag.LITE_PULL)


class StreamPull(NamedTuple):
    """One pull.  ``suspend_ms`` above 0 lets the broker wait for a message so long."""

    queue: QueueRef
    offset: QueueOffset
    subscription: TopicSubscription
    count_max: int
    suspend_ms: int = 0
    sub_version: int = 0
    bytes_max: int = BYTES_MAX


def pull_request(pull: StreamPull, group: str) -> Command:
    """11."""
    return _request(_PULL, pull, group, 0)


def lite_pull_request(pull: StreamPull, group: str, broker_version: int | None) -> Command:
    """361; 11 for a broker of 4.9 or one that did not say what it is."""
    is_new = broker_version is not None and broker_version >= LITE_PULL_SINCE
    return _request(_LITE_PULL if is_new else _PULL, pull, group, _LITE)


def check_filter(subscription: TopicSubscription, broker: str, broker_version: int | None) -> None:
    """Raise `InvalidSetting` where an old broker would give messages that nobody asked for."""
    kind = subscription.expression_type
    if kind == TAG or (broker_version is not None and broker_version >= SQL92_SINCE):
        return
    version = "unknown" if broker_version is None else version_name(broker_version)
    reason = f"the broker {broker}, version {version}, cannot filter by {kind}"
    raise InvalidSetting("sql", subscription.text, reason)


def _request(code: int, pull: StreamPull, group: str, flags: int) -> Command:
    queue, subscription = pull.queue, pull.subscription
    fields = pull_fields(
        group,
        queue.topic,
        queue.broker,
        queue.queue_id,
        count_max=pull.count_max,
        bytes_max=pull.bytes_max,
        suspend_ms=pull.suspend_ms,
        subscription=subscription.text,
        sub_version=pull.sub_version,
        expression_type=subscription.expression_type,
        offset=pull.offset,
        flags=flags | _SUBSCRIPTION | (_SUSPEND if pull.suspend_ms else 0),
        commit_offset=0,
    )
    return Command(code, 0, 0, VERSION, LANGUAGE, None, fields)
