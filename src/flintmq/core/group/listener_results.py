"""What a listener can say about the messages it was given, and what that means for each.

    None                     all consumed
    Ack(up_to=n)             consumed up to index n; those after it are redelivered
    Retry(delay_level=n)     all are redelivered; returned or raised
    DeadLetter(reason)       none is redelivered, they go to the dead letters; returned or raised
    [None, Retry(), …]       one of these for each message
    any other exception      all are redelivered
    any other value          all are redelivered, and `InvalidResult` names it

Invariant: a verdict has an outcome for every message, or says that all are consumed; nothing a
listener returns can make a message count as consumed by accident.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from flintmq.errors import InvalidResult
from flintmq.model.message import ReceivedMessage

DEAD_LETTER_LEVEL: Final = -1
"""The delay level that means the dead letter queue."""

BROKER_CHOOSES: Final = 0
"""The delay level that leaves it to the broker: longer with every try."""

DELAY_LEVEL_MAX: Final = 1_000
"""RocketMQ has 18 levels by default, and a level above its last is its last."""

SHOWN_CHARACTERS_MAX: Final = 200
"""How much of a value or an exception is repeated in a report."""


@dataclass(frozen=True, slots=True)
class Ack:
    """Consumed up to this index and including it; ``Ack()`` is all of them."""

    up_to: int | None = None


class Retry(Exception):
    """Deliver the message again later.

    ``delay_level`` is 0 where the broker chooses the delay, -1 for the dead letters, else a level
    of the broker's table.  ``suspend_ms`` is for ordered consumption, where nothing is sent back:
    the queue rests that long and then goes on with the same message.
    """

    def __init__(
        self, delay_level: int = BROKER_CHOOSES, suspend_ms: int | None = None, reason: str = ""
    ) -> None:
        if not DEAD_LETTER_LEVEL <= delay_level <= DELAY_LEVEL_MAX:
            bounds = f"{DEAD_LETTER_LEVEL} to {DELAY_LEVEL_MAX}"
            raise InvalidResult(f"delay_level={delay_level}", f"a delay level is one of {bounds}")
        super().__init__(delay_level, suspend_ms, reason)
        self.delay_level = delay_level
        self.suspend_ms = suspend_ms
        self.reason = reason


class DeadLetter(Exception):
    """Never deliver it again: the message goes to the group's dead letters."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


MessageResult: TypeAlias = Ack | Retry | DeadLetter | None
"""What a listener may return for each message.  The exceptions may be raised as well."""

ListenerResult: TypeAlias = MessageResult | Sequence[MessageResult]
"""What a listener may return: one result for all of its messages, or a list with one for each."""

Listener: TypeAlias = Callable[
    [tuple[ReceivedMessage, ...]], ListenerResult | Awaitable[ListenerResult]
]
"""A function or a coroutine function that is given some messages."""


class ReturnKind(StrEnum):
    """How a listener ended, in the words hooks and traces of RocketMQ use."""

    SUCCESS = "SUCCESS"
    TIME_OUT = "TIME_OUT"
    EXCEPTION = "EXCEPTION"
    NULL = "RETURNNULL"
    """It returned something that means nothing; with us None means consumed."""
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Consumed:
    """The message is consumed."""


@dataclass(frozen=True, slots=True)
class Again:
    """Deliver it again, after a delay."""

    delay_level: int = BROKER_CHOOSES
    suspend_ms: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Dead:
    """The message becomes a dead letter."""

    reason: str = ""


Outcome: TypeAlias = Consumed | Again | Dead

CONSUMED: Final = Consumed()


class Verdict(NamedTuple):
    """What becomes of a batch.  ``outcomes`` is None when all of it is consumed."""

    outcomes: tuple[Outcome, ...] | None
    kind: ReturnKind
    fault: InvalidResult | None = None

    @property
    def consumed_count(self) -> int | None:
        """How many are consumed; None stands for all."""
        if self.outcomes is None:
            return None
        return sum(isinstance(outcome, Consumed) for outcome in self.outcomes)


ALL_CONSUMED: Final = Verdict(None, ReturnKind.SUCCESS)


def outcomes_of(result: object, count: int) -> Verdict:
    """Read what a listener returned, or the exception it raised, for ``count`` messages."""
    if result is None:
        return ALL_CONSUMED
    try:
        if isinstance(result, Retry | DeadLetter):
            return Verdict((_outcome(result),) * count, ReturnKind.FAILED)
        if isinstance(result, BaseException):
            return Verdict((Again(reason=shown(result)),) * count, ReturnKind.EXCEPTION)
        if isinstance(result, Ack):
            return _up_to(result, count)
        if isinstance(result, list | tuple):
            return _one_for_each(result, count)
        raise InvalidResult(shown(result), "a listener returns None, Ack, Retry or DeadLetter")
    except InvalidResult as fault:
        return Verdict((Again(reason=str(fault)),) * count, ReturnKind.NULL, fault)


def _up_to(ack: Ack, count: int) -> Verdict:
    up_to: object = ack.up_to
    if up_to is None:
        return ALL_CONSUMED
    if not isinstance(up_to, int) or isinstance(up_to, bool) or up_to < -1:
        raise InvalidResult(shown(ack), "up_to is the index of the last message consumed")
    if up_to >= count - 1:
        return ALL_CONSUMED
    done = up_to + 1
    return Verdict((CONSUMED,) * done + (Again(),) * (count - done), ReturnKind.FAILED)


def _one_for_each(results: Sequence[object], count: int) -> Verdict:
    if len(results) != count:
        raise InvalidResult(shown(results), f"{len(results)} results for {count} messages")
    outcomes = tuple(_outcome(result) for result in results)
    if all(outcome is CONSUMED for outcome in outcomes):
        return ALL_CONSUMED
    return Verdict(outcomes, ReturnKind.FAILED)


def _outcome(result: object) -> Outcome:
    if result is None or result == Ack():
        return CONSUMED
    if isinstance(result, Retry):
        if result.delay_level == DEAD_LETTER_LEVEL:
            return Dead(result.reason)
        return Again(result.delay_level, result.suspend_ms, result.reason)
    if isinstance(result, DeadLetter):
        return Dead(result.reason)
    raise InvalidResult(shown(result), "one message has None, Ack(), Retry or DeadLetter")


def shown(value: object) -> str:
    """A value for people; one whose own text cannot be made is shown by its type."""
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= SHOWN_CHARACTERS_MAX else text[: SHOWN_CHARACTERS_MAX - 1] + "…"
