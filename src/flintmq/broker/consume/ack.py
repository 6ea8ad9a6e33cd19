"""ACK_MESSAGE (200051), BATCH_ACK_MESSAGE (200151) and CHANGE_MESSAGE_INVISIBLETIME (200053).

    ack ──► in flight? ─┬─ yes ──► record in the log ──► 0   (`Stored`)
                        └─ no ───► 0: expired, acknowledged before, or another handle counts

    change ──► in flight? ─┬─ yes ──► new checkpoint, ack of the old handle ──► 0, new handle
                           └─ no ───► 0, and nothing is hidden

A handle that counts no more is answered as if it did, as in RocketMQ: clients could do nothing
about it.  RocketMQ hides a message again even when the handle has expired or was acknowledged,
and so delivers it once more; here such a change does nothing.

The ack of an ordered message moves the group's offset to the first message of the batch that is
not acknowledged.
"""

from __future__ import annotations

from typing import NamedTuple

from flintmq.broker.consume.pop_checks import PopPlace, illegal_queue
from flintmq.broker.pops.in_flight import InFlightPop
from flintmq.broker.requests.outcome import Answer, Outcome, Refusal, Stored
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.errors import DiskFailed, MalformedHeader
from flintmq.protocol.bodies.pop import BatchAck, BatchAcks
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.fields import Header
from flintmq.protocol.headers.pop import AckMessage, ChangeInvisibleTime, InvisibleTimeAnswer
from flintmq.protocol.pop.journal import PopKey
from flintmq.protocol.pop.receipts import FIELD_SEPARATOR, ORDERED_REVIVE_QUEUE
from flintmq.protocol.pop.retry_topics import marked_topic
from flintmq.protocol.typed_request import TypedRequest

UNSET = "not set any response code"
"""The remark that 5.3.3 leaves in answers without one of their own."""

_BROKER_AT = 5


class Delivery(NamedTuple):
    """What a handle says of a delivery; the rest is in the header of the request."""

    start_offset: int
    pop_ms: int
    invisible_ms: int
    revive_queue_id: int
    broker: str

    @property
    def is_ordered(self) -> bool:
        return self.revive_queue_id == ORDERED_REVIVE_QUEUE


def ack(request: TypedRequest[AckMessage], state: BrokerState, peer: Peer, now_ms: int) -> Outcome:
    """ACK_MESSAGE (200051): a message is done with."""
    state.timers.finish_reading(state)
    header = request.header
    place = _admit(header, state, peer)
    first, last = _bounds(state, place)
    if not first <= header.offset <= last:
        raise Refusal(ResponseCode.NO_MESSAGE, _illegal_offset(place, header.offset, first, last))
    delivery = _delivery(header.extra_info)
    if delivery.is_ordered:
        _ack_ordered(state, place, delivery, header.offset, peer, now_ms)
    else:
        _ack(state, place, delivery, [header.offset], now_ms)
    return Stored(Answer(), state.journal.stop)


