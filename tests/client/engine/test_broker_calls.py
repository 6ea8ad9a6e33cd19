"""Push and pull consumers ask brokers by one rule: same filters, same timeouts, same copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from flintmq.client.engine.broker_calls import BrokerCalls
from flintmq.client.engine.client_config import ClientConfig
from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.offsets.offset_store import RemoteOffsets
from flintmq.client.push.push_calls import PushCalls
from flintmq.client.push.push_settings import PushConfig
from flintmq.core.conversation import PausingConversation
from flintmq.core.group.actions import COPY_TIMEOUT_MS, SendBack
from flintmq.core.group.pull_answers import MessagesFound
from flintmq.core.group.retry_copy import copy_to_retry
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.producer.publisher import Publisher
from flintmq.core.producer.receipt import SendReceipt
from flintmq.core.producer.send_draft import Draft
from flintmq.core.reading.pull_request import Pull
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import InvalidSetting, NoRoute
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command
from support.client.member import Consumer, running
from support.client.push_support import filled
from support.client.support import create_topic, run, stored

GROUP = "callers"
PULLS = {int(RequestCode.PULL_MESSAGE), int(RequestCode.LITE_PULL_MESSAGE)}
START = QueueOffset(0)


class Codes:
    """A hook that remembers what was asked."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def before(self, address: str, request: Command) -> Command:
        del address
        self.seen.append(request.code)
        return request

    def after(self, address: str, request: Command, answer: Command | None) -> None:
        """Nothing depends on the answer."""


def all_calls(engine: ClientEngine) -> list[BrokerCalls]:
    """The calls of a pull consumer and those of a push consumer."""
    calls = BrokerCalls(engine, GROUP)
    store = RemoteOffsets(GROUP, call=engine.make, address_of=calls.master)
    return [calls, PushCalls(engine, PushConfig(group=GROUP), store)]


@pytest.mark.parametrize("is_lite", [False, True])
def test_a_broker_of_unknown_version_is_not_asked_for_sql(
    broker: EmbeddedBroker, is_lite: bool
) -> None:
    filled(broker, "of-unknown", [b"1"], queues=1)
    queue = QueueRef("of-unknown", "broker-a", 0)
    codes = Codes()

    async def main() -> None:
        config = ClientConfig(namesrv=broker.namesrv, request_hooks=(codes,))
        async with running(broker, config=config) as engine:  # no member: no heartbeat, no version
            await engine.route(queue.topic)
            for calls in all_calls(engine):
                sql = TopicSubscription(queue.topic, sql="a > 5")
                with pytest.raises(InvalidSetting, match="version unknown, cannot filter by SQL92"):
                    await calls.pull(Pull(queue, START, sql, 32, is_lite=is_lite))
                assert not PULLS & set(codes.seen)

    run(main())


def test_a_broker_that_told_its_version_filters_for_all(broker: EmbeddedBroker) -> None:
    filled(broker, "of-known", [b"1"], queues=1)
    queue = QueueRef("of-known", "broker-a", 0)

    async def main() -> None:
        async with running(broker, Consumer(GROUP, queue.topic)) as engine:
            await engine.route(queue.topic)
            for calls in all_calls(engine):
                sql = TopicSubscription(queue.topic, sql="TAGS IS NULL")
                answer = await calls.pull(Pull(queue, START, sql, 32))
                assert isinstance(answer, MessagesFound)

    run(main())


def test_a_copy_has_three_seconds_whoever_sends_it(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(broker, "copied", [b"1"], queues=1)
    create_topic(broker, f"%RETRY%{GROUP}", queues=1)  # so that its route is there
    (message,) = stored(broker, "copied")
    gone = message._replace(broker="gone")
    timeouts: list[int] = []
    send = Publisher.send

    def noted(
        self: Publisher, draft: Draft, queues: Sequence[QueueRef], timeout_ms: int, *more: Any
    ) -> PausingConversation[SendReceipt]:
        timeouts.append(timeout_ms)
        return send(self, draft, queues, timeout_ms, *more)

    monkeypatch.setattr(Publisher, "send", noted)

    async def main() -> None:
        async with running(broker, Consumer(GROUP, "copied")) as engine:
            pulling, pushing = all_calls(engine)
            await pulling.redeliver(gone, 0, 16)
            ask = SendBack(QueueRef("copied", "gone", 0), gone, 0, 16, "", None)
            with pytest.raises(NoRoute, match="gone has no master"):
                await pushing.send_back(ask)
            await pushing.send_copy(copy_to_retry(ask, f"%RETRY%{GROUP}"))

    run(main())
    assert timeouts == [COPY_TIMEOUT_MS] * 2 == [3_000] * 2
