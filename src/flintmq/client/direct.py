"""One message given to a listener by hand (309), and what is said of how it went.

The message is shown to the listener as if it came from its queue.  No offset changes and nothing
is sent back, whatever the listener says.
"""

from __future__ import annotations

import traceback
from typing import Final

from flintmq.client.delivery import Delivery
from flintmq.core.results import ReturnKind, outcomes_of
from flintmq.model import properties as names
from flintmq.model.group import is_retry_topic, without_namespace
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.direct import DirectOutcome, DirectResult

REMARK_CHARACTERS_MAX: Final = 4_096
"""Of a traceback: the end of it says what happened."""


async def consume_directly(
    delivery: Delivery, message: ReceivedMessage, namespace: str, *, ordered: bool
) -> DirectResult:
    topic = message.topic
    if is_retry_topic(topic):
        topic = message.properties.get(names.RETRY_TOPIC) or topic
    queue = QueueRef(message.topic, message.broker, message.queue_id)
    shown = message._replace(topic=without_namespace(namespace, topic))
    result, spent_ns = await delivery.direct(shown, queue)
    return DirectResult(
        consume_result=_outcome(result),
        order=ordered,
        remark=_remark(result),
        spent_time_mills=spent_ns // 1_000_000,
    )


def _outcome(result: object) -> DirectOutcome:
    verdict = outcomes_of(result, 1)
    if verdict.outcomes is None:
        return DirectOutcome.SUCCESS
    if verdict.kind is ReturnKind.EXCEPTION:
        return DirectOutcome.THREW
    return DirectOutcome.RETURNED_NULL if verdict.fault is not None else DirectOutcome.LATER


def _remark(result: object) -> str | None:
    if not isinstance(result, BaseException):
        return None
    text = "".join(traceback.format_exception(result))
    return text[-REMARK_CHARACTERS_MAX:]
