"""How far groups have come: their lag, the age of what they have yet to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flintmq.broker.outcome import Answer, Outcome, Refusal
from flintmq.broker.peer import Peer
from flintmq.broker.state import BrokerState
from flintmq.broker.stats import GROUP_GET_NUMS
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.bodies.offset import CorrectionOffsets
from flintmq.protocol.bodies.stats import ConsumeStats, ConsumeStatsList, QueueProgress
from flintmq.protocol.bodies.time_span import ConsumeTimeSpans, QueueTimeSpan
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.headers.common import OfGroupAndTopic
from flintmq.protocol.headers.group import ConsumeStatsOf, CorrectionOffset
from flintmq.protocol.headers.stats import BrokerConsumeStats
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
    """208: the lag of a group in the topics it names, in one topic, or in all it has offsets in."""
    header = request.header
    group = header.consumer_group
    named = [topic for topic in (header.topic_list or "").split(TOPIC_SEPARATOR) if topic]
    topics: Iterable[str] = named
    if not named:
        topic = (header.topic or "").strip()
        topics = _still_wanted(state, group, [topic] if topic else state.offsets.topics_of(group))
    table: dict[QueueRef, QueueProgress] = {}
    per_second = 0.0
    for topic in dict.fromkeys(topics):
        found = state.topics.find(topic)
        if found is not None:
            table.update(_progress(state, group, topic, found.read_queue_nums))
            per_second += state.stats.per_second(GROUP_GET_NUMS, f"{topic}@{group}", now_ms)
    return Answer(body=ConsumeStats(consume_tps=per_second, offset_table=table).to_body())


def all_progress(
    request: TypedRequest[BrokerConsumeStats], state: BrokerState, _peer: Peer, now_ms: int
) -> Outcome:
    """317: the lag of every group, in ordered topics only or in all."""
    listed = []
    lag = in_flight = 0
    topics_of: dict[str, list[str]] = {}
    for topic, group in state.offsets.places():
        topics_of.setdefault(group, []).append(topic)
    for config in state.groups:
        group = config.group_name
        stats = []
        for topic in _still_wanted(state, group, topics_of.get(group, ())):
            found = state.topics.find(topic)
            if found is None or (request.header.is_order and not found.order):
                continue
            table = dict(_progress(state, group, topic, found.write_queue_nums))
            per_second = state.stats.per_second(GROUP_GET_NUMS, f"{topic}@{group}", now_ms)
            stats.append(ConsumeStats(consume_tps=per_second, offset_table=table))
            lag += stats[-1].lag
            in_flight += sum((at.pull_offset or 0) - at.consumer_offset for at in table.values())
        listed.append({group: tuple(stats)})
    body = ConsumeStatsList(
        broker_addr=state.address,
        consume_stats_list=tuple(listed),
        total_diff=lag,
        total_inflight_diff=in_flight,
    )
    return Answer(body=body.to_body())


def _still_wanted(state: BrokerState, group: str, topics: Iterable[str]) -> list[str]:
    """Those a group that is online subscribes to; all of them when it is not."""
    online = state.clients.consumer_group(group)
    if online is None or not online.subscriptions:
        return list(topics)
    return [topic for topic in topics if topic in online.subscriptions]


def _progress(
    state: BrokerState, group: str, topic: str, queue_count: int
) -> Iterator[tuple[QueueRef, QueueProgress]]:
    for queue_id in range(queue_count):
        offset = state.offsets.query(group, topic, queue_id) or QueueOffset(0)
        pulled = state.offsets.pulled(group, topic, queue_id)
        last_ms = None
        if offset:
            last_ms = state.log.lookup.store_ms(topic, queue_id, QueueOffset(offset - 1))
        progress = QueueProgress(
            broker_offset=state.log.max_offset(topic, queue_id),
            consumer_offset=offset,
            last_timestamp=last_ms or 0,
            pull_offset=offset if pulled is None else max(offset, pulled),
        )
        yield QueueRef(topic, state.config.broker_name, queue_id), progress


def time_spans(
    request: TypedRequest[OfGroupAndTopic], state: BrokerState, _peer: Peer, now_ms: int
) -> Outcome:
    """303: the times of the first, the last and the last consumed message of every queue."""
    group, name = request.header.group, request.header.topic
    topic = state.topics.find(name)
    if topic is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
    spans = []
    for queue_id in range(topic.write_queue_nums):
        first, stop = state.log.min_offset(name, queue_id), state.log.max_offset(name, queue_id)
        offset = state.offsets.query(group, name, queue_id) or QueueOffset(0)
        first_ms = _store_ms(state, name, queue_id, first)
        consumed_ms = _store_ms(state, name, queue_id, offset - 1) if offset else first_ms
        delay_ms = 0
        if offset < stop:
            next_ms = _store_ms(state, name, queue_id, max(offset, first))
            delay_ms = now_ms - next_ms if next_ms != UNKNOWN_MS else 0
        spans.append(
            QueueTimeSpan.of(
                QueueRef(name, state.config.broker_name, queue_id),
                min_ms=first_ms,
                max_ms=_store_ms(state, name, queue_id, stop - 1),
                consumed_ms=consumed_ms,
                delay_ms=delay_ms,
            )
        )
    return Answer(body=ConsumeTimeSpans(consume_time_span_set=tuple(spans)).to_body())


def _store_ms(state: BrokerState, topic: str, queue_id: int, offset: int) -> int:
    if offset < 0:
        return UNKNOWN_MS
    found = state.log.lookup.store_ms(topic, queue_id, QueueOffset(offset))
    return UNKNOWN_MS if found is None else found


def correction_offsets(
    request: TypedRequest[CorrectionOffset], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """308: by queue the least offset of all groups of a topic.

    Groups to leave out are only left out here; RocketMQ forgets their offsets for good.
    """
    topic = request.header.topic
    left_out = set((request.header.filter_groups or "").split(GROUP_SEPARATOR))
    least: dict[int, int] = {}
    for group in state.offsets.groups_of(topic):
        if group in left_out:
            continue
        for queue_id, offset in state.offsets.queues(group, topic).items():
            if offset >= state.log.min_offset(topic, queue_id):
                least[queue_id] = min(offset, least.get(queue_id, offset))
    for queue_id, offset in state.offsets.queues(request.header.compare_group, topic).items():
        if queue_id in least and least[queue_id] > offset:
            least[queue_id] = NO_CORRECTION
    return Answer(body=CorrectionOffsets(correction_offsets=least).to_body())
