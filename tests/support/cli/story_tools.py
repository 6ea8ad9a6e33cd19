"""The part of the story that operators play: the cluster, loads, traces, marks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from flintmq import PushConsumer, ReceivedMessage

if TYPE_CHECKING:
    from support.cli.story import Recording


def look_at_the_cluster(user: Recording, topic: str) -> None:
    (listed,) = user.facts("cluster", "list")
    (status,) = user.facts("cluster", "status")
    (sized,) = [each for each in user.facts("topic", "list", "--sizes") if each["topic"] == topic]
    route = user.facts("topic", "route", topic)

    assert (listed["broker"], listed["role"]) == ("broker-a", "master")
    assert status["address"] == listed["address"]
    assert status["version"].startswith("V")
    assert status["topic_count"] > 0
    assert (sized["queues"], sized["messages"]) == (2, 6)
    assert [each["address"] for each in route["brokers"]] == [listed["address"]]
    for words in (("cluster", "list"), ("cluster", "status"), ("broker", "status", "broker-a")):
        assert "broker-a" in user.told(*words)
    assert "6 messages" in user.told("topic", "list", "--sizes")
    assert "broker-a" in user.told("topic", "route", topic)


def change_a_setting(user: Recording) -> None:
    (before,) = user.facts("broker", "config", "get", "broker-a", "traceOn").values()
    change = ("broker", "config", "set", "broker-a")
    other = "false" if before == "true" else "true"
    changed = json.loads(user.told(*change, f"traceOn={other}", "--yes", "--json"))
    user.told(*change, f"traceOn={before}", "--yes")

    assert changed == [{"setting": "traceOn", "before": before, "after": other}]
    assert user.facts("broker", "config", "get", "broker-a", "traceOn") == {"traceOn": before}


def put_a_load(user: Recording) -> None:
    line = json.dumps({"topic": "story-load", "body_base64": "AP8=", "tags": "a", "keys": ["k"]})
    user.told("topic", "create", "story-load", "--queues", "1")
    user.until(lambda names: "story-load" in [n["topic"] for n in names], "topic", "list")
    user.told("send", "--json-lines", "-", input=line)
    sent = user.facts("perf", "send", "story-load", "--count", "20", "--size", "8")
    counted = user.facts("query", 'SELECT count(*) AS n FROM "story-load"')
    read = user.facts("perf", "consume", "story-load", "--count", "21", "--seconds", "60")
    first = user.lines(
        *("consume", "story-load", "-g", "story-readers", "--from", "start", "--count", "1")
    )
    behind = user.until(lambda lag: lag == 20, "group", "lag", "story-readers", key="lag")
    every = {each["group"]: each["lag"] for each in user.facts("group", "lag")}

    assert (sent["messages"], sent["failed"]) == (20, 0)
    assert (read["messages"], counted) == (21, [{"n": 21}])
    assert (first[0]["body_base64"], first[0]["tags"], first[0]["keys"]) == ("AP8=", "a", ["k"])
    assert every["story-readers"] == behind["lag"]
    assert "story-readers" in user.told("group", "lag", "--all")
    user.told("topic", "delete", "story-load", "--yes")
    user.until(lambda groups: "story-readers" in [g["group"] for g in groups], "group", "list")
    user.told("group", "delete", "story-readers", "--yes")


def follow_one_message(user: Recording, topic: str) -> None:
    got: list[bytes] = []

    def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        got.extend(message.body for message in messages)

    (message,) = user.facts("message", "find", topic, "--key", "k-4")
    life = user.facts("message", "trace", message["message_id"], "--topic", topic)
    consumer = PushConsumer(
        "story-direct", listen, namesrv=user.namesrv, start_from="first", commit_interval_ms=200
    )
    with consumer.subscribe(topic):
        user.until(lambda members: members, "group", "show", "story-direct", key="members")
        user.until(_all_consumed, "group", "lag", "story-direct", key="queues")
        before = len(got)
        result = user.facts(
            *("message", "consume-directly", "story-direct", message["message_id"]),
            *("--topic", topic, "--client", consumer.client_id),
        )

    assert [copy["as"] for copy in life["stored"]] == ["stored"]
    assert "stored" in user.told("message", "trace", message["message_id"], "--topic", topic)
    assert (result["outcome"], len(got)) == ("CR_SUCCESS", before + 1)


def _all_consumed(queues: list[dict[str, Any]]) -> bool:
    """Whether a group stands at the end of its queues; before its first commit it has none."""
    return bool(queues) and not any(each["lag"] for each in queues)


def mark_and_purge(user: Recording, group: str) -> None:
    """One dead letter is there, and was replayed to its topic."""
    replayed = user.complaint("dlq", "replay", group, "--to", "topic", "--yes")
    user.told("dlq", "mark", group)
    hidden = user.facts("dlq", "list", group)
    every = user.facts("dlq", "list", group, "--all")
    user.told("dlq", "mark", group, "--to", "start")
    back = user.facts("dlq", "list", group)
    user.told("dlq", "mark", group)
    purged = json.loads(user.told("dlq", "purge", group, "--yes", "--json"))
    user.until(lambda counts: group not in [each["group"] for each in counts], "dlq", "list")

    assert replayed[0] == 1
    assert "replayed before" in replayed[1]
    assert (len(hidden), len(every), len(back)) == (0, 1, 1)
    assert every[0]["marked"]
    assert purged["deleted_from"] == ["broker-a"]


def compute_sizes(user: Recording) -> None:
    need = user.facts("sizing", "--rate", "100", "--size", "1k")["need"]

    assert need["disk_bytes"] > need["log_bytes"]
