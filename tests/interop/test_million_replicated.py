"""A million messages with all kinds of records between our broker and real ones, roles swapped.

Each pair takes half of them, changes roles, and takes the other half.  A group reads everything
from the master, and once more from the slave when the master is gone.  Commit logs, consume queues
and offsets are equal on both sides.  A pair takes three to ten minutes on two cores;
FLINTMQ_REPLICATED=20000 tries the same with less.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from flintmq import Admin, Message, Producer, PullConsumer, SendStatus
from flintmq.errors import FlintError
from flintmq.protocol.bodies.offset import ConsumerOffsets
from flintmq.protocol.codes import RequestCode
from flintmq.store.check.store_check import check_store
from flintmq.store.files.disk import Disk
from flintmq.store.files.store_config import StoreConfig, parse_delay_levels
from support.embedded.asking import ask
from support.interop.all_kinds import (
    LATE,
    ROUND,
    TIMED,
    TOPICS,
    read_all,
    send_patiently,
    send_rare_kinds,
    send_rounds,
)
from support.interop.cluster import wait_until
from support.interop.replicas import SETTINGS as OF_PAIRS
from support.interop.replicas import (
    Replica,
    queue_files,
    running_pair,
    same_files,
    swap_roles,
)

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("java")]

COUNT = int(os.environ.get("FLINTMQ_REPLICATED", "1000000"))
PATIENCE_S = 300.0
PAIRS = [("ours", "4.9.7"), ("ours", "5.3.3"), ("4.9.7", "ours"), ("5.3.3", "ours")]
SETTINGS: dict[str, Any] = {
    "mappedFileSizeCommitLog": 16 * 1024 * 1024,
    "mappedFileSizeConsumeQueue": 600_000,
    "slaveTimeout": 60_000,
    "slaveReadEnable": "true",
    "maxTransferCountOnMessageInMemory": 1_024,
    "maxTransferBytesOnMessageInMemory": 1024 * 1024,
    "maxTransferCountOnMessageInDisk": 1_024,
    "maxTransferBytesOnMessageInDisk": 1024 * 1024,
    "waitTimeMillsInSendQueue": 30_000,
    "osPageCacheBusyTimeOutMills": 30_000,
}
STORE = StoreConfig(delay_levels_ms=parse_delay_levels(OF_PAIRS["messageDelayLevel"]))
ORDERS = [f"orders{number}" for number in range(TOPICS)]


def addresses(namesrv: str) -> dict[int, str]:
    with Admin(namesrv=namesrv) as admin:
        found = {each.broker: each.addresses for each in admin.cluster().brokers}
    return dict(found.get("broker-a", {}))


def wait_for_slave(producer: Producer) -> None:
    """Send until a slave has acknowledged one."""
    wait_until(
        "a slave to acknowledge",
        lambda: send_patiently(producer, Message("orders0", b"first")) is SendStatus.OK,
        PATIENCE_S,
    )


def stored(namesrv: str, topic: str) -> int:
    with PullConsumer("counter", namesrv=namesrv) as consumer:
        return sum(consumer.max_offset(queue) for queue in consumer.queues(topic))


def send_half(namesrv: str, seed: str, before: int, *, timers: bool) -> None:
    """Half of all messages; come back when what was delayed is there too."""
    with Producer("shop", namesrv=namesrv) as producer:
        wait_for_slave(producer)
        send_rounds(producer, COUNT // 2, seed, timers=timers)
        send_rare_kinds(producer, namesrv)
    rounds = before + COUNT // 2 // ROUND
    for topic, each in (("late", LATE), ("timed", TIMED)):
        wait_until(
            f"messages of {topic}",
            lambda topic=topic, each=each: stored(namesrv, topic) >= rounds * each,  # type: ignore[misc]
            PATIENCE_S,
        )


def logs_are_same(master: Replica, slave: Replica) -> bool:
    same, difference = same_files(master.store / "commitlog", slave.store / "commitlog")
    return same > 0 and not difference


def offsets_of(address: str, group: str) -> dict[str, dict[int, int]]:
    body = ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET).body
    table = ConsumerOffsets.from_body(body).offset_table
    return {place: dict(found) for place, found in table.items() if place.endswith(f"@{group}")}


def read_patiently(namesrv: str, group: str, topic: str, *, commits: bool) -> dict[int, int]:
    """Read a topic; a route that still names a master that is gone is asked for again."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return read_all(namesrv, group, topic, commits=commits)
        except FlintError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


@pytest.mark.timeout(1_500)
@pytest.mark.parametrize(("master_is", "slave_is"), PAIRS)
def test_a_million_messages_of_all_kinds_are_equal_on_both_sides(
    tmp_path: Path, master_is: str, slave_is: str
) -> None:
    began, timers = time.monotonic(), "4.9.7" not in (master_is, slave_is)
    with running_pair(tmp_path, master_is, slave_is, **SETTINGS) as (namesrv, master, slave):
        wait_until("both to register", lambda: len(addresses(namesrv)) == 2, PATIENCE_S)
        send_half(namesrv, "1", 0, timers=timers)
        wait_until("equal logs", lambda: logs_are_same(master, slave), PATIENCE_S)
        half_s = time.monotonic() - began

        master, slave = swap_roles(master, slave)
        wait_until("both to register", lambda: len(addresses(namesrv)) == 2, PATIENCE_S)
        send_half(namesrv, "2", COUNT // 2 // ROUND, timers=timers)
        wait_until("equal logs", lambda: logs_are_same(master, slave), PATIENCE_S)

        at = addresses(namesrv)
        from_master = {
            topic: read_patiently(namesrv, "auditors", topic, commits=True) for topic in ORDERS
        }
        kept = offsets_of(at[0], "auditors")
        wait_until("equal offsets", lambda: offsets_of(at[1], "auditors") == kept, PATIENCE_S)
        master.stop()
        wait_until("the master to be gone", lambda: set(addresses(namesrv)) == {1}, PATIENCE_S)
        from_slave = {
            topic: read_patiently(namesrv, "readers", topic, commits=False) for topic in ORDERS
        }
        slave.stop()

        size_bytes, difference = same_files(master.store / "commitlog", slave.store / "commitlog")
        took_s = time.monotonic() - began
        times = f"half after {half_s:.0f} s, all after {took_s:.0f} s"
        print(f"{master_is} and {slave_is}: {size_bytes} bytes, {times}")
        assert difference == ""
        assert from_master == from_slave
        per_round = ROUND - LATE - TIMED
        assert sum(sum(each.values()) for each in from_slave.values()) >= COUNT // ROUND * per_round
        assert {place: sum(each.values()) for place, each in kept.items()} == {
            f"{topic}@auditors": sum(found.values()) for topic, found in from_master.items()
        }
        assert queue_files(master.store) == queue_files(slave.store)
        for each, kind in ((master, slave_is), (slave, master_is)):
            if kind == "ours":
                assert check_store(Disk(), each.store, STORE).is_good
