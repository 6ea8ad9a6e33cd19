"""The Java client works with our broker as it works with Apache RocketMQ's.

The client says what it saw (``java/play``); the facts wanted here are those that the real brokers
gave.  ``FLINTMQ_INTEROP_BROKER=real-5.3`` tries them on a real one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.interop.javaclient import NEWEST, OLD, JavaClient
from support.interop.ours import Kind, Served

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("java"),
    pytest.mark.timeout(300),  # the first test starts servers and JVMs
]

ILLEGAL, PARAMETER, SYSTEM_ERROR = 13, 29, 1
BAD_SUBSCRIPTION, NO_TOPIC, NO_GROUP, NO_MESSAGE = 23, 17, 26, 208
COMPRESSED, COMMITTED = 1, 8
NOTICED_WITHIN_MS = 10_000  # a client that is not told looks by itself every 20 s


def properties(event: dict[str, Any], *names: str) -> dict[str, str]:
    return {name: event["properties"].get(name) for name in names}


def offsets_by_queue(events: list[dict[str, Any]]) -> dict[int, list[int]]:
    queues: dict[int, list[int]] = {}
    for event in events:
        queues.setdefault(event["queue"], []).append(event["offset"])
    return queues


def test_every_way_of_sending_stores_what_was_sent_where_it_was_said(client: JavaClient) -> None:
    seen = client.play("send")

    stored = {event["body"][:7].strip(): event for event in seen.all("stored")}
    assert set(stored) == {"sync", "async", "oneway", "selecte", "queue", "packed"} | {
        f"batch {n}" for n in range(3)
    }
    for name, body in [("sync", "sync"), ("async", "async"), ("selected", "selecte")]:
        answer, found = seen.one(name), stored[body]
        assert answer["status"] == "SEND_OK"
        assert answer["broker"] == "broker-a"
        assert (found["queue"], found["offset"]) == (answer["queue"], answer["offset"])
        assert found["msgId"] == answer["msgId"]
    assert seen.one("selected")["queue"] == 2
    assert seen.one("queue")["queue"] == 3
    for found in stored.values():
        assert found["flag"] == 3
        assert properties(found, "TAGS", "KEYS", "b", "CLUSTER") == {
            "TAGS": "paid",
            "KEYS": "k1 k2",
            "b": "grüße 消息 🚀",
            "CLUSTER": "DefaultCluster",
        }
        assert found["properties"]["UNIQ_KEY"] == found["msgId"]
        assert found["bornAt"] - 1_000 <= found["storedAt"] <= found["bornAt"] + 60_000
    if client.version == OLD:  # 5.x clears the bit when it has unpacked the body
        assert [body for body, one in stored.items() if one["sysFlag"] & COMPRESSED] == ["packed"]
    assert stored["packed"]["body"] == "packed " * 3_000


def test_a_batch_is_answered_with_an_id_and_a_place_for_each_message(client: JavaClient) -> None:
    seen = client.play("send")

    batch = seen.one("batch")
    parts = [event for event in seen.all("stored") if event["body"].startswith("batch")]
    parts.sort(key=lambda event: event["body"])
    assert batch["status"] == "SEND_OK"
    ids = [part["msgId"] for part in parts]
    if client.version == OLD:
        assert ids == batch["msgId"].split(",")
    else:  # 5.3 puts an id on the batch as well, and that one every broker gives to all of it
        assert len(set(ids)) == 1
    assert len(batch["offsetMsgId"].split(",")) == 3
    assert [(part["queue"], part["offset"]) for part in parts] == [
        (batch["queue"], batch["offset"] + n) for n in range(3)
    ]


def test_a_topic_is_made_by_the_first_send_to_it(client: JavaClient) -> None:
    seen = client.play("send-to-new-topic")

    assert seen.one("sent")["status"] == "SEND_OK"
    assert seen.one("route") == {"event": "route", "read": 4, "write": 4, "perm": 6}
    assert seen.bodies("stored") == ["first"]


def test_a_send_that_cannot_be_stored_is_refused_and_the_next_one_is_not(
    client: JavaClient, served: Served
) -> None:
    seen = client.play("send-refused")

    absent, large = seen.one("absent queue"), seen.one("too large")
    assert absent["code"] == (SYSTEM_ERROR if served.kind is Kind.REAL_4_9 else PARAMETER)
    assert absent["remark"].startswith("request queueId[99] is illegal, TopicConfig [topicName=")
    assert large["code"] == ILLEGAL
    assert large["remark"].startswith("the message is illegal, maybe msg body or properties")
    assert seen.one("after")["status"] == "SEND_OK"


def test_a_subscription_to_tags_brings_only_these(client: JavaClient) -> None:
    seen = client.play("tags")

    wanted = ["Aa0", "Aa1", "Aa2", "c late", "c0", "c1", "c2"]
    assert sorted(seen.bodies("seen")) == wanted


def test_a_sql_subscription_brings_only_what_it_matches(client: JavaClient) -> None:
    seen = client.play("sql")

    assert sorted(seen.bodies("seen")) == [
        f"{when} paid 11 {area}" for when in ("early", "late") for area in ("eu", "us")
    ]


def test_a_broken_sql_subscription_is_refused_at_the_start(client: JavaClient) -> None:
    assert client.play("sql-refused").one("start")["code"] == BAD_SUBSCRIPTION


def test_a_push_consumer_sees_each_message_once_and_goes_on_where_it_stopped(
    client: JavaClient,
) -> None:
    seen = client.play("push")

    assert sorted(seen.bodies("seen")) == sorted(f"m{n}" for n in range(60))
    progress = seen.all("progress")
    assert [one["queue"] for one in progress if one["topic"].endswith("t")] != []
    assert all(one["broker"] == one["consumer"] for one in progress)
    assert sum(one["consumer"] for one in progress) == 60
    assert seen.bodies("seen next") == ["after a restart"]


def test_an_orderly_consumer_keeps_each_queue_in_order_while_one_message_fails(
    client: JavaClient,
) -> None:
    seen = client.play("push-orderly")

    events = seen.all("seen")
    for queue in range(3):
        numbers = [event["body"] for event in events if event["queue"] == queue]
        wanted = [f"{queue}:{n}" for n in range(10)]
        if queue == 1:
            wanted[5:6] = ["1:5"] * 3
        assert numbers == wanted
    assert [event["times"] for event in events if event["body"] == "1:5"] == [0, 1, 2]


def test_what_fails_comes_again_and_then_is_a_dead_letter(client: JavaClient) -> None:
    seen = client.play("retry")

    sent = {event["offset"]: event for event in seen.all("sent")}
    tries = [(event["body"], event["times"]) for event in seen.all("seen")]
    assert sorted(tries) == [
        ("heals", 0),
        ("heals", 1),
        ("never heals", 0),
        ("never heals", 1),
        ("never heals", 2),
    ]
    group = f"{seen.prefix}g"
    origin = {"ORIGIN_MESSAGE_ID": sent[1]["offsetMsgId"], "RETRY_TOPIC": f"{seen.prefix}t"}
    dead = seen.one("dead")
    assert (dead["topic"], dead["queue"], dead["times"]) == (f"%DLQ%{group}", 0, 3)
    assert dead["msgId"] == sent[1]["msgId"]
    assert properties(dead, *origin) == origin
    assert properties(dead, "DELAY", "WAIT", "TAGS") == {"DELAY": "0", "WAIT": "false", "TAGS": "b"}
    retried = [one for one in seen.all("retried") if one["body"] == "never heals"]
    assert [(one["topic"], one["times"]) for one in retried] == [
        (f"%RETRY%{group}", 1),
        (f"%RETRY%{group}", 2),
    ]
    for one, level in zip(retried, ("3", "4"), strict=True):
        assert properties(one, *origin) == origin
        assert properties(one, "DELAY", "REAL_TOPIC", "REAL_QID") == {
            "DELAY": level,
            "REAL_TOPIC": f"%RETRY%{group}",
            "REAL_QID": "0",
        }
    again = [one for one in seen.all("seen") if one["times"] > 0]
    assert all(one["topic"] == f"{seen.prefix}t" for one in again)


def test_what_fails_in_order_is_a_dead_letter_and_the_queue_goes_on(client: JavaClient) -> None:
    seen = client.play("orderly-dead-letter")

    tries = [(event["body"], event["times"]) for event in seen.all("seen")]
    assert tries[0] == ("fails", 0)
    assert ("fine", 0) in tries
    dead = seen.one("dead")
    assert dead["topic"] == f"%DLQ%{seen.prefix}g"
    assert dead["body"] == "fails"
    assert properties(dead, "RETRY_TOPIC", "MAX_RECONSUME_TIMES") == {
        "RETRY_TOPIC": f"{seen.prefix}t",
        "MAX_RECONSUME_TIMES": "1",
    }


def test_a_broadcast_reaches_every_member(client: JavaClient) -> None:
    seen = client.play("broadcast")

    wanted = sorted(f"m{n}" for n in range(10))
    assert sorted(seen.bodies("seen by 0")) == wanted
    assert sorted(seen.bodies("seen by 1")) == wanted


@pytest.fixture
def patient(served: Served, version: str, tmp_path: Path) -> Iterator[JavaClient]:
    with JavaClient(version, served.namesrv, tmp_path, patient=True) as up:
        yield up


def test_members_are_told_at_once_who_came_and_who_left(patient: JavaClient) -> None:
    seen = patient.play("membership")

    alone, joined, left = seen.one("alone"), seen.one("joined"), seen.one("left")
    assert alone["shares"] == [[0, 1, 2, 3]]
    assert sorted(joined["shares"]) == [[0, 1], [2, 3]]
    assert left["shares"] == [[0, 1, 2, 3]]
    assert joined["tookMs"] < NOTICED_WITHIN_MS
    assert left["tookMs"] < NOTICED_WITHIN_MS
    assert len(seen.all("seen by staying")) == len(seen.all("seen by leaving")) == 2
    assert len(seen.all("seen by staying in all")) == 6


def test_orderly_members_hand_queues_over_without_a_gap_or_a_repeat(client: JavaClient) -> None:
    seen = client.play("orderly-membership")

    assert offsets_by_queue(seen.all("seen")) == {queue: [0, 1, 2] for queue in range(4)}


def test_a_reset_moves_a_group_while_it_runs(client: JavaClient, served: Served) -> None:
    seen = client.play("reset")

    moved = {one["queue"]: one["offset"] for one in seen.all("moved")}
    counts = Counter(seen.bodies("seen"))
    late = {f"late {n}": 2 for n in range(10)}
    if served.kind is Kind.REAL_4_9:  # a time between two messages means the earlier one
        assert set(moved.values()) <= {4, 5}
        assert late.items() <= counts.items()
    else:
        assert moved == {0: 5, 1: 5}
        assert counts == late | {f"early {n}": 1 for n in range(10)}
    nobody = seen.one("reset of nobody")
    assert nobody["code"] == (SYSTEM_ERROR if served.kind is Kind.REAL_4_9 else NO_GROUP)


def test_a_delayed_message_comes_after_the_time_of_its_level(client: JavaClient) -> None:
    seen = client.play("delay")

    assert [one["status"] for one in seen.all("sent")] == ["SEND_OK"] * 4
    found = {one["body"]: one for one in seen.all("seen")}
    waited = {body: one["storedAt"] - one["bornAt"] for body, one in found.items()}
    assert waited["level 0"] < 1_000
    assert 1_000 <= waited["level 1"] < 2_000
    assert 2_000 <= waited["level 2"] < 3_000
    assert 1_000 <= waited["level 99"] < 2_000
    for level, kept in [(1, "1"), (2, "2"), (99, "18")]:
        assert properties(found[f"level {level}"], "DELAY", "REAL_TOPIC", "REAL_QID") == {
            "DELAY": kept,
            "REAL_TOPIC": f"{seen.prefix}t",
            "REAL_QID": "0",
        }
    assert len(seen.all("seen")) == 4


def test_a_timer_message_comes_at_its_time(client: JavaClient, served: Served) -> None:
    if client.version == OLD or served.kind is Kind.REAL_4_9:
        pytest.skip("timer messages came with 5.0")

    seen = client.play("timer")

    now_ms = seen.one("now")["ms"]
    arrived = {one["body"]: one["storedAt"] - now_ms for one in seen.all("seen")}
    assert list(arrived) == ["setDelayTimeSec", "setDeliverTimeMs", "setDelayTimeMs"]
    for (_, after_ms), wanted_ms in zip(arrived.items(), (1_000, 2_000, 3_000), strict=True):
        assert wanted_ms <= after_ms < wanted_ms + 3_000
    assert seen.one("too late")["code"] == ILLEGAL
    assert seen.one("too late")["remark"].startswith("timer message illegal, the delay time should")


def test_a_pull_says_what_it_found_and_where_to_go_on(client: JavaClient, served: Served) -> None:
    seen = client.play("pull")

    def outcome(event: str) -> tuple[str, int, int, int, int]:
        one = seen.one(event)
        return one["status"], len(one["bodies"]), one["next"], one["min"], one["max"]

    assert outcome("empty") == ("NO_NEW_MSG", 0, 0, 0, 0)
    assert outcome("found") == ("FOUND", 10, 10, 0, 40)
    assert seen.one("found")["bodies"] == [f"m{n}" for n in range(10)]
    assert outcome("tagged") == ("FOUND", 3, 6, 0, 40)
    assert seen.one("tagged")["bodies"] == ["m1", "m3", "m5"]
    assert outcome("none matched") == ("NO_MATCHED_MSG", 0, 40, 0, 40)
    assert outcome("at end") == ("NO_NEW_MSG", 0, 40, 0, 40)
    assert outcome("beyond end") == ("OFFSET_ILLEGAL", 0, 40, 0, 40)
    full = seen.one("default limit")
    assert full["next"] == len(full["bodies"])
    # Ours gives more than 32 to clients that tell how many bytes they can take.
    more = served.kind is Kind.OURS and client.version != OLD
    assert len(full["bodies"]) == (40 if more else 32)
    in_range = seen.one("range")
    assert (in_range["min"], in_range["max"], in_range["atOnce"]) == (0, 40, 0)
    assert in_range["future"] == (39 if served.kind is Kind.REAL_4_9 else 40)
    assert seen.one("offset") == {"event": "offset", "unknown": 0, "kept": 7}
    absent = seen.one("absent queue")
    assert absent["code"] == (SYSTEM_ERROR if served.kind is Kind.REAL_4_9 else PARAMETER)
    assert absent["remark"].startswith(f"queueId[9] is illegal, topic:[{seen.prefix}t] topicConfig")
    assert seen.one("absent topic")["code"] == NO_TOPIC
    assert seen.one("absent topic")["remark"].startswith(f"topic[{seen.prefix}none] not exist")


def test_a_pull_with_nothing_to_find_is_held_until_something_comes(client: JavaClient) -> None:
    seen = client.play("long-poll")

    assert seen.one("nothing came")["status"] == "NO_NEW_MSG"
    assert 2_000 <= seen.one("waited")["ms"] < 9_000  # looked at every 5 s
    assert [one["held"] for one in seen.all("held")] == [True, True]
    assert all(one["ms"] < 1_000 for one in seen.all("woken"))
    first, second = seen.all("came")
    assert first["bodies"][0] == "not b"
    assert second["bodies"] == ["b"]


def test_a_lite_consumer_reads_commits_and_goes_on(client: JavaClient) -> None:
    seen = client.play("lite-subscribe")

    assert seen.bodies("seen") == [f"m{n}" for n in range(1, 20, 2)]
    assert seen.one("committed")["offset"] == 20
    assert seen.bodies("seen next") == ["after a restart"]


def test_a_lite_consumer_reads_the_queue_it_was_given_from_where_it_is_told(
    client: JavaClient,
) -> None:
    seen = client.play("lite-assign")

    assert seen.one("queues")["count"] == 2
    assert seen.bodies("seen") == [f"m{n}" for n in range(10)]
    assert seen.bodies("seen after seek") == [f"m{n}" for n in range(4, 10)]
    assert seen.one("committed")["offset"] == 10


def test_a_transaction_ends_as_the_producer_says_at_once_or_when_asked(client: JavaClient) -> None:
    seen = client.play("transaction")

    states = {"C": "COMMIT_MESSAGE", "R": "ROLLBACK_MESSAGE", "U": "UNKNOW"}
    sent = {one["body"]: one for one in seen.all("sent")}
    assert all(one["status"] == "SEND_OK" for one in sent.values())
    assert all(one["state"] == states[body[0]] for body, one in sent.items())
    checks = Counter(one["body"] for one in seen.all("check"))
    assert checks == {"U+C": 1, "U+R": 1, "U+U+C": 2}
    for check in seen.all("check"):
        assert check["topic"] == f"{seen.prefix}t"
        assert check["id"] == sent[check["body"]]["msgId"]
    assert [one["times"] for one in seen.all("check") if one["body"] == "U+U+C"] == ["1", "2"]
    assert sorted(seen.bodies("stored")) == ["C", "U+C", "U+U+C"]
    assert sorted(seen.bodies("in the end")) == ["C", "U+C", "U+U+C", "last"]
    for found in seen.all("stored"):
        assert found["sysFlag"] == COMMITTED
        assert found["msgId"] == sent[found["body"]]["msgId"]
        assert properties(found, "PGROUP", "KEYS") == {"PGROUP": f"{seen.prefix}x", "KEYS": "key"}


def test_messages_are_found_by_key_and_by_both_ids(client: JavaClient) -> None:
    seen = client.play("query")

    sent = seen.one("sent")
    for event in ("by key", "by unique id", "by offset id"):
        found = seen.one(event)
        assert (found["body"], found["msgId"]) == ("m3", sent["msgId"])
        assert (found["queue"], found["offset"]) == (sent["queue"], sent["offset"])
    assert sorted(seen.bodies("by common key")) == [f"m{n}" for n in range(6)]
    assert sorted(seen.bodies("at most two")) == ["m4", "m5"]
    assert seen.one("by absent key")["code"] == NO_MESSAGE
    assert seen.one("too early")["code"] == NO_MESSAGE


def test_a_question_is_answered(served: Served, version: str, tmp_path: Path) -> None:
    release = OLD if version == OLD else NEWEST  # the client of 5.3 waits for no answer

    with JavaClient(release, served.namesrv, tmp_path) as client:
        seen = client.play("request")

    assert seen.bodies("answer") == [f"answer to question {n}" for n in range(3)]
    for answer in seen.all("answer"):
        assert answer["properties"]["MSG_TYPE"] == "reply"
        assert {"CORRELATION_ID", "REPLY_TO_CLIENT", "PUSH_REPLY_TIME"} <= set(answer["properties"])
