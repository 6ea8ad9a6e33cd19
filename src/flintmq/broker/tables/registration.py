"""Registrations of a broker with its name servers, and what it takes from their answers.

All topics go out at the start and at every interval, changed ones alone as soon as they change,
as a 5.x broker does.  A broker whose permission is cut registers every topic without what
it may not do.  Nothing here sends: the requests are built here and sent by `announcing`.

The list of all topics is encoded once for each state it had.  More than a thousand go out in
parts: ten thousand topics take tens of milliseconds, and nobody is served meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from flintmq.broker.tables.broker_tables import BrokerTables, RegisteredTopics
from flintmq.core.conversation import Call, Conversation
from flintmq.errors import BrokerRefused, MalformedBody
from flintmq.logs import logger
from flintmq.model.topic import READ_WRITE, SELF_TEST_TOPIC
from flintmq.protocol.bodies.common_bodies import KvTable
from flintmq.protocol.bodies.register import BrokerRegistration, body_crc32
from flintmq.protocol.bodies.topic import TopicConfig, TopicTable
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.headers.route import (
    BrokerHeartbeat,
    BrokerIdentity,
    RegisterAnswer,
    RegisterBroker,
)

log = logger(__name__)

PART_TOPICS = 1_000
"""Topics in one registration: some 10 ms to encode, and far from the size of a frame."""

NO_HA_ADDRESS = ""
"""Where slaves would fetch the log from.  The field must be there, and nobody may."""


def register_request(state: BrokerTables, topics: Iterable[str] | None = None) -> Command:
    """REGISTER_BROKER (103) with all topics, or with those of ``topics`` that still exist.

    When none of them does, all topics go out: a name server that compares versions must not
    take the list it has for the newest.
    """
    body = None if topics is None else _body_of_some(state, topics)
    if body is None:
        body = _body_of_all(state)
    config = state.config
    header = RegisterBroker(
        broker_name=config.broker_name,
        broker_addr=state.address,
        cluster_name=config.cluster,
        broker_id=config.broker_id,
        ha_server_addr=state.ha_address or NO_HA_ADDRESS,
        enable_acting_master=config.acting_master,
        heartbeat_timeout_millis=config.not_active_ms if config.acting_master else None,
        compressed=False,
        body_crc32=body_crc32(body),
    )
    return request(RequestCode.REGISTER_BROKER, header, body)


def register_parts(
    state: BrokerTables, topics: Iterable[str] | None, now_ms: int
) -> Iterator[Command]:
    """REGISTER_BROKER (103) for all topics or for some, in several requests where they are many.

    A name server takes topics it knows again only with a version it does not know, so every
    part has its own, as parts of a 5.x broker (enableSplitRegistration) have.
    """
    names = [topic.topic_name for topic in state.topics] if topics is None else list(topics)
    if len(names) <= PART_TOPICS and (topics is None or len(state.topics) <= PART_TOPICS):
        yield register_request(state, topics and names)
        return
    if topics is not None and not any(name in state.topics for name in names):
        names = [SELF_TEST_TOPIC]  # it brings the version
    for at in range(0, len(names), PART_TOPICS):
        state.topics.renew_version(now_ms)
        yield register_request(state, names[at : at + PART_TOPICS])


def heartbeat_request(state: BrokerTables) -> Command:
    """BROKER_HEARTBEAT (904): the broker lives, and nothing else has changed."""
    config = state.config
    header = BrokerHeartbeat(
        cluster_name=config.cluster,
        broker_addr=state.address,
        broker_name=config.broker_name,
        broker_id=config.broker_id,
    )
    return request(RequestCode.BROKER_HEARTBEAT, header)


def unregister_request(state: BrokerTables) -> Command:
    """UNREGISTER_BROKER (104): the broker is about to stop."""
    header = BrokerIdentity(
        broker_name=state.config.broker_name,
        broker_addr=state.address,
        cluster_name=state.config.cluster,
        broker_id=state.config.broker_id,
    )
    return request(RequestCode.UNREGISTER_BROKER, header)


def registering(
    state: BrokerTables, namesrv: str, command: Command, now_ms: int
) -> Conversation[None]:
    """Register with one name server, and take over which topics it calls ordered.

    A slave learns where its master is instead; one that is not registered stays known.
    """
    reply = yield Call(namesrv, command, state.config.register_timeout_ms)
    if reply.code != ResponseCode.SUCCESS:
        raise BrokerRefused(reply.code, reply.remark or "", namesrv)
    if state.config.role.is_master:
        state.topics.mark_order_topics(order_topics(reply), now_ms)
        return
    answer = reply.header(RegisterAnswer)
    state.master_address = answer.master_addr or state.master_address
    state.master_ha_address = answer.ha_server_addr or state.master_ha_address


def order_topics(answer: Command) -> list[str]:
    """The topics a name server calls ordered, from its answer to 103."""
    if not answer.body:
        return []
    try:
        return list(KvTable.from_body(answer.body).table)
    except MalformedBody as error:
        log.warning("order topics of a name server are ignored: %s", error)
        return []


def _body_of_all(state: BrokerTables) -> bytes:
    last = state.registered_topics
    version, permission = state.topics.version, state.config.permission
    if last is None or last.version != version or last.permission != permission:
        table = state.topics.table()
        body = _encode(state, table, table.topic_config_table.values())
        state.registered_topics = last = RegisteredTopics(version, permission, body)
    return last.body


def _body_of_some(state: BrokerTables, topics: Iterable[str]) -> bytes | None:
    found = [topic for name in topics if (topic := state.topics.find(name)) is not None]
    if not found:
        return None
    return _encode(state, TopicTable(data_version=state.topics.version), found)


def _encode(state: BrokerTables, table: TopicTable, topics: Iterable[TopicConfig]) -> bytes:
    permission = state.config.permission
    if permission & READ_WRITE != READ_WRITE:
        topics = (replace(topic, perm=topic.perm & permission) for topic in topics)
    by_name = {topic.topic_name: topic for topic in topics}
    return BrokerRegistration(
        topic_config_serialize_wrapper=replace(table, topic_config_table=by_name)
    ).to_body()
