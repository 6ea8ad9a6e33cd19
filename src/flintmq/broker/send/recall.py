"""RECALL_MESSAGE (370): take a timer message back before its time.

A producer is given a handle with the answer to such a send.  What the request stores is a timer
message for the same second that cancels the other (see `scheduled/timers`), so a recall survives
whatever the message survives.  As in 5.3.3, it is off unless `recallMessageEnable` says otherwise,
and a message that is not there any more is recalled without a complaint.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Final, NamedTuple

from flintmq.broker.requests.outcome import Answer, Outcome, Refusal, Stored
from flintmq.broker.requests.peer import Peer
from flintmq.broker.scheduled.append import NewMessage
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.broker.state.put_message import put_message
from flintmq.model import properties as names
from flintmq.model.group import is_retry_topic
from flintmq.model.queue import LogOffset
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.pop import RecallAnswer, RecallMessage
from flintmq.protocol.typed_request import TypedRequest

VERSION: Final = "v1"
SEPARATOR: Final = " "
RECALL_TAG: Final = "_RECALL_TAG_"
RECALL_BODY: Final = b"0"
"""Nobody reads it, and a message must have one."""

_BREAKS: Final = re.compile("[\x00-\x1f]")
"""What would end a property."""


class RecallHandle(NamedTuple):
    """Which message is meant: URL-safe Base64 of a version and these four."""

    topic: str
    broker: str
    time_ms: str
    """A time in the second of the message."""
    unique_id: str

    @classmethod
    def parse(cls, text: str) -> RecallHandle:
        """Raises `Refusal`."""
        try:
            octets = urlsafe_b64decode(text + "=" * (-len(text) % 4))
            fields = octets.decode().split(SEPARATOR)
        except ValueError:
            fields = []
        if len(fields) < 5 or fields[0] != VERSION or _BREAKS.search(fields[4]):
            raise refused("recall handle is invalid", named=False)
        return cls(*fields[1:5])

    @property
    def text(self) -> str:
        return urlsafe_b64encode(SEPARATOR.join((VERSION, *self)).encode()).decode()


def handle_of(state: BrokerState, properties: Mapping[str, str]) -> str | None:
    """The handle of a message that was stored, if it waits for a time."""
    time_ms, topic = properties.get(names.TIMER_OUT_MS), properties.get(names.REAL_TOPIC)
    if time_ms is None or topic is None or is_retry_topic(topic):
        return None
    name = state.config.broker_name
    return RecallHandle(topic, name, str(int(time_ms) + 1), properties[names.UNIQ_KEY]).text


def recall_message(
    request: TypedRequest[RecallMessage], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """RECALL_MESSAGE (370): store what cancels a timer message."""
    header, config = request.header, state.config
    if not config.recalls:
        raise refused("operation is forbidden", ResponseCode.NO_PERMISSION)
    if not config.is_writable or now_ms < config.accept_sends_from_ms:
        raise refused("broker service not available", ResponseCode.SERVICE_NOT_AVAILABLE)
    if state.topics.find(header.topic) is None:
        raise refused(f"the topic[{header.topic}] not exist", ResponseCode.TOPIC_NOT_EXIST)
    handle = RecallHandle.parse(header.recall_handle)
    if handle.topic != header.topic:
        raise refused("topic not match")
    if handle.broker != config.broker_name:
        raise refused("broker service not available")
    left_ms = int(handle.time_ms) - now_ms if _is_number(handle.time_ms) else 0
    if not 0 < left_ms < config.timer_delay_ms_max:
        raise refused("timestamp invalid")
    cancelling = NewMessage(
        handle.topic, 0, RECALL_BODY, _properties(header, handle, now_ms), now_ms, peer.host,
        state.host,
    )  # fmt: skip
    appended = put_message(state, cancelling, now_ms)
    answer = Answer(header=RecallAnswer(msg_id=handle.unique_id))
    return Stored(answer, LogOffset(appended.log_offset + appended.size_bytes))


def _properties(header: RecallMessage, handle: RecallHandle, now_ms: int) -> dict[str, str]:
    group = header.producer_group
    named = {} if group is None or _BREAKS.search(group) else {names.PRODUCER_GROUP: group}
    return {
        names.TAGS: RECALL_TAG,
        names.TIMER_DEL_UNIQKEY: f"{handle.topic}+{handle.unique_id}",
        names.UNIQ_KEY: handle.unique_id,
        names.TIMER_DELIVER_MS: handle.time_ms,
        names.BORN_TIMESTAMP: str(now_ms),
        names.TRACE_CONTEXT: "",
        **named,
    }


def refused(
    why: str, code: ResponseCode = ResponseCode.ILLEGAL_OPERATION, *, named: bool = True
) -> Refusal:
    return Refusal(code, f"recall failed, {why}" if named else why)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


PROCESSORS: dict[RequestCode, Processor] = {RequestCode.RECALL_MESSAGE: recall_message}
