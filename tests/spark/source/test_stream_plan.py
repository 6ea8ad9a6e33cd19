"""Batches follow each other without a gap, keep their limits, and are cut without a loss."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.arrow.reading.queue_source import QueueSource, QueueSurvey, ReadPart
from flintmq.core.reading.read_span import EVERYTHING, Page, Wanted
from flintmq.errors import InvalidSetting, MessagesLost, NoRoute
from flintmq.model.queue import Extent, QueueOffset, QueueRef, Span
from flintmq.spark.options.source_options import Limits, SourceOptions
from flintmq.spark.source.message_sizes import BATCHES_BETWEEN, SAMPLE_MESSAGES, MessageSizes
from flintmq.spark.source.offset_ranges import batch_spans, chosen_queues, initial_offset
from flintmq.spark.source.partitions import cut, partition_numbers
from flintmq.spark.source.stream_offset import StreamOffset
from flintmq.spark.source.stream_plan import StreamPlan, gone_queues, share

A, B, C = (QueueRef("t", "b", number) for number in range(3))
OTHER = QueueRef("u", "b", 0)


@dataclass
class Held:
    """Queues in memory."""

    bounds: dict[QueueRef, tuple[int, int]]
    committed: dict[QueueRef, int] = field(default_factory=dict)
    at_time: dict[QueueRef, int] = field(default_factory=dict)
    vanished: set[QueueRef] = field(default_factory=set)

    def topics(self) -> tuple[str, ...]:
        return tuple(sorted({queue.topic for queue in self.bounds}))

    def queues(self, topics: Collection[str]) -> tuple[QueueRef, ...]:
        for topic in topics:
            if topic not in self.topics():
                raise NoRoute(topic, "no broker has such a topic")
        return tuple(sorted(queue for queue in self.bounds if queue.topic in topics))

    def extents(self, queues: Collection[QueueRef]) -> Mapping[QueueRef, Extent]:
        return {
            queue: extent(*self.bounds[queue]) for queue in queues if queue not in self.vanished
        }

    def survey(self, queues: Collection[QueueRef]) -> QueueSurvey:
        return QueueSurvey(self.extents(queues), {})

    def offsets_at(
        self, queues: Collection[QueueRef], time_ms: int
    ) -> Mapping[QueueRef, QueueOffset]:
        return {queue: QueueOffset(self.at_time[queue] + time_ms) for queue in queues}

    def group_offsets(
        self, queues: Collection[QueueRef], group: str
    ) -> Mapping[QueueRef, QueueOffset]:
        assert group == "g"
        return {q: QueueOffset(self.committed[q]) for q in queues if q in self.committed}

    def origin(self, queue: QueueRef) -> str:
        return f"{queue.broker}:10911"

    def close(self) -> None: ...


def extent(start: int, stop: int) -> Extent:
    return Extent(QueueOffset(start), QueueOffset(stop))


def span(queue: QueueRef, start: int, stop: int) -> Span:
    return Span(queue, QueueOffset(start), QueueOffset(stop))


def options(*, stream: bool = False, **given: str) -> SourceOptions:
    base = {"namesrv": "x:1"}
    if not {"assign", "subscribePattern"} & given.keys():
        base["subscribe"] = "t"
    return SourceOptions.parse(base | given, stream=stream, environment={})


def ranges(spans: Collection[Span]) -> dict[QueueRef, tuple[int, int]]:
    return {span.queue: (span.start, span.stop) for span in spans}


# Which queues


def test_queues_are_those_of_the_topics() -> None:
    queues: QueueSource = Held({A: (0, 1), B: (0, 1), OTHER: (0, 1)})

    assert chosen_queues(queues, options().choice) == (A, B)
    assert chosen_queues(queues, options(subscribePattern="[tuv]").choice) == (A, B, OTHER)
    assert chosen_queues(queues, options(subscribePattern="z").choice) == ()
    with pytest.raises(NoRoute):
        chosen_queues(queues, options(assign='{"z": [0]}').choice)


def test_a_pattern_sees_the_names_of_its_namespace_only() -> None:
    mine, others, plain = (QueueRef(name, "b", 0) for name in ("ns%tx", "nt%tx", "tx"))
    queues = Held({mine: (0, 1), others: (0, 1), plain: (0, 1)})

    inside = options(subscribePattern="t.", namespace="ns")
    outside = options(subscribePattern="t.")

    assert chosen_queues(queues, inside.choice) == (mine,)
    assert chosen_queues(queues, outside.choice) == (plain,)


def test_queues_may_be_assigned_on_one_broker_or_on_all() -> None:
    elsewhere = QueueRef("t", "c", 0)
    queues = Held({A: (0, 1), B: (0, 1), elsewhere: (0, 1)})

    assert chosen_queues(queues, options(assign='{"t": {"b": [0]}}').choice) == (A,)
    assert chosen_queues(queues, options(assign='{"t": [0]}').choice) == (A, elsewhere)
    with pytest.raises(InvalidSetting, match="topic t has no queue 1 on c"):
        chosen_queues(queues, options(assign='{"t": {"c": [1]}}').choice)
    with pytest.raises(InvalidSetting, match="topic t has no queue 9 on any broker"):
        chosen_queues(queues, options(assign='{"t": [9]}').choice)


def test_an_assigned_queue_that_goes_while_a_stream_runs_is_seen_as_gone() -> None:
    choice = options(assign='{"t": {"b": [0, 1]}}').choice
    previous = StreamOffset.at({A: QueueOffset(0), B: QueueOffset(0)})
    queues = Held({A: (0, 1), C: (0, 1)})

    chosen = chosen_queues(queues, choice, while_running=True)

    assert chosen == (A, B)
    assert gone_queues(previous, chosen, {A: extent(0, 1)}) == {B}
    away = Held({QueueRef("t", "other", 0): (0, 1)})
    assert chosen_queues(away, choice, while_running=True) == ()
    assert gone_queues(previous, (), {}) == set()


# From where to where


def test_a_batch_reads_all_that_is_kept() -> None:
    queues = Held({A: (3, 9), B: (0, 0)})

    assert ranges(batch_spans(queues, options())) == {A: (3, 9), B: (0, 0)}


def test_places_may_differ_from_queue_to_queue() -> None:
    queues = Held({A: (3, 9), B: (0, 5), C: (1, 7)})
    start = '{"t": {"b": {"0": -2, "1": 2, "2": -1}}}'
    end = '{"t": {"b": {"0": 5, "1": -1, "2": 7}}}'

    spans = batch_spans(queues, options(startingOffsets=start, endingOffsets=end))

    assert ranges(spans) == {A: (3, 5), B: (2, 5), C: (7, 7)}


@pytest.mark.parametrize(
    ("numbers", "says"),
    [('{"0": 1}', "each queue needs one"), ('{"0": 1, "1": 1, "7": 1}', "no such queue")],
)
def test_every_queue_that_is_read_needs_an_offset_and_no_other(numbers: str, says: str) -> None:
    queues = Held({A: (0, 9), B: (0, 5)})

    with pytest.raises(InvalidSetting, match=says) as raised:
        batch_spans(queues, options(startingOffsets=f'{{"t": {{"b": {numbers}}}}}'))

    assert raised.value.setting == "startingOffsets"
    assert raised.value.value in ("t/b/1", "t/b/7")


def test_one_offset_counts_for_every_queue() -> None:
    queues = Held({A: (5, 100), B: (0, 10)})

    found = ranges(batch_spans(queues, options(startingOffsets="7", endingOffsets="40")))
    assert found == {A: (7, 40), B: (7, 10)}

    with pytest.raises(MessagesLost, match=r"deleted before they were read"):
        batch_spans(queues, options(startingOffsets="3"))
    with pytest.raises(InvalidSetting, match="the read starts at 9"):
        batch_spans(queues, options(startingOffsets="9", endingOffsets="8"))


def test_an_end_before_the_start_is_a_slip_when_both_are_numbers() -> None:
    queues = Held({A: (0, 9)})
    start, end = '{"t": {"b": {"0": 5}}}', '{"t": {"b": {"0": 4}}}'

    with pytest.raises(InvalidSetting, match="t/b/0 ends at 4, before it starts at 5"):
        batch_spans(queues, options(startingOffsets=start, endingOffsets=end))
    spans = batch_spans(queues, options(startingOffsets="latest", endingOffsets=end))
    assert ranges(spans) == {A: (9, 9)}


def test_times_mean_what_is_there() -> None:
    queues = Held({A: (3, 9), B: (0, 5)}, at_time={A: 0, B: 0})

    spans = batch_spans(queues, options(startingTimestamp="1", endingTimestamp="7"))

    assert ranges(spans) == {A: (3, 7), B: (1, 5)}


def test_a_group_starts_where_it_stands() -> None:
    queues = Held({A: (3, 9), B: (2, 5), C: (1, 7)}, committed={A: 4, B: 5})
    stream = options(stream=True, consumerGroup="g")
    batch = options(consumerGroup="g", startingOffsets="group")

    assert initial_offset(queues, stream).stops == {A: 4, B: 5, C: 1}
    assert ranges(batch_spans(queues, batch)) == {A: (4, 9), B: (5, 5), C: (1, 7)}


def test_a_topic_new_to_the_group_is_read_from_its_end_by_a_stream_and_all_by_a_batch() -> None:
    queues = Held({A: (3, 9), OTHER: (2, 5)}, committed={OTHER: 4})
    stream = options(stream=True, consumerGroup="g", subscribePattern=".")
    batch = options(consumerGroup="g", subscribePattern=".", startingOffsets="group")

    assert initial_offset(queues, stream).stops == {A: 9, OTHER: 4}
    assert ranges(batch_spans(queues, batch)) == {A: (3, 9), OTHER: (4, 5)}


def test_a_batch_may_end_where_the_group_stands() -> None:
    queues = Held({A: (3, 9), OTHER: (2, 5)}, committed={OTHER: 4})
    until = options(subscribePattern=".", consumerGroup="g", endingOffsets="group")

    assert ranges(batch_spans(queues, until)) == {A: (3, 3), OTHER: (2, 4)}


@pytest.mark.parametrize(
    ("asked", "lost", "left"), [(1, (1, 3), 3), (12, (9, 12), 9)], ids=["deleted", "made anew"]
)
def test_offsets_that_are_gone_are_an_error_or_a_warning(
    asked: int, lost: tuple[int, int], left: int, caplog: pytest.LogCaptureFixture
) -> None:
    queues = Held({A: (3, 9)}, committed={A: asked})
    by_number = f'{{"t": {{"b": {{"0": {asked}}}}}}}'

    for place in (by_number, "group"):
        strict = options(stream=True, consumerGroup="g", startingOffsets=place)
        with pytest.raises(MessagesLost, match="failOnDataLoss=false") as raised:
            initial_offset(queues, strict)
        assert (raised.value.queue, raised.value.start, raised.value.stop) == ("t/b/0", *lost)
        assert "holds 3 to 9" in raised.value.reason

        lenient = options(
            stream=True, consumerGroup="g", failOnDataLoss="false", startingOffsets=place
        )
        with caplog.at_level(logging.WARNING):
            assert initial_offset(queues, lenient).stops == {A: left}
        assert "t/b/0" in caplog.text
        caplog.clear()


def test_a_queue_that_vanishes_while_we_plan_is_a_loss() -> None:
    queues = Held({A: (0, 9), B: (0, 9)}, vanished={B})

    with pytest.raises(MessagesLost, match="t/b/1"):
        batch_spans(queues, options())
    assert ranges(batch_spans(queues, options(failOnDataLoss="false"))) == {A: (0, 9)}


# The next batch


def next_offset(
    plan: StreamPlan,
    previous: StreamOffset,
    bounds: Mapping[QueueRef, tuple[int, int]],
    now_ms: int = 0,
    **given: Collection[QueueRef],
) -> StreamOffset:
    extents = {queue: extent(*limits) for queue, limits in bounds.items()}
    return plan.next(previous, extents, now_ms=now_ms, gone=given.get("gone", ()))


START = StreamOffset.at({A: QueueOffset(5), B: QueueOffset(0)})


def test_a_batch_goes_up_to_the_end_of_every_queue() -> None:
    plan = StreamPlan(Limits())

    first = next_offset(plan, START, {A: (0, 9), B: (0, 0)})
    second = next_offset(plan, first, {A: (0, 9), B: (0, 3)})

    assert ranges(first.spans) == {A: (5, 9), B: (0, 0)}
    assert ranges(second.spans) == {A: (9, 9), B: (0, 3)}
    assert next_offset(plan, second, {A: (0, 9), B: (0, 3)}) is second


def test_a_new_queue_starts_with_its_oldest_message_once_it_has_one() -> None:
    plan = StreamPlan(Limits())

    empty = next_offset(plan, START, {A: (0, 6), B: (0, 0), C: (0, 0)})
    filled = next_offset(plan, empty, {A: (0, 6), B: (0, 0), C: (2, 4)})

    assert C not in empty.stops
    assert ranges(filled.spans) == {A: (6, 6), B: (0, 0), C: (2, 4)}


def test_a_queue_that_is_away_keeps_its_place() -> None:
    plan = StreamPlan(Limits())

    without = next_offset(plan, START, {B: (0, 3)})
    again = next_offset(plan, without, {A: (0, 9), B: (0, 3)})

    assert ranges(without.spans) == {A: (5, 5), B: (0, 3)}
    assert ranges(again.spans) == {A: (5, 9), B: (3, 3)}


def test_a_queue_that_is_gone_is_a_loss_unless_it_was_read_to_its_end() -> None:
    careful = StreamPlan(Limits())
    with pytest.raises(MessagesLost, match="not known how many"):
        next_offset(careful, START, {B: (0, 3)}, gone=[A])

    first = next_offset(careful, START, {A: (0, 9), B: (0, 3)})
    after = next_offset(careful, first, {B: (0, 4)}, gone=[A])
    assert ranges(after.spans) == {B: (3, 4)}

    slow = StreamPlan(Limits(offsets_max=1))
    first = next_offset(slow, START, {A: (0, 7)})
    with pytest.raises(MessagesLost, match="held messages up to 7") as raised:
        next_offset(slow, first, {B: (0, 3)}, gone=[A])
    assert (raised.value.start, raised.value.stop) == (6, 7)

    lenient = StreamPlan(Limits(), fail_on_data_loss=False)
    assert ranges(next_offset(lenient, START, {B: (0, 3)}, gone=[A]).spans) == {B: (0, 3)}


def test_messages_deleted_before_they_were_read_are_a_loss(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(MessagesLost) as raised:
        next_offset(StreamPlan(Limits()), START, {A: (7, 9), B: (0, 0)})
    assert (raised.value.queue, raised.value.start, raised.value.stop) == ("t/b/0", 5, 7)

    lenient = StreamPlan(Limits(), fail_on_data_loss=False)
    with caplog.at_level(logging.WARNING):
        assert next_offset(lenient, START, {A: (7, 7), B: (0, 0)}) is START
        assert next_offset(lenient, START, {A: (7, 7), B: (0, 0)}) is START
    assert len(caplog.records) == 1
    assert ranges(next_offset(lenient, START, {A: (7, 9)}).spans) == {A: (7, 9), B: (0, 0)}


def test_a_topic_made_anew_is_a_loss_and_then_read_from_its_start() -> None:
    with pytest.raises(MessagesLost, match="made anew"):
        next_offset(StreamPlan(Limits()), START, {A: (0, 2)})

    lenient = StreamPlan(Limits(), fail_on_data_loss=False)
    assert ranges(next_offset(lenient, START, {A: (0, 2)}).spans)[A] == (0, 2)


def test_gone_is_what_a_broker_that_answers_does_not_have() -> None:
    far = QueueRef("t", "far", 0)
    previous = StreamOffset.at({queue: QueueOffset(0) for queue in (A, B, C, far)})
    known = {A: extent(0, 1)}

    assert gone_queues(previous, [A, B], known) == {B, C}
    assert gone_queues(previous, [A, B], known, silent=["b"]) == set()
    assert gone_queues(previous, [A, B, C, far], known) == {B, C, far}


def test_until_now_is_what_there_was_then() -> None:
    plan = StreamPlan(Limits(offsets_max=3, offsets_min=3))
    plan.stop_at({A: extent(0, 9), B: extent(0, 0)})

    seen = []
    offset, bounds = START, {A: (0, 90), B: (0, 50), C: (0, 5)}
    while (after := next_offset(plan, offset, bounds)) is not offset:
        seen.append(ranges(after.spans)[A])
        offset = after

    assert seen == [(5, 8), (8, 9)]
    assert offset.stops == {A: 9, B: 0}


def test_a_batch_waits_until_it_is_large_enough_or_too_late() -> None:
    plan = StreamPlan(Limits(offsets_min=10, delay_max_ms=1_000))

    first = next_offset(plan, START, {A: (0, 6)}, now_ms=50)
    assert ranges(first.spans)[A] == (5, 6)
    assert next_offset(plan, first, {A: (0, 8)}, now_ms=1_049) is first
    late = next_offset(plan, first, {A: (0, 8)}, now_ms=1_050)
    assert ranges(late.spans)[A] == (6, 8)
    full = next_offset(plan, late, {A: (0, 18)}, now_ms=1_051)
    assert ranges(full.spans)[A] == (8, 18)
    assert next_offset(plan, full, {A: (0, 18)}, now_ms=99_999) is full


def test_messages_are_counted_in_bytes_by_what_is_known_of_them() -> None:
    plan = StreamPlan(Limits(bytes_max=1_000))
    extents = {A: extent(0, 1_000), B: extent(0, 1_000)}
    start = StreamOffset.at({A: QueueOffset(0), B: QueueOffset(0)})

    found = plan.next(start, extents, now_ms=0, bytes_each={A: 50, B: 10})
    assert sum(len(s) * (50 if s.queue == A else 10) for s in found.spans) <= 1_000
    assert min(map(len, found.spans)) >= 15

    large = plan.next(start, extents, now_ms=0, bytes_each={A: 5_000, B: 5_000})
    assert large.message_count == 1


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[QueueRef, tuple[int, int]], Limits]:
    count = draw(st.integers(1, 12))
    bounds = {
        QueueRef("t", "b", number): (0, draw(st.sampled_from([0, 1, 2, 7, 300, 10_000])))
        for number in range(count)
    }
    limit = st.one_of(st.none(), st.integers(1, 40), st.integers(100, 2_000))
    return bounds, Limits(draw(limit), draw(limit))


@settings(max_examples=60, deadline=None)
@given(worlds(), st.integers(1, 60))
def test_batches_keep_their_limits_leave_no_gap_and_let_nobody_starve(
    world: tuple[dict[QueueRef, tuple[int, int]], Limits], size: int
) -> None:
    bounds, limits = world
    plan = StreamPlan(limits)
    offset = StreamOffset.at({queue: QueueOffset(0) for queue in bounds})
    extents = {queue: extent(*both) for queue, both in bounds.items()}
    hungry = Counter({queue: 0 for queue, (_, stop) in bounds.items() if stop})

    for _ in range(80):
        after = plan.next(offset, extents, now_ms=0, bytes_each=dict.fromkeys(bounds, size))
        if after is offset:
            break
        for one in after.spans:
            assert one.start == offset.stops[one.queue]
            hungry[one.queue] = 0 if len(one) else hungry[one.queue] + 1
            if one.stop == bounds[one.queue][1]:
                hungry[one.queue] = 0
            assert hungry[one.queue] <= len(bounds)
        assert after.message_count >= 1
        assert after.message_count <= (limits.offsets_max or 10**9)
        in_bytes = after.message_count * size
        assert in_bytes <= (limits.bytes_max or 10**9) or after.message_count == 1
        offset = after
    else:
        return
    assert offset.stops == {queue: stop for queue, (_, stop) in bounds.items()}


# Sharing


wanted_and_costs = st.lists(
    st.tuples(st.sampled_from([0, 1, 3, 50, 10_000]), st.integers(1, 30)), min_size=1, max_size=10
)


@settings(max_examples=100, deadline=None)
@given(wanted_and_costs, st.integers(1, 5_000))
def test_room_is_used_up_and_never_exceeded(items: list[tuple[int, int]], budget: int) -> None:
    wants, costs = [want for want, _ in items], [cost for _, cost in items]

    given_ = share(wants, costs, budget)

    cost = sum(n * each for n, each in zip(given_, costs, strict=True))
    assert all(0 <= n <= want for n, want in zip(given_, wants, strict=True))
    assert cost <= budget or sum(given_) == 1
    assert sum(given_) >= min(1, sum(wants))
    for n, want, each in zip(given_, wants, costs, strict=True):
        assert n == want or cost + each > budget


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=10), st.integers(10, 2_000))
def test_room_is_shared_in_proportion_to_what_is_wanted(wants: list[int], budget: int) -> None:
    given_ = share(wants, [1] * len(wants), budget)

    total = sum(wants)
    for n, want in zip(given_, wants, strict=True):
        assert n >= 1
        assert abs(n - min(1, budget / total) * want) <= len(wants) + 1


# Cutting


spans_of_queues = st.lists(
    st.tuples(st.integers(0, 1_000), st.integers(0, 500)), min_size=0, max_size=6
).map(
    lambda found: [
        span(QueueRef("t", "b", number), start, start + size)
        for number, (start, size) in enumerate(found)
    ]
)


def parts_of(spans: list[Span], least: int | None, most: int | None) -> list[ReadPart]:
    return cut(
        spans,
        origin=lambda queue: f"{queue.broker}:1",
        partitions=partition_numbers(span.queue for span in spans),
        partitions_min=least,
        records_max=most,
    )


@settings(max_examples=80, deadline=None)
@given(
    spans_of_queues,
    st.one_of(st.none(), st.integers(1, 40)),
    st.one_of(st.none(), st.integers(1, 100)),
)
def test_parts_cover_the_spans_exactly_and_evenly(
    spans: list[Span], least: int | None, most: int | None
) -> None:
    parts = parts_of(spans, least, most)

    assert parts == parts_of(list(reversed(spans)), least, most)
    assert [(p.span.queue, p.span.start) for p in parts] == sorted(
        (p.span.queue, p.span.start) for p in parts
    )
    for whole in spans:
        pieces = [part.span for part in parts if part.span.queue == whole.queue]
        assert all(map(len, pieces))
        covered = [offset for piece in pieces for offset in range(piece.start, piece.stop)]
        assert covered == list(range(whole.start, whole.stop))
        if pieces:
            assert max(map(len, pieces)) - min(map(len, pieces)) <= 1
    assert all(most is None or len(part.span) <= most for part in parts)
    total = sum(map(len, spans))
    assert len(parts) >= min(least or 1, total)
    if most is None:
        filled = sum(1 for whole in spans if len(whole))
        assert len(parts) == max(filled, min(least or 1, total))


def test_the_longest_queues_are_cut_first() -> None:
    parts = parts_of([span(A, 0, 10), span(B, 0, 90)], 5, None)

    assert [(part.span.queue.queue_id, len(part.span)) for part in parts] == [
        (0, 10),
        (1, 22),
        (1, 23),
        (1, 22),
        (1, 23),
    ]
    assert {part.origin for part in parts} == {"b:1"}


def test_there_are_no_more_parts_than_messages() -> None:
    parts = parts_of([span(A, 5, 7), span(B, 0, 1)], 10, None)

    assert [part.span for part in parts] == [span(A, 5, 6), span(A, 6, 7), span(B, 0, 1)]


def test_partitions_count_the_queues_of_a_topic_by_broker_and_id() -> None:
    second = QueueRef("t", "c", 0)

    numbers = partition_numbers([second, B, OTHER, A])

    assert numbers == {A: 0, B: 1, second: 2, OTHER: 0}
    assert [part.partition for part in parts_of([span(B, 0, 1), span(A, 0, 1)], None, None)] == [
        0,
        1,
    ]


# MessageSizes


class Pages:
    """A reader whose messages have one size; counts what is asked of it."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.asked: list[Span] = []

    def pages(self, part: ReadPart, wanted: Wanted, count_max: int) -> Iterator[Page]:
        self.asked.append(part.span)
        assert len(part.span) <= count_max
        zero = QueueOffset(0)
        records = bytes(self.size_bytes * len(part.span))
        yield Page(part.span.queue, part.span.start, part.span.stop, records, zero, zero)


def test_sizes_are_sampled_once_in_a_while_from_queues_with_news() -> None:
    pages = Pages(70)
    sizes = MessageSizes(pages, EVERYTHING)
    stops = {A: QueueOffset(500), B: QueueOffset(0)}

    for _ in range(BATCHES_BETWEEN):
        assert sizes.measure(START, stops, lambda queue: queue.broker) == {A: 70}
    assert pages.asked == [span(A, 5, 5 + SAMPLE_MESSAGES)]

    pages.size_bytes = 90
    assert sizes.measure(START, stops, lambda queue: queue.broker) == {A: 80}
