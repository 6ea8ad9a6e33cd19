"""Many conversations on one thread: each has a question on its way before any answer is awaited.

    round: every conversation sends what it wants ──► every answer is taken ──► next round

So a broker that is slow or unreachable costs its own timeout once in a round, and the others have
been asked meanwhile.

Invariant: every conversation ends, with its result or with its error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Generic, Protocol, TypeVar

from flintmq.core.conversation import Call, Conversation
from flintmq.errors import FlintError
from flintmq.protocol.command import Command

T = TypeVar("T")

AT_ONCE: Final = 128
"""Questions on their way at once: their answers fit into the buffers of one socket."""


class StartedCall(Protocol):
    """A request that is under way."""

    def finish(self) -> Command:
        """Wait for its answer; `Unreachable` when there will be none."""


class CallLine(Protocol):
    """Connections of one thread, over which requests are sent without waiting."""

    def start(self, call: Call) -> StartedCall:
        """Send a request and do not wait."""


def hold_all(line: CallLine, conversations: Sequence[Conversation[T]]) -> list[T | FlintError]:
    """The result of each, or its error, in the order of the conversations."""
    results: list[T | FlintError] = []
    for start in range(0, len(conversations), AT_ONCE):
        held = [_Ongoing(conversation) for conversation in conversations[start : start + AT_ONCE]]
        while waiting := [one for one in held if one.call is not None]:
            for one in waiting:
                one.ask(line)
            for one in waiting:
                one.listen()
        results += [one.outcome() for one in held]
    return results


class _Ongoing(Generic[T]):
    """A conversation, and the call whose answer it waits for."""

    def __init__(self, conversation: Conversation[T]) -> None:
        self.call: Call | None = None
        self._conversation = conversation
        self._started: StartedCall | FlintError | None = None
        self._outcome: list[T | FlintError] = []
        self._go_on(None)

    def ask(self, line: CallLine) -> None:
        assert self.call is not None
        try:
            self._started = line.start(self.call)
        except FlintError as error:
            self._started = error

    def listen(self) -> None:
        started, self._started = self._started, None
        assert started is not None
        if isinstance(started, FlintError):
            self._go_on(started)
            return
        try:
            answer: Command | FlintError = started.finish()
        except FlintError as error:
            answer = error
        self._go_on(answer)

    def outcome(self) -> T | FlintError:
        return self._outcome[0]

    def _go_on(self, event: Command | FlintError | None) -> None:
        """Hand over what happened; what the conversation wants next."""
        self.call = None
        try:
            if event is None:
                self.call = next(self._conversation)
            elif isinstance(event, FlintError):
                self.call = self._conversation.throw(event)
            else:
                self.call = self._conversation.send(event)
        except StopIteration as end:
            self._outcome.append(end.value)
        except FlintError as error:
            self._outcome.append(error)
