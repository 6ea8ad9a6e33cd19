"""SendMessage and RecallMessage.

A message becomes a draft as any producer of ours sends it, with the properties that RocketMQ's
proxy gives it.  The producer group is the name of the topic: that is where transactions are
checked.  The send is tried while the call has time, so a broker that is restarted costs a client
no error.

Messages of one message group go to one queue: the one RocketMQ's proxy chooses too.
"""

from __future__ import annotations

import zlib
from base64 import urlsafe_b64decode
from collections.abc import Sequence
from typing import Any, Final

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.core.ask import refusal
from flintmq.core.producer.publisher import Publisher
from flintmq.core.producer.receipt import SendReceipt, SendStatus
from flintmq.core.producer.send_draft import Draft
from flintmq.errors import LocalProtocolError
from flintmq.model import properties as names
from flintmq.model.java_hash import java_hash
from flintmq.model.message import KEY_SEPARATOR
from flintmq.model.message_id import parse_offset_id
from flintmq.model.sys_flag import TransactionType
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import request as command
from flintmq.protocol.headers.pop import RecallAnswer, RecallMessage
from flintmq.protocol.records.batch import join_batch
from flintmq.protocol.records.properties import encode_properties, format_properties
from flintmq.proxy.calls.message_checks import BODY_BYTES_MAX, check_messages, check_type, type_sent
from flintmq.proxy.tables.cluster_facts import ClusterFacts
from flintmq.proxy.tables.halves import HalfPlace, Halves
from flintmq.proxy.wire.caller import Caller
from flintmq.proxy.wire.grpc_codes import BodyEncoding, Code, MessageType
from flintmq.proxy.wire.message_classes import RecallMessageResponse, SendMessageResponse
from flintmq.proxy.wire.resource_names import topic_of
from flintmq.proxy.wire.statuses import StatusRefusal, ok, status

SEND_MS: Final = 3_000
"""How long a send may take whose call has no deadline."""

DEADLINE_SHARE: Final = 0.9
"""Of what is left of a call: the answer has to get back in time."""

PUBLISHERS_MAX: Final = 10_000
"""Topics whose turn among queues is remembered."""

_LONG: Final = (1 << 64) - 1

_STATUSES: Final = {
    SendStatus.FLUSH_DISK_TIMEOUT: Code.MASTER_PERSISTENCE_TIMEOUT,
    SendStatus.FLUSH_SLAVE_TIMEOUT: Code.SLAVE_PERSISTENCE_TIMEOUT,
    SendStatus.SLAVE_NOT_AVAILABLE: Code.HA_NOT_AVAILABLE,
}


