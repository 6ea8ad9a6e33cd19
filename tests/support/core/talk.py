"""Holding a conversation by hand: what it asks for, and what it is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from flintmq.core.conversation import SENT, Call, Pause, PausingConversation
from flintmq.errors import FlintError
from flintmq.protocol.command import ANSWER_BIT, Command
from flintmq.protocol.fields import Header, write_header

T = TypeVar("T")
Reply: TypeAlias = Command | FlintError


def reply(code: int, header: Header | None = None, body: bytes = b"", remark: str = "") -> Command:
    fields = write_header(header) if header is not None else Command().fields
    return Command(
        code=code, flag=ANSWER_BIT, remark=remark or None, fields=fields, body=body, version=479
    )


@dataclass
class Talk:
    """Plays the peer: replies in order, and remembers what was asked."""

    replies: Sequence[Reply] | Callable[[Call], Reply]
    calls: list[Call] = field(default_factory=list)
    pauses: list[int] = field(default_factory=list)
    clock: HandClock | None = None
    """Moved by every pause, if it is given."""

    def hold(self, conversation: PausingConversation[T]) -> T:
        try:
            wanted = next(conversation)
            while True:
                if isinstance(wanted, Pause):
                    self.pauses.append(wanted.wait_ms)
                    if self.clock is not None:
                        self.clock.now_ms += wanted.wait_ms
                    wanted = conversation.send(SENT)
                    continue
                self.calls.append(wanted)
                answer = self._answer(wanted)
                if isinstance(answer, FlintError):
                    wanted = conversation.throw(answer)
                else:
                    wanted = conversation.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result

    def _answer(self, call: Call) -> Reply:
        if callable(self.replies):
            return self.replies(call)
        return self.replies[len(self.calls) - 1]

    @property
    def addresses(self) -> list[str]:
        return [call.address for call in self.calls]


class HandClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms
