"""Java clients consume in order while their master is gone, at a slave of ours that acts for it.

A quota slows the group down, so that most messages are left when the master is killed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from flintmq import Admin, Message, Producer
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.topic import TopicTable
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.offset import MaxOffset, OffsetAnswer, QueryConsumerOffset
from support.embedded.asking import ask
from support.interop.beside import Java
from support.interop.cluster import wait_until
from support.interop.filled import numbered
from support.interop.javaclient import NEW, OLD, JavaClient
from support.interop.replicas import OurReplica, running_pair

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("java")]

PATIENCE_S = 180.0
PREFIX = "acting_"
TOPIC, GROUP, BROKER = f"{PREFIX}t", f"{PREFIX}g", "broker-a"
COUNT, MORE = 120, 10
SETTINGS = {"enableSlaveActingMaster": "true", "quotas": f"group:{GROUP} consume 4/s"}


def addresses(namesrv: str) -> dict[int, str]:
    with Admin(namesrv=namesrv) as admin:
        found = {each.broker: each.addresses for each in admin.cluster().brokers}
    return dict(found.get(BROKER, {}))


def send(namesrv: str, bodies: list[bytes], slave: str) -> None:
    """Send to one queue, and wait until the slave has it all."""
    queue = QueueRef(TOPIC, BROKER, 0)
    with Producer("shop", namesrv=namesrv) as producer:
        receipts = [
            producer.send(Message(TOPIC, body), queue=queue, timeout_ms=15_000) for body in bodies
        ]
    end = receipts[-1].queue_offset + 1
    wait_until("the slave to have all", lambda: stored_to(slave) == end, PATIENCE_S)
    wait_until("the slave to know the topic", lambda: TOPIC in topics(slave), PATIENCE_S)


def topics(broker: str) -> set[str]:
    body = ask(broker, RequestCode.GET_ALL_TOPIC_CONFIG).body
    return {*TopicTable.from_body(body).topic_config_table}


def stored_to(broker: str) -> int:
    reply = ask(broker, RequestCode.GET_MAX_OFFSET, MaxOffset(topic=TOPIC, queue_id=0))
    return reply.header(OffsetAnswer).offset if reply.code == 0 else -1


def committed(broker: str) -> int | None:
    header = QueryConsumerOffset(
        consumer_group=GROUP, topic=TOPIC, queue_id=0, set_zero_if_not_found=False
    )
    reply = ask(broker, RequestCode.QUERY_CONSUMER_OFFSET, header)
    return reply.header(OffsetAnswer).offset if reply.code == 0 else None


@pytest.mark.timeout(540)
@pytest.mark.parametrize("release", [OLD, NEW])
def test_an_ordered_java_consumer_goes_on_and_nothing_is_consumed_twice(
    tmp_path: Path, release: str
) -> None:
    names = {"supportActingMaster": "true"}
    with running_pair(tmp_path, "ours", "ours", names, **SETTINGS) as (namesrv, master, slave):
        assert isinstance(master, OurReplica)
        assert isinstance(slave, OurReplica)
        wait_until("both to register", lambda: len(addresses(namesrv)) == 2, PATIENCE_S)
        with Admin(namesrv=namesrv) as admin:
            admin.create_topic(TOPIC, queues=1)
        send(namesrv, numbered(COUNT), slave.server.address)

        with JavaClient(release, namesrv, tmp_path / "java") as client:
            java = Java(client, PREFIX)
            java.play("join-orderly")
            wait_until("the first messages", java.seen, PATIENCE_S)
            master.kill()
            assert len(java.seen()) < COUNT
            wait_until("all messages", lambda: len(java.seen()) >= COUNT, PATIENCE_S)
            wait_until("the commit", lambda: committed(slave.server.address) == COUNT, PATIENCE_S)
            assert java.leave() == numbered(COUNT)

            master.start()
            wait_until("both again", lambda: len(addresses(namesrv)) == 2, PATIENCE_S)
            assert committed(master.server.address) == COUNT
            send(namesrv, numbered(MORE, COUNT), slave.server.address)
            java.play("join-orderly")
            wait_until("the rest", lambda: len(java.seen()) >= MORE, PATIENCE_S)
            assert java.leave() == numbered(MORE, COUNT)