class SendCalls:
    """Sends what clients send."""

    def __init__(self, engine: ClientEngine, facts: ClusterFacts, halves: Halves) -> None:
        self._engine = engine
        self._facts = facts
        self._halves = halves
        self._publishers: dict[str, Publisher] = {}

    async def send_message(self, request: Any, caller: Caller) -> Any:
        now_ms = self._engine.wall()
        topic = check_messages(request.messages, now_ms)
        taken = await self._facts.types(topic)
        for message in request.messages:
            check_type(type_sent(message), taken)
        await self._facts.route(topic)
        queues = self._engine.routes.publish_queues(topic)
        if not queues:
            raise StatusRefusal(Code.FORBIDDEN, "no writable queue")
        if len(request.messages) > 1:
            draft = batch_draft(topic, request.messages, caller, now_ms)
        else:
            draft = draft_of(topic, request.messages[0], caller, now_ms)
        publisher, timeout_ms = self._publisher(topic), time_for(caller, SEND_MS)
        group = request.messages[0].system_properties.message_group
        if group:
            queue = queues[consistent_hash(java_hash(group), len(queues))]
            sending = publisher.send_to(draft, queue, timeout_ms)
        else:
            sending = publisher.send(draft, queues, timeout_ms)
        receipt = await self._engine.hold(sending)
        if type_sent(request.messages[0]) is MessageType.TRANSACTION:
            self._remember(topic, receipt)
        return _answer(receipt)

    async def recall_message(self, request: Any, _caller: Caller) -> Any:
        topic = topic_of(request.topic)
        check_type(MessageType.DELAY, await self._facts.types(topic))
        broker = broker_of_handle(request.recall_handle)
        _, address = await self._facts.master_of(topic, broker)
        header = RecallMessage(
            producer_group=topic,
            topic=topic,
            recall_handle=request.recall_handle,
            broker_name=broker,
        )
        asked = command(RequestCode.RECALL_MESSAGE, header)
        reply = await self._engine.call(address, asked, SEND_MS)
        if reply.code != ResponseCode.SUCCESS:
            raise refusal(reply, address)
        answer = RecallMessageResponse(status=ok())
        answer.message_id = reply.header(RecallAnswer).msg_id
        return answer

    def _publisher(self, topic: str) -> Publisher:
        publisher = self._publishers.get(topic)
        if publisher is None:
            if len(self._publishers) >= PUBLISHERS_MAX:
                self._publishers.clear()
            engine = self._engine
            publisher = self._publishers[topic] = Publisher(
                topic,
                engine.routes,
                clock=engine.stopwatch,
                chance=engine.chance,
                on_trouble=lambda topic, _broker, _text, _first: engine.doubt_route(topic),
            )
        return publisher

    def _remember(self, topic: str, receipt: SendReceipt) -> None:
        _, log_offset = parse_offset_id(receipt.offset_message_id)
        broker = receipt.queue.broker
        place = HalfPlace(
            broker,
            self._engine.routes.address(broker) or "",
            receipt.queue_offset,
            log_offset,
            receipt.message_id,
            is_checked=False,
        )
        self._halves.add(topic, receipt.transaction_id or receipt.message_id, place)


def time_for(caller: Caller, usual_ms: int) -> int:
    """How long a request of a call may take."""
    if caller.deadline_ms is None:
        return usual_ms
    return max(1, int(caller.deadline_ms * DEADLINE_SHARE))


def draft_of(topic: str, message: Any, caller: Caller, now_ms: int) -> Draft:
    """One message as it leaves."""
    properties = properties_of(topic, message, caller)
    return Draft(
        topic,
        plain_body(message),
        _as_text(properties),
        message.system_properties.message_id,
        _born_ms(message, now_ms),
        sys_flag=TransactionType.PREPARED if names.TRAN_MSG in properties else 0,
        is_timed=names.TIMER_DELIVER_MS in properties,
    )


def batch_draft(topic: str, messages: Sequence[Any], caller: Caller, now_ms: int) -> Draft:
    """Messages that are stored together; only ordinary ones can be."""
    entries = []
    for message in messages:
        if type_sent(message) not in (MessageType.NORMAL, MessageType.FIFO):
            text = "messages of a batch are neither delayed nor of a transaction"
            raise StatusRefusal(Code.BAD_REQUEST, text)
        properties = encode_properties(properties_of(topic, message, caller))
        entries.append((plain_body(message), properties, 0))
    ids = ",".join(each.system_properties.message_id for each in messages)
    return Draft(
        topic,
        join_batch(entries),
        format_properties({names.WAIT: "true"}),
        ids,
        _born_ms(messages[0], now_ms),
        int(RequestCode.SEND_BATCH_MESSAGE),
        count=len(entries),
        is_batch=True,
    )


