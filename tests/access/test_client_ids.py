"""A client id belongs to the account that registered it: no other account acts for that client.

Both accounts have every right on every topic and group.  `alice` runs a client that asks for
replies, consumes and holds locks; `mallory` is connected too and writes alice's client id into her
requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flintmq.access.accounts import AuthAccounts
from flintmq.broker.guard import broker_guard
from flintmq.broker.limits.client_owners import CONNECTION_CLIENTS_MAX
from flintmq.broker.requests.peer import Peer
from flintmq.protocol.bodies.group import LockAnswer
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.signature import sign
from support.broker.admin import make_topic
from support.broker.wire import Wire, command_of
from support.broker.world import World

ENTRIES = [{"resource": "*", "actions": ["All"], "decision": "Allow"}]
SECRETS = {"alice": "alicepw1", "mallory": "mallorypw", "root": "rootpw12"}
ACCOUNTS = {
    "users": [
        {
            "username": name,
            "password": secret,
            "userType": "Super" if name == "root" else "Normal",
        }
        for name, secret in SECRETS.items()
    ],
    "acls": [
        {
            "subject": f"User:{name}",
            "policies": [{"policyType": "Custom", "entries": ENTRIES}],
        }
        for name in ("alice", "mallory")
    ],
}
CLIENT = "10.0.0.7@4711"
REPLY = f"MSG_TYPE\x01reply\x02REPLY_TO_CLIENT\x01{CLIENT}\x02CORRELATION_ID\x01c\x02"
LOCK = {
    "consumerGroup": "g",
    "clientId": CLIENT,
    "mqSet": [{"topic": "T", "brokerName": "broker-a", "queueId": 0}],
}


class Scene:
    """A broker with accounts, and a connection of each account."""

    def __init__(self, world: World) -> None:
        self.world = world
        make_topic(world, "T")
        accounts = AuthAccounts(lambda *_: None)
        assert accounts.reload({"accounts.json": json.dumps(ACCOUNTS).encode()}), accounts.fault
        world.state.accounts = accounts
        gate = broker_guard(world.engine, lambda: world.now_ms, None)
        self.wires = {name: Wire(world, gate) for name in SECRETS}

    def ask(
        self, who: str, code: RequestCode, fields: dict[str, str], body: object = b"", **more: Any
    ) -> Command:
        """The answer to a request of an account, on its own connection unless ``on`` says other."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        command = sign(command_of(code, fields, content), who, SECRETS[who])
        (answer,) = self.wires[more.get("on", who)].give(command)
        return answer

    def register(self, who: str, client_id: str = CLIENT, **more: Any) -> Command:
        return self.ask(who, RequestCode.HEART_BEAT, {}, heartbeat(client_id), **more)

    def disconnect(self, who: str) -> None:
        self.world.engine.lost(self.peer(who), self.world.now_ms)

    def peer(self, who: str) -> Peer:
        """The connection of an account."""
        members = self.world.state.clients.producers("p")
        (peer,) = (each.peer for each in members if each.account == who)
        return peer


def heartbeat(client_id: str) -> dict[str, object]:
    subscription = {"topic": "T", "subString": "*", "subVersion": 1, "expressionType": "TAG"}
    return {
        "clientID": client_id,
        "producerDataSet": [{"groupName": "p"}],
        "consumerDataSet": [
            {
                "groupName": "g",
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                "subscriptionDataSet": [subscription],
            }
        ],
    }


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with World(tmp_path) as world:
        scene = Scene(world)
        assert scene.register("alice").code == ResponseCode.SUCCESS
        yield scene


def is_foreign(answer: Command) -> bool:
    return answer.code == ResponseCode.NO_PERMISSION and "another account" in (answer.remark or "")


def test_a_reply_reaches_the_account_that_asked(scene: Scene) -> None:
    assert is_foreign(scene.register("mallory"))

    fields = {
        "producerGroup": "answerers",
        "topic": "T",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": "1",
        "flag": "0",
        "properties": REPLY,
    }
    command = command_of(RequestCode.SEND_REPLY_MESSAGE, fields, b"secret")
    scene.wires["root"].submit(sign(command, "root", SECRETS["root"]))

    (asked,) = scene.world.asked
    assert asked.peer is scene.peer("alice")


