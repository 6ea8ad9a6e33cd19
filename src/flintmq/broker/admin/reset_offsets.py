"""Resetting offsets of a group: at the broker, as 5.x does it, or through its clients, as 4.9 does.

At the broker no member has to be online: the offset is stored, and the next pull of the queue gets
it; a pull that is held now is answered at once.  Through the clients only members that are
connected now move.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from flintmq.broker.admin.topic_admin import NOT_SET
from flintmq.broker.requests.outcome import Answer, Ask, Outcome, Refusal, Tell, Work, answered
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.broker.tables.clients import ConnectedMember
from flintmq.errors import MalformedBody
from flintmq.logs import logger
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.bodies import client_call as reset
from flintmq.protocol.bodies.client_call import ResetOffsets
from flintmq.protocol.bodies.in_parts import table_in_parts
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.command import request as client_request
from flintmq.protocol.headers.client_call import ConsumerStatusRequest, ResetOffset
from flintmq.protocol.typed_request import TypedRequest
from flintmq.protocol.version import CLIENT_RESET_SINCE, version_name
from flintmq.store.queues.consume_queue import Bound

log = logger(__name__)

BY_TIME = -1
"""An offset that says: by the time."""

STATUS_TIMEOUT_MS = 5_000

CPP = "CPP"

SHOWN_QUEUES = 16
"""Queues whose new offsets the log shows."""

Parts: TypeAlias = Generator[None, None, bytes]


def reset_offsets(
    request: TypedRequest[ResetOffset], state: BrokerState, peer: Peer, _now_ms: int
) -> Outcome:
    """INVOKE_BROKER_TO_RESET_OFFSET (222): move the offsets of a group in one topic."""
    header = request.header
    found = state.topics.find(header.topic)
    queue_count = 0 if found is None else max(found.read_queue_nums, found.write_queue_nums)
    if state.config.server_side_reset:
        return answered(_reset_here(header, state, peer), queue_count)
    as_list = request.language == CPP
    return answered(_reset_by_clients(header, state, peer, as_list=as_list), queue_count)


def _body(header: ResetOffset, state: BrokerState, table: dict[int, int]) -> Parts:
    return table_in_parts(ResetOffsets(), "offsetTable", _queues(header, state, table))


def _queues(
    header: ResetOffset, state: BrokerState, table: dict[int, int]
) -> Iterator[tuple[QueueRef, int]]:
    broker = state.config.broker_name
    for queue_id, at in table.items():
        yield QueueRef(header.topic, broker, queue_id), at


def _shown(table: dict[int, int]) -> str:
    """Offsets by queue for the log, not all of them where they are many."""
    more = len(table) - SHOWN_QUEUES
    return f"{dict(islice(table.items(), SHOWN_QUEUES))}" + (f" and {more} more" * (more > 0))


def _reset_here(header: ResetOffset, state: BrokerState, peer: Peer) -> Work:
    topic = state.topics.find(header.topic)
    if topic is None:
        remark = f"Topic {header.topic} does not exist"
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
    if header.group not in state.groups:
        remark = f"Group {header.group} does not exist"
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    queue_id = BY_TIME if header.queue_id is None else header.queue_id
    queue_count = topic.read_queue_nums
    if queue_id >= max(queue_count, topic.write_queue_nums):
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{queue_id}] is illegal, topic:[{header.topic}] "
            f"topicConfig.readQueueNums:[{queue_count}]",
        )
    table: dict[int, int] = {}
    if queue_id < 0:
        for at in range(queue_count):
            table[at] = _at_time(state, header, at)
            yield
    elif header.offset is None or header.offset == BY_TIME:
        table = {queue_id: _at_time(state, header, queue_id)}
    else:
        table = {queue_id: _in_queue(state, header.topic, queue_id, header.offset)}
    if not table:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
    for at, offset in table.items():
        state.offsets.reset(header.group, header.topic, at, QueueOffset(offset))
        state.held.hurry(header.group, header.topic, at)
        yield
    log.info("%s: %s in %s is moved: %s", peer.address, header.group, header.topic, _shown(table))
    return Answer(body=(yield from _body(header, state, table)))


def _in_queue(state: BrokerState, topic: str, queue_id: int, offset: int) -> int:
    """The offset, if the queue has it or may have it next."""
    first, stop = state.log.min_offset(topic, queue_id), state.log.max_offset(topic, queue_id)
    if not first <= offset <= stop + 1:
        remark = f"Target offset {offset} not in consume queue range [{first}-{stop}]"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    return offset


def _at_time(state: BrokerState, header: ResetOffset, queue_id: int) -> int:
    """Where a queue is at the time asked for; its end for a negative time."""
    if header.timestamp < 0:
        return state.log.max_offset(header.topic, queue_id)
    return state.log.lookup.offset_by_time(header.topic, queue_id, header.timestamp, Bound.LOWER)


# By the clients


def _reset_by_clients(
    header: ResetOffset, state: BrokerState, peer: Peer, *, as_list: bool
) -> Work:
    topic = state.topics.find(header.topic)
    if topic is None:
        remark = (
            f"[reset-offset] reset offset failed, no topic in this broker. topic={header.topic}"
        )
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    table: dict[int, int] = {}
    for queue_id in range(topic.write_queue_nums):
        stands_at = state.offsets.query(header.group, header.topic, queue_id)
        if stands_at is None:
            remark = f"THe consumer group <{header.group}> not exist"
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
        offset = _at_time(state, header, queue_id)
        table[queue_id] = offset if header.is_force else min(offset, stands_at)
        yield
    members = _members(state, header.group)
    if not members:
        raise Refusal(
            ResponseCode.CONSUMER_NOT_ONLINE,
            f"Consumer not online, so can not reset offset, Group: {header.group} "
            f"Topic: {header.topic} Timestamp: {header.timestamp}",
        )
    for member in members:
        _require_version(member)
    body = yield from _body(header, state, table)
    header = ResetOffset(
        topic=header.topic, group=header.group, timestamp=header.timestamp, is_force=False
    )
    command = client_request(
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
        header,
        ResetOffsets(offset_table=dict(_queues(header, state, table))).to_list_body()
        if as_list
        else body,
        oneway=True,
    )
    state.outbox += (Tell(member.peer, command) for member in members)
    where = (header.group, header.topic)
    log.info(
        "%s: members of %s are asked to reset offsets in %s: %s",
        peer.address,
        *where,
        _shown(table),
    )
    return Answer(body=body, remark=NOT_SET)


def _members(state: BrokerState, group: str) -> Sequence[ConnectedMember]:
    online = state.clients.consumer_group(group)
    return () if online is None else list(online.members.values())


def _require_version(member: ConnectedMember) -> None:
    if member.version < CLIENT_RESET_SINCE:
        version = version_name(member.version)
        remark = f"the client does not support this feature. version={version}"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)


# What the clients say


def consumer_status(
    request: TypedRequest[ConsumerStatusRequest], state: BrokerState, peer: Peer, _now_ms: int
) -> Outcome:
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223): ask members of a group for offsets.

    One client is asked, or each in turn.

    One that says nothing, or nothing that can be read, is left out.
    """
    header = request.header
    members = _members(state, header.group)
    if not members:
        remark = f"No Any Consumer online in the consumer group: [{header.group}]"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    members = [member for member in members if peer.may_ask(member.account)]
    if not members:
        remark = f"all clients of {header.group} belong to another account, ask as an admin"
        raise Refusal(ResponseCode.NO_PERMISSION, remark)
    for member in members:
        _require_version(member)
    wanted = (header.client_addr or "").strip()
    asked = [member for member in members if not wanted or member.client_id == wanted]
    question = client_request(
        RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
        ConsumerStatusRequest(topic=header.topic, group=header.group),
    )
    return _ask_next(asked, question, {})


def _ask_next(
    members: Sequence[ConnectedMember], question: Command, heard: dict[str, dict[QueueRef, int]]
) -> Outcome:
    if not members:
        return Answer(
            body=reset.ConsumerStatusTable(consumer_table=heard).to_body(), remark=NOT_SET
        )
    member = members[0]

    def then(reply: Command | None) -> Outcome:
        if reply is not None and reply.code == ResponseCode.SUCCESS and reply.body:
            try:
                said = reset.ConsumerStatusTable.from_body(reply.body)
                heard[member.client_id] = said.message_queue_table
            except MalformedBody as error:
                log.warning("%s: its status cannot be read: %s", member.peer.address, error)
        return _ask_next(members[1:], question, heard)

    return Ask(member.peer, question, STATUS_TIMEOUT_MS, then)


PROCESSORS: dict[RequestCode, Processor] = {
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: reset_offsets,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: consumer_status,
}
