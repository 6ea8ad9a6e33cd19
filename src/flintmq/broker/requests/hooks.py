"""Where code of the embedding program looks into the broker.

A hook is a plain function.  One that raises is logged and changes nothing, except before a
send: there a `Refusal` is the answer the producer gets.  Hooks run on the broker's loop, so
they must be quick.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from flintmq.broker.requests.outcome import Refusal
from flintmq.broker.requests.peer import Peer
from flintmq.logs import logger

log = logger(__name__)

E = TypeVar("E")


class BrokerSend(msgspec.Struct, frozen=True, gc=False):
    """A producer wants to store a message, or a batch of them."""

    peer: Peer
    producer_group: str
    topic: str
    queue_id: int
    body: bytes
    properties: dict[str, str]


class BrokerSent(msgspec.Struct, frozen=True, gc=False):
    """How a send ended: its records are written, or it was refused with ``code``.

    ``message_id`` is for a batch all ids, joined by commas; a refusal has none.
    """

    sending: BrokerSend
    code: int
    message_id: str
    count: int
    size_bytes: int


class Pulled(msgspec.Struct, frozen=True, gc=False):
    """A pull was answered; an empty poll has ``count`` 0."""

    peer: Peer
    group: str
    topic: str
    queue_id: int
    code: int
    count: int
    size_bytes: int


class SentBack(msgspec.Struct, frozen=True, gc=False):
    """A consumer gave a message back: to the retry topic or to the dead letters."""

    peer: Peer
    group: str
    topic: str
    target_topic: str
    message_id: str
    reconsume_times: int
    delay_level: int


@dataclass(slots=True)
class Hooks:
    """Functions to call, in their order."""

    before_send: list[Callable[[BrokerSend], None]] = field(default_factory=list)
    after_send: list[Callable[[BrokerSent], None]] = field(default_factory=list)
    on_pull: list[Callable[[Pulled], None]] = field(default_factory=list)
    on_send_back: list[Callable[[SentBack], None]] = field(default_factory=list)


def run_before_send(hooks: Sequence[Callable[[BrokerSend], None]], sending: BrokerSend) -> None:
    """Call hooks that may refuse a send."""
    for hook in hooks:
        try:
            hook(sending)
        except Refusal:
            raise
        except Exception:
            log.exception("the hook %r failed before a send", hook)


def run_hooks(hooks: Sequence[Callable[[E], None]], event: E) -> None:
    """Call hooks that may not change anything."""
    for hook in hooks:
        try:
            hook(event)
        except Exception:
            log.exception("the hook %r failed on %s", hook, type(event).__name__)
