"""What hostile peers say: fields and bodies of the requests that several families use."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping

SEND, PULL, HEARTBEAT, LOCK = 310, 11, 34, 41
CREATE_TOPIC, TOPIC_STATS, GROUP_LAG, ALL_LAGS = 17, 202, 208, 317
COMMITS, SUSPENDS, SUBSCRIBES = 1, 2, 4
"""The bits of a pull."""


def send_fields(
    topic: str, *, properties: str = "", sys_flag: int = 0, is_batch: bool = False
) -> dict[str, object]:
    """310 or 320 to the first queue; the topic is made if it is not there."""
    return {
        "a": "P",
        "b": topic,
        "c": "TBW102",
        "d": 1,
        "e": 0,
        "f": sys_flag,
        "g": int(time.time() * 1000),
        "h": 0,
        "i": properties,
        "j": 0,
        "m": "true" if is_batch else "false",
    }


def pull_fields(
    topic: str,
    *,
    group: str = "strangers",
    wanted: str = "*",
    kind: str = "TAG",
    offset: int = 0,
    hold_ms: int = 0,
) -> dict[str, object]:
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": 0,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": SUBSCRIBES | (SUSPENDS if hold_ms else 0),
        "commitOffset": 0,
        "suspendTimeoutMillis": hold_ms,
        "subscription": wanted,
        "subVersion": 0,
        "expressionType": kind,
    }


def topic_fields(topic: str, queues: int) -> dict[str, object]:
    return {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "order": "false",
    }


def heartbeat(client: str, group: str, subscriptions: Iterable[Mapping[str, object]] = ()) -> bytes:
    consumer = {"groupName": group, "subscriptionDataSet": list(subscriptions)}
    return json.dumps({"clientID": client, "consumerDataSet": [consumer]}).encode()


def subscription(topic: str, text: str = "*", kind: str = "TAG") -> dict[str, object]:
    version = int(time.time() * 1000)
    return {"topic": topic, "subString": text, "expressionType": kind, "subVersion": version}


def lock_body(group: str, client: str, queues: int = 1) -> bytes:
    places = [{"topic": "T", "brokerName": "victim", "queueId": number} for number in range(queues)]
    return json.dumps({"consumerGroup": group, "clientId": client, "mqSet": places}).encode()


def sql_text(characters: int, number: int) -> str:
    """An expression of about that length that nobody has sent before."""
    part = f"a{number} > 1 OR "
    return part * (characters // len(part)) + "b = 2"
