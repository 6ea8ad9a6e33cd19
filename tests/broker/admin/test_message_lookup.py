"""What is asked for by key, place, time or entry is found; what is not there is said so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.broker.admin import message_lookup as lookup
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.requests.outcome import Answer
from flintmq.broker.scheduled.append import NewMessage, append
from flintmq.model.host import Host
from flintmq.protocol.bodies.stats import QueuePage, QueueUnit
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.common_headers import OfQueue
from flintmq.protocol.headers.lookup import (
    QueryAnswer,
    QueryConsumeQueue,
    QueryMessage,
    ViewMessage,
)
from flintmq.protocol.headers.offset import (
    MaxOffset,
    OffsetAnswer,
    SearchOffset,
    StoreTimeAnswer,
)
from flintmq.protocol.records.record import decode_record
from flintmq.store.message_log import Appended
from support.broker.heartbeats import consumer, heartbeat, wants
from support.broker.world import SMALL_STORE, START_MS, World, body_of, header_of

EVER_MS = 2**62


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        yield world


def store(world: World, body: bytes, **properties: str) -> Appended:
    host = Host.parse("127.0.0.1:1")
    message = NewMessage("T", 0, body, properties, world.now_ms, host, world.state.host)
    appended = append(world.state, message, world.now_ms)
    world.settle()
    return appended


# By key


def by_key(
    world: World,
    key: str,
    *,
    max_num: int = 32,
    begin_ms: int = 0,
    end_ms: int = EVER_MS,
    is_unique: bool = False,
) -> Answer:
    header = QueryMessage(
        topic="T",
        key=key,
        max_num=max_num,
        begin_timestamp=begin_ms,
        end_timestamp=end_ms,
        is_unique_key=is_unique,
    )
    answer = world.ask(RequestCode.QUERY_MESSAGE, header)
    assert answer is not None
    return answer


def bodies_of(answer: Answer) -> list[bytes]:
    assert isinstance(answer.body, list)
    return [decode_record(view).body for view in answer.body]


def test_messages_are_found_by_any_of_their_keys(world: World) -> None:
    store(world, b"one", KEYS="red green")
    store(world, b"two", KEYS="blue")
    last = store(world, b"three", KEYS="green")

    answer = by_key(world, "green")

    header = header_of(answer, QueryAnswer)
    assert answer.code == 0
    assert bodies_of(answer) == [b"one", b"three"]
    assert header.index_last_update_phyoffset == last.log_offset
    assert header.index_last_update_timestamp == START_MS


def test_a_message_is_found_by_its_unique_id_whatever_the_count(world: World) -> None:
    store(world, b"one", UNIQ_KEY="C0A80101")

    assert bodies_of(by_key(world, "C0A80101", max_num=0, is_unique=True)) == [b"one"]


@pytest.mark.parametrize(("max_num", "count"), [(1, 1), (2, 2), (100, 70), (0, 0), (-5, 0)])
def test_no_more_messages_come_than_were_asked_for(world: World, max_num: int, count: int) -> None:
    for number in range(70):
        store(world, b"%d" % number, KEYS="k")

    answer = by_key(world, "k", max_num=max_num)

    assert len(answer.body) == min(count, 64)
    assert (answer.code == 0) == bool(count)


def test_only_messages_of_the_time_asked_for_are_found(world: World) -> None:
    store(world, b"early", KEYS="k")
    world.now_ms += 3_600_000
    store(world, b"late", KEYS="k")

    early = by_key(world, "k", end_ms=START_MS + 1_000)
    late = by_key(world, "k", begin_ms=START_MS + 3_000_000)

    assert (bodies_of(early), bodies_of(late)) == ([b"early"], [b"late"])


def test_what_is_not_found_is_said_so(world: World) -> None:
    store(world, b"one", KEYS="k")

    answer = by_key(world, "other")

    assert answer == Answer(
        22,
        QueryAnswer(index_last_update_timestamp=0, index_last_update_phyoffset=0),
        remark="can not find message, maybe time range not correct",
    )


def test_the_newest_messages_come_when_not_all_fit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [store(world, body, KEYS="k").size_bytes for body in (b"a", b"b", b"c")]
    monkeypatch.setattr(lookup, "BODY_BYTES_MAX", sizes[1] + sizes[2])

    answer = by_key(world, "k")

    assert bodies_of(answer) == [b"b", b"c"]


# By place


def test_a_record_is_found_by_its_place(world: World) -> None:
    store(world, b"one")
    appended = store(world, b"two", TAGS="x")

    answer = world.ask(
        RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(topic="T", offset=appended.log_offset)
    )

    record = decode_record(body_of(answer))
    assert (record.body, record.queue_offset) == (b"two", 1)


@pytest.mark.parametrize("offset", [-(2**63), -1, 1, 10**6, 2**63 - 1])
def test_where_no_record_is_none_is_found(world: World, offset: int) -> None:
    store(world, b"one")

    answer = world.ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(offset=offset))

    assert answer == Answer(1, remark=f"can not find message by the offset, {offset}")


# Offsets and times


def offset_at(world: World, time_ms: int, boundary: str | None = None, topic: str = "T") -> int:
    header = SearchOffset(topic=topic, queue_id=0, timestamp=time_ms, boundary_type=boundary)
    answer = world.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
    return header_of(answer, OffsetAnswer).offset


@pytest.fixture
def timed(world: World) -> World:
    """Offsets 0 and 1 at the start, 2 and 3 ten seconds later."""
    for ms in (0, 0, 10_000, 0):
        world.now_ms += ms
        store(world, b"x")
    return world


@pytest.mark.parametrize(
    ("ms", "lower", "upper"),
    [(-1, 0, 0), (0, 0, 1), (1, 2, 1), (10_000, 2, 3), (10_001, 4, 3)],
)
def test_an_offset_is_found_by_time_with_either_bound(
    timed: World, ms: int, lower: int, upper: int
) -> None:
    time_ms = START_MS + ms

    assert offset_at(timed, time_ms) == offset_at(timed, time_ms, "LOWER") == lower
    assert offset_at(timed, time_ms, "nonsense") == lower
    assert offset_at(timed, time_ms, "UPPER") == offset_at(timed, time_ms, "upper") == upper


def test_a_queue_that_is_not_there_is_empty(world: World) -> None:
    unknown = OfQueue(topic="unknown", queue_id=-1)

    largest = world.ask(RequestCode.GET_MAX_OFFSET, MaxOffset(topic="unknown", queue_id=7))
    smallest = world.ask(RequestCode.GET_MIN_OFFSET, unknown)
    earliest = world.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, unknown)

    assert offset_at(world, START_MS, topic="unknown") == 0
    assert header_of(largest, OffsetAnswer).offset == 0
    assert header_of(smallest, OffsetAnswer).offset == 0
    assert header_of(earliest, StoreTimeAnswer).timestamp == -1


def test_the_ends_of_a_queue_are_told(timed: World) -> None:
    queue = OfQueue(topic="T", queue_id=0)

    largest = timed.ask(RequestCode.GET_MAX_OFFSET, MaxOffset(topic="T", queue_id=0))
    smallest = timed.ask(RequestCode.GET_MIN_OFFSET, queue)
    earliest = timed.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, queue)

    assert header_of(largest, OffsetAnswer).offset == 4
    assert header_of(smallest, OffsetAnswer).offset == 0
    assert header_of(earliest, StoreTimeAnswer).timestamp == START_MS


# The index of a queue


def page_of(world: World, index: int = 0, count: int = 10, group: str | None = None) -> QueuePage:
    header = QueryConsumeQueue(
        topic="T", queue_id=0, index=index, count=count, consumer_group=group
    )
    return QueuePage.from_body(body_of(world.ask(RequestCode.QUERY_CONSUME_QUEUE, header)))


def test_the_entries_of_a_queue_are_shown(world: World) -> None:
    appended = [store(world, b"x", TAGS=tag) for tag in "ABC"]

    page = page_of(world, index=1, count=1)

    assert page == QueuePage(
        max_queue_index=3,
        min_queue_index=0,
        queue_data=(
            QueueUnit(
                physic_offset=appended[1].log_offset,
                physic_size=appended[1].size_bytes,
                tags_code=66,
            ),
        ),
    )
    assert len(page_of(world).queue_data or ()) == 3
    assert page_of(world, count=-1).queue_data == ()


def test_no_more_entries_are_shown_than_one_answer_holds(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "ENTRIES_MAX", 2)
    for _ in range(3):
        store(world, b"x")

    assert len(page_of(world, count=2**31 - 1).queue_data or ()) == 2


@pytest.mark.parametrize("index", [-1, 1, 2**62])
def test_an_index_outside_the_queue_is_said_so(world: World, index: int) -> None:
    store(world, b"x")
    header = QueryConsumeQueue(topic="T", queue_id=0, index=index, count=1)

    answer = world.ask(RequestCode.QUERY_CONSUME_QUEUE, header)

    assert answer == Answer(remark=f"Index {index} of 0@T is not exist!")


def test_a_queue_without_messages_has_no_entries(world: World) -> None:
    header = QueryConsumeQueue(topic="T", queue_id=5, index=0, count=1)

    answer = world.ask(RequestCode.QUERY_CONSUME_QUEUE, header)

    assert answer == Answer(1, remark="5@T is not exist!")


def test_a_group_that_is_not_online_is_said_so(world: World) -> None:
    store(world, b"x")

    page = page_of(world, group="G")

    assert page.filter_data == "G@T is not online!"
    assert page.subscription_data is None


@pytest.mark.parametrize(
    ("text", "sql", "taken"),
    [
        ("A || C", False, [True, False, True]),
        ("*", False, [True, True, True]),
        ("||", False, [False, False, False]),
        ("n > 1", True, [False, True, True]),
    ],
)
def test_with_extended_queues_the_filter_of_a_group_is_tried(
    tmp_path: Path, text: str, sql: bool, taken: list[bool]
) -> None:
    extended = replace(SMALL_STORE, extended_queues=True)
    with World(tmp_path, BrokerConfig(store=extended, bit_map_filter=True)) as world:
        said = heartbeat("c", consumer("G", wants("T", text, sql=sql)))
        world.ask(RequestCode.HEART_BEAT, None, said.to_body())
        for number, tag in enumerate("ABC"):
            store(world, b"x", TAGS=tag, n=str(number + 1))

        page = page_of(world, group="G")

    units = page.queue_data or ()
    assert [unit.eval for unit in units] == taken
    assert page.subscription_data == wants("T", text, sql=sql)
    assert page.filter_data is not None
    assert (text in page.filter_data) == sql
    for unit in units:
        assert unit.extend_data_json is not None
        assert '"tagsCode":6' in unit.extend_data_json
        assert unit.bit_map is not None
        assert unit.bit_map.count("1") == (3 if sql and unit.eval else 0)
