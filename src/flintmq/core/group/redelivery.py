"""What happens next to a message that was not consumed, in words for a log.

    redelivered in 10 s, try 2 of 17          unordered: by way of the retry topic
    its queue waits for 1000 ms, then try 2   ordered: tried again in its place
    dead letter after 17 tries
    dropped: broadcasting redelivers nothing

The delay is that of the default table of levels; a broker can have another one.
"""

from __future__ import annotations

from flintmq.core.group.listener_results import Again, Dead
from flintmq.core.group.retry_copy import FIRST_LEVEL
from flintmq.model.delay_levels import delay_text
from flintmq.model.message import ReceivedMessage

WITHOUT_END = 2**31 - 1
"""The number of retries of a group that never gives up."""


def next_try(message: ReceivedMessage, tries_max: int) -> str:
    """``try 2 of 17``; ``tries_max`` counts redeliveries, so there is one try more."""
    number = message.reconsume_times + 2
    return f"try {number}" if tries_max >= WITHOUT_END else f"try {number} of {tries_max + 1}"


def redelivery_delay(message: ReceivedMessage, delay_level: int, tries_max: int) -> str:
    """When an unordered message is redelivered, and which try that is."""
    level = delay_level if delay_level > 0 else FIRST_LEVEL + message.reconsume_times
    return f"redelivered in {delay_text(level)}, {next_try(message, tries_max)}"


def next_step(
    message: ReceivedMessage,
    outcome: Again | Dead,
    tries_max: int,
    *,
    suspend_ms: int | None = None,
    is_broadcasting: bool = False,
) -> str:
    """What follows for one message.  ``suspend_ms`` is given where it is consumed in order."""
    if is_broadcasting and (suspend_ms is None or isinstance(outcome, Dead)):
        return "dropped: broadcasting redelivers nothing"
    if isinstance(outcome, Dead) or message.reconsume_times >= tries_max:
        tries = message.reconsume_times + 1
        return f"dead letter after {tries} {'try' if tries == 1 else 'tries'}"
    if suspend_ms is not None:
        wait_ms = suspend_ms if outcome.suspend_ms is None else outcome.suspend_ms
        return f"its queue waits for {wait_ms} ms, then {next_try(message, tries_max)}"
    return redelivery_delay(message, outcome.delay_level, tries_max)
