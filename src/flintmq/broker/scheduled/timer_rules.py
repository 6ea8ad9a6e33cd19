"""When a timer message is due: what its sender asked for, and what RocketMQ makes of it.

RocketMQ delivers in steps of a second.  What it writes down, ``TIMER_OUT_MS``, is the start of
the second that ends at or after the time asked for, and it delivers when that second is over.
We write the same, so that it can take over, and deliver at the very millisecond.
"""

from __future__ import annotations

from collections.abc import Mapping

from flintmq.broker.requests.outcome import Refusal
from flintmq.broker.scheduled.append import TIMER_NAMES
from flintmq.model import properties as names
from flintmq.protocol.codes import ResponseCode

STEP_MS = 1_000

_LONG_MAX = 2**63 - 1
_DIGITS_MAX = 19


def asked_ms(properties: Mapping[str, str], now_ms: int) -> int | None:
    """When a message stored now shall be delivered; nothing when it does not say a number."""
    for name in TIMER_NAMES:
        text = properties.get(name)
        if text is None:
            continue
        number = _parse_long(text)
        if number is None:
            return None
        if name == names.TIMER_DELAY_SEC:
            return now_ms + number * 1_000
        return number if name == names.TIMER_DELIVER_MS else now_ms + number
    return None


def out_ms(due_ms: int) -> int:
    """What ``TIMER_OUT_MS`` says of a message that is due at ``due_ms``."""
    return (due_ms - 1) // STEP_MS * STEP_MS


def noted_ms(properties: Mapping[str, str]) -> int | None:
    """The ``TIMER_OUT_MS`` of a stored message, or nothing when it has none that makes sense."""
    return _parse_long(properties.get(names.TIMER_OUT_MS, ""))


def due_ms(properties: Mapping[str, str], noted: int, store_ms: int) -> int:
    """When a stored message is due, within the second that follows ``noted``.

    Which millisecond it is, the sender's own wish tells; a message that RocketMQ has stored
    once more on its way does not say it, and the end of the second is safe.
    """
    asked = asked_ms(properties, store_ms)
    return asked if asked is not None and noted < asked <= noted + STEP_MS else noted + STEP_MS


def cancel_key(properties: Mapping[str, str]) -> str:
    """How a message that cancels another one names it."""
    return f"{properties.get(names.REAL_TOPIC)}+{properties.get(names.UNIQ_KEY)}"


def _parse_long(text: str) -> int | None:
    """A number as Java's ``Long.parseLong`` takes it."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits.lstrip("0")) > _DIGITS_MAX:
        return None
    number = int(text)
    return number if -_LONG_MAX - 1 <= number <= _LONG_MAX else None


def too_far(delay_ms_max: int) -> Refusal:
    """What RocketMQ says of a time that no timer message may ask for."""
    return Refusal(
        ResponseCode.MESSAGE_ILLEGAL,
        "timer message illegal, the delay time should not be bigger than the max delay "
        f"{delay_ms_max}ms; or if set del msg, the delay time should be bigger than the "
        "current time",
    )
