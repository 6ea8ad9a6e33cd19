"""An embedded broker is the real one: reachable, movable in time, and gone without a trace."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path

import pytest

import flintmq
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.embedded.servers import Servers
from flintmq.errors import DiskFailed, InvalidSetting, StoreLocked, Unreachable
from flintmq.model.queue import QueueRef
from flintmq.net.tls import ServerTls
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.store.files.store_config import Flush
from support.embedded.asking import ask, cluster, pull, route, send
from support.store.deleting import delete

DELAYED = "DELAY\x0117\x02"
"""An hour: long after what the real clock does meanwhile."""


def threads() -> set[threading.Thread]:
    """Threads of ours: of the test, and of what others keep running in this process."""
    return {thread for thread in threading.enumerate() if "flintmq" in thread.name}


def loops() -> set[threading.Thread]:
    """Threads that servers run on.  Those that save and sync for them come when they are needed."""
    return {thread for thread in threads() if thread.name.startswith("flintmq-embedded")}


def test_a_message_goes_in_and_comes_out() -> None:
    with EmbeddedBroker() as broker:
        send(broker.broker, "orders", b"first")

        found = pull(broker.broker, "orders")

    assert found.code == ResponseCode.SUCCESS
    assert b"first" in found.body


def test_the_broker_is_registered_when_it_is_started() -> None:
    with EmbeddedBroker() as broker:
        assert cluster(broker.namesrv) == {"broker-a": broker.broker}


def test_a_topic_that_a_message_made_is_found_at_once() -> None:
    with EmbeddedBroker() as broker:
        send(broker.broker, "orders")

        assert broker.call(lambda servers: "orders" in servers.brokers["broker-a"].state.topics)
        found = route(broker.namesrv, "orders")

    assert found is not None
    assert [queues.broker_name for queues in found.queue_datas] == ["broker-a"]


def test_time_passes_when_it_is_told_to() -> None:
    with EmbeddedBroker() as broker:
        send(broker.broker, "orders", b"later", DELAYED)

        broker.advance(3_000)
        early = pull(broker.broker, "orders")
        broker.advance(600)
        found = pull(broker.broker, "orders")

    assert early.code != ResponseCode.SUCCESS
    assert found.code == ResponseCode.SUCCESS
    assert b"later" in found.body


def test_who_is_alive_stays_alive_when_the_clock_is_moved() -> None:
    queue = QueueRef("orders", "broker-a", 0)

    def lock(client_id: str, servers: Servers) -> list[QueueRef]:
        broker = servers.brokers["broker-a"]
        return broker.state.locks.lock("group", client_id, [queue], broker.now_ms())

    with EmbeddedBroker() as broker:
        mine = broker.call(partial(lock, "c1"))
        broker.advance(24 * 3600)
        theirs = broker.call(partial(lock, "c2"))

        assert (mine, theirs) == ([queue], [])
        assert cluster(broker.namesrv) == {"broker-a": broker.broker}


def test_a_given_directory_is_kept_with_what_is_in_it(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        send(broker.broker, "orders", b"kept")

    with EmbeddedBroker(tmp_path) as broker:
        found = pull(broker.broker, "orders")

    assert b"kept" in found.body


def test_a_temporary_directory_goes_at_the_end() -> None:
    with EmbeddedBroker() as broker:
        directory = broker.directory
        assert directory.is_dir()

    assert not directory.exists()


def test_nothing_runs_after_the_end() -> None:
    before = threads()
    with EmbeddedBroker() as broker:
        address = broker.broker
        assert threads() - before

    assert threads() <= before
    with pytest.raises(Unreachable):
        ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
    with pytest.raises(RuntimeError, match="not running"):
        broker.advance(1)


def test_it_can_be_stopped_twice_and_started_again() -> None:
    broker = EmbeddedBroker()
    broker.start()
    broker.stop()
    broker.stop()

    with broker:
        assert cluster(broker.namesrv)
        with pytest.raises(RuntimeError, match="running already"):
            broker.start()


def test_several_brokers_share_their_name_servers() -> None:
    with EmbeddedBroker(brokers=2, name_servers=2) as broker:
        first, second = broker.namesrv.split(";")

        assert cluster(first) == cluster(second)
        assert tuple(cluster(first).values()) == broker.brokers
        assert list(cluster(first)) == ["broker-a", "broker-b"]


def test_one_of_several_can_be_stopped_and_started_again() -> None:
    with EmbeddedBroker(brokers=2) as broker:
        _, second = broker.brokers
        send(second, "orders", b"in b")

        broker.stop_broker("broker-b")
        without = cluster(broker.namesrv)
        broker.start_broker("broker-b")
        found = pull(second, "orders")

        assert list(without) == ["broker-a"]
        assert cluster(broker.namesrv)["broker-b"] == second
        assert b"in b" in found.body


def test_it_can_be_used_on_a_loop() -> None:
    async def use() -> dict[str, str]:
        async with EmbeddedBroker() as broker:
            return await asyncio.to_thread(cluster, broker.namesrv)

    before = threads()
    found = asyncio.run(use())

    assert list(found) == ["broker-a"]
    assert threads() <= before


def test_many_threads_may_use_it() -> None:
    with EmbeddedBroker() as broker:
        before_ms = broker.call(lambda servers: servers.clock.ahead_ms)
        movers = [threading.Thread(target=broker.advance, args=(1,)) for _ in range(8)]
        for mover in movers:
            mover.start()
        for mover in movers:
            mover.join()

        assert broker.call(lambda servers: servers.clock.ahead_ms) == before_ms + 8_000


def test_what_failed_in_its_thread_is_raised_here() -> None:
    with EmbeddedBroker() as broker, pytest.raises(ZeroDivisionError):
        broker.call(lambda servers: 1 // len(servers.name_servers[1:]))


def test_a_directory_that_is_taken_is_refused(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path):
        before = loops()

        with pytest.raises(StoreLocked):
            EmbeddedBroker(tmp_path).start()

        assert loops() <= before


def test_a_start_that_failed_leaves_nothing_running(tmp_path: Path) -> None:
    before = threads()
    with pytest.raises(InvalidSetting, match="certificate_file"):
        EmbeddedBroker(tmp_path, tls=ServerTls(str(tmp_path / "no such file"))).start()

    assert threads() <= before
    with EmbeddedBroker(tmp_path) as other:
        assert cluster(other.namesrv)


def test_sends_are_acknowledged_as_asked() -> None:
    def flush(servers: Servers) -> Flush:
        return servers.brokers["broker-a"].state.config.store.flush

    with EmbeddedBroker() as plain, EmbeddedBroker(flush="sync") as careful:
        assert plain.call(flush) is Flush.ASYNC
        assert careful.call(flush) is Flush.SYNC
        assert send(careful.broker, "orders").code == ResponseCode.SUCCESS


def test_a_configuration_counts() -> None:
    config = BrokerConfig(broker_name="other", cluster="c9", auto_create_topic=False)

    with EmbeddedBroker(config=config) as broker:
        assert list(cluster(broker.namesrv)) == ["other"]


@pytest.mark.parametrize(("brokers", "name_servers"), [(0, 1), (27, 1), (1, 0), (1, 9)])
def test_impossible_numbers_are_refused(brokers: int, name_servers: int) -> None:
    with pytest.raises(ValueError, match="must be 1 to"):
        EmbeddedBroker(brokers=brokers, name_servers=name_servers)


def test_it_is_found_where_users_look_for_it() -> None:
    assert flintmq.EmbeddedBroker is EmbeddedBroker
    assert "EmbeddedBroker" in dir(flintmq)
    with pytest.raises(AttributeError, match="no attribute"):
        _ = flintmq.Frobnicator


def test_a_broker_whose_directory_was_deleted_says_so_and_refuses(tmp_path: Path) -> None:
    directory = tmp_path / "store"
    broker = EmbeddedBroker(directory, flush="sync").start()
    try:
        send(broker.broker, "orders")
        assert broker.failure is None
        delete(directory)

        with pytest.raises(AssertionError, match="code=14"):
            send(broker.broker, "orders")
        broker.wait_for(lambda: broker.failure is not None)
        assert "deleted or moved" in str(broker.failure)
    finally:
        with pytest.raises(DiskFailed, match="deleted or moved"):
            broker.stop()
