"""A broker without sockets behind access control, and a picture of all it holds.

root        may do everything
granted     may do everything that rights on topics, groups and the cluster give
elsewhere   has all rights on names that nobody asks for
"""

from __future__ import annotations

from typing import Any

import msgspec

from flintmq.access.accounts import Accounts, AuthAccounts, PlainAccounts
from flintmq.access.rules import Dialect
from flintmq.broker.guard import broker_guard
from flintmq.broker.send.recall import RecallHandle
from flintmq.model.host import Host
from flintmq.model.message_id import offset_id
from flintmq.model.queue import QueueRef
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.signature import sign
from support.broker.admin import join, make_topic
from support.broker.wire import Wire, command_of, plain
from support.broker.world import ADDRESS, START_MS, World

HALF_OFFSET = 215
"""Where the half message of `fill` is in the log."""

SECRETS = {"root-user": "rootpw12", "granted": "grantedpw", "elsewhere": "elsewherepw"}

_PLAIN = b"""
accounts:
  - {accessKey: root-user, secretKey: rootpw12, admin: true}
  - {accessKey: granted, secretKey: grantedpw, admin: true, defaultTopicPerm: PUB|SUB,
     defaultGroupPerm: PUB|SUB, topicPerms: [own=PUB]}
  - {accessKey: elsewhere, secretKey: elsewherepw, topicPerms: [other=PUB|SUB],
     groupPerms: [other=PUB|SUB]}
"""
_AUTH = b"""{"users": [
  {"username": "root-user", "password": "rootpw12", "userType": "Super"},
  {"username": "granted", "password": "grantedpw"},
  {"username": "elsewhere", "password": "elsewherepw"}],
"acls": [
  {"subject": "User:granted", "policies": [{"policyType": "Custom", "entries": [
    {"resource": "Topic:*", "actions": ["All"], "decision": "Allow"},
    {"resource": "Group:*", "actions": ["All"], "decision": "Allow"},
    {"resource": "Cluster:*", "actions": ["All"], "decision": "Allow"}]}]},
  {"subject": "User:elsewhere", "policies": [{"policyType": "Custom", "entries": [
    {"resource": "Topic:other*", "actions": ["All"], "decision": "Allow"},
    {"resource": "Group:other*", "actions": ["All"], "decision": "Allow"},
    {"resource": "Cluster:other*", "actions": ["All"], "decision": "Allow"}]}]}]}"""


def accounts_of(dialect: Dialect) -> Accounts:
    """The three accounts, kept in memory."""
    accounts: Accounts
    if dialect is Dialect.PLAIN:
        accounts, files = PlainAccounts(lambda *_: None), {"plain_acl.yml": _PLAIN}
    else:
        accounts, files = AuthAccounts(lambda *_: None), {"accounts.json": _AUTH}
    assert accounts.reload(files), accounts.fault
    return accounts


def guard(world: World, dialect: Dialect) -> Wire:
    """A session of the world's broker behind access control."""
    world.state.accounts = accounts_of(dialect)
    return Wire(world, broker_guard(world.engine, lambda: world.now_ms, None))


def join_over(wire: Wire) -> None:
    """Let the client at the other end of a session be a member of ``g``, so that it can leave."""
    member = {**_HEARTBEAT, "clientID": "c@3", "producerDataSet": []}
    command = command_of(RequestCode.HEART_BEAT, {}, msgspec.json.encode(member))
    (answer,) = wire.give(signed(command, "granted"))
    assert answer.code == ResponseCode.SUCCESS, answer
    wire.world.told.clear()


def signed(command: Command, who: str | None, secret: str | None = None) -> Command:
    """The command as this account signs it; nobody's is unsigned."""
    return command if who is None else sign(command, who, secret or SECRETS[who])


def picture(world: World) -> dict[str, Any]:
    """All that a request could change."""
    state = world.state
    clients = state.clients
    seen = {
        "topics": state.topics.table(),
        "groups": state.groups.table(),
        "offsets": {
            place: state.offsets.queues(*reversed(place)) for place in state.offsets.places()
        },
        "pulled": {key: dict(value) for key, value in state.offsets._pulled.items()},
        "resets": {key: dict(value) for key, value in state.offsets._resets.items()},
        "locks": state.locks._table,
        "log end": state.log.end_offset,
        "queues": sorted(state.log.queues()),
        "log files": sorted(path.name for path in world.directory.glob("commitlog/*")),
        "delays": state.delays.table(),
        "timers": (state.timers.table(), state.timers.waiting_count(state)),
        "consumers": {
            each.group: (each.client_ids, sorted(each.subscriptions), each.consume_type)
            for each in clients.consumer_groups()
        },
        "producers": {group: len(clients.producers(group)) for group in clients.producer_groups()},
        "held": (len(state.held), len(state.held_pops), len(state.held_notices)),
        "in flight": [(pop.key, pop.acked) for pop in state.in_flight],
        "ordered": state.ordered.table(0, lambda _topic, _group: True),
        "request modes": state.modes.table(),
        "filters": state.filters.table(0),
        "config": (state.config, state.config_version),
        "accounts": None if state.accounts is None else state.accounts.rules,
        "told": len(world.told),
        "asked": len(world.asked),
        "closed": len(world.closed),
    }
    return {name: repr(value) for name, value in seen.items()}


