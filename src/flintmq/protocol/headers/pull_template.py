"""The header of a pull, made from a template.

A consumer pulls a queue again and again: only the offset, the flags and what is committed differ
from one pull to the next.  The rest is written once for each queue.  What comes out is, byte for
byte, what `write_header` makes of a `PullMessage`.

Requests of consumers that pull by themselves carry a mark, as RocketMQ's do; no broker acts on it.
It stands in front of all other fields, so that nothing has to be read or written anew.

Invariant: at most `TEMPLATES_MAX` templates are remembered.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from flintmq.errors import LocalProtocolError
from flintmq.protocol.command import Command
from flintmq.protocol.fields import header_fields
from flintmq.protocol.headers.pull import PullMessage

TEMPLATES_MAX: Final = 4_096
"""Queues that are pulled in turn; of more, some are written anew each time."""

_MARK: Final = b'{"ReqT":"0"'
_text = msgspec.json.Encoder().encode
_SLOTS = frozenset({"queueOffset", "sysFlag", "commitOffset"})
"""The fields that differ, in the order in which they are filled in."""


def pull_fields(
    group: str,
    topic: str,
    broker: str,
    queue_id: int,
    *,
    count_max: int,
    bytes_max: int,
    suspend_ms: int,
    subscription: str | None,
    sub_version: int,
    expression_type: str,
    offset: int,
    flags: int,
    commit_offset: int,
) -> Raw:
    """The fields of one pull."""
    template = _template(
        group,
        topic,
        broker,
        queue_id,
        count_max,
        bytes_max,
        suspend_ms,
        subscription,
        sub_version,
        expression_type,
    )
    return Raw(template % (offset, flags, commit_offset))


@lru_cache(maxsize=TEMPLATES_MAX)
def _template(
    group: str,
    topic: str,
    broker: str,
    queue_id: int,
    count_max: int,
    bytes_max: int,
    suspend_ms: int,
    subscription: str | None,
    sub_version: int,
    expression_type: str,
) -> bytes:
    fixed = header_fields(
        PullMessage(
            consumer_group=group,
            topic=topic,
            queue_id=queue_id,
            queue_offset=0,
            max_msg_nums=count_max,
            sys_flag=0,
            commit_offset=0,
            suspend_timeout_millis=suspend_ms,
            subscription=subscription,
            sub_version=sub_version,
            expression_type=expression_type,
            max_msg_bytes=bytes_max,
            broker_name=broker,
        )
    )
    try:
        parts = [
            _text(name) + b":" + (b'"%d"' if name in _SLOTS else _text(value).replace(b"%", b"%%"))
            for name, value in fixed.items()
        ]
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"a header field is not valid text: {error}") from None
    return b"{" + b",".join(parts) + b"}"


def mark_stream(request: Command) -> Command:
    """The request with the mark of a consumer that pulls by itself."""
    fields = bytes(request.fields)
    rest = fields[1:].lstrip()
    if rest.startswith(b"}"):
        return replace(request, fields=Raw(_MARK + b"}"))
    return replace(request, fields=Raw(_MARK + b"," + rest))