def properties_of(topic: str, message: Any, caller: Caller) -> dict[str, str]:
    """The properties under which a message is stored."""
    system = message.system_properties
    found = dict(message.user_properties)
    found[names.UNIQ_KEY] = system.message_id
    found[names.PRODUCER_GROUP] = topic
    found[names.RECONSUME_TIME] = str(system.delivery_attempt)
    found[names.BORN_HOST] = system.born_host or caller.peer
    found[names.WAIT] = "true"
    if system.HasField("tag"):
        found[names.TAGS] = system.tag
    if system.keys:
        found[names.KEYS] = KEY_SEPARATOR.join(system.keys)
    if system.HasField("born_timestamp"):
        found[names.BORN_TIMESTAMP] = str(system.born_timestamp.ToMilliseconds())
    if system.HasField("message_group"):
        found[names.SHARDING_KEY] = system.message_group
    if system.HasField("delivery_timestamp"):
        found[names.TIMER_DELIVER_MS] = str(system.delivery_timestamp.ToMilliseconds())
    if system.HasField("trace_context") and system.trace_context:
        found[names.TRACE_CONTEXT] = system.trace_context
    if system.message_type == MessageType.TRANSACTION:
        found[names.TRAN_MSG] = "true"
        if system.HasField("orphaned_transaction_recovery_duration"):
            wait_s = system.orphaned_transaction_recovery_duration.seconds
            found[names.CHECK_IMMUNITY_SECONDS] = str(wait_s)
    return found


def plain_body(message: Any) -> bytes:
    """The body, unpacked: brokers and older clients know no gzip."""
    body: bytes = message.body
    if message.system_properties.body_encoding != BodyEncoding.GZIP:
        return body
    unpacker = zlib.decompressobj(wbits=31)
    try:
        unpacked = unpacker.decompress(body, BODY_BYTES_MAX + 1)
    except zlib.error as error:
        text = f"message body is no gzip: {error}"
        raise StatusRefusal(Code.MESSAGE_CORRUPTED, text) from None
    if len(unpacked) > BODY_BYTES_MAX:
        text = f"message body cannot exceed the max {BODY_BYTES_MAX}"
        raise StatusRefusal(Code.MESSAGE_BODY_TOO_LARGE, text)
    if not unpacker.eof or not unpacked:
        raise StatusRefusal(Code.MESSAGE_CORRUPTED, "message body is no whole gzip")
    return unpacked


def consistent_hash(hash_: int, count: int) -> int:
    """Guava's consistent hash, by which RocketMQ's proxy chooses the queue of a message group."""
    state = hash_ & _LONG
    chosen = 0
    while True:
        state = (2_862_933_555_777_941_757 * state + 1) & _LONG
        fraction = ((state >> 33) + 1) / (1 << 31)
        candidate = int((chosen + 1) / fraction)
        if candidate >= count:
            return chosen
        chosen = candidate


def broker_of_handle(handle: str) -> str:
    """The broker in a recall handle; "" where it has none, and the broker that is asked says so."""
    try:
        parts = urlsafe_b64decode(handle + "=" * (-len(handle) % 4)).decode().split(" ")
    except ValueError:
        return ""
    return parts[2] if len(parts) == 5 else ""


def _as_text(properties: dict[str, str]) -> str:
    try:
        encode_properties(properties)  # refuses what no record holds
    except LocalProtocolError as error:
        raise StatusRefusal(Code.MESSAGE_PROPERTIES_TOO_LARGE, str(error)) from None
    return format_properties(properties)


def _born_ms(message: Any, now_ms: int) -> int:
    system = message.system_properties
    if not system.HasField("born_timestamp"):
        return now_ms
    return int(system.born_timestamp.ToMilliseconds())


def _answer(receipt: SendReceipt) -> Any:
    code = _STATUSES.get(receipt.status)
    told = ok() if code is None else status(code, receipt.status.value)
    answer = SendMessageResponse(status=told)
    entry = answer.entries.add(
        status=told,
        message_id=receipt.message_id.partition(",")[0],
        transaction_id=receipt.transaction_id or receipt.message_id.partition(",")[0],
        offset=receipt.queue_offset,
    )
    if receipt.recall_handle is not None:
        entry.recall_handle = receipt.recall_handle
    return answer
