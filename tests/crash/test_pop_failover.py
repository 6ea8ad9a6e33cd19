"""A master is killed while members pop, and its slave takes its place: nothing is lost.

Two brokers in processes of their own, SYNC_MASTER and SLAVE.  Members receive, acknowledge most and
leave the rest; in the middle of it the master is killed (SIGKILL) and the slave is promoted as it
is.  Every message whose send was answered OK is delivered; what is delivered again was either not
acknowledged or acknowledged in the moment of the kill, and is counted.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Self

import pytest

from flintmq import Admin, Message, Producer, SendStatus, SimpleConsumer
from flintmq.errors import FlintError
from flintmq.model.message import ReceivedMessage
from support.cli.asking import Shell
from support.cli.serving import ANYWHERE, Served, running
from support.client.support import wait_for

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(600)]

TOPIC, GROUP = "jobs", "workers"
MESSAGES = 400
INVISIBLE_MS = 10_000
MEMBERS = 3
PATIENCE_S = 60.0


class Workers:
    """Members that receive until they are stopped, and remember what became of each message."""

    def __init__(self, namesrv: str, seed: int) -> None:
        self.received: Counter[bytes] = Counter()
        self.acknowledged: set[bytes] = set()
        self.came_back: list[bytes] = []
        self._namesrv = namesrv
        self._seed = seed
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(n,)) for n in range(MEMBERS)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

    def _work(self, number: int) -> None:
        chance = Random(self._seed * MEMBERS + number)
        with SimpleConsumer(
            GROUP, namesrv=self._namesrv, start_from="first", route_ms=200
        ) as consumer:
            consumer.subscribe(TOPIC)
            while not self._is_over.is_set():
                try:
                    found = consumer.receive(8, invisible_ms=INVISIBLE_MS, wait_ms=500)
                except FlintError:
                    self._is_over.wait(0.1)  # between two masters
                    continue
                for message in found:
                    with self._lock:
                        self.received[message.body] += 1
                        if message.body in self.acknowledged:
                            self.came_back.append(message.body)
                    if chance.random() < 0.8:
                        self._acknowledge(consumer, message)

    def _acknowledge(self, consumer: SimpleConsumer, message: ReceivedMessage) -> None:
        try:
            consumer.ack(message)
        except FlintError:
            return  # it comes again
        with self._lock:
            self.acknowledged.add(message.body)


def send_all(namesrv: str) -> set[bytes]:
    """Send, once the slave follows; the bodies that both brokers have."""
    taken = set()
    with Producer("shop", namesrv=namesrv) as producer:
        first = Message("first", b"first")
        wait_for(lambda: producer.send(first).status is SendStatus.OK, PATIENCE_S)
        for number in range(MESSAGES):
            body = b"%d" % number
            if producer.send(Message(TOPIC, body)).status is SendStatus.OK:
                taken.add(body)
    return taken


@pytest.mark.parametrize("seed", range(5))
def test_pops_go_on_at_a_promoted_slave(seed: int, tmp_path: Path) -> None:
    with running("namesrv", "--listen", ANYWHERE) as server:
        common = ("broker", "--namesrv", server.namesrv, "--listen", ANYWHERE, "--flush", "async")
        with (
            running(*common, "--role", "SYNC_MASTER", "--data", tmp_path / "a") as master,
            running(*common, "--role", "SLAVE", "--data", tmp_path / "b") as slave,
        ):
            user = Shell(server.namesrv)
            with Admin(namesrv=server.namesrv) as admin:
                wait_for(lambda: is_followed(user), PATIENCE_S)
                admin.create_topic(TOPIC, queues=2)
                admin.create_group(GROUP)
            sent = send_all(server.namesrv)
            assert len(sent) == MESSAGES
            with Workers(server.namesrv, seed) as workers:
                enough = Random(seed).randrange(MESSAGES // 8, MESSAGES // 2)
                wait_for(lambda: len(workers.received) >= enough, PATIENCE_S)
                kill(master)
                before = set(workers.received)
                promote(user, slave)
                wait_for(lambda: len(workers.acknowledged) == MESSAGES, 2 * PATIENCE_S)
            again = sum(count - 1 for count in workers.received.values())
            print(
                f"seed {seed}: killed after {len(before)} of {MESSAGES}; 0 lost, {again} delivered "
                f"again, {len(workers.came_back)} of them after their acknowledgement"
            )
            assert set(workers.received) == sent
            assert slave.stop() == 0


def is_followed(user: Shell) -> bool:
    """Whether both brokers are listed and answer."""
    told = user.run("cluster", "status", "--output", "json")
    return told.exit_code == 0 and len(json.loads(told.stdout)) == 2


def kill(master: Served) -> None:
    master.process.send_signal(signal.SIGKILL)
    master.process.wait(PATIENCE_S)


def promote(user: Shell, slave: Served) -> None:
    """As soon as the name server has noticed that the master is gone."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        done = user.run("broker", "promote", "broker-a", "--yes", "--master-gone")
        if done.exit_code == 0:
            assert f"{slave.broker} is the master of broker-a now" in done.stdout
            return
        assert time.monotonic() < deadline, done
