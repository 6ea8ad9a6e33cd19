"""A request message gets its reply, once, from whoever consumed it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from flintmq import Message, Producer, ReceivedMessage, aio
from flintmq.client.producer.request_reply import Replies
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import (
    BrokerRefused,
    InvalidSetting,
    NoReply,
    Overloaded,
    WrongState,
)
from support.client.support import create_topic, in_enough_time, nothing_left, run, stored, wait_for
from support.net.support import until


def answer_requests(servers: EmbeddedBroker, topic: str, count: int) -> threading.Thread:
    """A consumer that replies to so many requests with their bodies in capitals."""

    def work() -> None:
        wait_for(lambda: len(stored(servers, topic)) >= count)
        with Producer("responders", namesrv=servers.namesrv) as producer:
            for message in stored(servers, topic):
                producer.reply(message, message.body.upper())

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def ask_in_vain(producer: Producer, topic: str) -> None:
    """Send a request that nobody replies to."""

    def ask(timeout_ms: int) -> None:
        with pytest.raises(NoReply, match="nobody replied"):
            producer.request(Message(topic, b"x"), timeout_ms=timeout_ms)

    in_enough_time(ask)


def test_a_request_is_answered(broker: EmbeddedBroker) -> None:
    create_topic(broker, "questions")
    with nothing_left():
        thread = answer_requests(broker, "questions", 1)
        with Producer("asking", namesrv=broker.namesrv) as producer:
            reply = producer.request(Message("questions", b"how are you"), timeout_ms=15_000)
        thread.join()

    assert reply.body == b"HOW ARE YOU"
    (request,) = stored(broker, "questions")
    assert reply.properties["CORRELATION_ID"] == request.properties["CORRELATION_ID"]
    assert request.properties["REPLY_TO_CLIENT"] == producer.client_id
    assert request.properties["TTL"] == "15000"


def test_requests_side_by_side_get_each_their_own(broker: EmbeddedBroker) -> None:
    create_topic(broker, "several")

    async def main() -> list[ReceivedMessage]:
        async with aio.Producer("asking", namesrv=broker.namesrv) as producer:
            return await asyncio.gather(
                *(
                    producer.request(Message("several", f"q{number}".encode()), timeout_ms=15_000)
                    for number in range(8)
                )
            )

    thread = answer_requests(broker, "several", 8)
    replies = run(main())
    thread.join()

    assert [reply.body for reply in replies] == [f"Q{number}".encode() for number in range(8)]


def test_a_large_reply_comes_unpacked(broker: EmbeddedBroker) -> None:
    create_topic(broker, "large")
    thread = answer_requests(broker, "large", 1)
    with Producer("asking", namesrv=broker.namesrv) as producer:
        reply = producer.request(Message("large", b"x" * 50_000), timeout_ms=15_000)
    thread.join()

    assert reply.body == b"X" * 50_000


def test_nobody_replying_is_told_after_the_time(broker: EmbeddedBroker) -> None:
    with Producer("asking", namesrv=broker.namesrv) as producer:
        ask_in_vain(producer, "silence")
        assert len(producer._inner._replies) == 0


def test_a_reply_to_somebody_who_left_is_refused(broker: EmbeddedBroker) -> None:
    with Producer("asking", namesrv=broker.namesrv) as producer:
        ask_in_vain(producer, "left")

    request = stored(broker, "left")[0]
    with (
        Producer("responders", namesrv=broker.namesrv) as producer,
        pytest.raises(BrokerRefused, match="not found"),
    ):
        producer.reply(request, b"too late")


def test_a_message_that_asks_for_nothing_cannot_be_replied_to(broker: EmbeddedBroker) -> None:
    create_topic(broker, "plain")
    with Producer("asking", namesrv=broker.namesrv) as producer:
        producer.send(Message("plain", b"x"))
        (message,) = stored(broker, "plain")
        with pytest.raises(InvalidSetting, match="does not ask"):
            producer.reply(message, b"y")


def test_a_late_reply_is_an_event(broker: EmbeddedBroker) -> None:
    create_topic(broker, "late")
    with Producer("asking", namesrv=broker.namesrv) as producer:
        ask_in_vain(producer, "late")
        answer_requests(broker, "late", 1).join()
        wait_for(lambda: producer.events("reply"))

    assert "nobody waits" in producer.events("reply")[0].text


def test_stopping_ends_those_who_wait(broker: EmbeddedBroker) -> None:
    async def main() -> None:
        producer = await aio.Producer("asking", namesrv=broker.namesrv).start()
        waiting = asyncio.create_task(producer.request(Message("stopped", b"x"), timeout_ms=60_000))
        await until(lambda: len(producer._replies))
        await producer.stop()
        with pytest.raises(WrongState, match="stopped"):
            await waiting

    run(main())


def test_a_request_that_is_not_sent_yet_when_its_producer_stops_leaves_no_unseen_error() -> None:
    async def main() -> None:
        replies = Replies()
        request = replies.expect()
        replies.stop("a producer")
        replies.forget(request)

    run(main())


def test_requests_that_wait_are_limited() -> None:
    async def main() -> None:
        replies = Replies(requests_max=2)
        first = replies.expect()
        replies.expect()
        with pytest.raises(Overloaded):
            replies.expect()
        replies.forget(first)
        replies.expect()

    run(main())
