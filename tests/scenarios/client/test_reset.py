"""A group that is moved while it consumes goes on from there at once, whoever moves it.

Before, every consumer waits in a pull that the broker holds: nothing but the reset may end it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flintmq import ConsumeFromWhere, LitePullConsumer, PushConsumer
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.core.consumer import pull_loop, queue_table
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import request
from flintmq.protocol.headers.client_call import ResetOffset
from support.client.push_support import Ear, committed, filled, numbered, send
from support.client.support import CALL_MS, nothing_left, wait_for

HELD_MS = 600_000
"""How long a broker holds a pull: longer than a test waits for anything."""


@pytest.fixture(params=[True, False], ids=["by the broker", "by its clients"])
def servers(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(config=BrokerConfig(server_side_reset=request.param)) as servers:
        yield servers


@pytest.fixture(autouse=True)
def short_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ten seconds that a push consumer rests are not what is looked at here."""
    monkeypatch.setattr(queue_table, "MOVED_MS", 20)


@pytest.fixture(autouse=True)
def long_pulls(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pull of a push consumer ends by itself."""
    monkeypatch.setattr(pull_loop, "PULL_SUSPEND_MS", HELD_MS)
    monkeypatch.setattr(pull_loop, "PULL_TIMEOUT_MS", HELD_MS + 10_000)


def reset(servers: EmbeddedBroker, group: str) -> None:
    header = ResetOffset(group=group, topic="moved", timestamp=0, is_force=True)
    with BlockingChannels() as channels:
        asked = request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        reply = channels.call(servers.broker, asked, CALL_MS)
    assert reply.code == ResponseCode.SUCCESS, reply.remark


def held_pulls(servers: EmbeddedBroker) -> int:
    return servers.call(lambda inside: len(next(iter(inside.brokers.values())).state.held))


@pytest.mark.parametrize("ordered", [False, True], ids=["concurrent", "ordered"])
def test_a_push_consumer_goes_back_at_once(servers: EmbeddedBroker, ordered: bool) -> None:
    filled(servers, "moved", numbered(8), queues=2)
    ear = Ear()
    settings: dict[str, Any] = {"start_from": "first", "commit_interval_ms": 100}
    consumer = PushConsumer("movers", ear, namesrv=servers.namesrv, ordered=ordered, **settings)
    with nothing_left(), consumer.subscribe("moved"):
        wait_for(lambda: committed(servers, "movers", "moved") == {0: 4, 1: 4})
        wait_for(lambda: held_pulls(servers) >= 2)
        reset(servers, "movers")
        ear.wait_for(16)
        send(servers, "moved", [b"more"], queue=0)
        ear.wait_for(17)

    assert sorted(ear.bodies) == sorted(numbered(8) * 2 + [b"more"])
    assert committed(servers, "movers", "moved") == {0: 5, 1: 4}


def test_a_lite_pull_consumer_goes_back_at_once(servers: EmbeddedBroker) -> None:
    filled(servers, "moved", numbered(8), queues=2)
    bodies: list[bytes] = []
    consumer = LitePullConsumer(
        "movers",
        namesrv=servers.namesrv,
        start_from=ConsumeFromWhere.FIRST_OFFSET,
        commit_interval_ms=1_000,
        auto_commit_ms=1_000,
        hold_ms=HELD_MS,
        hold_timeout_ms=HELD_MS + 10_000,
    )

    def polled(count: int) -> bool:
        bodies.extend(message.body for message in consumer.poll(20))
        return len(bodies) >= count

    with nothing_left(), consumer:
        consumer.subscribe("moved")
        wait_for(lambda: polled(8) and committed(servers, "movers", "moved") == {0: 4, 1: 4})
        wait_for(lambda: held_pulls(servers) >= 2)
        reset(servers, "movers")
        wait_for(lambda: polled(16))

    assert sorted(bodies) == sorted(numbered(8) * 2)
    assert committed(servers, "movers", "moved") == {0: 4, 1: 4}