def test_the_refused_account_is_no_member_of_the_group(scene: Scene) -> None:
    scene.register("mallory")

    answer = scene.ask("root", RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
    assert json.loads(answer.body) == {"consumerIdList": [CLIENT]}
    assert len(scene.world.state.clients.producers("p")) == 1


def test_another_connection_of_the_same_account_shares_the_client_id(scene: Scene) -> None:
    assert scene.register("alice", on="root").code == ResponseCode.SUCCESS
    assert scene.register("alice").code == ResponseCode.SUCCESS
    assert is_foreign(scene.register("mallory"))


def test_an_account_on_a_connection_of_another_is_still_another(scene: Scene) -> None:
    """The account of the request counts, not that of the connection."""
    assert is_foreign(scene.register("mallory", on="alice"))


def test_a_client_id_is_free_when_its_last_connection_is_gone(scene: Scene) -> None:
    scene.disconnect("alice")

    assert scene.register("mallory").code == ResponseCode.SUCCESS
    assert is_foreign(scene.register("alice"))


def test_a_client_id_is_free_when_it_left_all_groups(scene: Scene) -> None:
    fields = {"clientID": CLIENT, "producerGroup": "p"}
    assert scene.ask("alice", RequestCode.UNREGISTER_CLIENT, fields).code == ResponseCode.SUCCESS
    assert is_foreign(scene.register("mallory"))  # alice is in g yet
    fields = {"clientID": CLIENT, "consumerGroup": "g"}
    assert scene.ask("alice", RequestCode.UNREGISTER_CLIENT, fields).code == ResponseCode.SUCCESS

    assert scene.register("mallory").code == ResponseCode.SUCCESS


def test_nobody_locks_or_unlocks_queues_for_the_client_of_another(scene: Scene) -> None:
    locked = scene.ask("alice", RequestCode.LOCK_BATCH_MQ, {}, LOCK)
    assert len(LockAnswer.from_body(locked.body).lock_ok_mq_set) == 1

    assert is_foreign(scene.ask("mallory", RequestCode.LOCK_BATCH_MQ, {}, LOCK))
    assert is_foreign(scene.ask("mallory", RequestCode.UNLOCK_BATCH_MQ, {}, LOCK))

    other = scene.ask("mallory", RequestCode.LOCK_BATCH_MQ, {}, {**LOCK, "clientId": "m@1"})
    assert LockAnswer.from_body(other.body).lock_ok_mq_set == ()  # alice's lock stands


def test_nobody_unregisters_the_client_of_another(scene: Scene) -> None:
    fields = {"clientID": CLIENT, "producerGroup": "p", "consumerGroup": "g"}
    scene.ask("mallory", RequestCode.UNREGISTER_CLIENT, fields)

    assert [each.account for each in scene.world.state.clients.producers("p")] == ["alice"]
    assert scene.world.state.clients.consumer_group("g") is not None


@pytest.mark.parametrize(
    ("code", "names"),
    [
        (RequestCode.GET_CONSUMER_RUNNING_INFO, {"clientId": CLIENT, "jstackEnable": "true"}),
        (RequestCode.CONSUME_MESSAGE_DIRECTLY, {"clientId": CLIENT}),
        (RequestCode.CONSUME_MESSAGE_DIRECTLY, {}),
        (RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"group": "g"}),
    ],
    ids=["running info", "consume directly", "consume directly, any client", "status"],
)
def test_questions_to_a_client_come_from_its_account_or_an_admin(
    scene: Scene, code: RequestCode, names: dict[str, str]
) -> None:
    fields = {"consumerGroup": "g", "topic": "T", **names}

    assert is_foreign(scene.ask("mallory", code, fields, b"a forged record"))
    assert scene.world.asked == []

    for who in ("alice", "root"):
        command = sign(command_of(code, fields, b"a record"), who, SECRETS[who])
        scene.wires[who].submit(command)
        (asked,) = scene.world.asked
        assert asked.peer is scene.peer("alice")
        scene.world.asked.clear()


def test_one_connection_registers_a_limited_number_of_client_ids(scene: Scene) -> None:
    for number in range(CONNECTION_CLIENTS_MAX):
        assert scene.register("mallory", f"m@{number}").code == ResponseCode.SUCCESS

    answer = scene.register("mallory", "one more")
    assert answer.code == ResponseCode.SYSTEM_BUSY
    assert "client ids of one connection" in (answer.remark or "")
    assert scene.register("mallory", "m@0").code == ResponseCode.SUCCESS
