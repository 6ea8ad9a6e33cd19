"""The Node client of RocketMQ works with our broker.

All its scenarios run at once in one process (``node/interop.js``); each test looks at what one of
them saw.
"""

from __future__ import annotations

import pytest

from support.interop.asked import make_topic
from support.interop.nodeclient import play
from support.interop.ours import Served
from support.interop.skipping import skip_without
from support.interop.told import Told

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TOPICS = {"send": 2, "tags": 1, "retry": 1, "broadcast": 2}


@pytest.fixture(scope="session")
def told(served: Served) -> Told:
    skip_without("node", "npm")
    for name, queues in TOPICS.items():
        make_topic(served.broker, f"node_{name}", queues)
    return Told(play(served.namesrv, "node_"))


def test_what_was_sent_reaches_a_consumer(told: Told) -> None:
    sent = {one["body"]: one for one in told.of("send", "sent")}
    seen = {one["body"]: one for one in told.of("send", "seen")}

    assert list(sent) == ["plain", "grüße 消息 🚀", "packed " * 3_000]
    assert seen.keys() == sent.keys()
    for body, one in seen.items():
        assert sent[body]["status"] == "SEND_OK"
        assert (one["tags"], one["keys"]) == ("a", "k1 k2")
        assert (one["queue"], one["offset"]) == (sent[body]["queue"], sent[body]["offset"])


def test_a_subscription_to_tags_brings_only_these(told: Told) -> None:
    assert sorted(told.bodies("tags", "seen")) == ["a0", "a1", "c0", "c1"]


def test_what_fails_comes_again(told: Told) -> None:
    first, second = told.of("retry", "seen")

    assert (first["body"], first["times"]) == ("heals", 0)
    assert (second["body"], second["times"]) == ("heals", 1)
    assert second["properties"]["RETRY_TOPIC"] == "node_retry"
    assert second["properties"]["DELAY"] == "3"


def test_a_broadcast_reaches_every_member(told: Told) -> None:
    wanted = ["m0", "m1", "m2"]

    assert sorted(told.bodies("broadcast", "seen by 0")) == wanted
    assert sorted(told.bodies("broadcast", "seen by 1")) == wanted
