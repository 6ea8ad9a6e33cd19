"""Master and slave change places under load: what was acknowledged is there, and once."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Self

from flintmq import Admin, EmbeddedBroker, Message, Producer, SendStatus
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.errors import FlintError
from flintmq.model.broker_role import BrokerRole
from support.broker.world import SMALL_STORE
from support.cli.asking import Shell
from support.cli.serving import ANYWHERE, running
from support.client.support import create_topic, wait_for

PATIENCE_S = 60.0
TOPIC = "orders"
ROUNDS = 3
CONFIG = BrokerConfig(store=SMALL_STORE, role=BrokerRole.SYNC_MASTER, ha_port=0, copy_tables_ms=100)


class Load:
    """A thread that sends numbered messages until it is stopped, and knows which were taken."""

    def __init__(self, namesrv: str) -> None:
        self.acknowledged: list[bytes] = []
        self._namesrv = namesrv
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send, name="load")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def wait_for_more(self) -> None:
        """Wait until some messages are taken that were not before."""
        enough = len(self.acknowledged) + 20
        wait_for(lambda: len(self.acknowledged) >= enough, PATIENCE_S)

    def _send(self) -> None:
        number = 0
        with Producer("load", namesrv=self._namesrv, route_ms=100) as producer:
            while not self._is_over.is_set():
                body = b"%d" % (number := number + 1)
                try:
                    receipt = producer.send(Message(TOPIC, body), timeout_ms=2_000)
                except FlintError:
                    self._is_over.wait(0.01)  # between two masters
                    continue
                if receipt.status is SendStatus.OK:
                    self.acknowledged.append(body)


def test_no_acknowledged_message_is_lost_by_switches_under_load() -> None:
    with EmbeddedBroker(config=CONFIG, slaves=1) as pair:
        create_topic(pair, TOPIC, 2)
        with Load(pair.namesrv) as load, Admin(namesrv=pair.namesrv) as admin:
            for _ in range(ROUNDS):
                load.wait_for_more()
                admin.promote(admin.plan_promotion("broker-a"))
            load.wait_for_more()

        stored = pair.messages(TOPIC)
        places = Counter((message.queue_id, message.queue_offset) for message in stored)

        assert {*load.acknowledged} <= {message.body for message in stored}
        assert max(places.values()) == 1
        assert pair.broker == pair.call(lambda s: s.brokers["broker-a/1"].state.address)  # odd


def test_two_processes_change_places_and_keep_their_ports(tmp_path: Path) -> None:
    with running("namesrv", "--listen", ANYWHERE) as server:
        common = ("broker", "--namesrv", server.namesrv, "--listen", ANYWHERE, "--flush", "async")
        with (
            running(*common, "--role", "ASYNC_MASTER", "--data", tmp_path / "a") as one,
            running(*common, "--role", "SLAVE", "--data", tmp_path / "b") as other,
        ):
            user = Shell(server.namesrv)
            user.fill(TOPIC, 10)
            wait_for(lambda: _behind(user) == 0, PATIENCE_S)

            told = user.told("broker", "promote", "broker-a", "--yes")

            roles = {each["address"]: each["role"] for each in user.facts("cluster", "list")}
            user.fill("later", 5)
            assert f"{other.broker} is the master of broker-a now" in told
            assert roles == {other.broker: "master", one.broker: "slave"}
            assert (one.stop(), other.stop()) == (0, 0)


def _behind(user: Shell) -> int | None:
    master, *slaves = user.facts("cluster", "status")
    if not slaves or master["log_end"] == 0:
        return None
    return int(master["log_end"]) - int(slaves[0]["log_end"])
