"""Code of the user that sees messages arrive and being settled: `received` and `settled`.

    broker ──messages──► received ──► listener or program ──► commit, send back ──► settled

A consume hook that has these methods is called with each pull or poll that brought messages or
failed, and with each request that tells a broker what is done: offsets that are stored, messages
that are sent back.  Both come after the fact, with the time at which it began.  A hook that raises
is logged and changes nothing.

Invariant: without such a hook nothing is made for a pull.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import time_ns
from typing import Any, Protocol, TypeAlias

from flintmq.logs import logger
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef

log = logger(__name__)

COMMIT = "commit"
SEND_BACK = "send_back"
DEAD_LETTER = "dead_letter"

Naming: TypeAlias = Callable[[str], str]
"""A topic as the user knows it."""


@dataclass(frozen=True, slots=True)
class ReceiveContext:
    """One pull or poll.  ``error`` is why it brought nothing."""

    group: str
    namespace: str
    queue: QueueRef
    messages: Sequence[ReceivedMessage]
    started_ns: int
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class SettleContext:
    """One request that settles: ``operation`` is commit, send_back or dead_letter.

    A commit has the queues whose offset is stored; the others have the message that goes back.
    """

    group: str
    namespace: str
    operation: str
    queues: Sequence[QueueRef]
    messages: Sequence[ReceivedMessage]
    started_ns: int
    error: BaseException | None = None


class ReceiveHook(Protocol):
    """What a consume hook may have besides ``before`` and ``after``, and what pull consumers take
    as ``consume_hooks``.
    """

    def received(self, context: ReceiveContext) -> None:
        """Messages arrived, or could not be had."""

    def settled(self, context: SettleContext) -> None:
        """A broker was told what is done."""


class Watch:
    """The hooks of one consumer that see messages arrive and being settled."""

    def __init__(
        self, hooks: Iterable[object], group: str, namespace: str, user_name: Naming
    ) -> None:
        self._hooks: list[Any] = [hook for hook in hooks if hasattr(hook, "received")]
        self._group = group
        self._namespace = namespace
        self._user_name = user_name

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def received(
        self,
        queue: QueueRef,
        messages: Sequence[ReceivedMessage],
        started_ns: int,
        error: BaseException | None = None,
    ) -> None:
        """Tell of a pull that brought messages or failed."""
        if not messages and error is None:
            return
        seen = self._seen(queue)
        context = ReceiveContext(self._group, self._namespace, seen, messages, started_ns, error)
        for hook in self._hooks:
            try:
                hook.received(context)
            except Exception:
                log.exception("the hook %r failed on messages of %s", hook, queue)

    @contextmanager
    def settling(
        self, operation: str, queues: Iterable[QueueRef], messages: Sequence[ReceivedMessage] = ()
    ) -> Iterator[None]:
        """Tell of what is done inside, and how it ended."""
        started_ns = time_ns()
        try:
            yield
        except BaseException as error:
            self._settled(operation, queues, messages, started_ns, error)
            raise
        self._settled(operation, queues, messages, started_ns, None)

    def _settled(
        self,
        operation: str,
        queues: Iterable[QueueRef],
        messages: Sequence[ReceivedMessage],
        started_ns: int,
        error: BaseException | None,
    ) -> None:
        seen = [*map(self._seen, queues)]
        context = SettleContext(
            self._group, self._namespace, operation, seen, messages, started_ns, error
        )
        for hook in self._hooks:
            try:
                hook.settled(context)
            except Exception:
                log.exception("the hook %r failed on %s of %s", hook, operation, self._group)

    def _seen(self, queue: QueueRef) -> QueueRef:
        return QueueRef(self._user_name(queue.topic), queue.broker, queue.queue_id)


def operation_of(*, is_given_up: bool) -> str:
    """What it is called to send a message back."""
    return DEAD_LETTER if is_given_up else SEND_BACK


def flush_all(hooks: Iterable[object]) -> None:
    """Have hooks with a ``flush`` hand on what they keep, where a process may end soon."""
    for hook in hooks:
        flush = getattr(hook, "flush", None)
        if flush is not None:
            try:
                flush()
            except Exception:
                log.exception("the hook %r could not hand on what it keeps", hook)