def batch_ack(
    request: TypedRequest[Header], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """BATCH_ACK_MESSAGE (200151): messages of several pops are done with."""
    state.timers.finish_reading(state)
    if not request.body:
        return Answer(ResponseCode.NO_MESSAGE)
    acks = BatchAcks.from_body(request.body).acks
    if not acks:
        return Answer(ResponseCode.NO_MESSAGE)
    for each in acks:
        _ack_entry(each, state, peer, now_ms)
    return Stored(Answer(), state.journal.stop)


def change_invisible_time(
    request: TypedRequest[ChangeInvisibleTime], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """CHANGE_MESSAGE_INVISIBLETIME (200053): a message is hidden for longer, or less long."""
    state.timers.finish_reading(state)
    header = request.header
    place = _admit(header, state, peer)
    first, last = _bounds(state, place)
    if not first <= header.offset < last:
        raise Refusal(ResponseCode.NO_MESSAGE, UNSET)
    delivery = _delivery(header.extra_info)
    if delivery.is_ordered:
        return _change_ordered(state, place, delivery, header, now_ms)
    key = PopKey(
        place.topic, place.group, place.queue_id, delivery.start_offset, delivery.pop_ms,
        delivery.broker,
    )  # fmt: skip
    pop = state.in_flight.find(key)
    pop_ms = now_ms
    if pop is not None and pop.waits_for(header.offset):
        pop_ms = _hide_again(state, pop, header, delivery, now_ms)
    fields = InvisibleTimeAnswer(
        pop_time=pop_ms, invisible_time=header.invisible_time, revive_qid=delivery.revive_queue_id
    )
    return Stored(Answer(header=fields, remark=UNSET), state.journal.stop)


def _hide_again(
    state: BrokerState,
    old: InFlightPop,
    header: ChangeInvisibleTime,
    delivery: Delivery,
    now_ms: int,
) -> int:
    """Replace the handle of one message; when it was popped, as the new handle says."""
    key = old.key._replace(start_offset=header.offset, pop_ms=now_ms)
    if old.key.start_offset == header.offset:  # no handle of a message counts twice
        key = key._replace(pop_ms=max(now_ms, old.key.pop_ms + 1))
    while key in state.in_flight:
        key = key._replace(pop_ms=key.pop_ms + 1)
    new = state.journal.write_checkpoint(
        state,
        key,
        [header.offset],
        header.invisible_time,
        delivery.revive_queue_id,
        now_ms,
        hides=True,
    )
    state.journal.write_ack(state, old, [header.offset], now_ms)
    state.in_flight.ack(old.key, [header.offset])

    def written(failure: DiskFailed | None) -> None:
        if failure is not None:
            state.in_flight.withdraw(new)
            state.in_flight.take_back(old, [header.offset])

    state.after_write.append(written)
    return key.pop_ms


def _ack(
    state: BrokerState, place: PopPlace, delivery: Delivery, offsets: list[int], now_ms: int
) -> None:
    key = PopKey(
        place.topic, place.group, place.queue_id, delivery.start_offset, delivery.pop_ms,
        delivery.broker,
    )  # fmt: skip
    pop = state.in_flight.find(key)
    if pop is None:
        return
    known = [offset for offset in offsets if pop.waits_for(offset)]
    if not known:
        return
    state.journal.write_ack(state, pop, known, now_ms)
    state.in_flight.ack(key, known)

    def written(failure: DiskFailed | None) -> None:
        if failure is not None:
            state.in_flight.take_back(pop, known)

    state.after_write.append(written)


def _ack_entry(entry: BatchAck, state: BrokerState, peer: Peer, now_ms: int) -> None:
    """One entry of a batch; what it names and is not there is passed over."""
    try:
        topic = marked_topic(entry.retry, entry.consumer_group, entry.topic)
    except MalformedHeader:
        return
    place = PopPlace(topic, entry.consumer_group, entry.queue_id)
    first, last = _bounds(state, place)
    offsets = [offset for offset in entry.queue_offsets() if first <= offset <= last]
    delivery = Delivery(
        entry.start_offset, entry.pop_time_ms, entry.invisible_ms, entry.revive_queue_id,
        state.config.broker_name,
    )  # fmt: skip
    if not delivery.is_ordered:
        _ack(state, place, delivery, list(offsets), now_ms)
        return
    for offset in offsets:
        try:
            _ack_ordered(state, place, delivery, offset, peer, now_ms)
        except Refusal:
            continue


def _ack_ordered(
    state: BrokerState,
    place: PopPlace,
    delivery: Delivery,
    offset: int,
    peer: Peer,
    now_ms: int,
) -> None:
    topic, group, queue_id = place
    committed = state.offsets.query(group, topic, queue_id)
    if committed is not None and offset < committed:
        return
    ordered = state.ordered.find(place)
    if ordered is None:
        next_offset = offset + 1
    elif ordered.pop_time != delivery.pop_ms:
        return
    else:
        ordered = state.ordered.acked(place, ordered, offset)
        if ordered is None:
            remark = f"offset is illegal, key:{topic}@{group}@{queue_id}, commit:{offset}"
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, remark)
        next_offset = ordered.next_offset
        state.journal.write_order(state, place, ordered, next_offset, now_ms)
    if not state.offsets.has_reset(group, topic, queue_id):
        state.offsets.commit(group, topic, queue_id, next_offset, peer.address)
    if not state.ordered.is_blocked(place, None, now_ms):
        wake_ordered(state, place)


def _change_ordered(
    state: BrokerState,
    place: PopPlace,
    delivery: Delivery,
    header: ChangeInvisibleTime,
    now_ms: int,
) -> Outcome:
    topic, group, queue_id = place
    committed = state.offsets.query(group, topic, queue_id)
    if committed is not None and header.offset < committed:
        fields = InvisibleTimeAnswer(pop_time=0, invisible_time=0, revive_qid=0)
        return Answer(header=fields, remark=UNSET)
    ordered = state.ordered.find(place)
    until_ms = now_ms + header.invisible_time
    if ordered is not None and ordered.pop_time == delivery.pop_ms:
        ordered = state.ordered.hidden(place, ordered, header.offset, until_ms)
        state.journal.write_order(state, place, ordered, committed or 0, now_ms)
        if not state.ordered.is_blocked(place, None, now_ms):
            wake_ordered(state, place)
    fields = InvisibleTimeAnswer(
        pop_time=delivery.pop_ms,
        invisible_time=until_ms - delivery.pop_ms,
        revive_qid=ORDERED_REVIVE_QUEUE,
    )
    return Stored(Answer(header=fields, remark=UNSET), state.journal.stop)


def wake_ordered(state: BrokerState, place: PopPlace) -> None:
    """A queue may be read again."""
    for held in (state.held_pops, state.held_notices):
        held.freed(*place)


def _admit(header: AckMessage, state: BrokerState, peer: Peer) -> PopPlace:
    place = PopPlace(header.topic, header.consumer_group, header.queue_id)
    topic = state.topics.find(header.topic)
    if topic is None:
        remark = f"topic[{header.topic}] not exist, apply first please! "
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
    if not 0 <= header.queue_id < topic.read_queue_nums:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, illegal_queue(place, topic, peer))
    return place


def _bounds(state: BrokerState, place: PopPlace) -> tuple[int, int]:
    first = state.log.min_offset(place.topic, place.queue_id)
    return first, state.log.max_offset(place.topic, place.queue_id)


def _illegal_offset(place: PopPlace, offset: int, first: int, last: int) -> str:
    return (
        f"offset is illegal, key:{place.topic}@{place.queue_id}, commit:{offset}, "
        f"store:{first}~{last}"
    )


def _delivery(text: str) -> Delivery:
    """What the broker reads of a handle.  Raises `Refusal` for one that is too short."""
    parts = text.split(FIELD_SEPARATOR)
    if len(parts) <= _BROKER_AT:
        remark = f"IllegalArgumentException: getBrokerName fail, extraInfoStrs length {len(parts)}"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    try:
        start, pop_ms, invisible_ms, revive_queue_id = map(int, parts[:4])
    except ValueError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"NumberFormatException: {error}") from None
    return Delivery(start, pop_ms, invisible_ms, revive_queue_id, parts[_BROKER_AT])


PROCESSORS: dict[RequestCode, Processor] = {
    RequestCode.ACK_MESSAGE: ack,
    RequestCode.BATCH_ACK_MESSAGE: batch_ack,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: change_invisible_time,
}
