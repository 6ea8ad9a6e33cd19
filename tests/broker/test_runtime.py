"""The figures of a broker are all there, and those that tools parse can be parsed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.admin import join, make_topic
from broker.heartbeats import consumer, heartbeat, wants
from broker.world import START_MS, World
from flintmq.broker.peer import Peer
from flintmq.broker.runtime import _size_text, _span_text, runtime_table
from flintmq.protocol.codes import RequestCode

ALL = [
    "brokerVersionDesc",
    "brokerVersion",
    "brokerActive",
    "bootTimestamp",
    "runtime",
    "msgPutTotalYesterdayMorning",
    "msgPutTotalTodayMorning",
    "msgPutTotalTodayNow",
    "msgGetTotalYesterdayMorning",
    "msgGetTotalTodayMorning",
    "msgGetTotalTodayNow",
    "sendThreadPoolQueueSize",
    "sendThreadPoolQueueCapacity",
    "sendThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueSize",
    "pullThreadPoolQueueCapacity",
    "pullThreadPoolQueueHeadWaitTimeMills",
    "queryThreadPoolQueueSize",
    "queryThreadPoolQueueCapacity",
    "queryThreadPoolQueueHeadWaitTimeMills",
    "litePullThreadPoolQueueSize",
    "ackThreadPoolQueueSize",
    "ackThreadPoolQueueHeadWaitTimeMills",
    "EndTransactionQueueSize",
    "EndTransactionThreadPoolQueueCapacity",
    "dispatchBehindBytes",
    "pageCacheLockTimeMills",
    "earliestMessageTimeStamp",
    "startAcceptSendRequestTimeStamp",
    "remainTransientStoreBufferNumbs",
    "remainHowManyDataToFlush",
    "commitLogDirCapacity",
    "putMessageEntireTimeMax",
    "putMessageTimesTotal",
    "putMessageSizeTotal",
    "putMessageDistributeTime",
    "putMessageAverageSize",
    "dispatchMaxBuffer",
    "getMessageEntireTimeMax",
    "putTps",
    "getFoundTps",
    "getMissTps",
    "getTotalTps",
    "getTransferedTps",
    "getTransferredTps",
    "commitLogDiskRatio",
    "consumeQueueDiskRatio",
    "commitLogMinOffset",
    "commitLogMaxOffset",
    "timerReadBehind",
    "timerOffsetBehind",
    "timerCongestNum",
    "timerEnqueueTps",
    "timerDequeueTps",
    "subscriptionConflicts",
]

DAY_MS = 86_400_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        make_topic(world, "T")
        yield world


def figures(world: World) -> dict[str, str]:
    return runtime_table(world.state, world.now_ms)


def test_every_figure_is_there(world: World) -> None:
    assert set(ALL) <= figures(world).keys()


def test_versions_are_those_we_say_we_are(world: World) -> None:
    found = figures(world)

    assert (found["brokerVersionDesc"], found["brokerVersion"]) == ("V5_3_3", "479")


def test_rates_are_three_numbers(world: World) -> None:
    for _ in range(20):
        world.send("T")
    world.now_ms += 5_000

    found = figures(world)

    for name in ("putTps", "getFoundTps", "getMissTps", "getTotalTps", "getTransferredTps"):
        assert len([float(part) for part in found[name].split(" ")]) == 3
    assert found["putTps"] == "4.0 4.0 4.0"
    assert found["getTransferedTps"] == found["getTransferredTps"]


def test_rates_look_back_ten_seconds_a_minute_and_ten_minutes(world: World) -> None:
    world.now_ms += 600_000
    world.send("T")
    world.now_ms += 30_000

    ten_seconds, minute, ten_minutes = map(float, figures(world)["putTps"].split(" "))

    assert ten_seconds == 0.0
    assert minute == pytest.approx(1 / 60, rel=0.2)
    assert ten_minutes == pytest.approx(1 / 600, rel=0.02)


def test_totals_are_told_of_this_morning_and_of_yesterday(world: World) -> None:
    world.now_ms = START_MS - START_MS % DAY_MS + DAY_MS // 2
    world.send("T")
    world.now_ms += DAY_MS
    world.send("T")
    world.send("T")
    world.now_ms += DAY_MS
    world.send("T")

    found = figures(world)

    assert found["msgPutTotalYesterdayMorning"] == "1"
    assert found["msgPutTotalTodayMorning"] == "3"
    assert found["msgPutTotalTodayNow"] == "4"


def test_the_extent_of_the_store_is_told(world: World) -> None:
    before = figures(world)
    first_ms = world.now_ms
    world.send("T")
    world.now_ms += 10_000
    world.send("T")

    found = figures(world)

    assert before["earliestMessageTimeStamp"] == "-1"
    assert int(found["earliestMessageTimeStamp"]) == first_ms
    assert found["commitLogMinOffset"] == "0"
    assert int(found["commitLogMaxOffset"]) == world.state.log.end_offset > 0
    assert 0 < float(found["commitLogDiskRatio"]) < 1
    assert re.fullmatch(r"Total : .+ .iB, Free : .+ .iB\.", found["commitLogDirCapacity"])
    assert (found["putMessageTimesTotal"], found["runtime"]) == (
        "2",
        "[ 0 days, 0 hours, 0 minutes, 10 seconds ]",
    )


def test_delayed_messages_are_told_by_level(world: World) -> None:
    world.send("T", properties="DELAY\x013\x02")
    world.advance(1_000)

    assert figures(world)["scheduleMessageOffset_3"] == "0,1"


def test_members_that_want_different_things_are_told(world: World) -> None:
    assert figures(world)["subscriptionConflicts"] == ""
    join(world, "g", "T", client_id="c@1")
    other = heartbeat("c@2", consumer("g", wants("T", "A")))
    world.ask(RequestCode.HEART_BEAT, None, other.to_body(), peer=Peer("127.0.0.1:50009"))

    told = figures(world)["subscriptionConflicts"]

    assert "g in T" in told
    assert "c@1" in told
    assert "c@2" in told


def test_sends_that_wait_for_the_medium_are_the_send_queue(world: World) -> None:
    world.state.unsynced_count = 3
    world.state.config = replace(world.state.config, unsynced_sends_max=7)

    found = figures(world)

    assert found["sendThreadPoolQueueSize"] == "3"
    assert found["sendThreadPoolQueueCapacity"] == "7"


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1_023, "1023 B"),
        (1_536, "1.5 KiB"),
        (3 * 2**40, "3.0 TiB"),
        (2**70, "1024.0 EiB"),
    ],
)
def test_sizes_are_told_as_rocketmq_writes_them(size_bytes: int, text: str) -> None:
    assert _size_text(size_bytes) == text


def test_a_span_is_told_in_days_and_below() -> None:
    span_ms = ((2 * 24 + 3) * 60 + 4) * 60_000 + 5_999

    assert _span_text(span_ms) == "[ 2 days, 3 hours, 4 minutes, 5 seconds ]"
