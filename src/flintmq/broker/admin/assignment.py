"""How groups take topics, and which queues a member pops: the requests 400, 401 and 402.

Clients that leave sharing to the broker ask QUERY_ASSIGNMENT (400) for their queues.  All brokers
of a topic share out the same ones, so the route of the name server counts, not the topic here.
An empty answer means: keep what you have.

    PULL, or none said     queues dealt out to the members, each to one
    POP, nothing shared    any queue (-1) of every broker, for everybody
    POP, n shared          a member's own queues and those of the n members after it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from flintmq.broker.requests.outcome import Answer, Ask, Outcome, Refusal
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.core.group.allocate import allocate_averagely, allocate_by_circle
from flintmq.errors import MalformedBody
from flintmq.model.group import MessageModel, is_retry_topic
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.common_bodies import ANY_QUEUE_ID, PopQueue
from flintmq.protocol.bodies.pop import (
    POP_MODE,
    PULL_MODE,
    Assignment,
    Assignments,
    QueryAssignment,
    RequestMode,
)
from flintmq.protocol.bodies.route import TopicRoute
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.command import request as new_request
from flintmq.protocol.headers.common_headers import NoFields
from flintmq.protocol.headers.route import RouteOf
from flintmq.protocol.typed_request import TypedRequest

ROUTE_MS: Final = 3_000
"""How long the broker waits for a route; clients wait three seconds for the assignment."""

STRATEGIES: Final[
    Mapping[str, Callable[[str, Sequence[QueueRef], Sequence[str]], list[QueueRef]]]
] = {"AVG": allocate_averagely, "AVG_BY_CIRCLE": allocate_by_circle}

_MODES = (PULL_MODE, POP_MODE)


def query_assignment(
    request: TypedRequest[NoFields], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """QUERY_ASSIGNMENT (400): the queues of one member, once the name server told the route."""
    asked = QueryAssignment.from_body(request.body)
    route_of = RouteOf(topic=asked.topic)

    def then(reply: Command | None) -> Outcome:
        if reply is None or reply.code != ResponseCode.SUCCESS:
            return Answer(body=Assignments().to_body())
        try:
            queues = TopicRoute.from_body(reply.body).to_route().subscribe_queues(asked.topic)
        except MalformedBody:
            return Answer(body=Assignments().to_body())
        return Answer(body=assigned(asked, state, sorted(queues, key=_order)).to_body())

    return Ask(None, new_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, route_of), ROUTE_MS, then)


def assigned(asked: QueryAssignment, state: BrokerState, queues: Sequence[QueueRef]) -> Assignments:
    """What one member gets of the queues of a topic."""
    said = state.modes.find(asked.topic, asked.consumer_group)
    if said is not None:
        mode, share = said.mode, said.pop_share_queue_num
    elif is_retry_topic(asked.topic):
        mode, share = PULL_MODE, 0
    else:
        mode, share = state.config.pop.default_mode, state.config.pop.default_share
    if asked.message_model is MessageModel.BROADCASTING or not state.config.pop.assigns_queues:
        return _as_body(queues, mode)
    group = state.clients.consumer_group(asked.consumer_group)
    members = sorted(group.client_ids) if group is not None else []
    allocate = STRATEGIES.get(asked.strategy_name)
    if not queues or not members or allocate is None:
        return Assignments()
    if mode != POP_MODE:
        return _as_body(allocate(asked.client_id, queues, members), mode)
    if share <= 0 or share >= len(members) - 1:
        any_queues = {
            PopQueue(broker_name=queue.broker, queue_id=ANY_QUEUE_ID, topic=queue.topic): None
            for queue in queues
        }
        return Assignments(
            message_queue_assignments=tuple(
                Assignment(message_queue=queue, mode=mode) for queue in any_queues
            )
        )
    return _as_body(_shared(asked.client_id, queues, members, share, allocate), mode)


def _shared(
    client_id: str,
    queues: Sequence[QueueRef],
    members: Sequence[str],
    share: int,
    allocate: Callable[[str, Sequence[QueueRef], Sequence[str]], list[QueueRef]],
) -> list[QueueRef]:
    """A member's own queues and those of the members that follow it."""
    if client_id not in members:
        return []
    index = members.index(client_id)
    if len(members) > len(queues):
        return [queues[index % len(queues)]]
    following = [members[(index + more) % len(members)] for more in range(share + 1)]
    return [queue for member in following for queue in allocate(member, queues, members)]


def change_request_mode(
    request: TypedRequest[NoFields], state: BrokerState, _peer: Peer, now_ms: int
) -> Outcome:
    """SET_MESSAGE_REQUEST_MODE (401): a group takes a topic by pull or by pop from now on."""
    mode = RequestMode.from_body(request.body)
    if is_retry_topic(mode.topic):
        raise Refusal(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    if mode.topic not in state.topics:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{mode.topic}] not exist")
    if state.groups.find_or_create(mode.consumer_group, now_ms) is None:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist"
        )
    if mode.mode not in _MODES:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"mode[{mode.mode[:40]}] is neither PULL nor POP")
    state.modes.put(mode)
    return Answer()


def request_modes(
    _request: TypedRequest[NoFields], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """GET_ALL_MESSAGE_REQUEST_MODE (402): how groups take topics, where somebody said it."""
    return Answer(body=state.modes.table().to_body())


def _as_body(queues: Sequence[QueueRef], mode: str) -> Assignments:
    return Assignments(
        message_queue_assignments=tuple(
            Assignment(
                message_queue=PopQueue(
                    broker_name=queue.broker, queue_id=queue.queue_id, topic=queue.topic
                ),
                mode=mode,
            )
            for queue in queues
        )
    )


def _order(queue: QueueRef) -> tuple[str, str, int]:
    return queue.topic, queue.broker, queue.queue_id


PROCESSORS: dict[RequestCode, Processor] = {
    RequestCode.QUERY_ASSIGNMENT: query_assignment,
    RequestCode.SET_MESSAGE_REQUEST_MODE: change_request_mode,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: request_modes,
}
