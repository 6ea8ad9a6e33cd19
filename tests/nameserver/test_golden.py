"""Real name servers, real clients: what they were answered is what we answer.

Every recorded request to a name server is sent again, as it was, to one of ours that knows
what the real one must have known.  Left out of the comparison: who answered (version and
language), the link to a list of questions behind a remark, the order of names in a list, and
a field of routes that 4.9 does not have.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flintmq.nameserver.server import NameServer
from flintmq.net.loop import run
from flintmq.protocol.bodies.common_bodies import DataVersion, KvTable
from flintmq.protocol.bodies.route import BrokerEntry, ClusterMembers, TopicRoute
from flintmq.protocol.bodies.topic import TopicConfig, TopicList, TopicTable
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command
from flintmq.protocol.frame import FrameReader
from flintmq.protocol.headers import route as headers
from flintmq.protocol.wire import decode_command
from support.nameserver.servers import name_server, registration, topic_table
from support.net.support import bare_client

GOLDEN = Path(__file__).parents[1] / "golden" / "frames.jsonl"
OF_5X = b',"enableActingMaster":false'


class Exchange(NamedTuple):
    name: str
    request: bytes
    answer: bytes | None
    is_5x: bool


def exchanges() -> list[Exchange]:
    pairs: dict[int, dict[str, dict[str, Any]]] = {}
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        frame = json.loads(line)
        if "namesrv" in frame["direction"]:
            pairs.setdefault(frame["pair"], {})[frame["role"]] = frame
    return [
        Exchange(
            f"{pair['request']['code']}-{number}",
            bytes.fromhex(pair["request"]["frame_hex"]),
            bytes.fromhex(pair["answer"]["frame_hex"]) if "answer" in pair else None,
            pair["request"]["broker"].startswith("5"),
        )
        for number, pair in pairs.items()
    ]


EXCHANGES = exchanges()


def command(frame: bytes) -> Command:
    return decode_command(FrameReader().feed(frame)[0])


def know(server: NameServer, asked: Command, answered: Command) -> None:
    """Bring a server into the state of the one that gave this answer."""
    match asked.code, answered.code:
        case RequestCode.GET_KV_CONFIG, 0:
            fields = asked.field_texts()
            value = answered.field_texts()["value"]
            server.state.settings.put(fields["namespace"], fields["key"], value)
        case RequestCode.GET_KVLIST_BY_NAMESPACE, 0:
            for key, value in KvTable.from_body(answered.body).table.items():
                server.state.settings.put(asked.field_texts()["namespace"], key, value)
        case RequestCode.GET_ROUTEINFO_BY_TOPIC, 0:
            route = TopicRoute.from_body(answered.body)
            (queues,) = route.queue_datas
            config = TopicConfig(
                topic_name=asked.field_texts()["topic"],
                perm=queues.perm,
                read_queue_nums=queues.read_queue_nums,
                write_queue_nums=queues.write_queue_nums,
            )
            for broker in route.broker_datas:
                know_broker(server, broker, topic_table([config, "other"]))
        case RequestCode.GET_BROKER_CLUSTER_INFO, 0:
            for broker in ClusterMembers.from_body(answered.body).broker_addr_table.values():
                know_broker(server, broker, topic_table())
        case RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER | RequestCode.GET_TOPICS_BY_CLUSTER, 0:
            topics = TopicList.from_body(answered.body).topic_list
            know_broker(server, BROKER_A, topic_table(topics))
        case RequestCode.WIPE_WRITE_PERM_OF_BROKER | RequestCode.ADD_WRITE_PERM_OF_BROKER, 0:
            (count,) = answered.field_texts().values()
            know_broker(server, BROKER_A, topic_table(f"topic-{n}" for n in range(int(count))))
        case RequestCode.QUERY_DATA_VERSION, 0 if answered.body:
            version = DataVersion.from_body(answered.body)
            header = asked.header(headers.BrokerIdentity)
            broker = BrokerEntry(
                broker_addrs={0: header.broker_addr}, broker_name="broker-a", cluster=CLUSTER
            )
            know_broker(server, broker, TopicTable(data_version=version))
        case RequestCode.REGISTER_BROKER, _:
            header = asked.header(headers.RegisterBroker)
            broker = BrokerEntry(
                broker_addrs={0: header.broker_addr}, broker_name="broker-a", cluster=CLUSTER
            )
            know_broker(server, broker, topic_table())


CLUSTER = "DefaultCluster"
BROKER_A = BrokerEntry(broker_addrs={0: "a:1"}, broker_name="broker-a", cluster=CLUSTER)


def know_broker(server: NameServer, broker: BrokerEntry, table: TopicTable) -> None:
    for broker_id, address in broker.broker_addrs.items():
        given = registration(
            broker.broker_name, broker_id, address, cluster=broker.cluster, table=table
        )
        assert server.state.routes.register(given, "before", 0) is not None


def comparable(found: Command, code: int) -> tuple[object, ...]:
    body: object = found.body
    if code in (206, 224):
        body = sorted(TopicList.from_body(found.body).topic_list)
    remark = found.remark and found.remark.split("\nSee http")[0]
    return found.code, found.opaque, found.flag, found.field_texts(), remark, body


@pytest.mark.parametrize(
    "recorded", [one for one in EXCHANGES if one.answer], ids=lambda one: str(one.name)
)
def test_a_recorded_request_gets_the_recorded_answer(recorded: Exchange) -> None:
    assert recorded.answer is not None
    asked, expected = command(recorded.request), command(recorded.answer)

    async def main() -> Command:
        async with name_server() as server:
            know(server, asked, expected)
            async with bare_client(server.address) as client:
                await client.send(recorded.request)
                return await client.command()

    found = run(main())

    if not recorded.is_5x:
        found = Command(
            **{name: getattr(found, name) for name in found.__struct_fields__ if name != "body"},
            body=found.body.replace(OF_5X, b""),
        )
    assert comparable(found, asked.code) == comparable(expected, asked.code)


@pytest.mark.parametrize(
    "recorded", [one for one in EXCHANGES if not one.answer], ids=lambda one: str(one.name)
)
def test_a_recorded_oneway_registration_is_taken_and_not_answered(recorded: Exchange) -> None:
    async def main() -> tuple[Command, tuple[str, ...]]:
        async with name_server() as server, bare_client(server.address) as client:
            await client.send(recorded.request + ASK_CLUSTER)
            return await client.command(), server.state.routes.topics()

    found, topics = run(main())

    assert found.opaque == command(ASK_CLUSTER).opaque  # nothing came before it
    assert list(ClusterMembers.from_body(found.body).broker_addr_table) == ["broker-a"]
    assert {"TBW102", "SCHEDULE_TOPIC_XXXX", "broker-a"} <= {*topics}


ASK_CLUSTER = next(one.request for one in EXCHANGES if one.name.startswith("106-"))


def test_there_are_recordings_of_what_brokers_and_clients_use() -> None:
    codes = {command(one.request).code for one in EXCHANGES}

    assert codes >= {100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 219, 224, 318, 322, 327}
    assert sum(one.answer is None for one in EXCHANGES) == 3
