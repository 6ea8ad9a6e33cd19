"""A consumer whose account may not consume fails at its start and says what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import pytest

from flintmq import ConsumeFromWhere, LitePullConsumer, PushConsumer, aio
from flintmq.broker.requests.outcome import Outcome, Refusal
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState
from flintmq.client.engine.lifecycle import State
from flintmq.core.refusals import explain_access, is_access_refusal
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import BrokerRefused, Unreachable
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.typed_request import TypedRequest
from support.client.push_support import Ear, filled, numbered, send
from support.client.support import nothing_left, run, wait_for

NEW = (16, "billing has no permission to access")
OLD = (1, "org.apache.rocketmq.acl.common.AclException: No default permission for group:billing")

HEARTBEAT = RequestCode.HEART_BEAT
MEMBERS = RequestCode.GET_CONSUMER_LIST_BY_GROUP
OFFSET = RequestCode.QUERY_CONSUMER_OFFSET
PATIENCE_S = 60.0


def forbid(
    servers: EmbeddedBroker, codes: Collection[RequestCode], code: int, remark: str
) -> dict[int, Any]:
    """Let the broker refuse requests of these codes, as brokers do that check accounts."""

    def refuse(
        _request: TypedRequest[Any], _state: BrokerState, _peer: Peer, _now_ms: int
    ) -> Outcome:
        raise Refusal(code, remark)

    def change(inside: Any) -> dict[int, Any]:
        engine = next(iter(inside.brokers.values())).engine
        before: dict[int, Any] = engine._processors
        engine._processors = {**before, **dict.fromkeys(map(int, codes), refuse)}
        return before

    return servers.call(change)


def allow(servers: EmbeddedBroker, before: dict[int, Any]) -> None:
    def change(inside: Any) -> None:
        next(iter(inside.brokers.values())).engine._processors = before

    servers.call(change)


def reader(servers: EmbeddedBroker, ear: Ear, **more: Any) -> PushConsumer:
    settings = {"start_from": "first", "heartbeat_ms": 100, "pull_error_delay_ms": 20, **more}
    return PushConsumer("billing", ear, namesrv=servers.namesrv, **settings).subscribe("orders")


@pytest.mark.parametrize("code", [HEARTBEAT, MEMBERS, OFFSET])
@pytest.mark.parametrize("answer", [NEW, OLD], ids=["5.x", "4.9"])
def test_a_start_without_rights_fails_and_can_be_tried_again(
    own_broker: EmbeddedBroker, code: RequestCode, answer: tuple[int, str]
) -> None:
    filled(own_broker, "orders", numbered(3))
    before = forbid(own_broker, [code], *answer)
    ear = Ear()
    with nothing_left():
        consumer = reader(own_broker, ear, access_key="clerk", secret_key="secret")
        with pytest.raises(BrokerRefused) as refused:
            consumer.start()
        assert consumer.state is State.FAILED
        allow(own_broker, before)
        with consumer:
            ear.wait_for(3)

    text = str(refused.value)
    assert (refused.value.code, refused.value.address) == (answer[0], own_broker.broker)
    assert answer[1] in text
    assert "'clerk'" in text
    assert "may consume (SUB) topic 'orders' and group 'billing'" in text


def test_who_gave_no_account_is_told_to_give_one(own_broker: EmbeddedBroker) -> None:
    filled(own_broker, "orders", [])
    forbid(own_broker, [HEARTBEAT], *NEW)

    with pytest.raises(BrokerRefused, match="set access_key and secret_key"):
        reader(own_broker, Ear()).start()


def test_an_expression_that_nobody_may_ask_about_is_not_called_wrong(
    own_broker: EmbeddedBroker,
) -> None:
    filled(own_broker, "orders", [])
    forbid(own_broker, [RequestCode.CHECK_CLIENT_CONFIG], *NEW)
    consumer = PushConsumer("billing", Ear(), namesrv=own_broker.namesrv)

    with pytest.raises(BrokerRefused, match="may consume"):
        consumer.subscribe("orders", sql="a > 1").start()


def test_rights_that_are_taken_away_later_are_an_event_and_in_the_status(
    own_broker: EmbeddedBroker,
) -> None:
    filled(own_broker, "orders", numbered(3))
    ear = Ear()
    with nothing_left(), reader(own_broker, ear) as consumer:
        ear.wait_for(3)
        before = forbid(own_broker, [HEARTBEAT], *NEW)
        wait_for(lambda: own_broker.broker in consumer.status().troubles)
        assert NEW[1] in consumer.status().troubles[own_broker.broker]
        assert NEW[1] in consumer.events("heartbeat")[-1].text
        allow(own_broker, before)
        wait_for(lambda: not consumer.status().troubles)
        send(own_broker, "orders", [b"more"])
        ear.wait_for(4)


def test_other_refusals_do_not_stop_a_start(own_broker: EmbeddedBroker) -> None:
    filled(own_broker, "orders", numbered(3))
    before = forbid(own_broker, [MEMBERS, OFFSET], 1, "no disk")
    ear = Ear()
    with nothing_left(), reader(own_broker, ear) as consumer:
        wait_for(lambda: "no disk" in consumer.status().troubles.get("orders", ""))
        allow(own_broker, before)
        ear.wait_for(3)


def test_only_refusals_of_accounts_are_about_rights() -> None:
    assert is_access_refusal(BrokerRefused(*NEW))
    assert is_access_refusal(BrokerRefused(*OLD))
    assert not is_access_refusal(BrokerRefused(1, "disk full"))
    assert not is_access_refusal(Unreachable("a:1", "AclException"))
    assert not is_access_refusal(None)
    assert "'b', 'c'" in str(explain_access(BrokerRefused(*NEW), None, "g", ["c", "b"]))


@pytest.mark.parametrize("answer", [NEW, OLD], ids=["5.x", "4.9"])
def test_a_poll_without_rights_raises_until_they_are_given(
    own_broker: EmbeddedBroker, answer: tuple[int, str]
) -> None:
    """A lite pull consumer learns its topics when it runs, so that it cannot fail at its start."""
    filled(own_broker, "orders", numbered(3))
    before = forbid(own_broker, [HEARTBEAT], *answer)
    settings: dict[str, Any] = {"start_from": ConsumeFromWhere.FIRST_OFFSET, "heartbeat_ms": 100}
    with LitePullConsumer("billing", namesrv=own_broker.namesrv, **settings) as consumer:
        consumer.subscribe("orders")
        refused: list[BrokerRefused] = []
        bodies: list[bytes] = []

        def polled() -> int:
            """How many messages came in all polls."""
            try:
                bodies.extend(message.body for message in consumer.poll(50))
            except BrokerRefused as error:
                refused.append(error)
            return len(bodies)

        wait_for(lambda: polled() or refused, PATIENCE_S)
        assert bodies == []
        allow(own_broker, before)
        wait_for(lambda: polled() == 3, PATIENCE_S)

    assert sorted(bodies) == numbered(3)
    error = refused[0]
    assert (error.code, error.address) == (answer[0], own_broker.broker)
    assert answer[1] in str(error)
    assert "set access_key" in str(error)


def test_a_poll_on_asyncio_without_rights_raises(own_broker: EmbeddedBroker) -> None:
    filled(own_broker, "orders", numbered(1))
    forbid(own_broker, [HEARTBEAT], *NEW)

    async def main() -> None:
        async with aio.LitePullConsumer("billing", namesrv=own_broker.namesrv) as consumer:
            consumer.subscribe("orders")
            while True:
                assert await consumer.poll(50) == []

    with pytest.raises(BrokerRefused, match="set access_key"):
        run(asyncio.wait_for(main(), 60))
