"""SEND_MESSAGE (10), SEND_MESSAGE_V2 (310), and SEND_BATCH_MESSAGE (320) with several messages.

    checks ──► properties ──► retry or dead letter? ──► half, delayed, timed or plain ──► stored

What is stored is what a 5.x broker stores: the properties decoded and encoded again, with
region, trace switch, cluster and a unique id put to them.  Not the code but a flag says that
a body is a batch.  Hooks cost nothing while there are none.
"""

from __future__ import annotations

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.counters.message_counts import FIFO, NORMAL, type_of
from flintmq.broker.requests.hooks import BrokerSend, BrokerSent, run_before_send, run_hooks
from flintmq.broker.requests.outcome import Outcome, Refusal
from flintmq.broker.requests.peer import Peer
from flintmq.broker.scheduled.append import NewMessage, append, illegal
from flintmq.broker.scheduled.destinations import destination
from flintmq.broker.scheduled.redelivery import Home
from flintmq.broker.send.recall import handle_of
from flintmq.broker.send.send_answer import SentMessages, message_id, refusal_header, sent_answer
from flintmq.broker.send.send_batch import store_batch
from flintmq.broker.send.send_checks import (
    SendRequest,
    broker_forbids,
    check_send,
    new_message,
    pay_quota,
)
from flintmq.broker.send.send_properties import mark, plain_string, waits_for_disk
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.broker.state.put_message import put_message, wanted_level
from flintmq.errors import DiskFailed
from flintmq.model import properties as names
from flintmq.model.group import (
    RETRY_PREFIX,
    dead_letter_topic,
    group_of_retry_topic,
    is_retry_topic,
)
from flintmq.model.queue import LogOffset
from flintmq.model.sys_flag import INNER_BATCH
from flintmq.model.topic import TIMER_TOPIC
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.records.properties import parse_properties
from flintmq.store.message_log import Appended

OWN_MAXIMUM_SINCE = 121
"""From this version on a client's own maximum of deliveries counts (V3_4_9)."""

DEAD_LETTER_QUEUES = 1


def send_message(request: SendRequest, state: BrokerState, peer: Peer, now_ms: int) -> Outcome:
    """SEND_MESSAGE (10), SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320): store what is sent."""
    if state.hooks.before_send or state.hooks.after_send:
        return _with_hooks(request, state, peer, now_ms)
    return _check_and_store(request, state, peer, now_ms)


def _check_and_store(
    request: SendRequest, state: BrokerState, peer: Peer, now_ms: int
) -> SentMessages:
    try:
        topic = check_send(request, state, peer, now_ms)
        store = store_batch if request.header.is_batch else _store_one
        sent = store(request, topic, state, peer, now_ms)
        pay_quota(request, state, peer, (sent.count, sent.size_bytes), now_ms)
        return sent
    except Refusal as refusal:
        if refusal.header is None:
            refusal.header = refusal_header(state)
        raise


def _store_one(
    request: SendRequest, topic: TopicConfig, state: BrokerState, peer: Peer, now_ms: int
) -> SentMessages:
    header, config = request.header, state.config
    text = header.properties or ""
    properties = parse_properties(text)
    message = new_message(request, topic, properties, state, peer)
    queue_id = message.queue_id
    encoded = None
    if names.UNIQ_KEY in properties and not header.topic.startswith(RETRY_PREFIX):
        encoded = plain_string(text, properties, config)
    if encoded is not None and _may_be_stored(message, config):
        appended = append(state, message, now_ms, encoded=encoded)
        kind = FIFO if names.SHARDING_KEY in properties else NORMAL
    else:
        appended = _store_special(request, message, state, now_ms)
        kind = type_of(properties)
    size_bytes = appended.size_bytes
    state.stats.sent(message.topic, 1, size_bytes, now_ms)
    state.stats.counts.add(message.topic, kind, (size_bytes,))
    id_text = message_id(state.host, appended.log_offset)
    return SentMessages(
        sent_answer(
            state,
            id_text,
            queue_id,
            appended.queue_offset,
            properties[names.UNIQ_KEY],
            recall_handle=handle_of(state, properties) if message.topic == TIMER_TOPIC else None,
        ),
        LogOffset(appended.log_offset + size_bytes) if waits_for_disk(properties) else None,
        id_text,
        1,
        size_bytes,
    )


