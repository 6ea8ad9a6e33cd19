"""Offsets are read from memory, from the store or from memory first; they grow unless told
otherwise; and what could not be stored is told queue by queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from flintmq.client.offsets.offset_store import FileOffsets, OffsetStore, ReadFrom, RemoteOffsets
from flintmq.core.conversation import SENT, Call
from flintmq.errors import BrokerRefused, DiskFailed, NoRoute, StoreRefused, Unreachable
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.command import Command, answer
from flintmq.protocol.headers.offset import (
    OffsetAnswer,
    QueryConsumerOffset,
    UpdateConsumerOffset,
)

T = TypeVar("T")

ONE, TWO = QueueRef("orders", "broker-a", 0), QueueRef("bills", "broker-b", 1)
ADDRESSES = {"broker-a": "a:1", "broker-b": "b:1"}


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def at(number: int) -> QueueOffset:
    return QueueOffset(number)


class Broker:
    """What two brokers have stored; those in ``away`` do not answer."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, int], int] = {}
        self.away: set[str] = set()
        self.refuses = False
        self.calls: list[Call] = []

    async def call(self, call: Call) -> Command:
        self.calls.append(call)
        if call.address in self.away:
            raise Unreachable(call.address, "refused")
        request = call.request
        if request.code == 15:
            update = request.header(UpdateConsumerOffset)
            self.stored[update.topic, update.queue_id] = update.commit_offset
            if request.is_oneway:
                return SENT
            return answer(request, 26 if self.refuses else 0)
        if self.refuses:
            return answer(request, 1, remark="busy")
        query = request.header(QueryConsumerOffset)
        known = self.stored.get((query.topic, query.queue_id))
        if known is None:
            return answer(request, 22)
        return answer(request, 0, OffsetAnswer(offset=known))

    async def address_of(self, queue: QueueRef) -> str:
        if queue.broker not in ADDRESSES:
            raise NoRoute(queue.topic, "no master")
        return ADDRESSES[queue.broker]


def remote() -> tuple[RemoteOffsets, Broker]:
    broker = Broker()
    store = RemoteOffsets("billing", call=broker.call, address_of=broker.address_of)
    return store, broker


def local(tmp_path: Path) -> FileOffsets:
    return FileOffsets("c1", "billing", directory=tmp_path)


