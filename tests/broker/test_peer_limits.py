"""What one peer may take has a limit, a clear answer and a counter, as docs/security.md says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from flintmq.access.token_bucket import TokenBucket
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.config.config_file import SETTINGS, BrokerSettings, settings_texts
from flintmq.broker.guard import broker_guard
from flintmq.broker.limits.client_owners import CONNECTION_CLIENTS_MAX
from flintmq.broker.requests.outcome import Answer
from flintmq.broker.requests.peer import Peer
from flintmq.broker.server import BrokerServer
from flintmq.broker.stepping import WAITING_MAX
from flintmq.broker.tables.clients import CONNECTION_GROUPS_MAX
from flintmq.broker.tables.queue_locks import GROUP_LOCKS_MAX, LOCKS_MAX
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import BrokerRefused
from flintmq.net.address import Address
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.session import Session
from flintmq.net.channels.unread_bytes import UnreadBytes
from flintmq.net.refusals import Refusals
from flintmq.net.servers.rate_gate import RateGate, RequestRates
from flintmq.protocol.bodies.common_bodies import KvTable
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.frame import Frame, FrameReader
from flintmq.protocol.headers.common_headers import NoFields
from flintmq.protocol.wire import encode_command
from support.broker.admin import join, make_topic, new_topic
from support.broker.wire import Wire, command_of, plain
from support.broker.world import SMALL_STORE, World, body_of
from support.metrics.scraping import scrape

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
SOURCE = Path(__file__).parents[2] / "src" / "flintmq"

CONSTANTS = {
    "CONNECTION_GROUPS_MAX": CONNECTION_GROUPS_MAX,
    "CONNECTION_CLIENTS_MAX": CONNECTION_CLIENTS_MAX,
    "GROUP_LOCKS_MAX": GROUP_LOCKS_MAX,
    "LOCKS_MAX": LOCKS_MAX,
    "WAITING_MAX": WAITING_MAX,
    "unsynced_sends_max": BrokerConfig().unsynced_sends_max,
    "unsynced_bytes_max": BrokerConfig().unsynced_bytes_max,
}


def rows() -> list[list[str]]:
    """The table of the page: limit, default, setting, answer, counter."""
    part = PAGE.read_text().partition("## Limits of peers")[2].partition("\n## ")[0]
    found = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found[1:]]


def test_the_page_has_every_setting_with_its_default_and_every_counter() -> None:
    shown = settings_texts(BrokerSettings())
    code = "".join(path.read_text() for path in SOURCE.rglob("*.py"))
    table = rows()

    for _, default, setting, _, counter in table:
        key, counted = setting.strip("`"), counter.strip("`")
        assert f'"{counted}"' in code, counted
        if re.fullmatch(r"[0-9,]+", default):
            number = default.replace(",", "")
            assert number == (shown[key] if key else str(CONSTANTS[counted])), key or counted
        elif key:  # the words say what 0 means
            assert shown[key] == "0", key
    settings = {setting.strip("`") for _, _, setting, _, _ in table if setting}
    fields = {path.path for key, path in SETTINGS.items() if key in settings}
    assert len(fields) == len(settings)
    counters = [counter for *_, counter in table]
    assert len(set(counters)) == len(counters)


@contextmanager
def a_world(directory: Path, **changes: Any) -> Iterator[World]:
    with World(directory, replace(BrokerConfig(store=SMALL_STORE), **changes)) as world:
        yield world


def figures(world: World) -> dict[str, str]:
    """What `flintmq broker status` gets."""
    answer = world.ask(RequestCode.GET_BROKER_RUNTIME_INFO, NoFields())
    return KvTable.from_body(body_of(answer)).table


# Requests a second


def test_requests_beyond_the_rate_are_refused_and_the_reason_named(tmp_path: Path) -> None:
    with a_world(tmp_path, requests_per_second_max=10) as world:
        wire = Wire(world, broker_guard(world.engine, lambda: world.now_ms, None))
        codes = [wire.ask(RequestCode.GET_BROKER_RUNTIME_INFO, {})[0].code for _ in range(12)]
        (refused,) = wire.ask(RequestCode.GET_BROKER_RUNTIME_INFO, {})
        (pull,) = wire.ask(RequestCode.PULL_MESSAGE, plain(RequestCode.PULL_MESSAGE))

        assert codes == [0] * 10 + [2] * 2
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert "127.0.0.1 sends more than 10 requests a second" in (refused.remark or "")
        assert "requestsPerSecondMax" in (refused.remark or "")
        assert pull.code == ResponseCode.FLOW_CONTROL
        assert figures(world)["refused_requestsPerSecondMax"] == "4"

        world.advance(1_000)
        assert wire.ask(RequestCode.GET_BROKER_RUNTIME_INFO, {})[0].code == 0


def test_all_connections_of_an_address_share_its_rate(tmp_path: Path) -> None:
    with a_world(tmp_path, requests_per_second_max=10) as world:
        gate = broker_guard(world.engine, lambda: world.now_ms, None)
        answers = [Wire(world, gate).ask(RequestCode.GET_BROKER_CONFIG, {})[0] for _ in range(11)]

        assert [each.code for each in answers] == [0] * 10 + [2]


def test_heartbeats_pass_and_oneway_requests_get_no_answer(tmp_path: Path) -> None:
    with a_world(tmp_path, requests_per_second_max=1) as world:
        wire = Wire(world, broker_guard(world.engine, lambda: world.now_ms, None))
        wire.ask(RequestCode.GET_BROKER_CONFIG, {})
        body = b'{"clientID": "c@1", "producerDataSet": [{"groupName": "p"}]}'

        assert wire.ask(RequestCode.HEART_BEAT, {}, body)[0].code == 0
        oneway = command_of(RequestCode.GET_BROKER_CONFIG, {}, oneway=True)
        assert wire.submit(oneway) == []
        assert world.state.refusals.counts == {"requestsPerSecondMax": 1}


def test_a_rate_that_is_set_while_the_broker_runs_counts_at_once(tmp_path: Path) -> None:
    with a_world(tmp_path) as world:
        wire = Wire(world, broker_guard(world.engine, lambda: world.now_ms, None))
        assert all(wire.ask(RequestCode.GET_BROKER_CONFIG, {})[0].code == 0 for _ in range(20))
        wire.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"requestsPerSecondMax=1")

        codes = [wire.ask(RequestCode.GET_BROKER_CONFIG, {})[0].code for _ in range(3)]
        assert codes == [0, 2, 2]


class OneATurn:
    """A session that serves one frame of each turn, and its channel."""

    peer = "127.0.0.1:50000"

    def __init__(self) -> None:
        self.served = 0
        self.backlog: list[Frame] = []
        self.written: list[bytes] = []

    @property
    def frames_behind(self) -> int:
        return len(self.backlog)

    def frames(self, frames: list[Frame]) -> None:
        self.served += 1
        self.backlog = frames[1:]

    def write(self, chunks: tuple[bytes, ...]) -> None:
        self.written += chunks


def test_a_request_that_waits_for_a_later_turn_is_paid_once() -> None:
    both = OneATurn()
    rates = RequestRates(lambda: 100, lambda: 0, Refusals())
    gate = RateGate(cast(Session, both), cast(Channel, both), rates)
    data = encode_command(command_of(RequestCode.GET_BROKER_CONFIG, {}))

    def give(count: int) -> None:
        both.backlog = FrameReader().feed(data * count)
        while both.backlog:
            gate.frames(both.backlog)

    give(60)
    give(40)
    assert (both.served, both.written) == (100, [])


# New names


def made(world: World, name: str, peer: Peer) -> Answer:
    answer = world.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, new_topic(name), peer=peer)
    assert answer is not None
    return answer


def test_one_address_makes_so_many_names_in_an_hour_and_others_make_theirs(tmp_path: Path) -> None:
    first, again = Peer("10.0.0.1:1"), Peer("10.0.0.1:2")
    with a_world(tmp_path, names_per_address_max=3) as world:
        assert [made(world, f"t{n}", first).code for n in range(3)] == [0, 0, 0]
        refused = made(world, "t3", again)
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert "namesPerAddressMax" in (refused.remark or "")
        assert made(world, "t0", first).code == 0  # it is there already
        assert made(world, "other", Peer("10.0.0.2:1")).code == 0
        assert figures(world)["refused_namesPerAddressMax"] == "1"

        world.advance(3_600_000)
        assert made(world, "t3", first).code == 0


def test_topics_and_groups_made_by_clients_count_too(tmp_path: Path) -> None:
    with a_world(tmp_path, names_per_address_max=2) as world:
        make_topic(world, "T")
        join(world, "g1", "T")
        with pytest.raises(AssertionError, match="namesPerAddressMax"):
            join(world, "g2", "T")
        assert "g2" not in world.state.groups


# Unread answers


class Unread:
    """A connection whose peer reads as the test says."""

    def __init__(self, name: str) -> None:
        self.peer = name
        self.unsent_bytes = 0
        self.reason = ""

    def abort(self, reason: str) -> None:
        self.reason = reason


def test_of_all_that_leave_much_unread_the_worst_is_closed_and_readers_stay() -> None:
    refusals = Refusals()
    budget = UnreadBytes(1_000, 1_500, refusals)
    small, large, reader = Unread("small"), Unread("large"), Unread("reader")
    for each, unread in ((reader, 800), (small, 300), (large, 700)):
        if each is large:
            reader.unsent_bytes = 0  # it read everything, and nothing was written to it since
        each.unsent_bytes = unread
        budget.update(each, unread)
    assert [each.reason for each in (small, large, reader)] == ["", "", ""]

    small.unsent_bytes = 900
    budget.update(small, 900)

    assert small.reason == "the peer left 900 bytes unread"
    assert [each.reason for each in (large, reader)] == ["", ""]
    assert refusals.counts == {"unreadBytesMax": 1}
    assert budget.total_bytes <= 1_500


def test_one_connection_that_leaves_too_much_unread_is_closed() -> None:
    refusals = Refusals()
    budget = UnreadBytes(1_000, 10_000, refusals)
    one = Unread("one")
    budget.update(one, 1_001)

    assert "1001 bytes unread" in one.reason
    assert refusals.counts == {"unreadBytesPerConnectionMax": 1}
    assert budget.total_bytes == 0


# The rate itself


def test_a_bucket_gives_its_rate_over_time_and_debts_are_paid() -> None:
    bucket = TokenBucket(100, 0)
    served = 0
    for now_ms in range(10_000):
        if bucket.has_any(now_ms):
            bucket.pay(7)
            served += 7
    assert 1_000 <= served <= 1_100 + 7  # ten seconds, one that was saved up, and the last

    bucket.pay(1_000)
    wait_ms = bucket.wait_ms(10_000)
    assert not bucket.has_any(10_000 + wait_ms - 10)
    assert bucket.has_any(10_000 + wait_ms)


def test_a_clock_that_goes_back_gives_nothing_and_takes_nothing() -> None:
    bucket = TokenBucket(10, 1_000)
    bucket.pay(10)
    assert not bucket.has_any(500)
    assert not bucket.has_any(500)
    assert bucket.has_any(600)


def test_the_ports_of_a_broker_have_the_limits_of_its_settings(tmp_path: Path) -> None:
    async def scene() -> None:
        config = BrokerConfig(store=SMALL_STORE, connections_max=10, connections_per_address_max=2)
        broker = await BrokerServer.start(tmp_path, config, listen=Address("127.0.0.1", 0))
        try:
            at = broker.address
            both = [await asyncio.open_connection(at.host, at.port) for _ in range(2)]
            reader, writer = await asyncio.open_connection(at.host, at.port)
            assert await asyncio.wait_for(reader.read(1), 60) == b""  # closed at once
            assert broker.state.refusals.counts == {"connectionsPerAddressMax": 1}
            for each in (writer, *(each for _, each in both)):
                each.close()
        finally:
            await broker.stop()

    asyncio.run(scene())


def test_prometheus_sees_what_was_refused_by_limit() -> None:
    config = BrokerConfig(store=SMALL_STORE, names_per_address_max=1)
    with (
        EmbeddedBroker(config=config, metrics=Address("127.0.0.1", 0)) as broker,
        broker.admin() as admin,
    ):
        refused = 0
        for number in range(10):
            try:
                admin.create_topic(f"topic{number}")
            except BrokerRefused as error:
                refused += "namesPerAddressMax" in str(error)
        seen = scrape(broker.metrics)

    assert refused >= 8, "one, and one in debt"
    assert seen.value("flintmq_refused_total", limit="namesPerAddressMax") >= refused
    assert seen.value("flintmq_refused_total", limit="connectionsMax") == 0