def _store_special(
    request: SendRequest, message: NewMessage, state: BrokerState, now_ms: int
) -> Appended:
    """Store a message that is a retry, half, delayed or timer message."""
    properties, config = message.properties, state.config
    if is_retry_topic(message.topic) and is_exhausted(request, state, now_ms):
        _bury(message, state, now_ms)
    mark(properties, config)
    properties[names.CLUSTER] = config.cluster
    if names.UNIQ_KEY not in properties:
        properties[names.UNIQ_KEY] = state.own_ids.make(now_ms)
    is_half = names.TRAN_MSG in properties and _is_half(message, state)
    is_batch = message.sys_flag & INNER_BATCH
    if (names.INNER_NUM in properties and not is_batch) or not _may_be_stored(message, config):
        raise illegal(state)
    if is_half:
        return state.halves.append(state, message, now_ms)
    return put_message(state, message, now_ms)


def _may_be_stored(message: NewMessage, config: BrokerConfig) -> bool:
    """Whether it is not too large."""
    return len(message.body) <= config.store.message_bytes_max


def is_exhausted(request: SendRequest, state: BrokerState, now_ms: int) -> bool:
    """Whether a message sent to a retry topic was delivered often enough: it is a dead letter.

    So is one of a group that consumes in order: it was tried again in its place already.
    """
    header = request.header
    name = group_of_retry_topic(header.topic)
    group = state.groups.find_or_create(name, now_ms)
    if group is None:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {name}"
        )
    times_max = group.retry_max_times
    if request.version >= OWN_MAXIMUM_SINCE and header.max_reconsume_times is not None:
        times_max = header.max_reconsume_times
    return header.reconsume_times >= times_max or state.locks.is_orderly(name, now_ms)


def _bury(message: NewMessage, state: BrokerState, now_ms: int) -> None:
    """Make a retry message one of the dead letters of its group."""
    group = group_of_retry_topic(message.topic)
    topic = dead_letter_topic(group)
    state.stats.counts.buried(message.properties.get(names.RETRY_TOPIC, message.topic), group)
    state.topics.ensure(topic, DEAD_LETTER_QUEUES, now_ms)
    home = Home(topic, state.pick(DEAD_LETTER_QUEUES))
    message.topic, message.queue_id = destination(state, home, now_ms)
    message.properties[names.DELAY] = "-1"


def _is_half(message: NewMessage, state: BrokerState) -> bool:
    """Whether the message opens a transaction.

    Old clients leave the mark on messages they send to be tried again: those do not.
    """
    properties = message.properties
    is_retried = message.reconsume_times > 0 and wanted_level(properties) > 0
    if properties[names.TRAN_MSG].lower() != "true" or is_retried:
        return False
    if state.config.reject_transactions:
        raise broker_forbids(state, "sending transaction message")
    return True


def begin_hooks(request: SendRequest, state: BrokerState, peer: Peer) -> BrokerSend | None:
    """Ask the hooks if a send may go on; nothing comes back when there are none."""
    hooks, header = state.hooks, request.header
    if not (hooks.before_send or hooks.after_send):
        return None
    sending = BrokerSend(
        peer,
        header.producer_group or "",
        header.topic,
        header.queue_id,
        request.body,
        parse_properties(header.properties or ""),
    )
    try:
        run_before_send(hooks.before_send, sending)
    except Refusal as refusal:
        refusal.header = refusal.header or refusal_header(state)
        raise
    return sending


def _with_hooks(request: SendRequest, state: BrokerState, peer: Peer, now_ms: int) -> Outcome:
    sending = begin_hooks(request, state, peer)
    assert sending is not None
    hooks = state.hooks.after_send
    try:
        sent = _check_and_store(request, state, peer, now_ms)
    except Exception as error:
        run_hooks(hooks, BrokerSent(sending, code_of(error), "", 0, 0))
        raise

    def run_after_send(failure: DiskFailed | None) -> None:
        event = BrokerSent(sending, sent.answer.code, sent.message_ids, sent.count, sent.size_bytes)
        if failure is not None:
            event = BrokerSent(sending, code_of(failure), "", 0, 0)
        run_hooks(hooks, event)

    state.after_write.append(run_after_send)
    return sent


def code_of(error: Exception) -> int:
    """The code a producer is answered with when its send ends in this error."""
    if isinstance(error, Refusal):
        return error.code
    if isinstance(error, DiskFailed):
        return int(ResponseCode.SERVICE_NOT_AVAILABLE)
    return int(ResponseCode.SYSTEM_ERROR)


PROCESSORS: dict[RequestCode, Processor] = {
    RequestCode.SEND_MESSAGE: send_message,
    RequestCode.SEND_MESSAGE_V2: send_message,
    RequestCode.SEND_BATCH_MESSAGE: send_message,
}
