"""What a processor may return: the only way from a request to bytes, and to the disk.

    Answer    now
    Stored    once the turn's records are written, and with sync flush once they are durable
    Hold      later: when the queue grows, or at a deadline; then the pull runs once more
    HoldPop   later: when something arrives, or at a deadline; it may be held again
    Ask       after a client or a name server was asked; its answer decides
    Steps     in a few turns: the answer is large and is computed in parts
    None      never: the request wants no answer, or RocketMQ gives none

A check that fails raises `Refusal`, which is an answer too.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias

import msgspec
from msgspec import Raw

from flintmq.broker.requests.peer import Peer
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.fields import Header
from flintmq.store.queues.selection import Selection

SUCCESS = int(ResponseCode.SUCCESS)

SMALL_ENTRIES = 256
"""Queues, topics, groups or members that an answer may list at once: some 5 ms."""

TOPICS_PER_REQUEST_MAX = 1_000
"""Topics that one request may make or name."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """Code, header, body and remark of an answer.

    A body of views is sent from where it lies.  A `Raw` header is extFields already written.
    """

    code: int = SUCCESS
    header: Header | Raw | None = None
    body: bytes | list[memoryview] = b""
    remark: str | None = None


class Stored(msgspec.Struct, frozen=True, gc=False):
    """An answer that is true only when the turn's records are in the log.

    ``stop`` is where the last of them ends; without one nobody waits for the disk.
    """

    answer: Answer
    stop: LogOffset | None


class Hold(msgspec.Struct, frozen=True, gc=False):
    """Nothing yet at ``offset``: wait for a message that is ``wanted``."""

    topic: str
    queue_id: int
    offset: QueueOffset
    until_ms: int
    wanted: Selection


class HoldPop(msgspec.Struct, frozen=True, gc=False):
    """Nothing to hand out: wait for a message of the topic, or for one that comes back.

    ``queue_id`` is -1 for any queue.  At ``wake_ms`` it runs again, whatever arrives.
    """

    topic: str
    group: str
    queue_id: int
    until_ms: int
    wanted: Selection
    wake_ms: int | None = None


class Ask(msgspec.Struct, frozen=True, gc=False):
    """Ask a client first, or a name server.  ``then`` gets what it said, None without an answer."""

    peer: Peer | None
    """None: a name server."""
    request: Command
    timeout_ms: int
    then: Callable[[Command | None], Outcome]


class Steps(msgspec.Struct, frozen=True, gc=False):
    """An answer that takes more than a few milliseconds: computed in parts, between other work.

    ``work`` yields None at least once in a millisecond of its work and returns the outcome.
    Between two steps anything may change: it copies what it walks over before its first step,
    and looks up what it names.
    """

    work: Generator[None, None, Outcome]


Outcome: TypeAlias = "Answer | Stored | Hold | HoldPop | Ask | Steps | None"


class Tell(msgspec.Struct, frozen=True, gc=False):
    """A request to a client that takes no answer.  It leaves before the answer of its cause."""

    peer: Peer
    request: Command


class Refusal(Exception):
    """A check failed: the answer is no, and this is how it reads."""

    def __init__(self, code: int, remark: str, header: Header | None = None) -> None:
        super().__init__(code, remark)
        self.code = code
        self.remark = remark
        self.header = header

    @property
    def answer(self) -> Answer:
        return Answer(self.code, self.header, b"", self.remark)


Work: TypeAlias = Generator[None, None, Outcome]


def answered(work: Work, entries: int) -> Outcome:
    """The outcome of the work for an answer with about so many entries, or the work in parts."""
    if entries > SMALL_ENTRIES:
        return Steps(work)
    while True:
        try:
            next(work)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
