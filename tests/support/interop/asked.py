"""Requests that several tests make by hand, without any client."""

from __future__ import annotations

import json
from typing import Any

from support.interop.ask import ask

UPDATE_AND_CREATE_TOPIC = 17
HEARTBEAT = 34
ROUTE_OF_TOPIC = 105
SEND_V2 = 310


def make_topic(broker: str, topic: str, queues: int, attributes: str = "") -> None:
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
        "attributes": attributes,
    }
    header, _ = ask(broker, UPDATE_AND_CREATE_TOPIC, fields)
    assert header["code"] == 0, header


def route_answer(namesrv: str, topic: str) -> dict[str, Any]:
    """The header of the answer to a client that looks for a topic."""
    return ask(namesrv, ROUTE_OF_TOPIC, {"topic": topic})[0]


def send(broker: str, topic: str) -> None:
    """Send to a topic that need not exist."""
    letters = {
        "a": "asked",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": "1700000000000",
        "h": "0",
        "i": "",
    }
    header, _ = ask(broker, SEND_V2, letters, b"x")
    assert header["code"] == 0, header


def beat(broker: str, group: str, topic: str) -> None:
    """One heartbeat of a consumer."""
    subscription = {"topic": topic, "subString": "*", "subVersion": 1}
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [subscription],
        "unitMode": False,
    }
    body = {"clientID": f"asked@{group}", "consumerDataSet": [consumer], "producerDataSet": []}
    header, _ = ask(broker, HEARTBEAT, body=json.dumps(body).encode())
    assert header["code"] == 0, header
