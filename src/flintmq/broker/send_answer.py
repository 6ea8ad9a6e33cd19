"""How a send is answered: ids, places, and the two fields every answer of a send carries.

The fields of a success are put together as text: this is the hottest answer of the broker.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
from msgspec import Raw

from flintmq.broker.outcome import SUCCESS, Answer, Stored
from flintmq.broker.state import BrokerState
from flintmq.model.host import Host
from flintmq.model.message_id import offset_id_prefix
from flintmq.model.queue import LogOffset
from flintmq.protocol.headers.send import SendRefusal

KEPT_MAX = 64
"""Prefixes and endings remembered: a process has few brokers, and each has one at a time."""


class SentMessages(Stored, frozen=True, gc=False):
    """The answer to a send that took its messages, with what hooks are told."""

    message_ids: str
    count: int
    size_bytes: int


def refusal_header(state: BrokerState) -> SendRefusal:
    config = state.config
    return SendRefusal(trace_on="true" if config.trace_on else "false", region=config.region)


def message_id(host: Host, log_offset: LogOffset) -> str:
    """The offset message id of a record stored at ``host``."""
    return "%s%016X" % (_id_prefix(host.packed, host.port), log_offset)  # noqa: UP031  # faster


def message_ids(host: Host, log_offsets: list[LogOffset]) -> list[str]:
    """The same for many records."""
    prefix = _id_prefix(host.packed, host.port)
    return ["%s%016X" % (prefix, each) for each in log_offsets]  # noqa: UP031  # faster


def sent_answer(
    state: BrokerState, message_ids: str, queue_id: int, queue_offset: int, unique_id: str | None
) -> Answer:
    """The messages were taken."""
    config = state.config
    own = ""
    if unique_id is not None:
        if not (unique_id.isalnum() and unique_id.isascii()):
            unique_id = _inner_json(unique_id)
        own = f'"transactionId":"{unique_id}",'
    text = (
        f'{{"msgId":"{message_ids}","queueId":"{queue_id}","queueOffset":"{queue_offset}",'
        f"{own}{_ending(config.region, config.trace_on)}"
    )
    return Answer(SUCCESS, Raw(text))


@lru_cache(maxsize=KEPT_MAX)
def _id_prefix(packed: bytes, port: int) -> str:
    return offset_id_prefix(Host(packed, port))


@lru_cache(maxsize=KEPT_MAX)
def _ending(region: str, trace_on: bool) -> str:
    trace = "true" if trace_on else "false"
    return f'"TRACE_ON":"{trace}","MSG_REGION":"{_inner_json(region)}"}}'


def _inner_json(text: str) -> str:
    """A text as it stands between the quotes of JSON."""
    return msgspec.json.encode(text)[1:-1].decode()
