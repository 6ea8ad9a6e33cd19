"""On asyncio a consumer has the same names: coroutines as listeners, and loops over messages."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from flintmq import Retry
from flintmq.aio import PushConsumer
from flintmq.client.engine.lifecycle import State
from flintmq.client.hooks.consume_hooks import ConsumeContext
from flintmq.core.group.listener_results import ReturnKind
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import WrongState
from flintmq.model.message import ReceivedMessage
from support.client.push_support import Ear, committed, filled, numbered
from support.client.support import create_topic, nothing_left, run, stored
from support.net.support import until


def test_coroutines_run_on_the_loop_side_by_side(broker: EmbeddedBroker) -> None:
    filled(broker, "side-by-side", numbered(40))
    running, most = 0, 0
    bodies: list[bytes] = []

    async def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        bodies.extend(message.body for message in messages)

    async def main() -> None:
        consumer = PushConsumer(
            "async-readers", listen, namesrv=broker.namesrv, start_from="first", threads_max=5
        )
        async with consumer.subscribe("side-by-side"):
            await until(lambda: len(bodies) >= 40)
            assert consumer.state is State.RUNNING

    with nothing_left():
        run(main())

    assert sorted(bodies) == numbered(40)
    assert most == 5
    assert committed(broker, "async-readers", "side-by-side") == dict.fromkeys(range(4), 10)


def test_functions_run_in_threads_and_the_loop_stays_free(broker: EmbeddedBroker) -> None:
    filled(broker, "in-threads", numbered(10))
    ear = Ear()

    async def main() -> None:
        consumer = PushConsumer("thread-readers", ear, namesrv=broker.namesrv, start_from="first")
        async with consumer.subscribe("in-threads"):
            await until(lambda: len(ear.messages) >= 10)

    with nothing_left():
        run(main())

    assert all(name.startswith("flintmq-thread-readers-") for name in ear.threads)


def test_a_coroutine_that_raises_has_its_messages_come_again(own_broker: EmbeddedBroker) -> None:
    filled(own_broker, "async-fails", [b"x"], queues=1)
    tries: list[int] = []

    async def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        tries.append(messages[0].reconsume_times)
        if len(tries) == 1:
            raise Retry(delay_level=1)

    async def main() -> None:
        consumer = PushConsumer(
            "async-failers", listen, namesrv=own_broker.namesrv, start_from="first"
        )
        async with consumer.subscribe("async-fails"):
            await until(lambda: tries)
            await _advance_until(own_broker, lambda: len(tries) == 2)

    run(main())

    assert tries == [0, 1]


async def _advance_until(servers: EmbeddedBroker, condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.get_running_loop().run_in_executor(None, servers.advance, 5)


def test_a_loop_consumes_each_message_when_it_asks_for_the_next(broker: EmbeddedBroker) -> None:
    filled(broker, "looped", numbered(6), queues=1)
    bodies: list[bytes] = []

    async def main() -> None:
        consumer = PushConsumer("loopers", namesrv=broker.namesrv, start_from="first")
        async with consumer.subscribe("looped"):
            async for message in consumer:
                bodies.append(message.body)
                if len(bodies) == 4:
                    break

    with nothing_left():
        run(main())

    assert bodies == numbered(4)
    assert committed(broker, "loopers", "looped") == {0: 3}  # the fourth was left unsettled


def test_a_loop_that_is_begun_anew_finds_the_message_it_was_left_with(
    broker: EmbeddedBroker,
) -> None:
    filled(broker, "anew", numbered(3), queues=1)
    bodies: list[bytes] = []

    async def main() -> None:
        consumer = PushConsumer("anew-loopers", namesrv=broker.namesrv, start_from="first")
        async with consumer.subscribe("anew"):
            async for message in consumer:
                bodies.append(message.body)
                break
            async for message in consumer:
                bodies.append(message.body)
                if len(bodies) == 4:
                    await consumer.stop()  # ends the loop

    with nothing_left():
        run(main())

    assert bodies == [b"0000", *numbered(3)]
    assert committed(broker, "anew-loopers", "anew") == {0: 2}


def test_an_exception_that_leaves_the_block_sends_the_message_back(
    own_broker: EmbeddedBroker,
) -> None:
    filled(own_broker, "thrown", numbered(3), queues=1)

    async def main() -> None:
        consumer = PushConsumer("throwers", namesrv=own_broker.namesrv, start_from="first")
        async with consumer.subscribe("thrown"):
            async for message in consumer:
                if message.body == b"0001":
                    raise ValueError("away")

    with nothing_left(), pytest.raises(ValueError, match="away"):
        run(main())

    assert committed(own_broker, "throwers", "thrown") == {0: 2}
    own_broker.advance(60)
    (again,) = stored(own_broker, "%RETRY%throwers")
    assert (again.body, again.reconsume_times) == (b"0001", 1)


class Hook:
    """Remembers what it was told, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, bytes, ReturnKind | None, str]] = []
        self.spent_ms = 0

    def before(self, context: ConsumeContext) -> None:
        self._note("before", context)

    def after(self, context: ConsumeContext) -> None:
        self._note("after", context)
        self.spent_ms += context.spent_ms

    def _note(self, when: str, context: ConsumeContext) -> None:
        self.told.append((when, context.messages[0].body, context.kind, context.status))


