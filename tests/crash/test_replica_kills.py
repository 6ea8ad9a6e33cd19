"""A master or its slave is killed under load, again and again, and nothing acknowledged is lost.

Two brokers of ours in processes of their own, SYNC_MASTER and SLAVE, and a producer that sends
without a pause.  At a moment drawn from the seed one of them is killed.  A slave comes back and
catches up.  When the master is killed, the slave's store must have every message that was ever
answered with 0, at the offset that was told; it becomes the master, and the other one begins again
with a copy of its store.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path
from random import Random

import pytest

from flintmq.protocol.records.record import decode_record
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import MessageLog
from support.interop.ask import ask
from support.interop.cluster import wait_until
from support.interop.replicas import (
    MASTER,
    SLAVE,
    OurReplica,
    ending,
    our_name_server,
    replica,
)

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(0)]

KILLS = int(os.environ.get("FLINTMQ_REPLICA_KILLS", "200"))
PATIENCE_S = 60.0
SEND_MESSAGE = 10
TOPIC = "orders"
QUEUES = 4


class Sender:
    """Sends to one broker until it is told to stop; remembers what was answered with 0."""

    def __init__(self, acknowledged: dict[tuple[int, int], bytes]) -> None:
        self.acknowledged = acknowledged
        self.repeated: list[tuple[int, int]] = []
        self.master = ""
        self.count = 0
        self.confirmed = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def has_enough(self) -> bool:
        """Whether a slave follows, so that there is something to lose."""
        return self.confirmed > 5

    def _run(self) -> None:
        while not self._stop.is_set():
            self.count += 1
            body = b"message %d" % self.count
            queue_id = self.count % QUEUES
            try:
                header, _ = ask(self.master, SEND_MESSAGE, fields(queue_id), body)
            except (OSError, EOFError, ValueError):
                time.sleep(0.01)
                continue
            if header["code"] != 0:
                continue
            place = queue_id, int(header["extFields"]["queueOffset"])
            if place in self.acknowledged:
                self.repeated.append(place)
            self.acknowledged[place] = body
            self.confirmed += 1


def fields(queue_id: int) -> dict[str, str]:
    return {
        "producerGroup": "shop",
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": str(QUEUES),
        "queueId": str(queue_id),
        "sysFlag": "0",
        "bornTimestamp": "1",
        "flag": "0",
        "properties": "",
        "reconsumeTimes": "0",
        "unitMode": "false",
        "batch": "false",
    }


def require_all(store: Path, acknowledged: dict[tuple[int, int], bytes]) -> None:
    """Every message that was answered with 0 is in a store, where the answer said."""
    log = MessageLog.open(store, StoreConfig(), process_id=1)
    for (queue_id, offset), body in acknowledged.items():
        found = log.read(TOPIC, queue_id, offset, 1)  # type: ignore[arg-type]  # a plain number
        bodies = [decode_record(view).body for view in found.views]
        assert bodies == [body], (queue_id, offset)
    log.close()


def our_replica(role: dict[str, object], directory: Path, namesrv: str) -> OurReplica:
    made = replica("ours", dict(role), directory, namesrv)
    assert isinstance(made, OurReplica)
    return made


def run_replica_kills(directory: Path, kills: int, seed: int) -> int:
    """Kill so often; tell how many messages were acknowledged."""
    chance = Random(seed)
    acknowledged: dict[tuple[int, int], bytes] = {}
    running: list[OurReplica] = []
    with our_name_server(directory) as namesrv, ending(running):
        master = our_replica(MASTER, directory / "m0", namesrv)
        slave = our_replica(SLAVE, directory / "s0", namesrv)
        running[:] = [master, slave]
        master.start()
        slave.start()
        for number in range(1, kills + 1):
            sender = Sender(acknowledged)
            sender.count = number * 1_000_000
            sender.master = master.server.address
            sender.start()
            try:
                wait_until("acknowledged sends", sender.has_enough, PATIENCE_S)
                time.sleep(chance.uniform(0, 0.4))
                is_slave = chance.random() < 0.5
                (slave if is_slave else master).kill()
            finally:
                sender.stop()
            assert sender.repeated == []
            if is_slave:
                slave.start()
                continue
            slave.stop()
            require_all(slave.store, acknowledged)
            master, slave = changed_places(directory, number, namesrv, slave)
            running[:] = [master, slave]
            master.start()
            slave.start()
        slave.stop()
        master.stop()
    require_all(master.store, acknowledged)
    return len(acknowledged)


def changed_places(
    directory: Path, number: int, namesrv: str, survivor: OurReplica
) -> tuple[OurReplica, OurReplica]:
    """The survivor's store as master, and a copy of it as slave."""
    master = our_replica(MASTER, directory / f"m{number}", namesrv)
    slave = our_replica(SLAVE, directory / f"s{number}", namesrv)
    shutil.copytree(survivor.store, slave.store)
    shutil.move(survivor.store, master.store)
    for old in directory.iterdir():
        if old.is_dir() and old.name not in (f"m{number}", f"s{number}"):
            shutil.rmtree(old)
    return master, slave


def test_no_acknowledged_message_is_lost_with_a_master_or_a_slave(tmp_path: Path) -> None:
    acknowledged = run_replica_kills(tmp_path, KILLS, seed=20)

    assert acknowledged > 5 * KILLS
