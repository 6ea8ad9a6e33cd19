"""SEND_REPLY_MESSAGE (324, 325): a reply is pushed to the client that asked (326), and stored.

    checks ──► stored ──► the asking client takes it, or not ──► answer
                    └──► nobody to hand it to ────────────────► answer 1

Whether the reply reached its client decides the code of the answer; its record is only for
those who look later.  So a reply that cannot be stored is handed over all the same.
"""

from __future__ import annotations

from flintmq.broker.counters.message_counts import type_of
from flintmq.broker.requests.hooks import BrokerSend, BrokerSent, run_hooks
from flintmq.broker.requests.outcome import SUCCESS, Answer, Ask, Outcome, Refusal, Stored
from flintmq.broker.requests.peer import Peer
from flintmq.broker.scheduled.append import NewMessage, illegal
from flintmq.broker.send.send_answer import message_id, refusal_header
from flintmq.broker.send.send_checks import SendHeader, SendRequest, check_send
from flintmq.broker.send.send_message import begin_hooks, code_of
from flintmq.broker.send.send_properties import mark, waits_for_disk
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.broker.state.put_message import put_message
from flintmq.errors import DiskFailed, Overloaded
from flintmq.logs import logger
from flintmq.model import properties as names
from flintmq.model.queue import LogOffset
from flintmq.model.topic import AUTO_CREATE_TOPIC
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.headers.send import PushReply, SendAnswer, SendRefusal
from flintmq.protocol.records.properties import format_properties, parse_properties
from flintmq.store.message_log import Appended

log = logger(__name__)

PUSH_TIMEOUT_MS = 10_000
"""How long the asking client may take to accept a reply."""

NO_ID = "0"
"""In place of the id of a reply that was not stored: clients cannot read an answer without."""


class Reply:
    """A reply that passed the checks: what becomes of its record, and how it is answered."""

    def __init__(self, state: BrokerState, queue_id: int, sending: BrokerSend | None) -> None:
        self._state = state
        self._queue_id = queue_id
        self._sending = sending
        self._appended: Appended | None = None
        self._waits = True

    def store(self, message: NewMessage, now_ms: int) -> None:
        state = self._state
        self._waits = waits_for_disk(message.properties)
        try:
            appended = put_message(state, message, now_ms)
        except (Refusal, DiskFailed, Overloaded) as error:
            log.warning("a reply to %s is not stored: %s", message.topic, error)
            return
        self._appended = appended
        state.stats.sent(message.topic, 1, appended.size_bytes, now_ms)
        kind = type_of(message.properties)
        state.stats.counts.add_alike(message.topic, kind, 1, appended.size_bytes)
        state.after_write.append(self._written)

    def _written(self, failure: DiskFailed | None) -> None:
        if failure is not None:
            self._appended = None

    def answered(self, remark: str | None) -> Outcome:
        """The answer: a remark says why nobody got the reply."""
        appended = self._appended
        answer = self._answer(remark)
        if self._sending is not None:
            size_bytes = appended.size_bytes if appended else 0
            event = BrokerSent(self._sending, answer.code, self._id, 1, size_bytes)
            run_hooks(self._state.hooks.after_send, event)
        if appended is None:
            return answer
        stop = LogOffset(appended.log_offset + appended.size_bytes)
        return Stored(answer, stop if self._waits else None)

    @property
    def _id(self) -> str:
        appended = self._appended
        return NO_ID if appended is None else message_id(self._state.host, appended.log_offset)

    def _answer(self, remark: str | None) -> Answer:
        appended, refusal = self._appended, refusal_header(self._state)
        queue_offset = 0 if appended is None else appended.queue_offset
        if remark is None:
            header = SendAnswer(
                msg_id=self._id,
                queue_id=self._queue_id,
                queue_offset=queue_offset,
                trace_on=refusal.trace_on,
                region=refusal.region,
            )
            return Answer(SUCCESS, header)
        if appended is not None:
            refusal = SendRefusal(
                msg_id=self._id,
                queue_id=self._queue_id,
                queue_offset=queue_offset,
                trace_on=refusal.trace_on,
                region=refusal.region,
            )
        return Answer(ResponseCode.SYSTEM_ERROR, refusal, b"", remark)


def send_reply(given: SendRequest, state: BrokerState, peer: Peer, now_ms: int) -> Outcome:
    """SEND_REPLY_MESSAGE (324, 325): push a reply to the client that waits for it."""
    sending = None
    try:
        sending = begin_hooks(given, state, peer)
        return _hand_over(given, state, peer, now_ms, sending)
    except Exception as error:
        if isinstance(error, Refusal) and error.header is None:
            error.header = refusal_header(state)
        if sending is not None:
            run_hooks(state.hooks.after_send, BrokerSent(sending, code_of(error), "", 0, 0))
        raise


def _hand_over(
    given: SendRequest, state: BrokerState, peer: Peer, now_ms: int, sending: BrokerSend | None
) -> Outcome:
    header = given.header
    topic = check_send(given, state, peer, now_ms)
    if len(given.body) > state.config.store.message_bytes_max:
        raise illegal(state)
    queue_id = header.queue_id if header.queue_id >= 0 else state.pick(topic.write_queue_nums)
    properties = parse_properties(header.properties or "")
    mark(properties, state.config)
    reply = Reply(state, queue_id, sending)
    if state.config.store_replies:
        message = NewMessage(
            header.topic,
            queue_id,
            given.body,
            dict(properties),
            header.born_timestamp,
            peer.host,
            state.host,
            header.flag,
            header.sys_flag,
            header.reconsume_times,
        )
        reply.store(message, now_ms)
    client_id = properties.get(names.REPLY_TO_CLIENT)
    if client_id is None:
        return reply.answered("reply message properties[REPLY_TO_CLIENT] is null")
    client = state.clients.producer_of_client(client_id)
    if client is None:
        return reply.answered(f"push reply message fail, channel of <{client_id}> not found.")
    properties[names.PUSH_REPLY_TIME] = str(now_ms)
    push = _push_header(header, properties, state, peer, now_ms)

    def then(said: Command | None) -> Outcome:
        if said is not None and said.code == SUCCESS:
            return reply.answered(None)
        log.warning("%s did not take a reply: %s", client_id, said and said.remark)
        return reply.answered(f"push reply message to {client_id}fail.")

    command = request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, push, given.body)
    return Ask(client.peer, command, PUSH_TIMEOUT_MS, then)


def _push_header(
    header: SendHeader, properties: dict[str, str], state: BrokerState, peer: Peer, now_ms: int
) -> PushReply:
    queue_count = header.default_topic_queue_nums
    return PushReply(
        producer_group=header.producer_group or "",
        topic=header.topic,
        default_topic=header.default_topic or AUTO_CREATE_TOPIC,
        default_topic_queue_nums=0 if queue_count is None else queue_count,
        queue_id=header.queue_id,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        flag=header.flag,
        properties=format_properties(properties),
        reconsume_times=header.reconsume_times,
        unit_mode=header.unit_mode,
        born_host=peer.address,
        store_host=str(state.host),
        store_timestamp=now_ms,
    )


PROCESSORS: dict[RequestCode, Processor] = {
    RequestCode.SEND_REPLY_MESSAGE: send_reply,
    RequestCode.SEND_REPLY_MESSAGE_V2: send_reply,
}
