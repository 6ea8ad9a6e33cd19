"""What a consuming group asks of whoever drives it, and what it tells.

Actions are imperative.  Those that have an answer are handed back with it, so that an answer
always finds the question it belongs to; one that comes too late is recognised and ignored.
`group_consumer` tells which call reports which action.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from flintmq.core.reading.pull_request import Pull
from flintmq.model.bad_record import BadRecord
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.bodies.client import ConsumerGroup

PULL_SUSPEND_MS = 15_000
"""How long a broker may keep a pull that finds nothing."""

PULL_TIMEOUT_MS = 30_000
"""How long to wait for its answer."""

MEMBERS_TIMEOUT_MS = 3_000
LOCK_TIMEOUT_MS = 1_000
SEND_BACK_TIMEOUT_MS = 5_000
"""What the Java push consumer gives a send-back."""

COPY_TIMEOUT_MS = 3_000
"""What Java's own producer, which sends the copy there, gives a message in all its tries."""

COMMIT_TIMEOUT_MS = 5_000


@dataclass(frozen=True, slots=True, eq=False)
class Heartbeat:
    """Tell every broker what the group wants; ``section`` goes into the client's heartbeat."""

    section: ConsumerGroup


@dataclass(frozen=True, slots=True, eq=False)
class AskMembers:
    """38 to any broker of the topic."""

    topic: str


@dataclass(frozen=True, slots=True, eq=False)
class AskStartOffset:
    """Where to begin: `core.start_offset`, or the local store in broadcasting."""

    queue: QueueRef


class Deliver(msgspec.Struct, eq=False):
    """Give these messages to the listener of their topic.  ``home`` is the machine's own."""

    queue: QueueRef
    messages: tuple[ReceivedMessage, ...]
    home: object
    started_ms: int | None = None

    def __repr__(self) -> str:
        first = self.messages[0].queue_offset
        return f"<Deliver {len(self.messages)} of {self.queue} from {first}>"


class SendBack(msgspec.Struct, frozen=True, eq=False):
    """36 to the master of the queue's broker.  A level of -1 means the dead letters."""

    queue: QueueRef
    message: ReceivedMessage
    delay_level: int
    tries_max: int
    reason: str
    home: object


class DeadLetterRecord(msgspec.Struct, frozen=True, eq=False):
    """36 with level -1 for a record that cannot be decoded: the broker copies its own bytes.

    ``refused`` counts how often a broker said no.
    """

    queue: QueueRef
    bad: BadRecord
    refused: int
    home: object


class SendToRetry(msgspec.Struct, frozen=True, eq=False):
    """36 failed: send it as a new message to the group's retry topic; see `core.send_back`."""

    ask: SendBack
    topic: str
    properties: dict[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class CommitOffset:
    """15, or the local file.  ``is_urgent``: wait until it is taken, and report it."""

    queue: QueueRef
    offset: QueueOffset
    is_urgent: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ConfirmOffset:
    """Make ``pull``, then tell what the store has (14): an older pull may have undone a commit.

    ``pull`` brings no offset and waits for nothing.  Brokers of RocketMQ serve pulls in the order
    they come but not in one line with commits, so once it is answered the older one was served
    before it, and what it did shows.
    """

    queue: QueueRef
    offset: QueueOffset
    pull: Pull


@dataclass(frozen=True, slots=True, eq=False)
class LockQueues:
    """41 to the master of the broker."""

    broker: str
    queues: tuple[QueueRef, ...]
    asked_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class UnlockQueues:
    """42 to the master of the broker, oneway."""

    broker: str
    queues: tuple[QueueRef, ...]


@dataclass(frozen=True, slots=True, eq=False)
class QueuesChanged:
    """Tell whoever listens: all queues of a topic, and our own."""

    topic: str
    queues: tuple[QueueRef, ...]
    own: tuple[QueueRef, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Note an event; ``level`` is one of `logging`."""

    kind: str
    subject: str
    text: str
    level: int = logging.INFO


@dataclass(frozen=True, slots=True, eq=False)
class Unregister:
    """35 to every broker: the last thing a group does."""

    group: str


Action: TypeAlias = (
    Heartbeat
    | AskMembers
    | AskStartOffset
    | Pull
    | Deliver
    | SendBack
    | SendToRetry
    | DeadLetterRecord
    | CommitOffset
    | ConfirmOffset
    | LockQueues
    | UnlockQueues
    | QueuesChanged
    | Report
    | Unregister
)