_QUEUES = [{"topic": "T", "brokerName": "broker-a", "queueId": 0}]
_LOCK = {"consumerGroup": "g", "clientId": "c@2", "mqSet": _QUEUES}
_LOCKED = QueueRef("T", "broker-a", 1)
"""A queue that ``c@2`` has locked."""
_UNLOCK = _LOCK | {"mqSet": [{"topic": "T", "brokerName": "broker-a", "queueId": 1}]}
_SUBSCRIPTION = {"topic": "T", "subString": "*", "subVersion": 1, "expressionType": "TAG"}
_USER = {"username": "x", "password": "password", "userType": "Super", "userStatus": "enable"}
_ENTRY = {"resource": "*", "actions": ["All"], "decision": "Allow"}
_ACL = {
    "subject": "User:elsewhere",
    "policies": [{"policyType": "Custom", "entries": [_ENTRY]}],
}
_HEARTBEAT = {
    "clientID": "c@2",
    "producerDataSet": [{"groupName": "p"}],
    "consumerDataSet": [
        {
            "groupName": "g",
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": [_SUBSCRIPTION],
        }
    ],
}
_BODIES: dict[RequestCode, object] = {
    RequestCode.HEART_BEAT: _HEARTBEAT,
    RequestCode.LOCK_BATCH_MQ: _LOCK,
    RequestCode.UNLOCK_BATCH_MQ: _UNLOCK,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: {"groupName": "g9"},
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: {"topicConfigList": [{"topicName": "T9"}]},
    RequestCode.CHECK_CLIENT_CONFIG: {
        "clientId": "c",
        "group": "g",
        "subscriptionData": _SUBSCRIPTION,
    },
    RequestCode.QUERY_ASSIGNMENT: {"topic": "T", "consumerGroup": "g", "clientId": "c"},
    RequestCode.SET_MESSAGE_REQUEST_MODE: {"topic": "T", "consumerGroup": "g", "mode": "PULL"},
    RequestCode.BATCH_ACK_MESSAGE: {
        "brokerName": "broker-a",
        "acks": [{"c": "g", "t": "T", "q": 0}],
    },
    RequestCode.AUTH_CREATE_USER: _USER,
    RequestCode.AUTH_UPDATE_USER: _USER,
    RequestCode.AUTH_CREATE_ACL: _ACL,
    RequestCode.AUTH_UPDATE_ACL: _ACL,
}
_SETTINGS = (RequestCode.UPDATE_BROKER_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG)
_FIELDS = {
    "accessKey": "elsewhere",
    "secretKey": "elsewherepw",
    "username": "elsewhere",
    "subject": "User:elsewhere",
    "globalWhiteAddrs": "127.0.0.1",
    "admin": "true",
    "srcGroup": "g",
    "destGroup": "g2",
    "groupName": "g",
    "subscription": "*",
    "expressionType": "TAG",
    "queueOffset": "0",
    "suspendTimeoutMillis": "0",
    "perm": "6",
    "queueId": "0",
    "e": "0",
    "readQueueNums": "8",
    "writeQueueNums": "8",
    "topicFilterType": "SINGLE_TAG",
    "offset": "0",
    "sysFlag": "0",
    "f": "0",
    "commitOrRollback": "8",
    "commitOffset": "0",
    "batch": "false",
    "m": "false",
    "attributes": "",
    "whiteRemoteAddress": "127.0.0.1",
    "topicPerms": "T=PUB|SUB",
    "groupPerms": "g=SUB",
    "aclFileFullPath": "",
    "readable": "false",
    "producerGroup": "p",
    "producerGroupName": "p",
}


def fill(world: World) -> None:
    """Give every request something to work on: a message, a half message, a member, an offset."""
    make_topic(world, "T")
    world.send("T", properties="KEYS\x01K\x02TAGS\x01A\x02")
    assert world.state.log.end_offset == HALF_OFFSET
    world.send("T", properties="TRAN_MSG\x01true\x02PGROUP\x01p\x02", sys_flag=4)
    join(world, "g", "T")
    world.state.offsets.commit("g", "T", 0, 1, "test")
    assert world.state.locks.lock("g", "c@2", [_LOCKED], world.now_ms) == [_LOCKED]
    world.told.clear()


def real_fields(code: RequestCode) -> dict[str, str]:
    """Fields of a request that does something."""
    fields = plain(code)
    real = {**fields, **{name: text for name, text in _FIELDS.items() if name in fields}}
    match code:
        case RequestCode.END_TRANSACTION:
            real |= {"commitLogOffset": str(HALF_OFFSET), "tranStateTableOffset": "0"}
        case RequestCode.RESUME_CHECK_HALF_MESSAGE:
            real["msgId"] = offset_id(Host.parse(ADDRESS), HALF_OFFSET)
        case RequestCode.CONSUME_MESSAGE_DIRECTLY | RequestCode.GET_CONSUMER_RUNNING_INFO:
            real["clientId"] = "c@3"  # of the account that asks
        case RequestCode.RECALL_MESSAGE:
            real["recallHandle"] = RecallHandle("T", "broker-a", str(START_MS + 60_000), "id").text
        case RequestCode.AUTH_CREATE_USER:
            real["username"] = "newcomer"
        case RequestCode.AUTH_DELETE_ACL:
            real = {"subject": real["subject"]}  # all its entries
        case _:
            pass
    return real


def real_body(code: RequestCode) -> bytes:
    """The body of a request that does something."""
    if code in _SETTINGS:
        return b"autoCreateTopicEnable=false"
    return msgspec.json.encode(_BODIES[code]) if code in _BODIES else b"hello"
