"""Slaves have the tables of their master, whoever of the two is a real RocketMQ.

A slave of 5.3.3 copies a minute after its start, one of 4.9.7 after three seconds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from flintmq import Admin, EmbeddedBroker, Message, Producer
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.group import GroupTable
from flintmq.protocol.bodies.offset import ConsumerOffsets, DelayOffsets
from flintmq.protocol.bodies.topic import TopicTable
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.offset import UpdateConsumerOffset
from support.embedded.asking import ask
from support.interop.cluster import wait_until
from support.interop.javaclient import MqAdmin
from support.interop.replicas import running_pair

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("java")]

PATIENCE_S = 180.0
PAIRS = [("ours", "4.9.7"), ("ours", "5.3.3"), ("4.9.7", "ours"), ("5.3.3", "ours")]


def addresses(namesrv: str) -> dict[int, str]:
    with Admin(namesrv=namesrv) as admin:
        found = {each.broker: each.addresses for each in admin.cluster().brokers}
    return dict(found.get("broker-a", {}))


def tables(address: str) -> tuple[object, object, object]:
    """What a broker says of one topic, one group and its offset."""
    topics = TopicTable.from_body(ask(address, RequestCode.GET_ALL_TOPIC_CONFIG).body)
    groups = GroupTable.from_body(ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body)
    offsets = ConsumerOffsets.from_body(ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET).body)
    topic = topics.topic_config_table.get("orders")
    group = groups.subscription_group_table.get("billing")
    return (
        None if topic is None else (topic.read_queue_nums, topic.write_queue_nums, topic.perm),
        None if group is None else group.retry_max_times,
        offsets.offset_table.get("orders@billing"),
    )


def delivered(store: Path) -> int | None:
    """How far the first delay level is, by the file: a slave of 4.9 only writes it."""
    file = store / "config" / "delayOffset.json"
    content = file.read_bytes() if file.exists() else b""
    return DelayOffsets.from_file(content).offset_table.get(1) if content.strip() else None


WANTED = ((3, 3, 6), 7, {0: 4})


@pytest.mark.timeout(540)
@pytest.mark.parametrize(("master_is", "slave_is"), PAIRS)
def test_a_slave_has_the_tables_of_its_master(
    tmp_path: Path, master_is: str, slave_is: str
) -> None:
    with running_pair(tmp_path, master_is, slave_is) as (namesrv, _, slave):
        wait_until("both to register", lambda: len(addresses(namesrv)) == 2, PATIENCE_S)
        at = addresses(namesrv)
        with Admin(namesrv=namesrv) as admin:
            admin.create_topic("orders", queues=3)
            admin.create_group("billing", retry_max=7)
            admin.create_topic("late", queues=1)
        with Producer("shop", namesrv=namesrv) as producer:
            queue = QueueRef("orders", "broker-a", 0)
            for number in range(5):
                producer.send(Message("orders", b"%d" % number), queue=queue, timeout_ms=15_000)
            producer.send(Message("late", b"in a second", delay_level=1), timeout_ms=15_000)
        commit = UpdateConsumerOffset(
            consumer_group="billing", topic="orders", queue_id=0, commit_offset=4
        )
        assert ask(at[0], RequestCode.UPDATE_CONSUMER_OFFSET, commit).code == 0

        wait_until("the master to have all", lambda: tables(at[0]) == WANTED, PATIENCE_S)
        wait_until("the slave to have all", lambda: tables(at[1]) == WANTED, PATIENCE_S)
        wait_until("its delays", lambda: delivered(slave.store) == 1, PATIENCE_S)


@pytest.mark.timeout(300)
def test_mqadmin_shows_how_far_our_slave_is(tmp_path: Path) -> None:
    with EmbeddedBroker(slaves=1) as pair, MqAdmin("5.3.3", pair.namesrv, tmp_path) as mqadmin:
        with pair.producer("shop") as producer:
            producer.send(Message("orders", b"1"))
        wait_until(
            "the slave to acknowledge",
            lambda: _has_all(mqadmin("haStatus", "-b", pair.broker), pair),
            PATIENCE_S,
        )

        of_slave = mqadmin("haStatus", "-b", pair.slaves[0])
        of_cluster = mqadmin("haStatus", "-c", "DefaultCluster")

        assert f"#CommitLogMaxOffset\t{_end(pair)}\n" in of_slave
        assert _has_all(of_cluster, pair)


def _end(pair: EmbeddedBroker) -> int:
    return pair.call(lambda servers: servers.brokers["broker-a"].state.log.end_offset)


def _has_all(told: str, pair: EmbeddedBroker) -> bool:
    """Whether mqadmin shows the master, and one slave that is in sync and not behind."""
    end = _end(pair)
    slave = [line.split()[1:] for line in told.splitlines() if line.startswith("127.0.0.1:")]
    return (
        f"#MasterAddr\t{pair.broker}\n" in told
        and f"#MasterCommitLogMaxOffset\t{end}\n" in told
        and slave == [[str(end), "0", "0.00", "OK", str(end)]]
    )
