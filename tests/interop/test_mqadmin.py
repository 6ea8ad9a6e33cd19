"""The commands of mqadmin, of both generations, work on our broker and tell the truth about it.

A producer and a consumer of the same release are at work meanwhile.  What is checked is facts,
not the layout of a table.  ``FLINTMQ_INTEROP_BROKER=real-5.3`` tries the claims on a real broker.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flintmq import Admin, Message, Producer, SimpleConsumer
from support.interop.javaclient import OLD, Events, JavaClient, MqAdmin
from support.interop.ours import DELAY_LEVELS, Kind, Served

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("java"),
    pytest.mark.timeout(300),  # the first test starts servers and JVMs
]

BODIES = Path("/tmp/rocketmq/msgbodys")  # mqadmin leaves bodies there and nowhere else
VERSIONS = {Kind.OURS: "V5_3_3", Kind.REAL_5_3: "V5_3_3", Kind.REAL_4_9: "V4_9_7"}


class Company:
    """Who is at work while the tools look."""

    def __init__(self, told: Events) -> None:
        self.topic = f"{told.prefix}t"
        self.group = f"{told.prefix}g"
        self.producers = f"{told.prefix}p"
        self.prefix = told.prefix
        self.sent = told.all("sent")
        self.consumer_id = told.one("consumer")["id"]


@pytest.fixture(scope="session")
def company(
    served: Served, version: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Company]:
    with JavaClient(version, served.namesrv, tmp_path_factory.mktemp("company")) as client:
        yield Company(client.play("company"))


def rows(printed: str, start: str) -> list[list[str]]:
    """The rows of a table whose first column is this."""
    split = [line.split() for line in printed.splitlines()]
    return [words for words in split if words and words[0] == start]


def settings(printed: str, separator: str) -> dict[str, str]:
    pairs = (line.partition(separator) for line in printed.splitlines())
    return {name.strip(): value.strip() for name, found, value in pairs if found}


def relaxed_json(printed: str) -> Any:
    """What fastjson prints: numbers may be keys."""
    return json.loads(re.sub(r"([{,]\s*)(\d+):", r'\1"\2":', printed))


def taken_body(unique_id: str) -> str:
    """The body that a query left in a file, which is removed."""
    path = BODIES / unique_id
    body = path.read_text()
    path.unlink()
    return body


def test_the_cluster_lists_the_broker_its_version_and_its_traffic(
    mqadmin: MqAdmin, company: Company, served: Served
) -> None:
    listed = mqadmin("clusterList")
    counted = mqadmin("clusterList", "-m")

    [row] = rows(listed, "DefaultCluster")
    assert row[1:5] == ["broker-a", "0", served.broker, VERSIONS[served.kind]]
    # 4.9 looks for a figure under the name it misspelled; a broker of 5.x does not send it.
    misses_a_figure = served.kind is Kind.REAL_5_3 and mqadmin.version == OLD
    assert ("Exception" in listed) is misses_a_figure
    [row] = rows(counted, "DefaultCluster")
    sent_today, read_today = map(int, row[-2:])
    assert sent_today >= 4
    assert read_today >= 4


def test_the_status_of_the_broker_counts_what_was_put_and_read(
    mqadmin: MqAdmin, company: Company, served: Served
) -> None:
    status = settings(mqadmin("brokerStatus", "-b", served.broker), ":")

    assert status["brokerVersionDesc"] == VERSIONS[served.kind]
    assert int(status["msgPutTotalTodayNow"]) >= 4
    assert int(status["msgGetTotalTodayNow"]) >= 4
    assert int(status["commitLogMaxOffset"]) > int(status["commitLogMinOffset"]) >= 0
    assert int(status["bootTimestamp"]) > 1_700_000_000_000
    assert {"putTps", "getFoundTps", "runtime", "commitLogDiskRatio"} <= set(status)


def test_topics_are_listed_with_their_groups(mqadmin: MqAdmin, company: Company) -> None:
    plain = mqadmin("topicList").split()
    clustered = mqadmin("topicList", "-c")

    assert {company.topic, f"%RETRY%{company.group}", "TBW102"} <= set(plain)
    assert {"DefaultCluster", "broker-a"} <= set(plain)
    assert ["DefaultCluster", company.topic, company.group] in rows(clustered, "DefaultCluster")


def test_a_route_names_the_broker_and_its_queues(
    mqadmin: MqAdmin, company: Company, served: Served
) -> None:
    route = relaxed_json(mqadmin("topicRoute", "-t", company.topic))

    [broker] = route["brokerDatas"]
    assert broker["brokerAddrs"] == {"0": served.broker}
    assert (broker["brokerName"], broker["cluster"]) == ("broker-a", "DefaultCluster")
    [queues] = route["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (2, 2, 6)


def test_the_status_of_a_topic_gives_the_range_of_each_queue(
    mqadmin: MqAdmin, company: Company
) -> None:
    status = rows(mqadmin("topicStatus", "-t", company.topic), "broker-a")

    assert [row[1] for row in status] == ["0", "1"]
    assert all(row[2] == "0" for row in status)
    assert sum(int(row[3]) for row in status) >= 4


def test_a_topic_is_made_changed_and_deleted(
    mqadmin: MqAdmin, company: Company, served: Served
) -> None:
    topic = f"{company.prefix}made"

    made = mqadmin("updateTopic", "-b", served.broker, "-t", topic, "-r", "3", "-w", "3")
    first = relaxed_json(mqadmin("topicRoute", "-t", topic))["queueDatas"][0]
    changed = mqadmin(
        "updateTopic", "-c", "DefaultCluster", "-t", topic, "-r", "5", "-w", "4", "-p", "4"
    )
    second = relaxed_json(mqadmin("topicRoute", "-t", topic))["queueDatas"][0]
    deleted = mqadmin("deleteTopic", "-c", "DefaultCluster", "-t", topic)
    gone = mqadmin("topicRoute", "-t", topic)

    assert f"create topic to {served.broker} success." in made
    assert f"create topic to {served.broker} success." in changed
    assert (first["readQueueNums"], first["writeQueueNums"], first["perm"]) == (3, 3, 6)
    assert (second["readQueueNums"], second["writeQueueNums"], second["perm"]) == (5, 4, 4)
    assert f"delete topic [{topic}] from cluster [DefaultCluster] success." in deleted
    assert f"delete topic [{topic}] from NameServer success." in deleted
    assert f"CODE: 17  DESC: No topic route info in name server for the topic: {topic}" in gone


def test_a_group_is_made_and_deleted(mqadmin: MqAdmin, company: Company, served: Served) -> None:
    group = f"{company.prefix}made"
    of_broker = ("-b", served.broker)

    made = mqadmin("updateSubGroup", *of_broker, "-g", group, "-r", "7", "-q", "2")
    deleted = mqadmin("deleteSubGroup", *of_broker, "-g", group)

    assert f"create subscription group to {served.broker} success." in made
    assert "retryQueueNums=2, retryMaxTimes=7" in made
    assert f"delete subscription group [{group}] from broker [{served.broker}] success." in deleted


def test_the_progress_of_a_group_is_known_for_each_queue(
    mqadmin: MqAdmin, company: Company
) -> None:
    every = mqadmin("consumerProgress")
    one = mqadmin("consumerProgress", "-g", company.group)

    [row] = rows(every, company.group)
    assert row[1:5] == ["1", f"V{mqadmin.version.replace('.', '_')}", "PUSH", "CLUSTERING"]
    queues = rows(one, company.topic)
    assert [row[1:3] for row in queues] == [["broker-a", "0"], ["broker-a", "1"]]
    assert all(row[3] >= row[4] for row in queues)
    assert sum(int(row[4]) for row in queues) >= 4
    assert re.search(r"Diff Total: \d+", one)


def test_messages_that_were_popped_are_in_flight(mqadmin: MqAdmin, served: Served) -> None:
    if served.kind is not Kind.OURS or mqadmin.version == OLD:
        pytest.skip("4.9 has no such column, and a real broker counts what was pulled only")
    with Admin(namesrv=served.namesrv) as admin, Producer("p", namesrv=served.namesrv) as producer:
        admin.create_topic("popped", queues=1)
        # mqadmin asks for the route of the retry topic, which a first member would make.
        admin.create_topic("%RETRY%poppers", queues=1)
        admin.create_group("poppers")
        for _ in range(5):
            producer.send(Message("popped", b"x"))
        with SimpleConsumer("poppers", namesrv=served.namesrv, start_from="first") as consumer:
            consumer.subscribe("popped")
            held = consumer.receive(5, invisible_ms=600_000)
            consumer.ack(held[0])
            printed = mqadmin("consumerProgress", "-g", "poppers")

    [row] = rows(printed, "popped")
    assert row[1:7] == ["broker-a", "0", "5", "5", "0", str(len(held) - 1)]
    assert f"Inflight Total: {len(held) - 1}" in printed


def test_connections_of_consumers_and_producers_are_shown(
    mqadmin: MqAdmin, company: Company
) -> None:
    consumers = mqadmin("consumerConnection", "-g", company.group)
    producers = mqadmin("producerConnection", "-g", company.producers, "-t", company.topic)

    [row] = rows(consumers, company.consumer_id)
    release = f"V{mqadmin.version.replace('.', '_')}"
    assert row[2:] == ["JAVA", release]
    assert [company.topic, "a", "||", "b"] in rows(consumers, company.topic)
    assert [f"%RETRY%{company.group}", "*"] in rows(consumers, f"%RETRY%{company.group}")
    assert "ConsumeType: CONSUME_PASSIVELY" in consumers
    assert "MessageModel: CLUSTERING" in consumers
    assert "ConsumeFromWhere: CONSUME_FROM_FIRST_OFFSET" in consumers
    [row] = rows(producers, "0001")
    assert row[3:] == ["JAVA", release]


def test_a_consumer_is_asked_how_it_is(mqadmin: MqAdmin, company: Company) -> None:
    every = mqadmin("consumerStatus", "-g", company.group)
    one = mqadmin("consumerStatus", "-g", company.group, "-i", company.consumer_id)

    assert company.consumer_id in every
    assert "Same subscription in the same group of consumer" in every
    assert "Rebalance OK" in every
    facts = settings(one, " : ")
    assert facts["consumerGroup"] == company.group
    assert facts["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert re.search(rf"Topic: {company.topic} .*SubExpression: a \|\| b", one)
    assert re.search(rf"^{company.topic} +broker-a +0 +\d+", one, re.MULTILINE)


def test_a_message_is_found_by_its_place(mqadmin: MqAdmin, company: Company) -> None:
    sent = company.sent[0]
    topic = () if mqadmin.version == OLD else ("-t", company.topic)
    by_id = ("queryMsgById", *topic, "-i", sent["offsetMsgId"])

    found = mqadmin(*by_id)
    consumed = mqadmin(*by_id, "-g", company.group, "-d", company.consumer_id)

    facts = settings(found, ":")
    assert (facts["Topic"], facts["Tags"], facts["Keys"]) == (company.topic, "[a]", "[key0]")
    assert (facts["Queue ID"], facts["Queue Offset"]) == (str(sent["queue"]), str(sent["offset"]))
    assert facts["Reconsume Times"] == "0"
    assert taken_body(sent["msgId"]) == "m0"
    assert re.search(rf"consumerGroup={company.group}, trackType=CONSUMED", found)
    assert "consumeResult=CR_SUCCESS" in consumed


def test_a_message_is_found_by_its_key_and_by_its_unique_id(
    mqadmin: MqAdmin, company: Company
) -> None:
    second, third = company.sent[1:3]
    of_topic = ("-t", company.topic)

    by_key = mqadmin("queryMsgByKey", *of_topic, "-k", "key1")
    by_id = mqadmin("queryMsgByUniqueKey", *of_topic, "-i", third["msgId"])
    consumed = mqadmin(
        *("queryMsgByUniqueKey", *of_topic, "-i", third["msgId"]),
        *("-g", company.group, "-d", company.consumer_id),
    )

    assert rows(by_key, second["msgId"]) == [
        [second["msgId"], str(second["queue"]), str(second["offset"])]
    ]
    facts = settings(by_id, ":")
    assert (facts["Topic"], facts["Keys"]) == (company.topic, "[key2]")
    assert (facts["Queue ID"], facts["Queue Offset"]) == (str(third["queue"]), str(third["offset"]))
    assert taken_body(third["msgId"]) == "m2"
    assert "consumeResult=CR_SUCCESS" in consumed


def test_messages_are_printed_consumed_and_sent(mqadmin: MqAdmin, company: Company) -> None:
    of_topic = ("-t", company.topic)
    first_of_queue = next(one for one in company.sent if (one["queue"], one["offset"]) == (0, 0))

    printed = mqadmin("printMsg", *of_topic, "-d", "true")
    consumed = mqadmin("consumeMessage", *of_topic)
    one = mqadmin("consumeMessage", *of_topic, *("-b", "broker-a", "-i", "0", "-o", "0", "-c", "1"))
    sent = mqadmin(
        *("sendMessage", *of_topic, "-p", "from the tool", "-k", "tool", "-c", "a"),
        *("-b", "broker-a", "-i", "1"),
    )

    for number, message in enumerate(company.sent):
        assert re.search(rf"MSGID: {message['msgId']} .*BODY: m{number}", printed)
        assert f"MSGID: {message['msgId']}" in consumed
    assert re.findall(r"MSGID: (\w+)", one) == [first_of_queue["msgId"]]
    [row] = rows(sent, "broker-a")
    assert row[1:3] == ["1", "SEND_OK"]
    by_key = mqadmin("queryMsgByKey", *of_topic, "-k", "tool")
    assert rows(by_key, row[3])


def test_statistics_name_topic_group_and_lag(mqadmin: MqAdmin, company: Company) -> None:
    stats = mqadmin("statsAll", "-t", company.topic)

    [row] = [row for row in rows(stats, company.topic) if row[1] == company.group]
    assert int(row[2]) >= 0
    assert "Exception" not in stats


def test_the_settings_of_the_broker_are_shown(mqadmin: MqAdmin, served: Served) -> None:
    of_broker = settings(mqadmin("getBrokerConfig", "-b", served.broker), " = ")
    of_cluster = settings(mqadmin("getBrokerConfig", "-c", "DefaultCluster"), " = ")

    for shown in (of_broker, of_cluster):
        assert shown["brokerName"] == "broker-a"
        assert shown["brokerClusterName"] == "DefaultCluster"
        assert shown["messageDelayLevel"] == " ".join(DELAY_LEVELS)
        assert shown["transactionCheckInterval"] == "1000"
        assert shown["enablePropertyFilter"] == "true"
        assert shown["flushDiskType"] in ("SYNC_FLUSH", "ASYNC_FLUSH")


def test_settings_of_the_name_server_are_put_and_deleted(
    mqadmin: MqAdmin, company: Company
) -> None:
    key = ("-s", f"{company.prefix}space", "-k", "a")

    put = mqadmin("updateKvConfig", *key, "-v", "1")
    deleted = mqadmin("deleteKvConfig", *key)

    assert "create or update kv config to namespace success." in put
    assert "delete kv config from namespace success." in deleted


def test_a_group_is_moved_in_time_and_an_unknown_one_is_refused(
    mqadmin: MqAdmin, company: Company, served: Served
) -> None:
    of_topic = ("-t", company.topic)
    status = rows(mqadmin("topicStatus", *of_topic), "broker-a")
    ends = {row[1]: int(row[3]) for row in status}

    to_start = mqadmin("resetOffsetByTime", "-g", company.group, *of_topic, "-s", "0")
    to_now = mqadmin("resetOffsetByTime", "-g", company.group, *of_topic, "-s", "now")
    refused = mqadmin("resetOffsetByTime", "-g", f"{company.prefix}nobody", *of_topic, "-s", "0")

    assert sorted(row[1:] for row in rows(to_start, "broker-a")) == [["0", "0"], ["1", "0"]]
    moved = {row[1]: int(row[2]) for row in rows(to_now, "broker-a")}
    behind = 1 if served.kind is Kind.REAL_4_9 and mqadmin.version != OLD else 0
    assert moved == {queue: end - behind for queue, end in ends.items()}
    code = 1 if served.kind is Kind.REAL_4_9 else 26
    assert f"CODE: {code}  DESC:" in refused
