"""A pull that finds nothing waits: it is answered at once when something comes, and in time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.consume.pull import HOLD_MS_MAX, HOLD_SHARES
from flintmq.broker.requests.outcome import Answer
from flintmq.broker.requests.peer import Peer
from flintmq.model.queue import QueueOffset
from flintmq.model.topic import OFFSET_MOVED_TOPIC
from flintmq.protocol.bodies.client import SQL92
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.client_call import ResetOffset
from flintmq.protocol.headers.pull import PullAnswer
from support.broker.pulling import (
    COMMIT,
    GROUP,
    SUBSCRIPTION,
    SUSPEND,
    TOPIC,
    add_topic,
    beat,
    bodies_of,
    broker_config,
    pull,
    store,
    submit_pull,
    subscription,
)
from support.broker.world import SMALL_STORE, World, header_of

WAITING = SUBSCRIPTION | SUSPEND
WAIT_MS = 15_000


@pytest.fixture(autouse=True)
def no_wait_for_the_medium(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is about crashes, and many stores are opened."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr("os.fdatasync", lambda _: None)


class Poll:
    """A broker with one message, and a pull behind it that waits."""

    def __init__(self, directory: Path, config: BrokerConfig | None = None) -> None:
        self.world = World(directory, config or broker_config())
        add_topic(self.world)
        store(self.world, b"first", TAGS="A", a="1")

    def hold(self, **changes: object) -> int:
        fields: dict[str, Any] = {
            "sys_flag": WAITING,
            "queue_offset": 1,
            "suspend_timeout_millis": WAIT_MS,
            **changes,
        }
        opaque = submit_pull(self.world, **fields)
        self.world.settle()
        assert self.world.answer_to(opaque) is None
        return opaque

    def answer(self, opaque: int) -> Answer | None:
        return self.world.answer_to(opaque)

    def codes(self, *opaques: int) -> list[int | None]:
        answers = map(self.answer, opaques)
        return [None if answer is None else answer.code for answer in answers]


def test_a_message_that_comes_is_the_answer(tmp_path: Path) -> None:
    poll = Poll(tmp_path)
    waiting = poll.hold()

    store(poll.world, b"second", b"third")

    answer = poll.answer(waiting)
    assert bodies_of(answer) == [b"second", b"third"]
    assert header_of(answer, PullAnswer).next_begin_offset == 3
    assert len(poll.world.state.held) == 0


def test_the_first_message_of_a_queue_wakes_too(tmp_path: Path) -> None:
    poll = Poll(tmp_path)
    waiting = poll.hold(queue_id=1, queue_offset=0)

    store(poll.world, b"second", queue_id=1)

    assert bodies_of(poll.answer(waiting)) == [b"second"]


def test_a_message_of_the_same_turn_wakes(tmp_path: Path) -> None:
    """The pull looked before the message was written, and was held after it was appended."""
    poll = Poll(tmp_path)
    store(poll.world, b"second", settle=False)
    waiting = submit_pull(poll.world, sys_flag=WAITING, queue_offset=1)

    poll.world.settle()

    assert bodies_of(poll.answer(waiting)) == [b"second"]


def test_a_message_of_another_queue_does_not(tmp_path: Path) -> None:
    poll = Poll(tmp_path)
    waiting = poll.hold()

    store(poll.world, b"second", queue_id=1)

    assert poll.answer(waiting) is None


@pytest.mark.parametrize(
    "wish",
    [
        {"subscription": "B"},
        {"subscription": "a > 1", "expression_type": SQL92},
        {"sys_flag": SUSPEND},
    ],
    ids=["tag", "sql", "sql of a heartbeat"],
)
@pytest.mark.parametrize("extended", [False, True])
def test_an_unwanted_message_wakes_nobody_until_the_sweep(
    wish: dict[str, object], extended: bool, tmp_path: Path
) -> None:
    shape = replace(SMALL_STORE, extended_queues=extended)
    poll = Poll(tmp_path, broker_config(store=shape, bit_map_filter=extended))
    beat(poll.world, subscription("a > 1", expression_type=SQL92))
    poll.world.advance(1)
    passed, woken = poll.hold(**wish), poll.hold(queue_id=1, queue_offset=0, **wish)

    store(poll.world, b"unwanted", TAGS="A", a="1")
    store(poll.world, b"unwanted", b"wanted", queue_id=1, TAGS="B", a="2")
    assert poll.codes(passed, woken) == [None, 0]

    poll.world.advance(5_000)
    answer = poll.answer(passed)
    assert answer is not None
    assert (answer.code, answer.remark) == (20, "NO_MATCHED_MESSAGE")
    assert header_of(answer, PullAnswer).next_begin_offset == 2


def test_many_unwanted_records_of_one_turn_do_not_hide_a_wanted_one(tmp_path: Path) -> None:
    """One read looks at 800 units; the wanted record is the 900th."""
    poll = Poll(tmp_path)
    waiting = poll.hold(subscription="a > 1", expression_type=SQL92)

    store(poll.world, *[b"unwanted"] * 899, settle=False, a="1")
    store(poll.world, b"wanted", a="2")

    answer = poll.answer(waiting)
    assert answer is not None
    assert answer.code == 20
    assert header_of(answer, PullAnswer).next_begin_offset == 801


@pytest.mark.parametrize(
    ("queue_id", "offset", "status"),
    [(0, 1, "OFFSET_OVERFLOW_ONE"), (1, 0, "NO_MESSAGE_IN_QUEUE")],
)
def test_the_deadline_is_met_to_the_millisecond(
    queue_id: int, offset: int, status: str, tmp_path: Path
) -> None:
    poll = Poll(tmp_path)
    waiting = poll.hold(queue_id=queue_id, queue_offset=offset)

    poll.world.advance(WAIT_MS - 1)
    assert poll.answer(waiting) is None
    poll.world.advance(1)

    answer = poll.answer(waiting)
    assert answer is not None
    assert (answer.code, answer.remark) == (19, status)
    assert header_of(answer, PullAnswer).next_begin_offset == offset


@pytest.mark.parametrize(
    ("config", "asked_ms", "held_ms"),
    [
        ({}, 0, 5_000),
        ({}, -1, 5_000),
        ({}, 500, 500),
        ({}, 2**62, HOLD_MS_MAX),
        ({"long_polling": False}, 15_000, 1_000),
        ({"long_polling": False, "short_polling_ms": 70}, 15_000, 70),
    ],
)
def test_how_long_a_pull_is_held(
    config: dict[str, object], asked_ms: int, held_ms: int, tmp_path: Path
) -> None:
    poll = Poll(tmp_path, broker_config(**config))
    poll.hold(suspend_timeout_millis=asked_ms)

    assert poll.world.state.held.next_due_ms() == poll.world.now_ms + held_ms


def test_a_pull_that_does_not_want_to_wait_is_answered(tmp_path: Path) -> None:
    poll = Poll(tmp_path)

    answer = pull(poll.world, queue_offset=1, suspend_timeout_millis=WAIT_MS)

    assert answer is not None
    assert answer.code == 19


@pytest.mark.parametrize(("offset", "text", "code"), [(0, "B", 20), (9, "*", 21), (0, "*", 0)])
def test_only_a_pull_without_anything_new_waits(
    offset: int, text: str, code: int, tmp_path: Path
) -> None:
    poll = Poll(tmp_path)

    answer = pull(poll.world, sys_flag=WAITING, queue_offset=offset, subscription=text)

    assert answer is not None
    assert answer.code == code


def test_too_many_do_not_wait(tmp_path: Path) -> None:
    poll = Poll(tmp_path, broker_config(holds_max=2))
    poll.hold()
    poll.hold()

    answer = pull(poll.world, sys_flag=WAITING, queue_offset=1)

    assert answer is not None
    assert answer.code == 19


def test_one_connection_cannot_take_all_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flintmq.broker.consume.pull.HOLD_SHARE_MIN", 1)
    poll = Poll(tmp_path, broker_config(holds_max=4 * HOLD_SHARES))
    for _ in range(4):
        poll.hold()

    refused = pull(poll.world, sys_flag=WAITING, queue_offset=1)
    other = poll.hold(peer=Peer("127.0.0.1:50000"))

    assert refused is not None
    assert refused.code == 19
    assert poll.answer(other) is None


def test_a_pull_commits_when_it_comes_and_not_when_it_is_answered(tmp_path: Path) -> None:
    poll = Poll(tmp_path)
    offsets = poll.world.state.offsets
    waiting = poll.hold(sys_flag=WAITING | COMMIT, commit_offset=1)
    assert offsets.query(GROUP, TOPIC, 0) == 1
    offsets.commit(GROUP, TOPIC, 0, 5, "test")

    store(poll.world, b"second")

    assert poll.codes(waiting) == [0]
    assert offsets.query(GROUP, TOPIC, 0) == 5
    assert offsets.pulled(GROUP, TOPIC, 0) == 2


def test_a_reset_is_told_to_a_pull_that_waits(tmp_path: Path) -> None:
    poll = Poll(tmp_path)
    waiting = poll.hold()
    poll.world.state.offsets.reset(GROUP, TOPIC, 0, QueueOffset(0))

    poll.world.advance(WAIT_MS)

    answer = poll.answer(waiting)
    assert answer is not None
    assert (answer.code, answer.remark) == (21, "OFFSET_RESET")
    assert poll.world.state.log.max_offset(OFFSET_MOVED_TOPIC, 0) == 1


def test_who_waits_need_not_wait_when_its_group_is_moved(tmp_path: Path) -> None:
    poll = Poll(tmp_path)
    beat(poll.world, subscription(), group="others")
    waiting, other = poll.hold(), poll.hold(consumer_group="others")
    elsewhere = poll.hold(queue_id=1, queue_offset=0)
    header = ResetOffset(group=GROUP, topic=TOPIC, timestamp=0, is_force=True, queue_id=0, offset=0)

    poll.world.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
    poll.world.advance(0)

    assert poll.codes(waiting, other, elsewhere) == [21, None, None]
    answer = poll.answer(waiting)
    assert header_of(answer, PullAnswer).next_begin_offset == 0


def test_a_check_that_fails_meanwhile_is_the_answer(tmp_path: Path) -> None:
    poll = Poll(tmp_path)
    waiting = poll.hold()
    poll.world.state.topics.remove(TOPIC, poll.world.now_ms)

    poll.world.advance(WAIT_MS)

    assert poll.codes(waiting) == [17]


def test_a_connection_that_is_gone_gets_no_answer_and_costs_nothing(tmp_path: Path) -> None:
    poll = Poll(tmp_path)
    gone = Peer("127.0.0.1:40001")
    lost, kept = poll.hold(peer=gone), poll.hold()

    poll.world.engine.lost(gone, poll.world.now_ms)
    assert len(poll.world.state.held) == 1
    store(poll.world, b"second")

    assert poll.codes(lost, kept) == [None, 0]


def test_a_broker_that_stops_answers_and_holds_no_more(tmp_path: Path) -> None:
    poll = Poll(tmp_path)
    waiting = poll.hold()
    poll.world.state.is_stopping = True

    poll.world.engine.release_holds(poll.world.now_ms)

    assert poll.codes(waiting) == [19]
    assert pull(poll.world, sys_flag=WAITING, queue_offset=1) is not None


def test_a_clock_that_is_moved_brings_deadlines_nearer(tmp_path: Path) -> None:
    poll = Poll(tmp_path)
    waiting = poll.hold()

    poll.world.state.carry(3_600_000)
    poll.world.now_ms += 3_600_000
    poll.world.advance(0)

    assert poll.codes(waiting) == [19]
