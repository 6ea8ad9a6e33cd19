"""POP_MESSAGE (200050): messages of any queue, hidden from others until they are acknowledged.

    checks ──► read ─┬─ found ──► checkpoint in the log ──► 0, records      (`Stored`)
                     └─ nothing ─┬─ may be held ──► held, and run again when something arrives
                                 ├─ too many are held ──► 209
                                 └─ deadline ──► 210

Unordered, the group's offset means "handed out up to here", and each queue of an answer has a
checkpoint in the log before the answer leaves.  Ordered, the offset stays at the first message
that is not acknowledged, and the queue is blocked.

A pop of a peer that has not read what it was sent is held too, and looked at again in its turn:
many pops of one connection, as a proxy has it, may all find large messages at once.

A message that comes back is rebuilt for the answer: with the topic that was asked for, and its
handle among its properties.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from flintmq.access.quotas import QuotaUse
from flintmq.broker.consume.pop_checks import NOTHING_POPPED, admit_pop, refusal
from flintmq.broker.consume.pop_reading import FoundQueue, Gathering, move_offset
from flintmq.broker.consume.pull import HOLD_MS_MAX, count_found
from flintmq.broker.consume.pull_quota import QUOTA_HOLD_MS
from flintmq.broker.pops.in_flight import MESSAGES_MAX, InFlightPop
from flintmq.broker.requests.hooks import Pulled, run_hooks
from flintmq.broker.requests.outcome import SUCCESS, Answer, HoldPop, Outcome, Stored
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.errors import DiskFailed, Overloaded
from flintmq.model import properties as names
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.pop import PopAnswer, PopMessage
from flintmq.protocol.pop.journal import PopKey
from flintmq.protocol.pop.offset_texts import (
    ENTRY_SEPARATOR,
    message_offsets_entry,
    order_count_entries,
    start_offset_entry,
)
from flintmq.protocol.pop.receipts import ORDERED_REVIVE_QUEUE, ReceiptHandle
from flintmq.protocol.pop.retry_topics import NORMAL_MARK
from flintmq.protocol.records.properties import encode_properties, parse_properties
from flintmq.protocol.records.record import (
    Record,
    Version,
    decode_record,
    encode_record,
    record_size,
)
from flintmq.protocol.typed_request import TypedRequest
from flintmq.store.queues.selection import Selection

EARLY_MS: Final = 50
"""A held pop is answered so long before its client gives up."""

_NOTHING = "NO_MESSAGE_IN_QUEUE"
_NO_ARRIVAL: Final = Selection(tags_codes=frozenset())
"""What wakes a pop that waits for its peer to read: others take what arrives meanwhile."""


def pop(request: TypedRequest[PopMessage], state: BrokerState, peer: Peer, now_ms: int) -> Outcome:
    """POP_MESSAGE (200050): serve a pop; it may be held."""
    return _pop(request, state, peer, now_ms, may_hold=True)


def pop_at_last(
    request: TypedRequest[PopMessage], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """Serve a pop whose deadline has come; whatever comes out is its answer."""
    return _pop(request, state, peer, now_ms, may_hold=False)


def _pop(
    request: TypedRequest[PopMessage],
    state: BrokerState,
    peer: Peer,
    now_ms: int,
    *,
    may_hold: bool,
) -> Outcome:
    header = request.header
    if state.is_read_only:
        raise refusal(ResponseCode.SERVICE_NOT_AVAILABLE, "pops are served by the master alone")
    state.timers.finish_reading(state)
    born_ms = state.own_ms(header.born_time) if header.born_time > 0 else request.came_ms
    topic, wanted = admit_pop(header, state, peer, now_ms, born_ms)
    if state.in_flight.message_count >= MESSAGES_MAX:
        raise Overloaded("messages in flight", MESSAGES_MAX, "MESSAGES_MAX")
    until_ms = min(born_ms + header.poll_time - EARLY_MS, now_ms + HOLD_MS_MAX)
    may_hold = may_hold and header.poll_time > 0 and now_ms < until_ms and not state.is_stopping
    if state.quotas.consumes:
        over = state.quotas.exhausted(QuotaUse.CONSUME, peer.account, header.consumer_group, now_ms)
        if over is not None:
            state.refusals.count(over.quota.limit)
            if not may_hold:
                return Answer(ResponseCode.FLOW_CONTROL, NOTHING_POPPED, remark=over.reason)
            wake_ms = now_ms + max(QUOTA_HOLD_MS, over.wait_ms(now_ms))
            return _held(header, state, until_ms, wanted, wake_ms) or _empty(header, now_ms, 209)
    if header.poll_time > 0 and peer.is_behind:
        if not may_hold:
            return _empty(header, now_ms, ResponseCode.POLLING_TIMEOUT)
        turn_ms = peer.next_turn_ms(now_ms)
        return _held(header, state, until_ms, _NO_ARRIVAL, turn_ms) or _empty(header, now_ms, 209)
    gathering = Gathering(header, state, topic, wanted, now_ms)
    gathering.run()
    if gathering.found:
        return _Popped(header, state, peer, now_ms).outcome(gathering)
    state.stats.pulled(header.consumer_group, header.topic, 0, 0, now_ms)
    if not may_hold:
        return _empty(header, now_ms, ResponseCode.POLLING_TIMEOUT, gathering.rest_count)
    held = _held(header, state, until_ms, wanted)
    return held or _empty(header, now_ms, ResponseCode.POLLING_FULL, gathering.rest_count)


def _held(
    header: PopMessage,
    state: BrokerState,
    until_ms: int,
    wanted: Selection,
    wake_ms: int | None = None,
) -> HoldPop | None:
    """Hold a pop, unless too many are."""
    key = header.topic, header.consumer_group, header.queue_id
    limits, held = state.config.pop, state.held_pops
    if held.count_of(key) > limits.holds_per_key_max or len(held) >= limits.holds_max:
        state.refusals.count("popPollingSize")
        return None
    return HoldPop(*key, until_ms, wanted, wake_ms)


def _empty(header: PopMessage, now_ms: int, code: int, rest_count: int = 0) -> Answer:
    fields = PopAnswer(
        pop_time=now_ms,
        invisible_time=header.invisible_time,
        revive_qid=ORDERED_REVIVE_QUEUE if header.order else 0,
        rest_num=rest_count,
        start_offset_info="",
        msg_offset_info="",
        order_count_info="" if header.order else None,
    )
    return Answer(code, fields, remark=_NOTHING)


class _Popped:
    """A pop that found something, on its way to its answer."""

    def __init__(self, header: PopMessage, state: BrokerState, peer: Peer, now_ms: int) -> None:
        self._header = header
        self._state = state
        self._peer = peer
        self._now_ms = now_ms
        self._pop_ms = now_ms
        self._revive_queue_id = ORDERED_REVIVE_QUEUE

    def outcome(self, gathering: Gathering) -> Outcome:
        header, state, now_ms = self._header, self._state, self._now_ms
        counts: str | None = None
        if header.order:
            entries = [self._block(found) for found in gathering.found]
            counts = ENTRY_SEPARATOR.join(entries)
        else:
            state.pop_count += 1
            self._revive_queue_id = (state.pop_count - 1) % state.config.pop.revive_queues
            while any(self._key(found) in state.in_flight for found in gathering.found):
                self._pop_ms += 1  # the group was moved back within a millisecond
            for found in gathering.found:
                self._hand_out(found)
        body: list[memoryview] = []
        for found in gathering.found:
            body += self._records(found)
            group, queue = header.consumer_group, found.place
            count_found(state, (group, queue.topic, queue.queue_id), found.result, now_ms)
        self._count(sum(len(found.offsets) for found in gathering.found), sum(map(len, body)))
        if gathering.rest_count > 0:
            state.held_pops.wake((header.topic, header.consumer_group, header.queue_id))
        fields = PopAnswer(
            pop_time=self._pop_ms,
            invisible_time=header.invisible_time,
            revive_qid=self._revive_queue_id,
            rest_num=gathering.rest_count,
            start_offset_info=ENTRY_SEPARATOR.join(
                start_offset_entry(found.marked, found.start) for found in gathering.found
            ),
            msg_offset_info=ENTRY_SEPARATOR.join(
                message_offsets_entry(found.marked, found.offsets) for found in gathering.found
            ),
            order_count_info=counts,
        )
        return Stored(Answer(SUCCESS, fields, body, "FOUND"), state.journal.stop)

    def _key(self, found: FoundQueue) -> PopKey:
        topic, group, queue_id = found.place
        name = self._state.config.broker_name
        return PopKey(topic, group, queue_id, found.start, self._pop_ms, name)

    def _hand_out(self, found: FoundQueue) -> None:
        """Messages are in flight, and the group's offset is behind them, once that is written."""
        state = self._state
        pop = state.journal.write_checkpoint(
            state,
            self._key(found),
            found.offsets,
            self._header.invisible_time,
            self._revive_queue_id,
            self._now_ms,
        )
        move_offset(state, found.place, found.result.next_offset)
        state.after_write.append(lambda failure: self._undo(pop, failure))

    def _undo(self, pop: InFlightPop, failure: DiskFailed | None) -> None:
        if failure is not None:
            self._state.in_flight.withdraw(pop)

    def _block(self, found: FoundQueue) -> str:
        """The queue is blocked until its messages are acknowledged or visible again."""
        state, header = self._state, self._header
        topic, group, queue_id = place = found.place
        ordered = state.ordered.popped(
            place, header.attempt_id, found.offsets, header.invisible_time, self._now_ms
        )
        if not state.offsets.has_reset(group, topic, queue_id):
            state.offsets.commit(group, topic, queue_id, found.start, self._peer.address)
        state.journal.write_order(state, place, ordered, found.start, self._now_ms)
        return order_count_entries(found.marked, found.offsets, ordered.delivered_before or {})

    def _records(self, found: FoundQueue) -> list[memoryview]:
        if found.marked.mark == NORMAL_MARK:
            return found.result.views
        records = []
        for view in found.result.views:
            at = 0
            while at < len(view):
                stop = at + record_size(view, at)
                record = decode_record(view, at, verify_crc=False)
                records.append(memoryview(encode_record(self._rebuilt(record, found))))
                at = stop
        return records

    def _rebuilt(self, record: Record, found: FoundQueue) -> Record:
        """A message that comes back, as one of the topic that was asked for."""
        queue = found.marked
        handle = ReceiptHandle(
            found.start,
            self._pop_ms,
            self._header.invisible_time,
            self._revive_queue_id,
            queue.mark,
            self._state.config.broker_name,
            queue.queue_id,
            record.queue_offset,
        )
        properties = parse_properties(record.properties)
        properties[names.POP_CK] = handle.text
        return replace(
            record,
            version=Version.V1,
            topic=self._header.topic,
            properties=encode_properties(properties),
        )

    def _count(self, count: int, size_bytes: int) -> None:
        header, state, peer = self._header, self._state, self._peer
        if state.quotas.consumes:
            taken = count, size_bytes
            group = header.consumer_group
            state.quotas.pay(QuotaUse.CONSUME, peer.account, group, *taken, self._now_ms)
        if state.hooks.on_pull:
            place = header.consumer_group, header.topic, header.queue_id
            run_hooks(state.hooks.on_pull, Pulled(peer, *place, SUCCESS, count, size_bytes))


PROCESSORS: dict[RequestCode, Processor] = {RequestCode.POP_MESSAGE: pop}