@pytest.fixture(params=["remote", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> OffsetStore:
    return remote()[0] if request.param == "remote" else local(tmp_path)


def test_an_unknown_offset_is_none_everywhere(store: OffsetStore) -> None:
    run(store.load())

    assert [run(store.read(ONE, where)) for where in ReadFrom] == [None, None, None]


def test_memory_is_asked_before_the_store(store: OffsetStore) -> None:
    run(store.put(ONE, at(5)))

    from_memory = run(store.read(ONE, ReadFrom.MEMORY))
    first = run(store.read(ONE))
    store.update(ONE, at(9))
    remembered = run(store.read(ONE))
    stored = run(store.read(ONE, ReadFrom.STORE))

    assert (from_memory, first, remembered, stored) == (None, 5, 9, 5)
    assert run(store.read(ONE, ReadFrom.MEMORY)) == 5  # what the store says is remembered


def test_an_offset_grows_unless_told_otherwise(store: OffsetStore) -> None:
    store.update(ONE, at(9))
    store.update(ONE, at(5))
    grown = store.clone()
    store.update(ONE, at(5), increase_only=False)

    assert (grown, store.clone()) == ({ONE: 9}, {ONE: 5})


def test_a_frozen_queue_takes_no_updates_until_it_is_removed(store: OffsetStore) -> None:
    store.update(ONE, at(9), increase_only=False)
    store.freeze(ONE)
    store.update(ONE, at(20))
    frozen = store.clone()
    store.remove(ONE)
    store.update(ONE, at(20))

    assert (frozen, store.clone()) == ({ONE: 9}, {ONE: 20})


def test_persisting_stores_what_is_named(store: OffsetStore) -> None:
    store.update(ONE, at(1))
    store.update(TWO, at(2))

    failures = run(store.persist([ONE, QueueRef("never", "broker-a", 0)]))

    assert failures == {}
    assert run(store.read(ONE, ReadFrom.STORE)) == 1
    assert run(store.read(TWO, ReadFrom.STORE)) is None
    assert set(store.clone()) == {ONE, TWO}


def test_a_copy_may_be_of_one_topic_and_changes_nothing(store: OffsetStore) -> None:
    store.update(ONE, at(1))
    store.update(TWO, at(2))

    copy = store.clone("bills")
    copy[ONE] = at(99)

    assert store.clone("bills") == {TWO: 2}
    assert store.clone("orders") == {ONE: 1}


# At the broker


def test_offsets_are_told_to_brokers_without_waiting_after_the_first() -> None:
    store, broker = remote()
    for offset in (7, 8):
        store.update(ONE, at(offset))
        run(store.persist([ONE]))

    assert [(call.address, call.timeout_ms) for call in broker.calls] == [("a:1", 5_000)] * 2
    assert [call.request.is_oneway for call in broker.calls] == [False, True]
    assert broker.stored == {("orders", 0): 8}


@pytest.mark.parametrize("opener_fails", [False, True])
def test_the_first_commit_of_a_topic_is_ended_before_others_leave(opener_fails: bool) -> None:
    """A broker that makes its table twice at once loses what was in one of them."""
    broker = Broker()
    queues = [QueueRef("orders", "broker-a", number) for number in range(4)]
    gate = asyncio.Event()

    async def held(call: Call) -> Command:
        is_first = not broker.calls
        reply = await broker.call(call)
        if is_first:
            await gate.wait()
            if opener_fails:
                raise Unreachable(call.address, "too late")
        return reply

    async def main() -> int:
        slow = RemoteOffsets("billing", call=held, address_of=broker.address_of)
        puts = [asyncio.create_task(slow.put(queue, at(5))) for queue in queues]
        for _ in range(10):
            await asyncio.sleep(0)
        before = len(broker.calls)
        gate.set()
        outcomes = await asyncio.gather(*puts, return_exceptions=True)
        assert [type(each) for each in outcomes if each] == [Unreachable] * opener_fails
        return before

    assert run(main()) == 1
    assert len(broker.calls) == 4
    assert set(broker.stored) == {("orders", number) for number in range(4)}


def test_one_that_waited_for_the_first_tells_what_is_known_by_then() -> None:
    """A pull tells offsets too: what it told meanwhile is not taken back."""
    broker = Broker()
    gate = asyncio.Event()
    other = QueueRef("orders", "broker-a", 1)

    async def held(call: Call) -> Command:
        if not broker.calls:
            reply = await broker.call(call)
            await gate.wait()
            return reply
        return await broker.call(call)

    async def main() -> None:
        slow = RemoteOffsets("billing", call=held, address_of=broker.address_of)
        for queue in (ONE, other):
            slow.update(queue, at(5))
        persisting = asyncio.create_task(slow.persist([ONE, other]))
        for _ in range(10):
            await asyncio.sleep(0)
        slow.update(other, at(6))
        gate.set()
        assert await persisting == {}

    run(main())
    assert broker.stored == {("orders", 0): 5, ("orders", 1): 6}


def test_what_could_not_be_stored_is_told_and_the_rest_is_stored() -> None:
    store, broker = remote()
    broker.away.add("b:1")
    lost = QueueRef("orders", "broker-x", 0)
    for queue in (ONE, TWO, lost):
        store.update(queue, at(7))

    failures = run(store.persist([ONE, TWO, lost]))

    assert {queue: type(error) for queue, error in failures.items()} == {
        TWO: Unreachable,
        lost: NoRoute,
    }
    assert broker.stored == {("orders", 0): 7}
    assert set(store.clone()) == {ONE, TWO, lost}  # so that they are tried again


def test_a_broker_that_cannot_say_is_no_unknown_offset() -> None:
    store, broker = remote()
    broker.refuses = True

    with pytest.raises(BrokerRefused, match="busy"):
        run(store.read(ONE))


def test_a_refused_offset_is_heard_when_it_is_put() -> None:
    store, broker = remote()
    broker.refuses = True

    with pytest.raises(BrokerRefused, match="26"):
        run(store.put(ONE, at(3)))


# In a file


def test_a_file_survives_its_consumer(tmp_path: Path) -> None:
    first = local(tmp_path)
    first.update(ONE, at(7))
    run(first.persist([ONE]))

    second = local(tmp_path)
    run(second.load())

    assert second.clone() == {ONE: 7}
    assert second.path == tmp_path / "c1" / "billing" / "offsets.json"


def test_other_queues_stay_in_the_file(tmp_path: Path) -> None:
    store = local(tmp_path)
    run(store.put(TWO, at(2)))
    store.update(ONE, at(1))

    run(store.persist([ONE]))

    assert run(store.read(TWO, ReadFrom.STORE)) == 2


def test_a_broken_file_is_found_at_the_start(tmp_path: Path) -> None:
    store = local(tmp_path)
    store.path.parent.mkdir(parents=True)
    store.path.write_bytes(b"{")

    with pytest.raises(StoreRefused):
        run(store.load())


def test_a_disk_that_refuses_fails_every_queue(tmp_path: Path) -> None:
    (tmp_path / "c1").write_bytes(b"in the way")
    store = local(tmp_path)
    store.update(ONE, at(1))

    failures = run(store.persist([ONE]))

    assert {queue: type(error) for queue, error in failures.items()} == {ONE: DiskFailed}
    assert run(store.persist([])) == {}


def test_writes_of_one_store_do_not_undo_each_other(tmp_path: Path) -> None:
    store = local(tmp_path)
    queues = [QueueRef("orders", "broker-a", number) for number in range(20)]

    async def put_all() -> None:
        await asyncio.gather(*(store.put(queue, at(queue.queue_id)) for queue in queues))

    run(put_all())
    again = local(tmp_path)
    run(again.load())

    assert again.clone() == {queue: queue.queue_id for queue in queues}
