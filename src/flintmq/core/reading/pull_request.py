"""PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361): one value and one builder for every reader.

Push and pull consumers, tools and Spark tasks differ only in the fields of the `Pull` they make.
Where a pull goes is for whoever knows the routes.

Invariant: a slave is never given an offset to commit, and no broker is asked for a filter that
it would ignore: a broker of unknown version counts as too old, as in RocketMQ's Java client.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

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

PULL_MS: Final = 10_000
"""How long a pull may take that does not wait for messages; what Java allows."""

LITE_PULL_SINCE: Final = version_number("V5_0_0")
"""The first version with LITE_PULL_MESSAGE (361), a code of its own that can be forbidden."""

_PULL: Final = int(RequestCode.PULL_MESSAGE)
_LITE_PULL: Final = int(RequestCode.LITE_PULL_MESSAGE)
_COMMIT: Final = int(PullFlag.COMMIT_OFFSET)
_SUSPEND: Final = int(PullFlag.SUSPEND)
_SUBSCRIPTION: Final = int(PullFlag.SUBSCRIPTION)
_LITE: Final = int(PullFlag.LITE_PULL)


class Filter(Protocol):
    """Which messages of a queue are wanted: an expression and its kind, TAG or SQL92."""

    @property
    def expression_type(self) -> str: ...

    @property
    def text(self) -> str: ...


class Pull(msgspec.Struct, frozen=True, eq=False):
    """One pull of one queue.

    ``broker_id`` is the replica to ask; None is the one that the last answer suggested.
    ``commit_offset`` goes along only if the master is asked; None commits nothing.
    ``suspend_ms`` above 0 lets the broker wait that long for a message.
    """

    queue: QueueRef
    offset: QueueOffset
    subscription: Filter
    count_max: int
    bytes_max: int = BYTES_MAX
    broker_id: int | None = None
    sub_version: int = 0
    commit_offset: QueueOffset | None = None
    sends_subscription: bool = True
    suspend_ms: int = 0
    timeout_ms: int = PULL_MS
    is_lite: bool = False

    @property
    def depends_on_version(self) -> bool:
        """Whether the broker's version decides if, and how, it may be asked."""
        return self.is_lite or self.subscription.expression_type != TAG


def pull_request(
    pull: Pull, group: str, *, is_slave: bool = False, broker_version: int | None = None
) -> Command:
    """PULL_MESSAGE (11); LITE_PULL_MESSAGE (361) for a lite pull of a broker that has it."""
    code, flags = _PULL, 0
    if pull.suspend_ms:
        flags |= _SUSPEND
    if pull.commit_offset is not None and not is_slave:
        flags |= _COMMIT
    if pull.sends_subscription:
        flags |= _SUBSCRIPTION
    if pull.is_lite:
        flags |= _LITE
        if broker_version is not None and broker_version >= LITE_PULL_SINCE:
            code = _LITE_PULL
    queue, subscription = pull.queue, pull.subscription
    fields = pull_fields(
        group,
        queue.topic,
        queue.broker,
        queue.queue_id,
        count_max=pull.count_max,
        bytes_max=pull.bytes_max,
        suspend_ms=pull.suspend_ms,
        subscription=subscription.text if pull.sends_subscription else None,
        sub_version=pull.sub_version,
        expression_type=subscription.expression_type,
        offset=pull.offset,
        flags=flags,
        commit_offset=pull.commit_offset or 0,
    )
    return Command(code, 0, 0, VERSION, LANGUAGE, None, fields)


def check_filter(subscription: Filter, broker: str, broker_version: int | None) -> None:
    """Raise `InvalidSetting` where the broker would ignore the filter and give every message."""
    kind = subscription.expression_type
    if kind == TAG or (broker_version is not None and broker_version >= SQL92_SINCE):
        return
    version = "unknown" if broker_version is None else version_name(broker_version)
    reason = f"the broker {broker}, version {version}, cannot filter by {kind}"
    raise InvalidSetting("sql", subscription.text, reason)
