"""The Go client of RocketMQ works with our broker.

All its scenarios run at once in one process (``go/scenarios.go``); each test looks at what one of
them saw.
"""

from __future__ import annotations

from typing import Any

import pytest

from support.interop.goclient import play
from support.interop.ours import Served
from support.interop.skipping import skip_without
from support.interop.told import Event, Told

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

SEND_OK = 0


@pytest.fixture(scope="session")
def told(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Told:
    skip_without("go")
    return Told(play(served.namesrv, served.broker, "go_", tmp_path_factory.mktemp("go")))


def properties(event: Event, *names: str) -> dict[str, Any]:
    return {name: event["properties"].get(name) for name in names}


def test_every_way_of_sending_reaches_a_consumer(told: Told) -> None:
    seen = {one["body"][:7].strip(): one for one in told.of("send", "seen")}

    assert len(told.of("send", "seen")) == 8
    assert set(seen) == {"sync", "async", "oneway", "packed", "delayed"} | {
        f"batch {n}" for n in range(3)
    }
    for one in seen.values():
        assert (one["tags"], one["keys"]) == ("paid", "k1 k2")
        assert properties(one, "b") == {"b": "grüße 消息 🚀"}
    assert seen["packed"]["body"] == "packed " * 3_000
    assert seen["delayed"]["storedAt"] - seen["delayed"]["bornAt"] >= 2_000
    for name in ("sync", "async", "packed"):
        [answer] = told.of("send", name)
        assert answer["status"] == SEND_OK
        assert (answer["queue"], answer["offset"]) == (seen[name]["queue"], seen[name]["offset"])
        assert answer["msgId"] == seen[name]["msgId"]
    [answer] = told.of("send", "batch")
    assert answer["offsetMsgId"].split(",") == [seen[f"batch {n}"]["msgId"] for n in range(3)]


def test_a_subscription_to_tags_brings_only_these(told: Told) -> None:
    assert sorted(told.bodies("tags", "seen")) == ["Aa0", "Aa1", "c0", "c1"]


def test_a_sql_subscription_brings_only_what_it_matches(told: Told) -> None:
    assert sorted(told.bodies("sql", "seen")) == ["a 11 0", "a 11 1"]


def test_what_fails_comes_again_and_then_is_a_dead_letter(told: Told) -> None:
    tries = sorted((one["body"], one["times"]) for one in told.of("retry", "seen"))

    assert tries == [("heals", 0), ("heals", 1), ("never heals", 0), ("never heals", 1)]
    [dead] = told.of("retry", "dead")
    assert (dead["body"], dead["times"]) == ("never heals", 2)
    assert properties(dead, "RETRY_TOPIC") == {"RETRY_TOPIC": "go_retry_t"}


def test_an_orderly_consumer_keeps_each_queue_in_order(told: Told) -> None:
    queues: dict[int, list[int]] = {}
    for one in told.of("orderly", "seen"):
        queues.setdefault(one["queue"], []).append(one["offset"])

    assert sum(map(len, queues.values())) == 10
    assert all(offsets == list(range(len(offsets))) for offsets in queues.values())


def test_a_broadcast_reaches_every_member(told: Told) -> None:
    wanted = [f"m{n}" for n in range(4)]

    assert sorted(told.bodies("broadcast", "seen by 0")) == wanted
    assert sorted(told.bodies("broadcast", "seen by 1")) == wanted


def test_a_transaction_ends_as_the_producer_says_at_once_or_when_asked(told: Told) -> None:
    assert [one["status"] for one in told.of("transaction", "sent")] == [SEND_OK] * 3
    assert set(told.bodies("transaction", "check")) == {"unknown"}
    assert sorted(told.bodies("transaction", "seen")) == ["commit", "unknown"]
