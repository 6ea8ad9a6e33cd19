"""Connected clients, as admins see them; and what an admin asks a client through the broker."""

from __future__ import annotations

from msgspec.structs import replace

from flintmq.broker.requests.outcome import Answer, Ask, Outcome, Refusal, Work, answered
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.broker.tables.clients import ConnectedMember
from flintmq.errors import InvalidName
from flintmq.model.message_id import parse_offset_id
from flintmq.protocol.bodies.client import (
    ClientConnection,
    ConnectedProducer,
    ConsumerConnections,
    ProducerConnections,
    ProducerTable,
)
from flintmq.protocol.bodies.in_parts import (
    LIST,
    TABLE,
    Room,
    entry,
    filled,
    item_pieces,
    list_in_parts,
    table_in_parts,
)
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.command import request as client_request
from flintmq.protocol.fields import write_fields
from flintmq.protocol.headers.client_call import ConsumeDirectly, DescribeConsumer
from flintmq.protocol.headers.common_headers import NoFields, OfConsumerGroup, OfProducerGroup
from flintmq.protocol.language import NAMES
from flintmq.protocol.typed_request import TypedRequest
from flintmq.protocol.version import CLIENT_CALLS_SINCE, version_name

CALL_TIMEOUT_MS = 10_000


def consumer_connections(
    request: TypedRequest[OfConsumerGroup], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """GET_CONSUMER_CONNECTION_LIST (203): the members of a consumer group and its subscriptions."""
    group = request.header.consumer_group
    online = state.clients.consumer_group(group)
    if online is None:
        remark = f"the consumer group[{group}] not online"
        raise Refusal(ResponseCode.CONSUMER_NOT_ONLINE, remark)
    empty = ConsumerConnections(
        consume_from_where=online.consume_from_where,
        consume_type=online.consume_type,
        message_model=online.message_model,
    )
    members, subscriptions = list(online.members.values()), dict(online.subscriptions)

    def work() -> Work:
        body = yield from table_in_parts(empty, "subscriptionTable", subscriptions.items())
        pieces = yield from item_pieces(map(_connection, members))
        return Answer(body=filled(body, "connectionSet", LIST, pieces))

    return answered(work(), len(members) + len(subscriptions))


def producer_connections(
    request: TypedRequest[OfProducerGroup], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """GET_PRODUCER_CONNECTION_LIST (204): the members of a producer group."""
    group = request.header.producer_group
    members = state.clients.producers(group)
    if not members:
        remark = f"the producer group[{group}] not exist"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)

    def work() -> Work:
        written = list_in_parts(ProducerConnections(), "connectionSet", map(_connection, members))
        return Answer(body=(yield from written))

    return answered(work(), len(members))


def all_producers(
    _request: TypedRequest[NoFields], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """GET_ALL_PRODUCER_INFO (328): every producer connected to this broker, by group."""
    groups = state.clients.producer_groups()

    def work() -> Work:
        table = Room()
        for group in groups:
            if members := state.clients.producers(group):  # they may have left meanwhile
                pieces = yield from item_pieces(map(_producer, members))
                table.add(entry(group, LIST, pieces))
        return Answer(body=filled(ProducerTable().to_body(), "data", TABLE, table.kept))

    return answered(work(), state.clients.producer_count)


def _producer(member: ConnectedMember) -> ConnectedProducer:
    return ConnectedProducer(
        client_id=member.client_id,
        language=_language(member),
        last_update_timestamp=member.seen_ms,
        remote_ip=f"/{member.peer.address}",
        version=member.version,
    )


def _connection(member: ConnectedMember) -> ClientConnection:
    return ClientConnection(
        client_addr=member.peer.address,
        client_id=member.client_id,
        language=_language(member),
        version=member.version,
    )


def _language(member: ConnectedMember) -> str | None:
    """Java tools know a fixed list of languages."""
    return member.language if member.language in NAMES else None


# Asking a client


def describe_consumer(
    request: TypedRequest[DescribeConsumer], state: BrokerState, peer: Peer, _now_ms: int
) -> Outcome:
    """GET_CONSUMER_RUNNING_INFO (307): the state of a client, as it reports it."""
    header = request.header
    member = _member(state, header.consumer_group, header.client_id, peer)
    command = client_request(RequestCode.GET_CONSUMER_RUNNING_INFO, header, request.body)
    return _passed_on(header.consumer_group, member, command)


def consume_directly(
    request: TypedRequest[ConsumeDirectly], state: BrokerState, peer: Peer, _now_ms: int
) -> Outcome:
    """CONSUME_MESSAGE_DIRECTLY (309): a client consumes one stored message now."""
    header = request.header
    member = _member(state, header.consumer_group, header.client_id, peer)
    topic = state.topics.find(header.topic) if header.topic else None
    group = state.groups.find(header.consumer_group)
    header = replace(
        header,
        client_id=member.client_id,
        broker_name=state.config.broker_name,
        topic_sys_flag=header.topic_sys_flag if topic is None else topic.topic_sys_flag,
        group_sys_flag=header.group_sys_flag if group is None else group.group_sys_flag or 0,
    )
    body = _record(state, header.msg_id) if header.msg_id else request.body
    command = client_request(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, body)
    return _passed_on(header.consumer_group, member, command)


def _record(state: BrokerState, message_id: str) -> bytes:
    try:
        _, log_offset = parse_offset_id(message_id)
    except InvalidName as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from None
    view = state.log.lookup.record_view(log_offset)
    if view is None:
        remark = f"can not find message by the offset, {log_offset}"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    return bytes(view)


def _member(state: BrokerState, group: str, client_id: str | None, peer: Peer) -> ConnectedMember:
    """The client that is meant, or any of its group when none is named.

    Whoever is no admin may ask clients of their own account, and no others.
    """
    online = state.clients.consumer_group(group)
    member = None
    if online is not None and client_id is None:
        mine = (each for each in online.members.values() if peer.may_ask(each.account))
        member = next(mine, None) or next(iter(online.members.values()), None)
    elif online is not None and client_id is not None:
        member = online.member_of_client(client_id)
    if member is None:
        remark = f"The Consumer <{group}> <{client_id}> not online"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    if not peer.may_ask(member.account):
        remark = f"client {member.client_id} belongs to another account, ask as an admin"
        raise Refusal(ResponseCode.NO_PERMISSION, remark)
    if member.version < CLIENT_CALLS_SINCE:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"The Consumer <{member.client_id}> Version <{version_name(member.version)}> too low "
            f"to finish, please upgrade it to {version_name(CLIENT_CALLS_SINCE)}",
        )
    return member


def _passed_on(group: str, member: ConnectedMember, command: Command) -> Ask:
    """Ask a client, and give its answer as it is."""

    def then(reply: Command | None) -> Outcome:
        if reply is None:
            remark = (
                f"consumer <{group}> <{member.client_id}> Timeout: no answer from "
                f"{member.peer.address} in {CALL_TIMEOUT_MS} ms"
            )
            return Answer(ResponseCode.CONSUME_MSG_TIMEOUT, remark=remark)
        fields = reply.field_texts()
        header = write_fields(fields) if fields else None
        return Answer(reply.code, header, reply.body, reply.remark)

    return Ask(member.peer, command, CALL_TIMEOUT_MS, then)


PROCESSORS: dict[RequestCode, Processor] = {
    RequestCode.GET_CONSUMER_CONNECTION_LIST: consumer_connections,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: producer_connections,
    RequestCode.GET_ALL_PRODUCER_INFO: all_producers,
    RequestCode.GET_CONSUMER_RUNNING_INFO: describe_consumer,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: consume_directly,
}
