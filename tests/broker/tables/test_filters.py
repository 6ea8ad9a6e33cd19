"""Filters follow the versions of their groups, live and die with them, and mark messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker.tables import filters as filters_module
from flintmq.broker.tables.filters import DEAD_KEPT_MS, LOADED_DEAD_MS, ConsumerFilters, bits_of
from flintmq.errors import InvalidExpression
from flintmq.model.host import Host
from flintmq.protocol.bodies.client import SQL92, TAG, Subscription
from flintmq.protocol.bodies.group import FilterTable, GroupFilter
from flintmq.protocol.records.properties import encode_properties
from flintmq.protocol.records.record_pattern import RecordPattern, packed_host

TESTS = Path(__file__).parents[2]
GOLDEN = json.loads((TESTS / "filter" / "golden" / "bit_maps.json").read_text())
NOW_MS = 1_700_000_000_000
HOST = Host.parse("127.0.0.1:10911")


def wish(text: str, version: int = 1, *, topic: str = "orders", kind: str = SQL92) -> Subscription:
    return Subscription(topic=topic, sub_string=text, sub_version=version, expression_type=kind)


def registered(*wishes: Subscription) -> ConsumerFilters:
    """A group that says one thing after the other, a second apart."""
    filters = ConsumerFilters(None, NOW_MS)
    for index, each in enumerate(wishes):
        filters.register("g", [each], NOW_MS + 1_000 * index)
    return filters


def found(filters: ConsumerFilters, topic: str = "orders") -> GroupFilter:
    kept = filters.find(topic, "g")
    assert kept is not None
    return kept


def record(**properties: str) -> memoryview:
    pattern = RecordPattern("orders", 0, store_host=HOST)
    text = encode_properties(properties)
    return memoryview(pattern.record(b"body", text, NOW_MS, packed_host(HOST), 0, 0, 0))


# Registering


def test_a_new_filter_has_its_bits_and_its_time() -> None:
    assert found(registered(wish("a > 5", 7))) == GroupFilter(
        bloom_filter_data=bits_of("g", "orders"),
        born_time=NOW_MS,
        client_version=7,
        consumer_group="g",
        expression="a > 5",
        topic="orders",
    )


@pytest.mark.parametrize(
    ("second", "text", "version", "born_after_ms"),
    [
        (wish("a > 6", 4), "a > 5", 5, 0),
        (wish("a > 6", 5), "a > 5", 5, 0),
        (wish("a > 6", 6), "a > 6", 6, 1_000),
        (wish("a > 5", 6), "a > 5", 6, 0),
        (wish("*", 6, kind=TAG), "a > 5", 5, 0),
        (wish("", 6), "a > 5", 5, 0),
    ],
    ids=["older", "equal", "newer", "newer but the same", "tags", "no text"],
)
def test_only_a_newer_version_replaces_a_filter(
    second: Subscription, text: str, version: int, born_after_ms: int
) -> None:
    kept = found(registered(wish("a > 5", 5), second))

    assert kept.expression == text
    assert kept.client_version == version
    assert kept.born_time == NOW_MS + born_after_ms
    assert not kept.dead


@pytest.mark.parametrize("bad", [wish("a >", 6), wish("a > 5", 6, kind="GROOVY")])
def test_what_does_not_compile_removes_the_filter_so_that_the_client_is_told(
    bad: Subscription,
) -> None:
    filters = registered(wish("a > 5", 5), bad)

    assert filters.find("orders", "g") is None
    assert filters.table(NOW_MS).filter_data_by_topic == {}


def test_the_number_of_filters_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters_module, "FILTERS_MAX", 1)
    filters = registered(wish("a > 5"))

    filters.register("h", [wish("a > 5")], NOW_MS)
    filters.register("g", [wish("a > 6", 2)], NOW_MS)

    assert filters.find("orders", "h") is None
    assert found(filters).expression == "a > 6"


# Life and death


def test_a_topic_no_longer_subscribed_leaves_a_dead_filter() -> None:
    filters = registered(wish("a > 5"), wish("b > 5", topic="bills"))

    assert found(filters).dead
    assert found(filters).dead_time == NOW_MS + 1_000
    assert not found(filters, "bills").dead


@pytest.mark.parametrize("version", [1, 2])
def test_a_dead_filter_comes_back_as_old_as_it_was(version: int) -> None:
    filters = registered(wish("a > 5", 1))
    filters.unregister("g", NOW_MS + 10)
    assert found(filters).dead

    filters.register("g", [wish("a > 5", version)], NOW_MS + 20)

    assert not found(filters).dead
    assert found(filters).dead_time == 0
    assert found(filters).born_time == NOW_MS


def test_an_older_version_does_not_wake_the_dead() -> None:
    filters = registered(wish("a > 5", 5))
    filters.unregister("g", NOW_MS + 10)

    filters.register("g", [wish("a > 5", 4)], NOW_MS + 20)

    assert found(filters).dead


def test_the_first_death_counts() -> None:
    filters = registered(wish("a > 5"))
    filters.unregister("g", NOW_MS + 10)
    filters.unregister("g", NOW_MS + 20)

    assert found(filters).dead_time == NOW_MS + 10


def test_the_dead_are_forgotten_after_a_day_when_the_table_is_saved() -> None:
    filters = registered(wish("a > 5"))
    filters.unregister("g", NOW_MS)

    assert filters.table(NOW_MS + DEAD_KEPT_MS - 1).filter_data_by_topic
    assert not filters.table(NOW_MS + DEAD_KEPT_MS).filter_data_by_topic
    assert filters.find("orders", "g") is None


def test_the_living_are_kept_for_ever() -> None:
    filters = registered(wish("a > 5"))

    assert filters.table(NOW_MS + 10 * DEAD_KEPT_MS).filter_data_by_topic


# Files


def test_what_was_alive_when_the_broker_stopped_is_dead_half_a_minute_ago() -> None:
    saved = registered(wish("a > 5")).table(NOW_MS)
    later_ms = NOW_MS + 60_000

    filters = ConsumerFilters(saved, later_ms)

    assert found(filters).dead
    assert found(filters).dead_time == later_ms - LOADED_DEAD_MS
    assert found(ConsumerFilters(saved, NOW_MS + 1)).dead_time == NOW_MS


def test_a_file_of_rocketmq_is_taken_over() -> None:
    filters = ConsumerFilters(golden_table(), NOW_MS)

    high = filters.find("filtered", "sql_high")

    assert high is not None
    assert high.dead_time == 1_794_787_614_571
    assert filters.table(high.dead_time) == golden_table()
    assert filters.wanted("filtered", "sql_high").takes(record(price="101"), 0)


@pytest.mark.parametrize(
    ("change", "word"),
    [({"expression": "price >"}, "left out"), ({"bloomFilterData": None}, "other bits")],
)
def test_a_filter_that_cannot_be_used_is_left_out(
    change: dict[str, Any], word: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = json.loads(golden_table().to_body())
    table["filterDataByTopic"]["filtered"]["groupFilterData"]["sql_low"] |= change

    filters = ConsumerFilters(FilterTable.from_body(json.dumps(table).encode()), NOW_MS)

    assert filters.find("filtered", "sql_low") is None
    assert filters.find("filtered", "sql_high") is not None
    assert word in caplog.text


def golden_table() -> FilterTable:
    for line in (TESTS / "golden" / "bodies.jsonl").read_text().splitlines():
        body = json.loads(line)
        if body["kind"] == "FilterTable" and "sql_high" in body["text"]:
            return FilterTable.from_file(body["text"].encode())
    raise AssertionError("the golden table is gone")


# What they match


def test_bit_maps_are_those_rocketmq_wrote() -> None:
    filters = ConsumerFilters(None, NOW_MS)
    for each in GOLDEN["filters"]:
        filters.register(each["group"], [wish(each["expression"], topic=each["topic"])], NOW_MS)

    for message in GOLDEN["messages"]:
        properties = {name: value for name, value in message.items() if name != "bitMap"}
        assert filters.bit_map("filtered", properties).hex() == message["bitMap"], message


def test_a_topic_without_filters_has_no_bit_map() -> None:
    assert registered(wish("a > 5")).bit_map("bills", {"a": "6"}) == b""


def test_a_dead_filter_goes_on_marking_messages() -> None:
    """Its group may be back before the messages that came meanwhile are gone."""
    filters = registered(wish("a > 5"))
    alive = filters.bit_map("orders", {"a": "6"})
    filters.unregister("g", NOW_MS)

    assert filters.bit_map("orders", {"a": "6"}) == alive != bytes(14)


def test_a_message_from_before_the_filter_is_not_ruled_out_by_its_bits() -> None:
    may_match = registered(wish("a > 5")).wanted("orders", "g", by_bits=True).bit_map
    assert may_match is not None

    assert may_match(bytes(14), NOW_MS)
    assert not may_match(bytes(14), NOW_MS + 1)
    assert may_match(b"\xff" * 14, NOW_MS + 1)
    assert may_match(b"", NOW_MS + 1)


def test_a_record_is_matched_by_its_properties() -> None:
    wanted = registered(wish("a > 5")).wanted("orders", "g")

    assert wanted.takes(record(a="6"), 0)
    assert not wanted.takes(record(a="5"), 0)
    assert not wanted.takes(record(a="6")[:80], 0)


def test_a_retry_is_matched_by_the_filter_of_where_it_came_from() -> None:
    filters = registered(wish("a > 5"))
    again = filters.wanted_again("g")

    assert again.takes(record(a="6", RETRY_TOPIC="orders"), 0)
    assert not again.takes(record(a="5", RETRY_TOPIC="orders"), 0)
    assert again.takes(record(a="5", RETRY_TOPIC="bills"), 0)
    assert again.takes(record(a="5"), 0)


def test_a_predicate_is_compiled_or_refused() -> None:
    filters = ConsumerFilters(None, NOW_MS)

    assert filters.predicate("a > 5").matches({"a": "6"})
    assert filters.predicate("a > 5") is filters.predicate("a > 5")
    for _ in range(2):
        with pytest.raises(InvalidExpression):
            filters.predicate("a >")
