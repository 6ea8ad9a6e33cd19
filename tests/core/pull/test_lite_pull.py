"""A lite pull consumer pulls ahead within its limits and commits only what was handed out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.core.consumer.pull_loop import WARN_EVERY
from flintmq.core.group.actions import AskStartOffset, ReportEvent
from flintmq.core.group.pull_answers import (
    MessagesFound,
    NoneMatched,
    NoNewMessage,
    OffsetMoved,
    PullAnswer,
)
from flintmq.core.group.start_offset import StartOffset
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.pull.lite_pull import LiteAction, LitePull, Release
from flintmq.core.pull.lite_settings import LiteSettings, PullSettings, check_group
from flintmq.core.reading.pull_request import (
    BYTES_MAX,
    LITE_PULL_SINCE,
    Pull,
    check_filter,
    pull_request,
)
from flintmq.errors import BrokerRefused, InvalidName, InvalidSetting, Unreachable
from flintmq.model.group import MessageModel
from flintmq.model.host import Host
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import LogOffset, QueueOffset, QueueRef
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.headers.pull import PullMessage
from flintmq.protocol.headers.pull_template import mark_stream
from flintmq.protocol.version import version_number

Q0, Q1, Q2 = (QueueRef("orders", "broker-a", number) for number in range(3))
ALL = TopicSubscription("orders")
PAID = TopicSubscription("orders", "paid")
HOST = Host(b"\x7f\0\0\1", 10911)
UNANSWERED = Unreachable("broker", "no answer")


def message(queue: QueueRef, offset: int, *, size: int = 1, tag: str = "paid") -> ReceivedMessage:
    return ReceivedMessage(
        topic=queue.topic,
        broker=queue.broker,
        queue_id=queue.queue_id,
        queue_offset=QueueOffset(offset),
        log_offset=LogOffset(offset * 100),
        body=bytes(size),
        properties={"TAGS": tag},
        flag=0,
        sys_flag=0,
        born_ms=0,
        born_host=HOST,
        store_ms=0,
        store_host=HOST,
        reconsume_times=0,
        prepared_offset=LogOffset(0),
        stored_bytes=100,
    )


def found(queue: QueueRef, start: int, stop: int, **more: Any) -> MessagesFound:
    messages = [message(queue, offset, **more) for offset in range(start, stop)]
    return MessagesFound(QueueOffset(stop), messages=messages)


class World:
    """A machine, a clock, and the actions that are under way."""

    def __init__(self, **changes: Any) -> None:
        self.now_ms = 0
        self.machine = LitePull(LiteSettings(**changes), "billing", 0)
        self.pulls: dict[QueueRef, Pull] = {}
        self.asks: dict[QueueRef, AskStartOffset] = {}
        self.released: list[Release] = []
        self.reports: list[ReportEvent] = []

    def take_in(self, actions: list[LiteAction]) -> None:
        for action in actions:
            if isinstance(action, Pull):
                self.pulls[action.queue] = action
            elif isinstance(action, AskStartOffset):
                self.asks[action.queue] = action
            elif isinstance(action, Release):
                self.released.append(action)
            else:
                self.reports.append(action)

    def own(self, *queues: QueueRef, start: int = 0, wish: TopicSubscription = ALL) -> None:
        """Assign queues and tell where they start."""
        self.take_in(self.machine.apply(dict.fromkeys(queues, wish), self.now_ms))
        for ask in [self.asks.pop(queue) for queue in queues if queue in self.asks]:
            known = StartOffset(QueueOffset(start), is_stored=True)
            self.take_in(self.machine.start_known(ask, known, self.now_ms))

    def answer(self, queue: QueueRef, answer: PullAnswer) -> None:
        self.take_in(self.machine.pulled(self.pulls.pop(queue), answer, self.now_ms))

    def fail(self, queue: QueueRef, error: Any = UNANSWERED) -> None:
        self.take_in(self.machine.pull_failed(self.pulls.pop(queue), error, self.now_ms))

    def give(self, queue: QueueRef, start: int, stop: int, **more: Any) -> None:
        self.answer(queue, found(queue, start, stop, **more))

    def advance(self, ms: int) -> None:
        self.now_ms += ms
        self.take_in(self.machine.due(self.now_ms))

    def poll(self) -> list[int]:
        batch, actions = self.machine.next_batch(self.now_ms)
        self.take_in(actions)
        return [] if batch is None else [each.queue_offset for each in batch.messages]

    def due_in_ms(self) -> int | None:
        due_ms = self.machine.next_due_ms()
        return None if due_ms is None else due_ms - self.now_ms


# Pulling


def test_a_queue_is_asked_for_its_start_and_then_pulled_from_there() -> None:
    world = World()

    world.take_in(world.machine.apply({Q0: PAID}, 0))
    assert world.asks.keys() == {Q0}
    assert not world.pulls
    start = StartOffset(QueueOffset(7), is_stored=True)
    world.take_in(world.machine.start_known(world.asks[Q0], start, 0))

    pull = world.pulls[Q0]
    assert (pull.offset, pull.count_max, pull.bytes_max) == (7, 256, BYTES_MAX)
    assert pull.subscription is PAID
    assert pull.commit_offset is None


def test_a_start_that_is_not_known_is_asked_for_again_after_a_second() -> None:
    world = World()
    world.take_in(world.machine.apply({Q0: ALL}, 0))
    first = world.asks.pop(Q0)

    world.take_in(world.machine.start_failed(first, "nobody there", 0))

    assert "nobody there" in world.reports[0].text
    world.advance(999)
    assert not world.asks
    world.advance(1)
    assert world.asks[Q0] is not first
    late = StartOffset(QueueOffset(3), is_stored=True)
    assert world.machine.start_known(first, late, world.now_ms) == []


def test_a_queue_is_pulled_on_before_anybody_polls() -> None:
    world = World()
    world.own(Q0)

    world.give(Q0, 0, 256)

    assert world.pulls[Q0].offset == 256
    assert world.poll() == list(range(256))


@pytest.mark.parametrize(
    ("changes", "size", "count"),
    [
        ({"queue_count_max": 300, "total_count_max": 10_000}, 1, 301),
        ({"queue_mib_max": 1}, 2 * 1024 * 1024, 1),
        ({"span_max": 10}, 1, 12),
        ({"total_count_max": 20}, 1, 21),
    ],
    ids=["count", "size", "span", "total"],
)
def test_a_full_cache_keeps_a_queue_from_being_pulled_for_50_ms(
    changes: dict[str, int], size: int, count: int
) -> None:
    world = World(**changes)
    world.own(Q0)

    world.give(Q0, 0, count, size=size)

    assert not world.pulls
    assert world.due_in_ms() == 50
    assert [report.kind for report in world.reports] == ["flow control"]
    world.advance(50)
    assert not world.pulls
    assert world.due_in_ms() == 50


@pytest.mark.parametrize(
    ("changes", "size", "count"),
    [
        ({"queue_count_max": 300}, 1, 300),
        ({"queue_mib_max": 1}, 1024 * 1024, 1),
        ({"span_max": 10}, 1, 11),
        ({"total_count_max": 20}, 1, 20),
    ],
    ids=["count", "size", "span", "total"],
)
def test_a_cache_right_at_its_limit_is_not_full(
    changes: dict[str, int], size: int, count: int
) -> None:
    world = World(**changes)
    world.own(Q0)

    world.give(Q0, 0, count, size=size)

    assert world.pulls[Q0].offset == count


@pytest.mark.parametrize("limit", ["queue_count_max", "total_count_max"])
def test_a_poll_makes_room_at_once(limit: str) -> None:
    world = World(**{limit: 10})
    world.own(Q0)
    world.give(Q0, 0, 11)
    assert not world.pulls

    world.poll()

    assert world.pulls[Q0].offset == 11


def test_the_limit_of_all_queues_counts_what_the_others_have() -> None:
    world = World(total_count_max=20)
    world.own(Q0, Q1)

    world.give(Q0, 0, 15)
    assert Q0 in world.pulls
    world.give(Q1, 0, 6)
    assert Q1 not in world.pulls
    world.answer(Q0, NoNewMessage(QueueOffset(15)))

    assert not world.pulls
    assert world.machine.total_count == 21


def test_the_limit_of_all_queues_is_reported_once_in_a_thousand_times() -> None:
    world = World(total_count_max=1)
    world.own(Q0)
    world.give(Q0, 0, 2)
    for _ in range(WARN_EVERY - 1):
        world.advance(50)
    assert len(world.reports) == 1

    world.advance(50)

    assert len(world.reports) == 2


def test_a_pull_that_failed_is_tried_again_after_a_second() -> None:
    world = World()
    world.own(Q0, start=4)

    world.fail(Q0)

    assert not world.pulls
    assert world.due_in_ms() == 1_000
    world.advance(1_000)
    assert world.pulls[Q0].offset == 4


def test_a_broker_that_limits_the_flow_is_left_alone_for_20_ms() -> None:
    world = World()
    world.own(Q0)

    world.fail(Q0, BrokerRefused(ResponseCode.FLOW_CONTROL, "slowly"))

    assert world.due_in_ms() == 20


def test_an_offset_that_is_gone_is_corrected_and_pulling_goes_on() -> None:
    world = World()
    world.own(Q0, start=4)

    world.answer(Q0, OffsetMoved(QueueOffset(100)))

    assert world.pulls[Q0].offset == 100
    assert world.machine.consumed(Q0) == 100
    assert "no 4" in world.reports[-1].text


def test_a_queue_that_was_made_anew_begins_anew() -> None:
    world = World()
    world.own(Q0)
    world.give(Q0, 0, 10)

    world.answer(Q0, OffsetMoved(QueueOffset(0)))

    assert world.poll() == []
    assert world.pulls[Q0].offset == 0
    assert world.machine.settled() == [(Q0, 0)]


def test_tags_are_compared_again() -> None:
    world = World()
    world.own(Q0, wish=PAID)

    mixed = [message(Q0, 0), message(Q0, 1, tag="same hash"), message(Q0, 2)]
    world.answer(Q0, MessagesFound(QueueOffset(3), messages=mixed))

    assert world.poll() == [0, 2]


# Handing out and committing


def test_a_batch_is_settled_when_the_next_one_is_asked_for() -> None:
    world = World(auto_commit_ms=1_000)
    world.own(Q0)
    world.give(Q0, 0, 5)
    world.give(Q0, 5, 8)

    assert world.poll() == [0, 1, 2, 3, 4]
    world.advance(1_000)
    assert world.machine.auto_commit(world.now_ms) == []
    assert world.poll() == [5, 6, 7]
    assert world.machine.auto_commit(world.now_ms) == []  # not before another second
    world.advance(1_000)

    assert world.machine.auto_commit(world.now_ms) == [(Q0, 5)]


def test_without_auto_commit_nothing_is_committed_by_itself() -> None:
    world = World(auto_commit=False)
    world.own(Q0)
    world.give(Q0, 0, 5)
    world.poll()
    world.poll()
    world.advance(60_000)

    assert world.machine.auto_commit(world.now_ms) == []
    assert world.machine.settled() == [(Q0, 5)]


def test_what_does_not_match_is_passed_over() -> None:
    world = World()
    world.own(Q0)

    world.answer(Q0, NoneMatched(QueueOffset(50)))

    assert world.machine.settled() == [(Q0, 50)]


def test_what_does_not_match_is_not_settled_before_what_came_earlier() -> None:
    world = World()
    world.own(Q0)
    world.give(Q0, 0, 5)
    world.poll()

    world.answer(Q0, NoneMatched(QueueOffset(50)))

    assert world.machine.settled() == []
    world.poll()
    assert world.machine.settled() == [(Q0, 50)]


def test_a_start_that_nobody_stored_is_stored() -> None:
    world = World()
    world.take_in(world.machine.apply({Q0: ALL}, 0))
    start = StartOffset(QueueOffset(9), is_stored=False)
    world.take_in(world.machine.start_known(world.asks[Q0], start, 0))

    assert world.machine.settled() == [(Q0, 9)]


def test_a_commit_that_failed_is_made_again() -> None:
    world = World()
    world.own(Q0)
    world.answer(Q0, NoneMatched(QueueOffset(50)))
    assert world.machine.settled() == [(Q0, 50)]
    assert world.machine.settled() == []

    world.machine.commit_failed(Q0)

    assert world.machine.settled() == [(Q0, 50)]


# Losing, seeking, pausing


def test_a_queue_that_is_lost_gives_up_its_cache_and_commits_what_is_settled() -> None:
    world = World()
    world.own(Q0, Q1)
    world.give(Q0, 0, 5)
    world.give(Q0, 5, 9)
    world.give(Q1, 0, 2)
    world.poll()
    world.poll()

    world.take_in(world.machine.apply({Q1: ALL}, 0, topic="orders"))

    assert [(each.queue, each.offset) for each in world.released] == [(Q0, 5)]
    assert world.machine.queues == {Q1}
    assert world.machine.total_count == 2
    assert world.machine.pulled(world.pulls[Q0], found(Q0, 9, 12), 0) == []
    assert world.poll() == [0, 1]
    assert world.poll() == []


def test_a_lost_queue_is_not_committed_without_auto_commit() -> None:
    world = World(auto_commit=False)
    world.own(Q0)
    world.give(Q0, 0, 5)
    world.poll()
    world.poll()

    world.take_in(world.machine.apply({}, 0))

    assert [(each.queue, each.offset) for each in world.released] == [(Q0, None)]


def test_a_share_of_one_topic_leaves_the_queues_of_others_alone() -> None:
    other = QueueRef("bills", "broker-a", 0)
    world = World()
    world.own(Q0, other)

    world.take_in(world.machine.apply({}, 0, topic="bills"))

    assert world.machine.queues == {Q0}


def test_a_seek_forgets_what_was_cached_and_what_is_under_way() -> None:
    world = World()
    world.own(Q0)
    world.give(Q0, 0, 5)
    before = world.pulls[Q0]

    world.take_in(world.machine.seek(Q0, QueueOffset(2), 0))

    assert world.pulls[Q0].offset == 2
    assert world.pulls[Q0] is not before
    assert world.machine.pulled(before, found(Q0, 5, 9), 0) == []
    assert world.poll() == []
    world.give(Q0, 2, 4)
    assert world.poll() == [2, 3]


def test_a_seek_back_is_committed_backwards() -> None:
    world = World()
    world.own(Q0)
    world.give(Q0, 0, 5)
    world.poll()
    world.poll()
    assert world.machine.settled() == [(Q0, 5)]

    world.take_in(world.machine.seek(Q0, QueueOffset(1), 0))

    assert world.machine.settled() == [(Q0, 1)]


def test_a_seek_does_not_wait_for_the_start() -> None:
    world = World()
    world.take_in(world.machine.apply({Q0: ALL}, 0))

    world.take_in(world.machine.seek(Q0, QueueOffset(3), 0))

    assert world.pulls[Q0].offset == 3
    late = StartOffset(QueueOffset(9), is_stored=True)
    assert world.machine.start_known(world.asks[Q0], late, 0) == []


@pytest.mark.parametrize("act", ["seek", "pause", "consumed", "resume"])
def test_a_queue_of_others_is_refused(act: str) -> None:
    machine = World().machine
    calls: dict[str, Callable[[], object]] = {
        "seek": lambda: machine.seek(Q0, QueueOffset(0), 0),
        "pause": lambda: machine.pause([Q0]),
        "resume": lambda: machine.resume([Q0], 0),
        "consumed": lambda: machine.consumed(Q0),
    }

    with pytest.raises(InvalidSetting, match="not assigned"):
        calls[act]()


def test_a_paused_queue_is_neither_handed_out_nor_pulled() -> None:
    world = World()
    world.own(Q0, Q1)
    world.give(Q0, 0, 5)
    world.machine.pause([Q0])
    world.give(Q1, 0, 2)

    assert world.poll() == [0, 1]
    assert world.machine.ready_count == 0
    assert world.poll() == []
    world.give(Q0, 5, 7)
    assert Q0 not in world.pulls
    assert world.due_in_ms() == 1_000
    assert world.machine.paused == {Q0}


def test_a_resumed_queue_goes_on_at_once_where_it_was() -> None:
    world = World()
    world.own(Q0)
    world.give(Q0, 0, 5)
    world.machine.pause([Q0])
    world.give(Q0, 5, 7)

    world.take_in(world.machine.resume([Q0], 0))

    assert world.pulls[Q0].offset == 7
    assert world.poll() == [0, 1, 2, 3, 4]
    assert world.poll() == [5, 6]


def test_one_queue_of_others_among_many_pauses_none() -> None:
    world = World()
    world.own(Q0)

    with pytest.raises(InvalidSetting):
        world.machine.pause([Q0, Q1])

    assert not world.machine.paused


# Whatever happens


QUEUES = (Q0, Q1, Q2)
KINDS = ("give", "none", "fail", "poll", "seek", "pause", "resume", "wait", "lose")
EVENTS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.sampled_from(QUEUES), st.integers(0, 12)), max_size=60
)


def end_pull(world: World, what: str, queue: QueueRef, number: int) -> None:
    """The broker answers, or does not."""
    if queue not in world.pulls:
        return
    start = world.pulls[queue].offset
    if what == "give":
        world.give(queue, start, start + number + 1)
    elif what == "none":
        world.answer(queue, NoNewMessage(start))
    else:
        world.fail(queue)


def use(world: World, what: str, queue: QueueRef, number: int, handed: dict[QueueRef, int]) -> None:
    """Whoever uses the consumer does something; ``handed`` is what each queue must give next."""
    machine = world.machine
    if what == "lose":
        world.pulls.pop(queue, None)
        world.take_in(machine.apply({each: ALL for each in QUEUES if each != queue}, world.now_ms))
        world.own(*QUEUES, start=handed[queue])
    elif what == "seek":
        handed[queue] = number
        world.take_in(machine.seek(queue, QueueOffset(number), world.now_ms))
    elif what == "pause":
        machine.pause([queue])
    elif what == "resume":
        world.take_in(machine.resume([queue], world.now_ms))
    elif what == "wait":
        world.advance(number * 100)
    else:
        batch, actions = machine.next_batch(world.now_ms)
        world.take_in(actions)
        if batch is not None:
            first = handed[batch.queue]
            handed[batch.queue] = first + len(batch.messages)
            offsets = [each.queue_offset for each in batch.messages]
            assert offsets == list(range(first, handed[batch.queue]))


@given(EVENTS)
@settings(max_examples=60)
def test_nothing_is_committed_that_was_not_handed_out(
    events: list[tuple[str, QueueRef, int]],
) -> None:
    world = World(queue_count_max=20, total_count_max=30, span_max=15)
    world.own(*QUEUES)
    handed = dict.fromkeys(QUEUES, 0)
    for what, queue, number in events:
        if what in ("give", "none", "fail"):
            end_pull(world, what, queue, number)
        else:
            use(world, what, queue, number, handed)
        for committed, offset in world.machine.settled():
            assert offset <= handed[committed]
        assert world.machine.total_count <= 30 + 3 * 13


# Settings and requests


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("auto_commit_ms", 999),
        ("pull_batch_max", 0),
        ("pull_batch_max", 1_025),
        ("queue_count_max", 0),
        ("queue_mib_max", 1_025),
        ("total_count_max", 0),
        ("span_max", 65_536),
        ("retry_max", -1),
        ("model", "CLUSTERED"),
        ("start_from", "somewhere"),
        ("start_at_ms", -1),
        ("strategy", "AVG"),
        ("hold_timeout_ms", 20_000),
    ],
)
def test_a_setting_out_of_range_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidSetting, match=name):
        LiteSettings(**{name: value})


def test_the_defaults_are_those_of_rocketmq() -> None:
    lite, pull = LiteSettings(), PullSettings()

    assert (lite.auto_commit, lite.auto_commit_ms) == (True, 5_000)
    assert (lite.queue_count_max, lite.queue_mib_max, lite.span_max) == (1_000, 100, 2_000)
    assert (lite.total_count_max, lite.pull_error_delay_ms) == (10_000, 1_000)
    assert (pull.hold_ms, pull.hold_timeout_ms, pull.pull_timeout_ms) == (
        20_000,
        30_000,
        10_000,
    )
    assert (pull.model, pull.retry_max) == (MessageModel.CLUSTERING, 16)
    assert lite.starts_at_ms(3_600_000) == 1_800_000


def test_the_group_of_nobody_is_refused() -> None:
    with pytest.raises(InvalidName, match="nobody"):
        check_group("DEFAULT_CONSUMER")


@pytest.mark.parametrize(
    ("version", "code"),
    [(None, 11), (version_number("V4_9_8"), 11), (LITE_PULL_SINCE, 361), (479, 361)],
)
def test_lite_pull_has_a_code_of_its_own_since_5(version: int | None, code: int) -> None:
    wanted = Pull(Q0, QueueOffset(3), PAID, 10, suspend_ms=20_000, is_lite=True)

    request = pull_request(wanted, "billing", broker_version=version)

    header = request.header(PullMessage)
    assert request.code == code
    assert header.sys_flag == 2 | 4 | 16
    assert (header.subscription, header.expression_type, header.sub_version) == ("paid", "TAG", 0)
    assert (header.max_msg_bytes, header.suspend_timeout_millis) == (2**31 - 1, 20_000)


@pytest.mark.parametrize(("suspend_ms", "flags"), [(0, 4), (20_000, 6)])
def test_a_plain_pull_brings_its_filter_and_commits_nothing(suspend_ms: int, flags: int) -> None:
    request = pull_request(Pull(Q0, QueueOffset(3), ALL, 32, suspend_ms=suspend_ms), "billing")

    assert request.code == RequestCode.PULL_MESSAGE
    assert request.header(PullMessage).sys_flag == flags


@pytest.mark.parametrize(("version", "works"), [(None, False), (231, False), (232, True)])
def test_sql_is_refused_for_brokers_that_are_too_old(version: int | None, works: bool) -> None:
    sql = TopicSubscription("orders", sql="a > 5")
    check_filter(PAID, "broker-a", version)
    if works:
        check_filter(sql, "broker-a", version)
        return

    with pytest.raises(InvalidSetting, match="broker-a"):
        check_filter(sql, "broker-a", version)


def test_the_mark_of_a_stream_stands_before_all_fields() -> None:
    request = pull_request(Pull(Q0, QueueOffset(3), ALL, 32), "billing")

    marked = mark_stream(request)

    assert marked.field_texts() == {"ReqT": "0", **request.field_texts()}
    assert mark_stream(marked).field_texts()["ReqT"] == "0"


def test_a_request_without_fields_has_only_the_mark() -> None:
    assert mark_stream(Command(code=34)).field_texts() == {"ReqT": "0"}


def test_reports_of_a_queue_that_is_gone_change_nothing() -> None:
    world = World()
    world.own(Q0)
    world.take_in(world.machine.apply({Q1: ALL}, 0))
    pull, ask = world.pulls[Q0], world.asks[Q1]
    world.take_in(world.machine.apply({}, 0))

    assert world.machine.pull_failed(pull, UNANSWERED, 0) == []
    assert world.machine.start_failed(ask, "late", 0) == []
    world.advance(60_000)
    assert world.machine.queues == frozenset()


def test_a_queue_that_waits_for_its_start_can_be_paused_and_resumed() -> None:
    world = World()
    world.take_in(world.machine.apply({Q0: ALL}, 0))
    world.machine.pause([Q0])

    assert world.machine.resume([Q0], 0) == []
    assert world.machine.consumed(Q0) is None
