"""How far slaves are: `broker status` and `cluster status` show it, and mqadmin is told (907)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flintmq import EmbeddedBroker, Message
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.protocol.bodies.replica import HaStatus
from flintmq.protocol.codes import RequestCode
from support.broker.world import SMALL_STORE
from support.cli.asking import Shell
from support.embedded.asking import ask

CONFIG = BrokerConfig(store=SMALL_STORE, copy_tables_ms=100)
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def pair() -> Iterator[EmbeddedBroker]:
    """A master with messages, and a slave that has them and has said so."""
    with EmbeddedBroker(config=CONFIG, slaves=1) as pair:
        with pair.producer("shop") as producer:
            for number in range(5):
                producer.send(Message("orders", b"%d" % number))
        pair.wait_for(lambda: acknowledged(pair), PATIENCE_S)
        yield pair


def end(pair: EmbeddedBroker) -> int:
    return pair.call(lambda servers: servers.brokers["broker-a"].state.log.end_offset)


def acknowledged(pair: EmbeddedBroker) -> bool:
    slaves = ha_status(pair.broker).ha_connection_info
    return bool(slaves) and slaves[0].slave_ack_offset == end(pair)


def ha_status(address: str) -> HaStatus:
    reply = ask(address, RequestCode.GET_BROKER_HA_STATUS)
    assert reply.code == 0
    return HaStatus.from_body(reply.body)


def test_a_master_tells_its_slaves_as_mqadmin_expects_them(pair: EmbeddedBroker) -> None:
    status = ha_status(pair.broker)

    (slave,) = status.ha_connection_info
    assert (status.master, status.in_sync_slave_nums) == (True, 1)
    assert status.master_commit_log_max_offset == end(pair) > 0
    assert (slave.diff, slave.in_sync) == (0, True)
    assert slave.transfer_from_where == end(pair)
    assert slave.addr.startswith("127.0.0.1:")


def test_a_slave_tells_its_master_and_how_far_it_is(pair: EmbeddedBroker) -> None:
    status = ha_status(pair.slaves[0])

    told = status.ha_client_runtime_info
    assert (status.master, status.ha_connection_info) == (False, ())
    assert told.max_offset == end(pair)
    assert told.master_addr is not None
    assert told.master_addr.startswith("127.0.0.1:")
    assert told.last_read_timestamp > 0


def test_the_answer_has_the_fields_of_java() -> None:
    written = HaStatus(master_commit_log_max_offset=7).to_body()

    assert written == (
        b'{"haClientRuntimeInfo":{"lastReadTimestamp":0,"lastWriteTimestamp":0,'
        b'"masterFlushOffset":0,"maxOffset":0,"transferredByteInSecond":0},'
        b'"haConnectionInfo":[],"inSyncSlaveNums":0,"master":true,"masterCommitLogMaxOffset":7}'
    )


def test_broker_status_shows_slaves_and_master(pair: EmbeddedBroker) -> None:
    user = Shell(pair.namesrv)

    told = user.told("broker", "status", "broker-a")

    assert "slave at 127.0.0.1:" in told
    assert "0 bytes behind" in told
    assert "follows" in told
    assert "heard from it" in told


def test_cluster_status_says_how_far_a_slave_is_behind(pair: EmbeddedBroker) -> None:
    user = Shell(pair.namesrv)

    told = user.told("cluster", "status")
    master, slave = user.facts("cluster", "status")

    assert "behind" in told
    assert (master["role"], slave["role"]) == ("master", "slave")
    assert master["log_end"] == slave["log_end"]
    assert [each["behind_bytes"] for each in master["replicas"]["slaves"]] == [0]
    assert slave["replicas"]["master"].startswith("127.0.0.1:")


def test_the_figures_of_both_say_it_too(pair: EmbeddedBroker) -> None:
    user = Shell(pair.namesrv)

    found = user.facts("broker", "status", "broker-a", "--all")

    figures = found[0]["figures"]
    assert figures["slaves"].endswith(": 0 bytes behind")
    assert figures["following"] == "off"
