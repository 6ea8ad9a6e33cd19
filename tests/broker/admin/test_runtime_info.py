"""The figures of a broker are all there, and those that tools parse can be parsed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.broker.admin.runtime_info import _size_text, _span_text, runtime_table
from flintmq.broker.requests.peer import Peer
from flintmq.protocol.codes import RequestCode
from support.broker.admin import join, make_topic
from support.broker.heartbeats import consumer, heartbeat, wants
from support.broker.world import START_MS, World

CAPTURED: dict[str, dict[str, str]] = {
    line["broker"]: line["figures"]
    for line in map(
        json.loads,
        (Path(__file__).parents[2] / "golden" / "runtime_figures.jsonl").read_text().splitlines(),
    )
}
"""What released brokers told."""

ALSO_TOLD = ("subscriptionConflicts", "heldPulls", "offsetCommitsBackward", "statsNotCounted")

DAY_MS = 86_400_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        make_topic(world, "T")
        yield world


def figures(world: World) -> dict[str, str]:
    return runtime_table(world.state, world.now_ms)


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_every_figure_of_a_released_broker_is_there_in_its_form(world: World, release: str) -> None:
    world.send("T", properties="DELAY\x011\x02")
    world.advance(5_000)
    found = figures(world)

    captured = CAPTURED[release]
    wanted = {name.replace("<path>", "commitlog"): value for name, value in captured.items()}

    assert len(wanted) > 45
    assert wanted.keys() - found.keys() == set()
    forms = {name: (form(found[name]), form(value)) for name, value in wanted.items()}
    assert {name: both for name, both in forms.items() if both[0] != both[1]} == {}


def form(figure: str) -> str:
    """A figure with all numbers and units of size alike.

    Of three rates a young RocketMQ leaves those empty whose time has not passed yet.
    """
    figure = re.sub(r"^(\S+)  $", r"\1 0 0", figure)
    return re.sub(r"-?\d+(\.\d+)?(E-?\d+)?( ?[KMGTPE]?i?B\b)?", "0", figure)


def test_what_rocketmq_does_not_tell_is_there_too(world: World) -> None:
    assert set(ALSO_TOLD) <= figures(world).keys()


def test_what_has_no_meaning_here_is_a_constant(world: World) -> None:
    found = figures(world)

    for pool in ("pull", "litePull", "query", "ack"):
        for figure in ("Size", "Capacity", "HeadWaitTimeMills"):
            assert found[f"{pool}ThreadPoolQueue{figure}"] == "0"
    for name in ("dispatchBehindBytes", "dispatchMaxBuffer", "pageCacheLockTimeMills"):
        assert found[name] == "0"
    assert found["remainTransientStoreBufferNumbs"] == "2147483647"


def test_the_directory_of_the_log_is_told_without_its_place_on_the_machine(
    world: World, tmp_path: Path
) -> None:
    found = figures(world)

    assert found["commitLogDiskRatio_commitlog"] == found["commitLogDiskRatio"]
    assert not [name for name in found if str(tmp_path) in name + found[name]]


def test_timers_that_come_and_go_are_told_by_their_rate(world: World) -> None:
    for _ in range(30):
        world.send("T", properties="TIMER_DELAY_MS\x0110000\x02")
    world.advance(5_000)
    before = figures(world)
    world.advance(10_000)
    after = figures(world)

    assert before["timerCongestNum"] == "30"
    assert float(before["timerEnqueueTps"]) > 0
    assert float(before["timerDequeueTps"]) == 0
    assert after["timerCongestNum"] == "0"
    assert float(after["timerDequeueTps"]) > 0
    assert (after["timerReadBehind"], after["timerOffsetBehind"]) == ("0", "0")


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
