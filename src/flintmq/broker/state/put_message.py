"""Storing a message of a peer: now, or by way of a schedule.

A delay level or a timer turns a message into one of a system topic, with its own topic and
queue kept as properties; everything else goes where it says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from flintmq.broker.requests.outcome import Refusal
from flintmq.broker.scheduled.append import TIMER_NAMES, NewMessage, append
from flintmq.broker.state.broker_state import BrokerState
from flintmq.model import properties as names
from flintmq.model.sys_flag import TRANSACTION_MASK, TransactionType
from flintmq.model.topic import SCHEDULE_TOPIC
from flintmq.protocol.codes import ResponseCode
from flintmq.store.message_log import Appended

JAVA_INT = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)

_DELAYABLE = frozenset({int(TransactionType.NONE), int(TransactionType.COMMIT)})


def put_message(state: BrokerState, message: NewMessage, now_ms: int) -> Appended:
    """Append a message, delayed if it asks for that.  Raises `Refusal` for what is illegal."""
    level = 0
    if message.sys_flag & TRANSACTION_MASK in _DELAYABLE:
        level = wanted_level(message.properties)
        if level > 0:
            level = _delay(state, message, level)
        elif state.timers.takes(message):
            state.timers.schedule(state, message, now_ms)
    return append(state, message, now_ms, delay_level=max(level, 0))


def wanted_level(properties: Mapping[str, str]) -> int:
    """The delay level a message asks for; 0 and below mean none."""
    text = properties.get(names.DELAY)
    if text is None:
        return 0
    if not JAVA_INT.fullmatch(text) or not -(2**31) <= int(text) < 2**31:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR, f'NumberFormatException: For input string: "{text}"'
        )
    return int(text)


def _delay(state: BrokerState, message: NewMessage, level: int) -> int:
    """Make it a message of the schedule topic; return its level, which may be lower."""
    properties = message.properties
    level = min(level, len(state.config.store.delay_levels_ms))
    for name in TIMER_NAMES:
        properties.pop(name, None)
    properties[names.DELAY] = str(level)
    properties[names.REAL_TOPIC] = message.topic
    properties[names.REAL_QUEUE_ID] = str(message.queue_id)
    message.topic = SCHEDULE_TOPIC
    message.queue_id = level - 1
    state.delays.note_new()
    return level
