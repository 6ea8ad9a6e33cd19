"""How long puts took is told truly, and costs two looks at the clock a turn."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.broker.server import BrokerServer
from flintmq.broker.tables.broker_stats import TEN_SECONDS, Counter
from flintmq.broker.tables.put_times import PERIOD_MS, PutTimes
from flintmq.net.loop import run
from flintmq.protocol.bodies.common_bodies import KvTable
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import request
from support.broker.servers import ASYNC, LOOPBACK, SYNC, SlowDisk, connected, pulling, sending
from support.broker.world import START_MS
from support.net.support import until
from support.store.refusing_disk import RefusingDisk


class Puts:
    """Puts by hand: so many messages whose turn took so long."""

    def __init__(self) -> None:
        self.counter = Counter((TEN_SECONDS,), START_MS)
        self.times = PutTimes(self.counter, START_MS)
        self.now_ms = START_MS

    def took(self, ms: int, count: int = 1, *, stop: int | None = None) -> None:
        self.times.begin(self.now_ms)
        self.put(ms, count, stop=stop)

    def put(self, ms: int, count: int = 1, *, stop: int | None = None) -> None:
        """The broker puts by itself."""
        self.counter.add(count, count, self.now_ms)
        self.end(ms, stop=stop)

    def end(self, ms: int, *, stop: int | None = None) -> None:
        self.times.end(stop, self.now_ms, lambda: self.now_ms + ms)

    def shown(self) -> dict[str, int]:
        text = self.times.distribution(self.now_ms)
        assert text.endswith(" ")
        pairs = [part.split("]:") for part in text.split()]
        return {name[1:]: int(count) for name, count in pairs if count != "0"}

    def percentile(self, share: float) -> float:
        return self.times.percentile(share, self.now_ms)


@pytest.mark.parametrize(
    ("took_ms", "name"),
    [
        (-5, "<=0ms"),
        (0, "<=0ms"),
        (1, "0~10ms"),
        (9, "0~10ms"),
        (10, "10~50ms"),
        (49, "10~50ms"),
        (50, "50~100ms"),
        (199, "100~200ms"),
        (200, "200~500ms"),
        (999, "500ms~1s"),
        (1_000, "1~2s"),
        (2_000, "2~3s"),
        (3_000, "3~4s"),
        (4_000, "4~5s"),
        (9_999, "5~10s"),
        (10_000, "10s~"),
        (50_000, "10s~"),
    ],
)
def test_a_time_is_shown_where_rocketmq_shows_it(took_ms: int, name: str) -> None:
    puts = Puts()

    puts.took(took_ms, 3)

    assert puts.shown() == {name: 3}
    assert puts.times.longest_ms == max(0, took_ms)


def test_a_request_that_puts_nothing_makes_no_later_put_longer() -> None:
    puts = Puts()
    puts.times.begin(puts.now_ms)
    puts.end(0)

    puts.now_ms += 5_000
    puts.put(20)

    assert puts.shown() == {"10~50ms": 1}


def test_names_are_those_of_rocketmq_in_its_order() -> None:
    assert Puts().times.distribution(START_MS) == (
        "[<=0ms]:0 [0~10ms]:0 [10~50ms]:0 [50~100ms]:0 [100~200ms]:0 [200~500ms]:0 "
        "[500ms~1s]:0 [1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:0 "
    )


def test_percentiles_are_those_of_what_was_put() -> None:
    puts = Puts()

    assert puts.percentile(0.99) == 0.0
    puts.took(0, 985)
    puts.took(40, 10)
    puts.took(300, 4)
    puts.took(20_000, 1)

    assert puts.percentile(0.5) <= 1.0
    assert 38 <= puts.percentile(0.99) <= 40
    assert 250 <= puts.percentile(0.999) <= 300
    assert puts.percentile(1.0) == 10_000


def test_the_last_whole_minute_is_shown_and_before_there_is_one_what_there_is() -> None:
    puts = Puts()
    puts.took(5, 2)
    in_the_first = puts.shown()
    puts.now_ms += PERIOD_MS
    puts.took(20, 7)
    in_the_second = puts.shown()
    puts.now_ms += PERIOD_MS
    in_the_third = puts.shown()
    puts.now_ms += 3 * PERIOD_MS

    assert in_the_first == in_the_second == {"0~10ms": 2}
    assert in_the_third == {"10~50ms": 7}
    assert puts.shown() == {}
    assert puts.times.longest_ms == 20


def test_who_waits_for_the_medium_is_counted_when_it_has_everything() -> None:
    puts = Puts()
    puts.took(1, 2, stop=100)
    puts.took(1, 3, stop=200)

    puts.times.durable(100, puts.now_ms + 70)
    first = puts.shown()
    puts.times.not_synced()

    assert first == {"50~100ms": 2}
    assert puts.shown() == first
    assert puts.times.failed_count == 3


def test_a_clock_that_is_moved_makes_no_put_longer() -> None:
    puts = Puts()
    puts.took(1, 2, stop=100)

    puts.times.carry(3_600_000)
    puts.now_ms += 3_600_000
    puts.times.durable(100, puts.now_ms + 4)

    assert puts.shown() == {"0~10ms": 2}


async def figures(broker: BrokerServer) -> dict[str, str]:
    channel = await connected(broker)
    reply = await channel.call(request(RequestCode.GET_BROKER_RUNTIME_INFO), 5_000)
    await channel.close(0)
    return dict(KvTable.from_body(reply.body).table)


def counted(told: dict[str, str]) -> int:
    return sum(int(part.rpartition(":")[2]) for part in told["putMessageDistributeTime"].split())


def test_every_message_that_is_sent_is_counted(tmp_path: Path) -> None:
    async def main() -> None:
        broker = await BrokerServer.start(tmp_path, ASYNC, listen=LOOPBACK)
        channel = await connected(broker)
        for _ in range(30):  # one at a time, then many in a turn, the quick way
            await channel.call(sending(), 5_000)
        await asyncio.gather(*(channel.call(sending(), 5_000) for _ in range(70)))

        told = await figures(broker)

        assert counted(told) == int(told["putMessageTimesTotal"]) == 100
        assert float(told["putLatency99"]) <= float(told["putLatency999"])
        await channel.close(0)
        await broker.stop()

    run(main())


def test_with_sync_flush_a_put_lasts_until_the_medium_has_it(tmp_path: Path) -> None:
    disk = SlowDisk()
    ahead_ms = [0]

    async def main() -> dict[str, str]:
        broker = await BrokerServer.start(
            tmp_path, SYNC, listen=LOOPBACK, disk=disk, clock=lambda: START_MS + ahead_ms[0]
        )
        channel = await connected(broker)
        await channel.call(sending(), 5_000)
        disk.may_sync.clear()
        waiting = [asyncio.ensure_future(channel.call(sending(), 9_000)) for _ in range(4)]
        await until(lambda: broker.state.unsynced_count == 4)
        ahead_ms[0] = 600
        disk.may_sync.set()
        await asyncio.gather(*waiting)
        told = await figures(broker)
        await channel.close(0)
        await broker.stop()
        return told

    told = run(main())

    assert "[<=0ms]:1 " in told["putMessageDistributeTime"]
    assert "[500ms~1s]:4 " in told["putMessageDistributeTime"]
    assert told["putMessageEntireTimeMax"] == "600"


def test_what_could_not_be_stored_is_counted_as_failed(tmp_path: Path) -> None:
    disk = RefusingDisk()

    async def main() -> dict[str, str]:
        broker = await BrokerServer.start(tmp_path, ASYNC, listen=LOOPBACK, disk=disk)
        channel = await connected(broker)
        await channel.call(sending(), 5_000)
        disk.changes_left = 0
        refused = [await channel.call(sending(), 5_000) for _ in range(3)]
        disk.changes_left = None
        told = await figures(broker)
        assert [reply.code == 0 for reply in refused] == [False] * 3
        await channel.close(0)
        await broker.stop()
        return told

    told = run(main())

    assert told["putMessageFailedTimes"] == "3"
    assert counted(told) == 1


def test_the_slowest_pull_is_told(tmp_path: Path) -> None:
    at_ms = itertools.count(START_MS, 7)  # every look at the clock takes so long

    async def main() -> dict[str, str]:
        broker = await BrokerServer.start(
            tmp_path, ASYNC, listen=LOOPBACK, clock=lambda: next(at_ms)
        )
        channel = await connected(broker)
        await channel.call(sending(), 5_000)
        await channel.call(pulling(0), 5_000)
        told = await figures(broker)
        await channel.close(0)
        await broker.stop()
        return told

    assert run(main())["getMessageEntireTimeMax"] == "7"


@pytest.mark.parametrize("sends", [10, 500])
def test_a_turn_looks_at_the_clock_as_often_however_many_messages_it_has(
    tmp_path: Path, sends: int
) -> None:
    looks = [0]

    def clock() -> int:
        looks[0] += 1
        return START_MS

    async def main() -> int:
        rarely = replace(ASYNC, save_offsets_ms=3_600_000)
        broker = await BrokerServer.start(tmp_path, rarely, listen=LOOPBACK, clock=clock)
        counter = broker.state.stats.puts
        looks[0] = 0
        broker.turn_is_due()
        counter.add(sends, sends, START_MS)
        told = broker.state.put_times.distribution
        await until(lambda: f"[<=0ms]:{sends} " in told(START_MS))
        seen = looks[0]
        await broker.stop()
        return seen

    assert run(main()) <= 3
