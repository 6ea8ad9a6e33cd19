"""A held pull is taken out exactly once: by what it waits for, in time, or never at all.

The machine is run against a model that looks at every pull each time; then a few cases by
name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flintmq.broker.requests.outcome import Hold
from flintmq.broker.requests.peer import Peer
from flintmq.broker.tables.held_pulls import STALE_MAX, HeldPull, HeldPulls
from flintmq.model.queue import QueueOffset
from flintmq.protocol.headers.pull import PullMessage
from flintmq.protocol.typed_request import TypedRequest
from flintmq.store.message_log import MessageLog
from flintmq.store.queues.dispatch import Grown
from flintmq.store.queues.queue_reader import GetStatus, ReadResult
from flintmq.store.queues.selection import EVERYTHING, Selection

SCAN_UNITS = 3
"""How many units one read of the small log looks at."""

Queue = tuple[str, int]


class SmallLog:
    """Queues of single bytes; the byte is the record and its tags code."""

    def __init__(self) -> None:
        self.queues: dict[Queue, bytearray] = {}
        self.read_count = 0

    def max_offset(self, topic: str, queue_id: int) -> QueueOffset:
        return QueueOffset(len(self.queues.get((topic, queue_id), b"")))

    def read(
        self, topic: str, queue_id: int, offset: QueueOffset, count_max: int, *, wanted: Selection
    ) -> ReadResult:
        assert count_max == 1
        self.read_count += 1
        octets = bytes(self.queues[topic, queue_id])
        for at in range(offset, min(offset + SCAN_UNITS, len(octets))):
            if takes(wanted, octets[at]):
                return self._result(GetStatus.FOUND, at + 1)
        stop = min(offset + SCAN_UNITS, len(octets))
        return self._result(GetStatus.NO_MATCHED_MESSAGE, stop)

    @staticmethod
    def _result(status: GetStatus, next_offset: int) -> ReadResult:
        zero = QueueOffset(0)
        return ReadResult(status, QueueOffset(next_offset), zero, zero, [], 0, 0, False)

    def grow(self, queue: Queue, codes: Sequence[int]) -> Grown:
        octets = self.queues.setdefault(queue, bytearray())
        start = len(octets)
        octets.extend(codes)
        stop = len(octets)
        return Grown(*queue, QueueOffset(start), QueueOffset(stop), list(codes))


def takes(wanted: Selection, code: int) -> bool:
    if wanted.tags_codes is not None and code not in wanted.tags_codes:
        return False
    return wanted.record is None or wanted.record(memoryview(bytes([code])))


def is_odd(record: memoryview) -> bool:
    return record[0] % 2 == 1


SELECTIONS = (
    EVERYTHING,
    Selection(frozenset({1})),
    Selection(frozenset({2, 3})),
    Selection(frozenset()),
    Selection(record=is_odd),
)
QUEUES: tuple[Queue, ...] = (("A", 0), ("A", 1), ("B", 0))
PEERS = tuple(Peer(f"127.0.0.1:{port}") for port in (40_001, 40_002, 40_003))
REQUEST = TypedRequest(
    header=PullMessage(
        consumer_group="g", topic="A", queue_id=0, queue_offset=0, max_msg_nums=1, sys_flag=2
    )
)

codes = st.lists(st.integers(1, 6), min_size=1, max_size=8)


def held(
    queue: Queue,
    offset: int,
    until_ms: int,
    wanted: Selection = EVERYTHING,
    peer: Peer = PEERS[0],
) -> HeldPull:
    return HeldPull(REQUEST, peer, Hold(*queue, QueueOffset(offset), until_ms, wanted))


def machine() -> tuple[HeldPulls, SmallLog]:
    log = SmallLog()
    return HeldPulls(cast("MessageLog", log)), log


class AgainstTheModel(RuleBasedStateMachine):
    """The model is a dict of every held pull with its deadline."""

    def __init__(self) -> None:
        super().__init__()
        self.pulls, self.log = machine()
        self.model: dict[HeldPull, int] = {}
        self.now_ms = 1_000

    def check(self, taken: list[HeldPull], expected: set[HeldPull]) -> None:
        assert len(taken) == len(set(taken))
        assert set(taken) == expected
        for pull in expected:
            del self.model[pull]

    @rule(
        queue=st.sampled_from(QUEUES),
        behind=st.integers(-2, 3),
        wait_ms=st.integers(0, 50),
        wanted=st.sampled_from(SELECTIONS),
        peer=st.sampled_from(PEERS),
    )
    def add(self, queue: Queue, behind: int, wait_ms: int, wanted: Selection, peer: Peer) -> None:
        offset = max(0, self.log.max_offset(*queue) - behind)
        pull = held(queue, offset, self.now_ms + wait_ms, wanted, peer)
        self.pulls.add(pull)
        self.model[pull] = self.now_ms + wait_ms

    @rule(turn=st.dictionaries(st.sampled_from(QUEUES), codes, max_size=3))
    def grow(self, turn: dict[Queue, list[int]]) -> None:
        grown = [self.log.grow(queue, new) for queue, new in turn.items()]

        woken = self.pulls.grown(grown)

        expected = {
            pull
            for pull in self.model
            for each in grown
            if pull.queue == (each.topic, each.queue_id)
            and any(
                takes(pull.hold.wanted, code)
                for offset, code in enumerate(each.tags_codes, each.start)
                if offset >= pull.hold.offset
            )
        }
        self.check(woken, expected)

    @rule(ms=st.integers(0, 30))
    def advance(self, ms: int) -> None:
        self.now_ms += ms

        late = self.pulls.due(self.now_ms)

        self.check(late, {pull for pull, ms in self.model.items() if ms <= self.now_ms})

    @rule(queue=st.sampled_from(QUEUES), group=st.sampled_from("gh"))
    def hurry(self, queue: Queue, group: str) -> None:
        self.pulls.hurry(group, *queue)

        self.model |= {pull: 0 for pull in self.model if pull.queue == queue and group == "g"}

    @rule()
    def sweep(self) -> None:
        swept = self.pulls.sweep()

        self.check(
            swept,
            {pull for pull in self.model if self.log.max_offset(*pull.queue) > pull.hold.offset},
        )

    @rule(peer=st.sampled_from(PEERS))
    def drop(self, peer: Peer) -> None:
        self.pulls.drop(peer)

        self.model = {pull: ms for pull, ms in self.model.items() if pull.peer is not peer}

    @rule()
    def drain(self) -> None:
        self.check(self.pulls.drain(), set(self.model))

    @invariant()
    def knows_how_many_and_until_when(self) -> None:
        assert len(self.pulls) == len(self.model)
        assert self.pulls.next_due_ms() == min(self.model.values(), default=None)


AgainstTheModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAgainstTheModel = AgainstTheModel.TestCase


def test_pulls_with_one_filter_read_the_new_records_once() -> None:
    pulls, log = machine()
    odd = Selection(record=is_odd)
    for _ in range(5):
        pulls.add(held(("A", 0), 0, 100, odd))

    woken = pulls.grown([log.grow(("A", 0), [2, 3])])

    assert len(woken) == 5
    assert log.read_count == 1


def test_an_arrival_elsewhere_reads_nothing() -> None:
    pulls, log = machine()
    pulls.add(held(("A", 0), 0, 100, Selection(record=is_odd)))

    assert pulls.grown([log.grow(("B", 0), [1])]) == []
    assert log.read_count == 0


def test_an_unwanted_message_wakes_nobody_before_the_sweep() -> None:
    pulls, log = machine()
    pull = held(("A", 0), 0, 100, Selection(frozenset({1})))
    pulls.add(pull)

    assert pulls.grown([log.grow(("A", 0), [2])]) == []
    assert pulls.sweep() == [pull]
    assert pulls.sweep() == []


def test_what_was_woken_leaves_nothing_behind() -> None:
    """A queue that is busy all the time must not collect the deadlines of pulls long gone."""
    pulls, log = machine()
    for _ in range(5 * STALE_MAX):
        pulls.add(held(("A", 0), log.max_offset("A", 0), 15_000))
        pulls.grown([log.grow(("A", 0), [1])])

    assert len(pulls) == 0
    assert pulls.next_due_ms() is None
    assert len(pulls._deadlines) <= STALE_MAX
    assert [pulls._queues, pulls._peers, pulls._passed] == [{}, {}, {}]


def test_deadlines_are_met_in_their_order() -> None:
    pulls, _ = machine()
    second, first = held(("A", 0), 0, 20), held(("A", 0), 0, 10)
    pulls.add(second)
    pulls.add(first)

    assert pulls.due(9) == []
    assert pulls.due(20) == [first, second]
