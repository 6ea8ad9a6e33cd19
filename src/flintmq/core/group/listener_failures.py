"""Listeners that raise: what is said about each failure, and how often.

    first of its kind ──► one line and the traceback
    again             ──► one line, with a count
    too many a minute ──► nothing; the next line says how many were left out

Two failures are of one kind when the same type of exception comes from the same line of code: the
text of an exception often has the message in it.

Refused: more than `KINDS_MAX` kinds; the oldest is forgotten, and its traceback is shown again.

Invariant: at most `LINES_A_MINUTE` lines a minute for one kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from flintmq.core.group.listener_results import Consumed, DeadLetter, Retry, outcomes_of, shown
from flintmq.core.group.redelivery import next_step
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef

LINES_A_MINUTE: Final = 20
"""Enough to see which messages fail, few enough to read when all of them do."""

KINDS_MAX: Final = 100
"""More different errors than a listener has lines that fail."""

_MINUTE_MS: Final = 60_000

Kind: TypeAlias = tuple[type[BaseException], str, int]


class FailureLine(NamedTuple):
    """What to log at WARNING, and with which traceback."""

    text: str
    error: BaseException | None


class Failing(NamedTuple):
    """A call of a listener that raised, and the rules its messages are settled by."""

    group: str
    listener: object
    queue: QueueRef
    messages: tuple[ReceivedMessage, ...]
    error: BaseException
    tries_max: int
    suspend_ms: int | None = None
    """How long an ordered queue waits; None in unordered consumption."""
    is_broadcasting: bool = False


@dataclass(slots=True)
class _Seen:
    count: int = 0
    minute: int = -1
    lines: int = 0
    left_out: int = 0


class ListenerFailures:
    """The failures of the listeners of one consumer, or of one process of Spark."""

    def __init__(self) -> None:
        self._kinds: dict[Kind, _Seen] = {}

    def line(self, failing: Failing, now_ms: int) -> FailureLine | None:
        """What to log for one failed call; None when its kind has had its lines this minute."""
        seen = self._seen(failing.error)
        seen.count += 1
        minute = now_ms // _MINUTE_MS
        if minute != seen.minute:
            seen.minute, seen.lines = minute, 0
        if seen.lines == LINES_A_MINUTE:
            seen.left_out += 1
            return None
        seen.lines += 1
        text = failure_text(failing)
        if seen.count == 1:
            return FailureLine(text, failing.error)
        more = f"; {seen.left_out} more like it were not logged" if seen.left_out else ""
        seen.left_out = 0
        return FailureLine(f"{text} (this error {seen.count} times by now{more})", None)

    def _seen(self, error: BaseException) -> _Seen:
        kind = failure_kind(error)
        seen = self._kinds.get(kind)
        if seen is None:
            if len(self._kinds) == KINDS_MAX:
                del self._kinds[next(iter(self._kinds))]
            seen = self._kinds[kind] = _Seen()
        return seen


def is_failure(result: object) -> bool:
    """Whether a listener raised, and did not ask for what follows by `Retry` or `DeadLetter`."""
    return isinstance(result, BaseException) and not isinstance(result, Retry | DeadLetter)


def failure_kind(error: BaseException) -> Kind:
    """The type of an exception and the line of code that raised it."""
    trace = error.__traceback__
    if trace is None:
        return type(error), "", 0
    while trace.tb_next is not None:
        trace = trace.tb_next
    return type(error), trace.tb_frame.f_code.co_filename, trace.tb_lineno


def failure_text(failing: Failing) -> str:
    """What is logged of a failure: listener, error, message, and what happens to it next."""
    first, count = failing.messages[0], len(failing.messages)
    (outcome,) = outcomes_of(failing.error, 1).outcomes or (Consumed(),)
    assert not isinstance(outcome, Consumed), "an exception consumes nothing"
    step = next_step(
        first,
        outcome,
        failing.tries_max,
        suspend_ms=failing.suspend_ms,
        is_broadcasting=failing.is_broadcasting,
    )
    others = f" and {count - 1} more of its batch" if count > 1 else ""
    return (
        f"listener {_name(failing.listener)} of group {failing.group!r} failed: "
        f"{shown(failing.error)}; topic {first.topic!r}, queue {failing.queue}, "
        f"offset {first.queue_offset}, message {first.message_id}{others}: {step}"
    )


def _name(listener: object) -> str:
    name = getattr(listener, "__qualname__", None) or type(listener).__name__
    return str(name)
