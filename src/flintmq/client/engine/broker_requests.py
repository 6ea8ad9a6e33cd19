"""What brokers ask of a client: a table of codes, and the member each question is for.

    CHECK_TRANSACTION_STATE (39)           → the producer of the group; no answer
    NOTIFY_CONSUMER_IDS_CHANGED (40)       → the consumer: rebalance; no answer
    RESET_CONSUMER_CLIENT_OFFSET (220)     → the consumer: go on from there; no answer
    GET_CONSUMER_STATUS_FROM_CLIENT (221)  → the offsets of the consumer
    GET_CONSUMER_RUNNING_INFO (307)        → settings, queues and rates of the consumer
    CONSUME_MESSAGE_DIRECTLY (309)         → what the listener made of one message
    PUSH_REPLY_MESSAGE_TO_CLIENT (326)     → the producer that waits for the reply

A question for a group that is not here is answered with code 1 and RocketMQ's own text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from inspect import isawaitable
from typing import Any, TypeAlias

from flintmq.client.engine.event_log import EventLog
from flintmq.client.engine.members import ConsumerMember, Members, TransactionCheck
from flintmq.errors import FlintError, MalformedBody
from flintmq.model import properties as names
from flintmq.model.host import Host
from flintmq.model.message import BODY_BYTES_MAX, ReceivedMessage
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.sys_flag import COMPRESSED, compression
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.commands import Outcome, refuse
from flintmq.protocol.bodies.client_call import ConsumerStatusTable as StatusBody
from flintmq.protocol.bodies.client_call import ResetOffsets
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, answer
from flintmq.protocol.compression import unpack
from flintmq.protocol.headers.client_call import (
    ConsumeDirectly,
    ConsumerStatusRequest,
    DescribeConsumer,
    ResetOffset,
)
from flintmq.protocol.headers.common_headers import OfConsumerGroup
from flintmq.protocol.headers.send import PushReply
from flintmq.protocol.headers.transaction import CheckTransactionState
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.received import decode_messages

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, object], str], object]

NO_HOST = Host(b"\0\0\0\0", 0)
"""Where a reply came from, when it does not say it in a way we can read."""


class Served:
    """The handler of everything that arrives unasked."""

    def __init__(self, members: Members, events: EventLog, spawn: Spawn) -> None:
        self._members = members
        self._events = events
        self._spawn = spawn

    def __call__(self, request: Command, channel: Channel) -> Outcome | Awaitable[Outcome]:
        match request.code:
            case RequestCode.CHECK_TRANSACTION_STATE:
                self._check_transaction(request, channel)
                return None
            case RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
                self._notify(request)
                return None
            case RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
                self._reset(request)
                return None
            case RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
                return self._status(request)
            case RequestCode.GET_CONSUMER_RUNNING_INFO:
                return self._describe(request)
            case RequestCode.CONSUME_MESSAGE_DIRECTLY:
                return self._consume(request)
            case RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT:
                return self._take_reply(request)
            case _:
                return refuse(request, channel)

    def _check_transaction(self, request: Command, channel: Channel) -> None:
        header = request.header(CheckTransactionState)
        message = _one_message(request.body, header.broker_name or "")
        group = message.properties.get(names.PRODUCER_GROUP, "")
        producer = self._members.producers.get(group)
        if producer is None:
            self._events.add("check", group, f"{channel.peer} asks for a producer that is not here")
            return
        producer.check_transaction(TransactionCheck(channel.peer, header, message))

    def _notify(self, request: Command) -> None:
        group = request.header(OfConsumerGroup).consumer_group
        consumer = self._members.consumers.get(group)
        if consumer is not None:
            consumer.notified()

    def _reset(self, request: Command) -> None:
        header = request.header(ResetOffset)
        consumer = self._members.consumers.get(header.group)
        if consumer is None:
            return
        offsets = ResetOffsets.from_body(request.body).offset_table
        self._events.add("reset", header.group, f"{len(offsets)} queues of {header.topic}")
        done = consumer.reset_offsets(header.topic, offsets)
        if done is not None:
            self._spawn(_wait_for(done), "reset offsets")

    def _status(self, request: Command) -> Command:
        header = request.header(ConsumerStatusRequest)
        consumer = self._members.consumers.get(header.group)
        table = {} if consumer is None else dict(consumer.consume_status(header.topic))
        body = StatusBody(message_queue_table=table).to_body()
        return answer(request, ResponseCode.SUCCESS, body=body)

    async def _describe(self, request: Command) -> Command:
        header = request.header(DescribeConsumer)
        consumer = self._members.consumers.get(header.consumer_group)
        if consumer is None:
            return _not_here(request, header.consumer_group)
        told = consumer.running_info(with_stacks=header.jstack_enable)
        running = await told if isawaitable(told) else told
        return answer(request, ResponseCode.SUCCESS, body=running.to_body())

    async def _consume(self, request: Command) -> Command:
        header = request.header(ConsumeDirectly)
        consumer: ConsumerMember | None = self._members.consumers.get(header.consumer_group)
        if consumer is None:
            return _not_here(request, header.consumer_group)
        made = consumer.consume_directly(_one_message(request.body, header.broker_name or ""))
        result = await made if isawaitable(made) else made
        return answer(request, ResponseCode.SUCCESS, body=result.to_body())

    def _take_reply(self, request: Command) -> Command:
        try:
            reply = _reply_of(request)
        except FlintError as error:
            self._events.add("reply", "", f"a reply cannot be read: {error}")
            return _reply_failed(request)
        correlation_id = reply.properties.get(names.CORRELATION_ID, "")
        for producer in self._members.producers.values():
            if producer.take_reply(correlation_id, reply):
                return answer(request, ResponseCode.SUCCESS)
        self._events.add("reply", reply.topic, f"nobody waits for the reply {correlation_id!r}")
        return answer(request, ResponseCode.SUCCESS)


async def _wait_for(done: Awaitable[None]) -> None:
    await done


def _not_here(request: Command, group: str) -> Command:
    remark = f"The Consumer Group <{group}> not exist in this consumer"
    return answer(request, ResponseCode.SYSTEM_ERROR, remark=remark)


def _reply_failed(request: Command) -> Command:
    return answer(request, ResponseCode.SYSTEM_ERROR, remark="process reply message fail")


def _one_message(body: bytes, broker: str) -> ReceivedMessage:
    received = decode_messages(body, broker=broker)
    if received.bad:
        raise MalformedBody("record", received.bad[0].reason)
    if len(received.messages) != 1:
        raise received.fault or MalformedBody("record", f"{len(received.messages)} instead of one")
    return received.messages[0]


def _reply_of(request: Command) -> ReceivedMessage:
    """The message of PUSH_REPLY_MESSAGE_TO_CLIENT (326): it has a header like a send, no record."""
    header = request.header(PushReply)
    body, sys_flag = request.body, header.sys_flag
    kind = compression(sys_flag)
    if kind is not None:
        body, sys_flag = unpack(body, kind, BODY_BYTES_MAX), sys_flag & ~COMPRESSED
    return ReceivedMessage(
        topic=header.topic,
        broker="",
        queue_id=header.queue_id,
        queue_offset=QueueOffset(0),
        log_offset=LogOffset(0),
        body=body,
        properties=parse_properties(header.properties or ""),
        flag=header.flag,
        sys_flag=sys_flag,
        born_ms=header.born_timestamp,
        born_host=_host(header.born_host),
        store_ms=header.store_timestamp,
        store_host=_host(header.store_host),
        reconsume_times=header.reconsume_times or 0,
        prepared_offset=LogOffset(0),
        stored_bytes=len(request.body),
    )


def _host(text: str) -> Host:
    try:
        return Host.parse(text.lstrip("/"))
    except ValueError:
        return NO_HOST
