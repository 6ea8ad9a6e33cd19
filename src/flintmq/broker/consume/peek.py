"""PEEK_MESSAGE (200052), NOTIFICATION (200054) and POLLING_INFO (200055): pops without taking.

A peek reads what a pop would get, without a filter, and hands nothing out.  A notification waits
until there is something to pop.  The third counts the pops that are held.
"""

from __future__ import annotations

from msgspec.structs import replace

from flintmq.broker.consume.ack import UNSET
from flintmq.broker.consume.pop import EARLY_MS
from flintmq.broker.consume.pop_checks import (
    LATE_MS,
    NOTHING_POPPED,
    POP_COUNT_MAX,
    PopPlace,
    admit_place,
    refusal,
)
from flintmq.broker.consume.pop_reading import FROM_START, first_position
from flintmq.broker.consume.pull import HOLD_MS_MAX
from flintmq.broker.requests.outcome import SUCCESS, Answer, HoldPop, Outcome
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.model.queue import QueueOffset
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.pop import (
    AwaitAnswer,
    AwaitMessage,
    PeekMessage,
    PollingAnswer,
    PollingOf,
)
from flintmq.protocol.pop.retry_topics import retry_topic_v1, retry_topic_v2
from flintmq.protocol.typed_request import TypedRequest
from flintmq.store.queues.queue_reader import GetStatus
from flintmq.store.queues.selection import EVERYTHING


def peek(
    request: TypedRequest[PeekMessage], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """PEEK_MESSAGE (200052): what a pop would get."""
    state.timers.finish_reading(state)
    header = request.header
    if header.max_msg_nums > POP_COUNT_MAX:
        own_name = state.address.rpartition(":")[0]
        raise refusal(
            ResponseCode.INVALID_PARAMETER,
            f"the broker[{own_name}] peek message's num is greater than {POP_COUNT_MAX}",
        )
    place = PopPlace(header.topic, header.consumer_group, header.queue_id)
    admit_place(place, state, peer, now_ms)
    views: list[memoryview] = []
    rest_count, room = 0, header.max_msg_nums
    for queue in _queues(state, place):
        start = _position(state, queue)
        last = state.log.max_offset(queue.topic, queue.queue_id)
        if room <= 0 or start >= last:
            rest_count += max(0, last - start)
            continue
        result = state.log.read(queue.topic, queue.queue_id, start, room)
        if result.status is GetStatus.FOUND:
            views += result.views
            room -= result.record_count
        rest_count += max(0, result.max_offset - result.next_offset)
    fields = replace(NOTHING_POPPED, rest_num=rest_count)
    if not views:
        return Answer(ResponseCode.PULL_NOT_FOUND, fields, remark="NO_MESSAGE_IN_QUEUE")
    return Answer(SUCCESS, fields, views, "FOUND")


def notify(
    request: TypedRequest[AwaitMessage], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """NOTIFICATION (200054): answer when there is something to pop."""
    return _notify(request, state, peer, now_ms, may_hold=True)


def notify_at_last(
    request: TypedRequest[AwaitMessage], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """Answer a notification whose deadline has come."""
    return _notify(request, state, peer, now_ms, may_hold=False)


def _notify(
    request: TypedRequest[AwaitMessage],
    state: BrokerState,
    peer: Peer,
    now_ms: int,
    *,
    may_hold: bool,
) -> Outcome:
    state.timers.finish_reading(state)
    header = request.header
    place = PopPlace(header.topic, header.consumer_group, header.queue_id)
    born_ms = state.own_ms(header.born_time) if header.born_time > 0 else request.came_ms
    if now_ms - born_ms - header.poll_time > LATE_MS:
        own_name = state.address.rpartition(":")[0]
        raise refusal(
            ResponseCode.POLLING_TIMEOUT, f"the broker[{own_name}] pop message is timeout too much"
        )
    admit_place(place, state, peer, now_ms)
    has_message = any(
        _position(state, queue) < state.log.max_offset(queue.topic, queue.queue_id)
        for queue in _queues(state, place)
        if not (header.order and state.ordered.is_blocked(queue, header.attempt_id, now_ms))
    )
    if has_message or not may_hold or header.poll_time <= 0 or state.is_stopping:
        return Answer(header=AwaitAnswer(has_msg=has_message), remark=UNSET)
    until_ms = min(born_ms + header.poll_time - EARLY_MS, now_ms + HOLD_MS_MAX)
    if now_ms >= until_ms:
        return Answer(header=AwaitAnswer(has_msg=False), remark=UNSET)
    limits, held = state.config.pop, state.held_notices
    key = header.topic, header.consumer_group, header.queue_id
    if held.count_of(key) > limits.holds_per_key_max or len(held) >= limits.holds_max:
        state.refusals.count("popPollingSize")
        return Answer(header=AwaitAnswer(has_msg=False, polling_full=True), remark=UNSET)
    return HoldPop(*key, until_ms, EVERYTHING)


def polling_count(
    request: TypedRequest[PollingOf], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """POLLING_INFO (200055): how many pops of a topic, group and queue are held."""
    header = request.header
    place = PopPlace(header.topic, header.consumer_group, header.queue_id)
    admit_place(place, state, peer, now_ms)
    count = state.held_pops.count_of((place.topic, place.group, place.queue_id))
    return Answer(header=PollingAnswer(polling_num=count), remark=UNSET)


def _queues(state: BrokerState, place: PopPlace) -> list[PopPlace]:
    """The queues that a pop of this place looks at."""
    topics = [place.topic]
    topics += [name(place.group, place.topic) for name in (retry_topic_v1, retry_topic_v2)]
    places = []
    for name in topics:
        topic = state.topics.find(name)
        if topic is None:
            continue
        if name == place.topic and place.queue_id >= 0:
            places.append(place)
        else:
            places += [PopPlace(name, place.group, each) for each in range(topic.read_queue_nums)]
    return places


def _position(state: BrokerState, place: PopPlace) -> QueueOffset:
    """Where a pop of the queue would begin; nothing is changed."""
    offset = state.offsets.query(place.group, place.topic, place.queue_id)
    if offset is None:
        offset = first_position(state, place, FROM_START)
    first = state.log.min_offset(place.topic, place.queue_id)
    return QueueOffset(max(offset, first, state.in_flight.handed_out(place) or 0))


PROCESSORS: dict[RequestCode, Processor] = {
    RequestCode.PEEK_MESSAGE: peek,
    RequestCode.NOTIFICATION: notify,
    RequestCode.POLLING_INFO: polling_count,
}
