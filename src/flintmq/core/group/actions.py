"""The actions of a consumer group: what it asks of its driver, and what it reports.

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
class SendHeartbeat:
    """HEART_BEAT (34) to every broker; ``section`` goes into the heartbeat of the client."""

    section: ConsumerGroup


@dataclass(frozen=True, slots=True, eq=False)
class AskMembers:
    """GET_CONSUMER_LIST_BY_GROUP (38) to any broker of the topic."""

    topic: str


@dataclass(frozen=True, slots=True, eq=False)
class AskAssignment(AskMembers):
    """QUERY_ASSIGNMENT (400) to any broker of the topic: the broker shares out."""


@dataclass(frozen=True, slots=True, eq=False)
class AskStartOffset:
    """The offset to begin at: the stored one, or one by `core.group.start_offset`."""

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
    """CONSUMER_SEND_MSG_BACK (36) to the queue's master; level -1 means the dead letters."""

    queue: QueueRef
    message: ReceivedMessage
    delay_level: int
    tries_max: int
    reason: str
    home: object
    is_overdue: bool = False
    """Whether its listener still runs, for longer than it may."""


class DeadLetterRecord(msgspec.Struct, frozen=True, eq=False):
    """CONSUMER_SEND_MSG_BACK (36) with level -1, for a record that cannot be decoded.

    The broker copies its own bytes.  ``refused`` counts its refusals.
    """

    queue: QueueRef
    bad: BadRecord
    refused: int
    home: object


class SendToRetry(msgspec.Struct, frozen=True, eq=False):
    """``ask`` failed: send the message anew to the retry topic; see `core.group.retry_copy`."""

    ask: SendBack
    topic: str
    properties: dict[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class CommitOffset:
    """UPDATE_CONSUMER_OFFSET (15), or the local file; ``is_urgent``: wait for it, and report it."""

    queue: QueueRef
    offset: QueueOffset
    is_urgent: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ConfirmOffset:
    """Make ``pull``, then report the stored offset: an older pull may have undone a commit.

    ``pull`` brings no offset and waits for nothing.  Brokers of RocketMQ serve pulls in the order
    they come but not in one line with commits, so once it is answered the older one was served
    before it, and what it did shows.
    """

    queue: QueueRef
    offset: QueueOffset
    pull: Pull


@dataclass(frozen=True, slots=True, eq=False)
class LockQueues:
    """LOCK_BATCH_MQ (41) to the master of the broker."""

    broker: str
    queues: tuple[QueueRef, ...]
    asked_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class UnlockQueues:
    """UNLOCK_BATCH_MQ (42) to the master of the broker, oneway."""

    broker: str
    queues: tuple[QueueRef, ...]


@dataclass(frozen=True, slots=True, eq=False)
class QueuesChanged:
    """Call the listener on queues: all queues of a topic, and our own."""

    topic: str
    queues: tuple[QueueRef, ...]
    own: tuple[QueueRef, ...]


@dataclass(frozen=True, slots=True)
class ReportEvent:
    """Add an event to the log of the client; ``level`` is one of `logging`."""

    kind: str
    subject: str
    text: str
    level: int = logging.INFO


@dataclass(frozen=True, slots=True, eq=False)
class Unregister:
    """UNREGISTER_CLIENT (35) to every broker: the last action of a group."""

    group: str


Action: TypeAlias = (
    SendHeartbeat
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
    | ReportEvent
    | Unregister
)
