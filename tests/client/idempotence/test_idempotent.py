"""A listener around a store of keys gets each message once; what fails comes again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle as untyped

from flintmq import (
    App,
    DeadLetter,
    KeyState,
    KeyStore,
    MemoryKeys,
    Message,
    ReceivedMessage,
    Retry,
    SqliteKeys,
    idempotent,
)
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import InvalidSetting
from flintmq.model.host import Host
from flintmq.model.queue import LogOffset, QueueOffset
from support.client.push_support import Ear
from support.client.support import wait_for

cloudpickle: Any = untyped

Messages = tuple[ReceivedMessage, ...]

HOST = Host.parse("10.0.0.1:10911")


def message(key: str, unique_id: str = "") -> ReceivedMessage:
    return ReceivedMessage(
        topic="orders",
        broker="b",
        queue_id=0,
        queue_offset=QueueOffset(0),
        log_offset=LogOffset(0),
        body=key.encode(),
        properties={"KEYS": key, "UNIQ_KEY": unique_id or key},
        flag=0,
        sys_flag=0,
        born_ms=0,
        born_host=HOST,
        store_ms=0,
        store_host=HOST,
        reconsume_times=0,
        prepared_offset=LogOffset(0),
        stored_bytes=0,
    )


def first_key(one: ReceivedMessage) -> str | None:
    return one.keys[0] if one.keys else None


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> KeyStore:
    return MemoryKeys() if request.param == "memory" else SqliteKeys(tmp_path / "seen.db")


def test_a_repeat_is_dropped_and_counts_as_consumed(store: KeyStore) -> None:
    ear, once = Ear(), idempotent(store, scope="billing")
    listener = once(ear)

    assert listener((message("a"),)) is None
    assert listener((message("a"), message("b"))) == [None, None]

    assert ear.bodies == [b"a", b"b"]
    assert once.dropped == 1


def test_the_key_of_a_program_finds_what_was_sent_twice(store: KeyStore) -> None:
    ear = Ear()
    listener = idempotent(store, scope="billing", key=first_key)(ear)

    listener((message("a", "ID-1"),))
    listener((message("a", "ID-2"),))
    listener((message("", "ID-3"), message("", "ID-4")))  # without a key: passed on

    assert ear.bodies == [b"a", b"", b""]


def test_scopes_do_not_see_each_other(store: KeyStore) -> None:
    bill, ship = Ear(), Ear()

    for scope, ear in (("billing", bill), ("shipping", ship)):
        idempotent(store, scope=scope)(ear)((message("a"),))

    assert bill.bodies == ship.bodies == [b"a"]


@pytest.mark.parametrize("result", [Retry(), ValueError("no"), "nonsense"], ids=repr)
def test_what_failed_is_given_to_the_listener_again(store: KeyStore, result: object) -> None:
    ear = Ear(result)
    listener: Any = idempotent(store, scope="billing")(ear)

    with pytest.raises(type(result)) if isinstance(result, Exception) else nullcontext():
        assert listener((message("a"),)) == result
    listener((message("a"),))

    assert ear.bodies == [b"a", b"a"]


def test_a_dead_letter_is_done(store: KeyStore) -> None:
    ear = Ear(DeadLetter("no order"))
    listener = idempotent(store, scope="billing")(ear)

    with pytest.raises(DeadLetter):
        listener((message("a"),))

    assert listener((message("a"),)) == [None]
    assert ear.bodies == [b"a"]


def test_each_message_of_a_batch_has_its_own_fate(store: KeyStore) -> None:
    ear = Ear(None, [None, Retry(3), DeadLetter("no")])
    listener: Any = idempotent(store, scope="billing")(ear)
    listener((message("done"),))

    results = listener((message("a"), message("done"), message("b"), message("a"), message("c")))
    listener((message("a"), message("b"), message("c")))

    assert [type(each) for each in results] == [type(None)] * 2 + [Retry, type(None), DeadLetter]
    assert results[2].delay_level == 3
    assert [one.body for one in ear.batches[1]] == [b"a", b"b", b"c"]
    assert [one.body for one in ear.batches[2]] == [b"b"]


def test_a_message_that_somebody_else_consumes_comes_again_after_the_claim(
    store: KeyStore,
) -> None:
    store.claim(["billing/a"], "a process that crashed", 600_000)
    ear = Ear()
    listener: Any = idempotent(store, scope="billing", claim_s=90)(ear)

    (waiting,) = listener((message("a"),))

    assert isinstance(waiting, Retry)
    assert waiting.delay_level == 6  # two minutes: the first level of 90 s or more
    assert ear.bodies == []


def test_after_a_crash_the_message_is_consumed_once_the_claim_has_expired(
    store: KeyStore,
) -> None:
    store.claim(["billing/a"], "a process that crashed", 30)
    ear = Ear()
    listener: Any = idempotent(store, scope="billing")(ear)

    wait_for(lambda: listener((message("a"),)) is None)

    assert ear.bodies == [b"a"]


def test_coroutine_functions_stay_ones(store: KeyStore) -> None:
    calls: list[Messages] = []

    @idempotent(store, scope="billing")
    async def listener(messages: Messages) -> None:
        calls.append(messages)
        if len(calls) == 1:
            raise ValueError("no")

    async def main() -> None:
        with pytest.raises(ValueError, match="no"):
            await listener((message("a"),))
        await listener((message("a"),))
        await listener((message("a"),))

    asyncio.run(main())

    assert len(calls) == 2


def test_a_cancelled_listener_lets_its_messages_come_again(store: KeyStore) -> None:
    begun = asyncio.Event()

    @idempotent(store, scope="billing")
    async def listener(messages: Messages) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.ensure_future(listener((message("a"),)))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert store.claim(["billing/a"], "next", 1_000) == [KeyState.CLAIMED]


class Broken(MemoryKeys):
    """A store that fails where it is told to."""

    def __init__(self, *, where: str) -> None:
        super().__init__()
        self._where = where

    def claim(self, keys: Sequence[str], owner: str, claim_ms: int) -> list[KeyState]:
        if self._where == "claim":
            raise ConnectionError("the store is down")
        return super().claim(keys, owner, claim_ms)

    def finish(self, keys: Sequence[str], owner: str, ttl_ms: int) -> None:
        raise ConnectionError("the store is down")


def test_a_store_that_fails_before_the_listener_fails_the_delivery() -> None:
    ear = Ear()

    with pytest.raises(ConnectionError):
        idempotent(Broken(where="claim"), scope="billing")(ear)((message("a"),))

    assert ear.bodies == []


def test_a_store_that_fails_after_the_listener_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        assert idempotent(Broken(where="finish"), scope="billing")(Ear())((message("a"),)) is None

    assert "1 keys of billing could not be stored: repeats may pass" in caplog.text


def test_a_listener_travels_to_tasks_with_a_store_that_opens_itself_there(tmp_path: Path) -> None:
    once = idempotent(SqliteKeys(tmp_path / "seen.db"), scope="billing")
    seen: list[bytes] = []

    @once
    def listener(messages: Messages) -> None:
        seen.extend(one.body for one in messages)

    listener((message("a"),))

    there: Any = cloudpickle.loads(cloudpickle.dumps(listener))

    assert there((message("a"), message("b"))) == [None, None]
    assert listener((message("b"),)) == [None]
    assert seen == [b"a"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"scope": ""}, "name of the group"),
        ({"ttl_s": 0}, "ttl_s '0': .* above 0"),
        ({"claim_s": "1h"}, "claim_s"),
        ({"key": "KEYS"}, "a function of a message"),
        ({"store": "seen.db"}, "such as SqliteKeys"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"store": MemoryKeys(), "scope": "billing"} | wrong

    with pytest.raises(InvalidSetting, match=said):
        idempotent(**given)


def test_a_key_that_is_no_text_is_refused_and_a_long_one_is_kept() -> None:
    numbers: Any = idempotent(MemoryKeys(), scope="s", key=lambda one: 3)  # type: ignore[arg-type,return-value]  # wrong on purpose
    with pytest.raises(InvalidSetting, match="is text, not int"):
        numbers(Ear())((message("a"),))
    ear = Ear()
    long: Any = idempotent(MemoryKeys(), scope="s", key=lambda one: "x" * 1_000)(ear)

    long((message("a"),))

    assert long((message("a"),)) == [None]
    assert ear.bodies == [b"a"]


def test_members_of_a_group_share_a_store_across_a_restart(tmp_path: Path) -> None:
    """The same order is sent twice, before and after the consumer is made anew."""
    billed: list[str] = []

    def run_until(broker: EmbeddedBroker, done: int) -> None:
        once = idempotent(SqliteKeys(tmp_path / "seen.db"), scope="billing", key=first_key)
        app = App("billing", start_from="first")

        @app.listener("orders", batch_max=8)
        @once
        def bill(messages: Messages) -> None:
            billed.extend(one.keys[0] for one in messages)

        with broker.running(app):
            wait_for(lambda: broker.lag("billing") == 0 and len(billed) + once.dropped >= done)

    with EmbeddedBroker() as broker:
        for orders in (("o-1", "o-2"), ("o-2", "o-3")):
            with broker.producer("shop") as producer:
                for order in orders:
                    producer.send(Message("orders", b"x", keys=order))
            run_until(broker, 2 if orders[0] == "o-1" else 4)

    assert sorted(billed) == ["o-1", "o-2", "o-3"]