def test_hooks_see_each_message_of_a_loop_and_what_became_of_it(
    own_broker: EmbeddedBroker,
) -> None:
    filled(own_broker, "hooked-loop", numbered(4), queues=1)
    hook = Hook()

    async def main(group: str, body: bytes, error: Exception | None) -> None:
        consumer = PushConsumer(
            group, namesrv=own_broker.namesrv, start_from="first", consume_hooks=(hook,)
        )
        async with consumer.subscribe("hooked-loop"):
            async for message in consumer:
                await asyncio.sleep(0.005)
                if message.body == body:
                    if error is not None:
                        raise error
                    break

    with nothing_left():
        run(main("broken", b"0001", None))
        with pytest.raises(ValueError, match="away"):
            run(main("thrown", b"0000", ValueError("away")))

    assert hook.told == [
        ("before", b"0000", None, ""),
        ("after", b"0000", ReturnKind.SUCCESS, "consumed"),
        ("before", b"0001", None, ""),
        ("after", b"0001", ReturnKind.FAILED, "again"),
        ("before", b"0000", None, ""),
        ("after", b"0000", ReturnKind.EXCEPTION, "again"),
    ]
    assert hook.spent_ms >= 10


def test_who_has_listeners_has_nothing_to_loop_over(broker: EmbeddedBroker) -> None:
    create_topic(broker, "listened")

    async def main() -> None:
        consumer = PushConsumer("listening", Ear(), namesrv=broker.namesrv).subscribe("listened")
        with pytest.raises(WrongState, match="start it first"):
            aiter(consumer)
        async with consumer:
            with pytest.raises(WrongState, match="for its listeners"):
                aiter(consumer)

    run(main())


def test_a_start_that_is_cancelled_leaves_nothing(broker: EmbeddedBroker) -> None:
    create_topic(broker, "cancelled")

    async def main() -> None:
        consumer = PushConsumer("cancelled", Ear(), namesrv=broker.namesrv).subscribe("cancelled")
        starting = asyncio.create_task(consumer.start())
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert consumer.state is State.FAILED
        await consumer.start()
        await consumer.stop()

    with nothing_left():
        run(main())


def test_partials_and_objects_of_coroutines_run_on_the_loop(broker: EmbeddedBroker) -> None:
    filled(broker, "partial", numbered(2), queues=1)
    filled(broker, "object", numbered(2), queues=1)
    heard: list[tuple[str, bytes]] = []

    async def listen(where: str, messages: tuple[ReceivedMessage, ...]) -> None:
        asyncio.get_running_loop()
        heard.extend((where, message.body) for message in messages)

    class Listening:
        async def __call__(self, messages: tuple[ReceivedMessage, ...]) -> None:
            await listen("object", messages)

    async def main() -> None:
        consumer = PushConsumer("shapes", namesrv=broker.namesrv, start_from="first")
        consumer.subscribe("partial", listener=partial(listen, "partial"))
        consumer.subscribe("object", listener=Listening())
        async with consumer:
            await until(lambda: len(heard) == 4)

    run(main())

    assert sorted(heard) == [
        (where, body) for where in ("object", "partial") for body in numbered(2)
    ]
