"""A pull answered the quick way gets the same bytes, and leaves the same counts, as any other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.consume.fast_pull import cut_pull
from flintmq.broker.counters.call_times import RequestTimes
from flintmq.model.queue import QueueOffset
from support.broker.both_ways import Line, pull, send
from support.broker.world import SMALL_STORE

pytestmark = pytest.mark.usefixtures("each_kernel")

STORED = 40
OFFSETS = st.sampled_from(["0", "1", "8", "39", "40", "41", "-1", "007", "", "9" * 19, "x"])
PULLS = st.fixed_dictionaries(
    {},
    optional={
        "queueId": st.sampled_from(["1", "0", "9", "-1"]),
        "queueOffset": OFFSETS,
        "commitOffset": OFFSETS,
        "maxMsgNums": st.sampled_from(["32", "3", "0", "1000"]),
        "maxMsgBytes": st.sampled_from(["262144", "300", "0", "1000000"]),
        "sysFlag": st.sampled_from(["4", "5", "7", "0", "12"]),
        "subscription": st.sampled_from(["*", "TagA", "nothing"]),
        "topic": st.sampled_from(["orders", "missing"]),
        "consumerGroup": st.sampled_from(["readers", "others"]),
    },
)


@contextmanager
def filled(directory: Path, *, quick: bool = True) -> Iterator[Line]:
    """A connection to a broker that has messages, of a few sizes, in one queue."""
    line = Line(directory, quick=quick, config=BrokerConfig(store=SMALL_STORE))
    for number in range(STORED):
        line.read([send(10_000 + number, body=b"x" * (10 + number // 30))])
    line.world.settle()
    line.taken = 0
    line.wrote.clear()
    line.world.answers.clear()
    yield line
    line.world.stop()


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    with filled(tmp_path) as line:
        yield line


def counted(line: Line) -> tuple[object, ...]:
    """What pulls leave behind."""
    state = line.world.state
    stats, offsets = state.stats, state.offsets
    totals = [(each.sum, each.times) for each in (stats.gets, stats.found, stats.missed)]
    groups = ("readers", "others")
    noted = [offsets.pulled(group, "orders", 1) for group in groups]
    return totals, [offsets.queues(group, "orders") for group in groups], noted, len(state.held)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(PULLS | st.just({}), min_size=1, max_size=3), max_size=10))
def test_both_ways_give_the_same(reads: list[list[dict[str, str]]]) -> None:
    with ExitStack() as stack:
        lines = [
            stack.enter_context(
                filled(Path(stack.enter_context(TemporaryDirectory())), quick=quick)
            )
            for quick in (True, False)
        ]
        for line in lines:
            number = 0
            twice: list[list[dict[str, str]]] = [[{}], [{}]]
            for read in twice + reads:
                line.read([pull(number := number + 1, **fields) for fields in read])
                line.world.settle()

        assert lines[0].answers() == lines[1].answers()
        assert counted(lines[0]) == counted(lines[1])


def test_what_came_twice_is_answered_the_quick_way_from_then_on(line: Line) -> None:
    for number, offset in enumerate((0, 3, 6, 9), 1):
        line.read([pull(number, queueOffset=offset, commitOffset=offset, maxMsgNums=3)])

    assert line.taken == 2
    assert sorted(line.answers()) == [1, 2, 3, 4]
    assert line.world.state.offsets.query("readers", "orders", 1) == 9


def test_a_pull_beyond_the_end_is_held_as_ever(line: Line) -> None:
    for number in (1, 2, 3):
        line.read([pull(number, sysFlag=7)])
    assert line.taken == 1

    line.read([pull(4, sysFlag=7, queueOffset=STORED)])

    assert len(line.world.state.held) == 1
    assert line.taken == 1


@pytest.mark.parametrize("what", ["settings", "topics", "group", "reset", "hooks"])
def test_what_changes_the_answer_ends_the_quick_way(line: Line, what: str) -> None:
    for number in (1, 2, 3):
        line.read([pull(number)])
    assert line.taken == 1
    state = line.world.state
    if what == "settings":
        state.config = replace(state.config, permission=2)
    elif what == "topics":
        state.topics.remove("orders", line.world.now_ms)
    elif what == "group":
        group = state.groups.find("readers")
        assert group is not None
        changed: Any = type(group)(group_name="readers", consume_enable=False)
        state.groups.create_or_replace(changed, line.world.now_ms)
    elif what == "reset":
        state.offsets.reset("readers", "orders", 1, QueueOffset(7))
    else:
        state.hooks.on_pull.append(lambda _: None)

    line.read([pull(4)])

    assert line.taken == 1
    assert line.answers()[4].startswith(b'{"code":0,') == (what == "hooks")


def test_the_quick_way_is_timed_where_requests_are(line: Line) -> None:
    times = RequestTimes(line.now_ms, [11])
    line.world.engine.calls = line.world.engine.pulls.calls = times

    for number in (1, 2, 3):
        line.read([pull(number)])

    assert line.taken == 1
    assert times.calls[11, 0, False, False].counts[0] == 3


def test_a_header_that_names_a_number_twice_has_no_shape() -> None:
    _, header, _ = pull(1)
    assert cut_pull(header) is not None
    assert cut_pull(header.replace(b'"topic"', b'"queueId":"5","topic"')) is None
