"""Queues shared out by the broker (400), and how a group should take messages (401, 402)."""

from __future__ import annotations

from flintmq.model.group import MessageModel
from flintmq.protocol.bodies.body import Body, RequestBody
from flintmq.protocol.bodies.consuming import MessageModelField
from flintmq.protocol.bodies.queue import PopQueue
from flintmq.protocol.fields import Int32

PULL_MODE = "PULL"
POP_MODE = "POP"


class QueryAssignment(RequestBody, frozen=True, kw_only=True):
    """Request 400."""

    client_id: str
    consumer_group: str
    message_model: MessageModelField = MessageModel.CLUSTERING
    strategy_name: str = "AVG"
    topic: str


class Assignment(Body, frozen=True, kw_only=True):
    """One queue for the asking member.  With `POP_MODE` its id may be -1, any queue."""

    attachments: dict[str, str] | None = None
    message_queue: PopQueue
    mode: str = PULL_MODE


class Assignments(Body, frozen=True, kw_only=True):
    """Answer to 400.  None at all when the broker has nothing to say."""

    message_queue_assignments: tuple[Assignment, ...] | None = None


class RequestMode(RequestBody, frozen=True, kw_only=True):
    """Request 401: a group takes a topic by pull or by pop."""

    consumer_group: str
    mode: str = PULL_MODE
    pop_share_queue_num: Int32 = 0
    topic: str


class RequestModes(Body, frozen=True, kw_only=True):
    """Answer to 402: modes by topic and group."""

    message_request_mode_map: dict[str, dict[str, RequestMode]] = {}
