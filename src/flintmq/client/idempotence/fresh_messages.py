"""A listener that gets only the fresh messages of each delivery, and answers for all of them.

    delivery ─► claim ─┬─ fresh ──────────► the listener ─► its outcomes ─► settle
                       ├─ consumed before ─────────────────────────────────► consumed
                       └─ being consumed elsewhere ────────────────────────► comes again

What a key is, where it is kept and when it is fresh is the claimer's to say.

Invariant: `settle` is called once for each claim, whatever the listener does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import wraps
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from flintmq.client.push.listeners import is_async
from flintmq.core.group.listener_results import (
    Again,
    Consumed,
    Dead,
    DeadLetter,
    Listener,
    MessageResult,
    Outcome,
    Retry,
    outcomes_of,
)
from flintmq.model.message import ReceivedMessage

K = TypeVar("K")
L = TypeVar("L", bound=Listener)

_DROPPED: Final = -1
_ELSEWHERE: Final = -2


class Sorting(Generic[K]):
    """What becomes of each message of a delivery: the place of a fresh one, or why it is not."""

    __slots__ = ("_fates", "_fresh", "_later", "_places", "keys", "owner")

    def __init__(self, later: Retry, owner: str = "") -> None:
        self.owner = owner
        """Who has claimed the fresh messages."""
        self._later = later  # for messages that are being consumed elsewhere
        self.keys: list[K | None] = []
        """The keys of the fresh messages."""
        self._fresh: list[ReceivedMessage] = []
        self._fates: list[int] = []
        self._places: dict[K, int] = {}

    def add_fresh(self, message: ReceivedMessage, key: K | None) -> None:
        if key is not None:
            self._places[key] = len(self._fresh)
        self._fates.append(len(self._fresh))
        self._fresh.append(message)
        self.keys.append(key)

    def add_repeat(self, key: K) -> bool:
        """Add one with the key of a fresh one in this delivery, whose fate it shares, if any."""
        place = self._places.get(key)
        if place is not None:
            self._fates.append(place)
        return place is not None

    def add_dropped(self) -> None:
        self._fates.append(_DROPPED)

    def add_elsewhere(self) -> None:
        self._fates.append(_ELSEWHERE)

    @property
    def fresh(self) -> tuple[ReceivedMessage, ...]:
        return tuple(self._fresh)

    def outcomes(self, result: object) -> tuple[Outcome, ...]:
        """What the result of the listener means for each fresh message."""
        count = len(self._fresh)
        return outcomes_of(result, count).outcomes or (Consumed(),) * count

    def answer(self, result: object, outcomes: Sequence[Outcome]) -> object:
        """The result for the whole delivery; raises what the listener raised."""
        is_all_fresh = len(self._fresh) == len(self._fates)
        if isinstance(result, BaseException):
            if is_all_fresh or not isinstance(result, Retry | DeadLetter):
                raise result
        elif is_all_fresh:
            return result
        return [self._result_of(fate, outcomes) for fate in self._fates]

    def _result_of(self, fate: int, outcomes: Sequence[Outcome]) -> MessageResult:
        if fate == _DROPPED:
            return None
        if fate == _ELSEWHERE:
            return self._later
        match outcomes[fate]:
            case Consumed():
                return None
            case Dead(reason):
                return DeadLetter(reason)
            case Again(delay_level, suspend_ms, reason):
                return Retry(delay_level, suspend_ms, reason)


class Claimer(Protocol[K]):
    """Who knows which messages are fresh."""

    blocks: bool
    """Whether `claim` and `settle` may wait for a disk or a server."""

    def claim(self, messages: Sequence[ReceivedMessage]) -> Sorting[K]:
        """Sort messages into fresh ones, which are the caller's now, and the others."""
        ...

    def settle(self, sorting: Sorting[K], outcomes: Sequence[Outcome]) -> None:
        """Remember what became of the fresh ones."""
        ...


def only_fresh(listener: L, claimer: Claimer[K]) -> L:
    """Wrap a listener, plain or ``async def``, so that it gets fresh messages only."""
    if is_async(listener):

        @wraps(listener)
        async def listen_async(messages: tuple[ReceivedMessage, ...]) -> object:
            sorting = await _call(claimer, claimer.claim, messages)
            result: object
            try:
                returned: Any = listener(sorting.fresh) if sorting.fresh else None
                result = await returned if sorting.fresh else None
            except BaseException as error:
                result = error
            outcomes = sorting.outcomes(result)
            await _call(claimer, claimer.settle, sorting, outcomes)
            return sorting.answer(result, outcomes)

        return cast("L", listen_async)

    @wraps(listener)
    def listen(messages: tuple[ReceivedMessage, ...]) -> object:
        sorting = claimer.claim(messages)
        result: object
        try:
            result = listener(sorting.fresh) if sorting.fresh else None
        except BaseException as error:
            result = error
        outcomes = sorting.outcomes(result)
        claimer.settle(sorting, outcomes)
        return sorting.answer(result, outcomes)

    return cast("L", listen)


async def _call(claimer: Claimer[K], act: Any, *args: object) -> Any:
    """Call a function that may block the loop on a thread of its own."""
    return await asyncio.to_thread(act, *args) if claimer.blocks else act(*args)
