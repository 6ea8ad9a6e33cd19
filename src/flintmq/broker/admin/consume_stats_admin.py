"""Progress of groups: their lag, what is in flight, and the age of what they have yet to read.

A group's offset passes what it popped, so messages in flight are no lag.  They are counted on top
of the pulled offset: what a tool shows as in flight is then what was pulled and not committed, and
what was popped and not acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from flintmq.broker.requests.outcome import (
    TOPICS_PER_REQUEST_MAX,
    Answer,
    Outcome,
    Refusal,
    Work,
    answered,
)
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.broker.tables.broker_stats import GROUP_GET_NUMS
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.bodies.in_parts import (
    LIST,
    Room,
    entry,
    filled,
    list_in_parts,
    table_in_parts,
)
from flintmq.protocol.bodies.offset import ConsumeTimeSpans, CorrectionOffsets, QueueTimeSpan
from flintmq.protocol.bodies.stats import ConsumeStats, ConsumeStatsList, QueueProgress
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.common_headers import BrokerConsumeStats, OfGroupAndTopic
from flintmq.protocol.headers.group import ConsumeStatsOf, CorrectionOffset
from flintmq.protocol.pop.retry_topics import topic_behind
from flintmq.protocol.typed_request import TypedRequest

TOPIC_SEPARATOR = ";"
GROUP_SEPARATOR = ","

UNKNOWN_MS = -1
"""The time of a message that is not there."""

NO_CORRECTION = 2**63 - 1
"""What 308 answers for a queue in which the compared group is behind all others."""


def group_progress(
    request: TypedRequest[ConsumeStatsOf], state: BrokerState, _peer: Peer, now_ms: int
) -> Outcome:
    """GET_CONSUME_STATS (208): the lag of a group in some topics, one, or all it has offsets in."""
    header = request.header
    group = header.consumer_group
    named = [topic for topic in (header.topic_list or "").split(TOPIC_SEPARATOR) if topic]
    if len(named) > TOPICS_PER_REQUEST_MAX:
        remark = f"a request names {TOPICS_PER_REQUEST_MAX} topics at most, not {len(named)}"
        raise Refusal(ResponseCode.INVALID_PARAMETER, remark)
    topics: Iterable[str] = named
    if not named:
        topic = (header.topic or "").strip()
        topics = _still_wanted(state, group, [topic] if topic else state.offsets.topics_of(group))
    known = [each for name in dict.fromkeys(topics) if (each := state.topics.find(name))]

    def work() -> Work:
        per_second = 0.0
        for each in known:
            key = f"{each.topic_name}@{group}"
            per_second += state.stats.per_second(GROUP_GET_NUMS, key, now_ms)
        table = chain.from_iterable(
            _progress(state, group, each.topic_name, each.read_queue_nums, now_ms) for each in known
        )
        empty = ConsumeStats(consume_tps=per_second)
        return Answer(body=(yield from table_in_parts(empty, "offsetTable", table)))

    return answered(work(), sum(each.read_queue_nums for each in known))


def all_progress(
    request: TypedRequest[BrokerConsumeStats], state: BrokerState, _peer: Peer, now_ms: int
) -> Outcome:
    """GET_BROKER_CONSUME_STATS (317): the lag of every group, in ordered topics only or in all."""
    return answered(_all_progress(state, bool(request.header.is_order), now_ms), len(state.offsets))


def _all_progress(state: BrokerState, only_ordered: bool, now_ms: int) -> Work:
    listed = Room()
    lag = in_flight = 0
    for config in list(state.groups):
        group = config.group_name
        stats = []
        for topic in _still_wanted(state, group, state.offsets.topics_of(group)):
            found = state.topics.find(topic)
            if found is None or (only_ordered and not found.order):
                continue
            behind = Behind(_progress(state, group, topic, found.write_queue_nums, now_ms))
            per_second = state.stats.per_second(GROUP_GET_NUMS, f"{topic}@{group}", now_ms)
            empty = ConsumeStats(consume_tps=per_second)
            stats.append((yield from table_in_parts(empty, "offsetTable", behind)))
            lag += behind.lag
            in_flight += behind.in_flight
        listed.add(b"{%b}" % entry(group, LIST, stats))
        yield
    body = ConsumeStatsList(
        broker_addr=state.address, total_diff=lag, total_inflight_diff=in_flight
    )
    return Answer(body=filled(body.to_body(), "consumeStatsList", LIST, listed.kept))


class Behind:
    """Progress in queues, which adds itself up as it is taken."""

    def __init__(self, progress: Iterable[tuple[QueueRef, QueueProgress]]) -> None:
        self._progress = progress
        self.lag = 0
        self.in_flight = 0

    def __iter__(self) -> Iterator[tuple[QueueRef, QueueProgress]]:
        for queue, at in self._progress:
            self.lag += at.lag
            self.in_flight += (at.pull_offset or 0) - at.consumer_offset
            yield queue, at


def _still_wanted(state: BrokerState, group: str, topics: Iterable[str]) -> list[str]:
    """Those a group that is online subscribes to; all of them when it is not.

    The retry topics of pops belong to what they come from: nobody subscribes to them.
    """
    online = state.clients.consumer_group(group)
    if online is None or not online.subscriptions:
        return list(topics)
    wanted = online.subscriptions
    return [each for each in topics if each in wanted or topic_behind(each, group) in wanted]


def _progress(
    state: BrokerState, group: str, topic: str, queue_count: int, now_ms: int
) -> Iterator[tuple[QueueRef, QueueProgress]]:
    for queue_id in range(queue_count):
        offset = state.offsets.query(group, topic, queue_id) or QueueOffset(0)
        pulled = state.offsets.pulled(group, topic, queue_id)
        place = topic, group, queue_id
        popped = state.in_flight.count_of(place) + state.ordered.hidden_count(place, now_ms)
        last_ms = None
        if offset:
            last_ms = state.log.lookup.store_ms(topic, queue_id, QueueOffset(offset - 1))
        progress = QueueProgress(
            broker_offset=state.log.max_offset(topic, queue_id),
            consumer_offset=offset,
            last_timestamp=last_ms or 0,
            pull_offset=max(offset, pulled or 0) + popped,
        )
        yield QueueRef(topic, state.config.broker_name, queue_id), progress


def time_spans(
    request: TypedRequest[OfGroupAndTopic], state: BrokerState, _peer: Peer, now_ms: int
) -> Outcome:
    """QUERY_CONSUME_TIME_SPAN (303): store times of the first, last and last consumed message."""
    group, name = request.header.group, request.header.topic
    topic = state.topics.find(name)
    if topic is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
    queue_count = topic.write_queue_nums

    def work() -> Work:
        spans = (_time_span(state, group, name, at, now_ms) for at in range(queue_count))
        written = list_in_parts(ConsumeTimeSpans(), "consumeTimeSpanSet", spans)
        return Answer(body=(yield from written))

    return answered(work(), queue_count)


def _time_span(
    state: BrokerState, group: str, topic: str, queue_id: int, now_ms: int
) -> QueueTimeSpan:
    first, stop = state.log.min_offset(topic, queue_id), state.log.max_offset(topic, queue_id)
    offset = state.offsets.query(group, topic, queue_id) or QueueOffset(0)
    first_ms = _store_ms(state, topic, queue_id, first)
    consumed_ms = _store_ms(state, topic, queue_id, offset - 1) if offset else first_ms
    delay_ms = 0
    if offset < stop:
        next_ms = _store_ms(state, topic, queue_id, max(offset, first))
        delay_ms = now_ms - next_ms if next_ms != UNKNOWN_MS else 0
    return QueueTimeSpan.of(
        QueueRef(topic, state.config.broker_name, queue_id),
        min_ms=first_ms,
        max_ms=_store_ms(state, topic, queue_id, stop - 1),
        consumed_ms=consumed_ms,
        delay_ms=delay_ms,
    )


def _store_ms(state: BrokerState, topic: str, queue_id: int, offset: int) -> int:
    if offset < 0:
        return UNKNOWN_MS
    found = state.log.lookup.store_ms(topic, queue_id, QueueOffset(offset))
    return UNKNOWN_MS if found is None else found


def correction_offsets(
    request: TypedRequest[CorrectionOffset], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """QUERY_CORRECTION_OFFSET (308): by queue the lowest offset of all groups of a topic.

    Groups to leave out are only left out here; RocketMQ forgets their offsets for good.
    """
    header = request.header
    left_out = set((header.filter_groups or "").split(GROUP_SEPARATOR))
    groups = [each for each in state.offsets.groups_of(header.topic) if each not in left_out]
    work = _correction(state, header.topic, groups, header.compare_group)
    return answered(work, sum(len(state.offsets.queues(each, header.topic)) for each in groups))


def _correction(state: BrokerState, topic: str, groups: Sequence[str], compared: str) -> Work:
    least: dict[int, int] = {}
    for group in groups:
        for queue_id, offset in state.offsets.queues(group, topic).items():
            if offset >= state.log.min_offset(topic, queue_id):
                least[queue_id] = min(offset, least.get(queue_id, offset))
            yield
    for queue_id, offset in state.offsets.queues(compared, topic).items():
        if queue_id in least and least[queue_id] > offset:
            least[queue_id] = NO_CORRECTION
    return Answer(body=CorrectionOffsets(correction_offsets=least).to_body())


PROCESSORS: dict[RequestCode, Processor] = {
    RequestCode.GET_CONSUME_STATS: group_progress,
    RequestCode.GET_BROKER_CONSUME_STATS: all_progress,
    RequestCode.QUERY_CONSUME_TIME_SPAN: time_spans,
    RequestCode.QUERY_CORRECTION_OFFSET: correction_offsets,
}
