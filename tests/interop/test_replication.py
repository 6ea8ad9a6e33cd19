"""Our broker and real ones are each other's master and slave, with equal files on both sides.

Messages of every kind go to a SYNC_MASTER: plain, with keys, batches, large ones that roll files,
delayed ones that come due, transactions that end either way.  The slave ends, comes back, and
catches up.  Then both commit logs and all consume queues are the same, byte for byte.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flintmq import Message, Producer, SendStatus, TransactionProducer, TransactionState
from flintmq.store.check.store_check import check_store
from flintmq.store.files.disk import Disk
from flintmq.store.files.store_config import StoreConfig
from support.interop.all_kinds import send_patiently
from support.interop.cluster import wait_until
from support.interop.replicas import Replica, queue_files, running_pair, same_files

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("java")]

COUNT = 3_000
"""Messages of each pair; `test_million_replicated.py` sends more."""

PATIENCE_S = 120.0
SEND_MS = 15_000
PAIRS = [
    ("ours", "4.9.7"),
    ("ours", "5.3.3"),
    ("4.9.7", "ours"),
    ("5.3.3", "ours"),
    ("ours", "ours"),
]


def wait_for_slave(producer: Producer) -> None:
    """Send until a slave has acknowledged one."""
    wait_until(
        "a slave to acknowledge",
        lambda: send_patiently(producer, Message("orders", b"first")) is SendStatus.OK,
        PATIENCE_S,
    )


def send_all_kinds(producer: Producer, namesrv: str, count: int, seed: int) -> None:
    for number in range(0, count, 10):
        topic = f"orders{number % 3}"
        keys = [f"k{seed}-{number}", f"shared-{number % 7}"]
        for message in (
            Message(topic, b"%06d" % number, tags=f"t{number % 5}", keys=keys),
            Message(
                topic, os.urandom(1 + number * 37 % 3_000), properties={"a": "ü" * (1 + number % 9)}
            ),
        ):
            assert send_patiently(producer, message) is SendStatus.OK
        batch = [Message(topic, b"in a batch", tags="b", keys=[f"b{each}"]) for each in range(7)]
        producer.send_batch(batch, timeout_ms=SEND_MS)
        send_patiently(producer, Message("late", b"delayed", delay_level=1 + number % 2))
    for number in range(4):
        send_patiently(producer, Message("large", os.urandom(400_000 + number)))

    def done(_message: Message, transaction_id: str) -> TransactionState:
        is_kept = int(transaction_id[-1], 16) % 2
        return TransactionState.COMMIT if is_kept else TransactionState.ROLLBACK

    with TransactionProducer(
        "buyers", lambda _message: TransactionState.UNKNOWN, namesrv=namesrv
    ) as buyers:
        for number in range(20):
            buyers.send_in_transaction(Message("bought", b"%d" % number), done, timeout_ms=SEND_MS)


def log_is_same(master: Replica, slave: Replica) -> bool:
    same, difference = same_files(master.store / "commitlog", slave.store / "commitlog")
    return same > 0 and not difference


@pytest.mark.timeout(540)
@pytest.mark.parametrize(("master_is", "slave_is"), PAIRS)
def test_master_and_slave_have_the_same_files(
    tmp_path: Path, master_is: str, slave_is: str
) -> None:
    with running_pair(tmp_path, master_is, slave_is) as (namesrv, master, slave):
        with Producer("shop", namesrv=namesrv) as producer:
            wait_for_slave(producer)
            send_all_kinds(producer, namesrv, COUNT // 2, 1)
            slave.stop()
            for number in range(30):
                send_patiently(producer, Message("orders0", b"alone %d" % number))
            slave.start()
            wait_for_slave(producer)
            send_all_kinds(producer, namesrv, COUNT // 2, 2)
        wait_until("equal logs", lambda: log_is_same(master, slave), PATIENCE_S)
        master.stop()
        slave.stop()
        logs = [each.store / "commitlog" for each in (master, slave)]
        size_bytes, difference = same_files(*logs)

        assert difference == ""
        assert size_bytes > 5 * 400_000
        assert queue_files(master.store) == queue_files(slave.store)
        for each, kind in ((master, master_is), (slave, slave_is)):
            if kind == "ours":
                assert check_store(Disk(), each.store, StoreConfig()).is_good
