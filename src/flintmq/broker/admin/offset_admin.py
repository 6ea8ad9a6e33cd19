"""Offsets of groups and delay levels, as admins copy them and slaves read them."""

from __future__ import annotations

from msgspec.structs import replace

from flintmq.broker.requests.outcome import Answer, Outcome, Work, answered
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.broker.tables.names import require, used_group_fault
from flintmq.logs import logger
from flintmq.protocol.bodies.in_parts import table_in_parts
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.common_headers import NoFields
from flintmq.protocol.headers.group import CloneGroupOffset
from flintmq.protocol.typed_request import TypedRequest

log = logger(__name__)


def clone_offsets(
    request: TypedRequest[CloneGroupOffset], state: BrokerState, peer: Peer, _now_ms: int
) -> Outcome:
    """CLONE_GROUP_OFFSET (314): copy the offsets of one group to another, in one topic or in all.

    Topics that the other group no longer subscribes to are left out, unless it is said to be
    offline.
    """
    header = request.header
    topic = (header.topic or "").strip()
    topics = [topic] if topic else state.offsets.topics_of(header.src_group)
    online = state.clients.consumer_group(header.src_group)
    if online is not None and online.subscriptions and not header.offline:
        topics = [each for each in topics if each in online.subscriptions]
    topics = [each for each in topics if each in state.topics]
    require(used_group_fault(header.dest_group))
    log.info("%s: %s stands where %s does", peer.address, header.dest_group, header.src_group)

    def work() -> Work:
        for name in topics:
            state.offsets.clone(header.src_group, header.dest_group, [name])
            yield
        return Answer()

    return answered(work(), len(topics))


def all_offsets(
    _request: TypedRequest[NoFields], state: BrokerState, _peer: Peer, now_ms: int
) -> Outcome:
    """GET_ALL_CONSUMER_OFFSET (43): every offset of every group, for a slave."""
    table = state.offsets.table(now_ms)

    def work() -> Work:
        offsets = table.offset_table
        empty = replace(table, offset_table={})
        written = table_in_parts(empty, "offsetTable", offsets.items(), part_entries=1)
        return Answer(body=(yield from written))

    return answered(work(), len(state.offsets))


def delay_offsets(
    _request: TypedRequest[NoFields], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """GET_ALL_DELAY_OFFSET (45): how far each delay level is delivered, for a slave."""
    return Answer(body=state.delays.table().to_body())


PROCESSORS: dict[RequestCode, Processor] = {
    RequestCode.CLONE_GROUP_OFFSET: clone_offsets,
    RequestCode.GET_ALL_CONSUMER_OFFSET: all_offsets,
    RequestCode.GET_ALL_DELAY_OFFSET: delay_offsets,
}
