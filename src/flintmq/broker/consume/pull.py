"""PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361): records of one queue, from an offset on.

    checks ──► a pending reset? ──► read ─┬─ found ──────────────► 0, views of the log
                                          ├─ none that match ────► 20
                                          ├─ wrong offset ───────► 21, and an event is written
                                          └─ nothing yet ─┬─ first pass ──► held
                                                          └─ second ──────► 19

A pull runs at most twice.  The first pass commits the offset that it brings, whatever comes
out; the second, when a held pull is taken out, neither commits nor holds again.  One thing is
not committed: an offset that would overwrite the pending reset that the same answer carries.

The body of an answer is views of the log and is never copied here.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from flintmq.access.quotas import QuotaUse
from flintmq.broker.consume.pull_checks import admit
from flintmq.broker.consume.pull_quota import over_quota
from flintmq.broker.requests.answers import answer_template
from flintmq.broker.requests.hooks import Pulled, run_hooks
from flintmq.broker.requests.outcome import SUCCESS, Answer, Hold, Outcome, Refusal
from flintmq.broker.requests.peer import Peer
from flintmq.broker.scheduled.append import NewMessage, append
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.errors import FlintError
from flintmq.kernel.layout import STORE_MS_AT, V6_BYTES_MORE, record_struct
from flintmq.logs import logger
from flintmq.model import properties as names
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.model.sys_flag import BORN_HOST_V6
from flintmq.model.topic import OFFSET_MOVED_TOPIC
from flintmq.protocol.bodies.group import GroupConfig
from flintmq.protocol.bodies.offset import OffsetMovedEvent
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.pull import PullFlag, PullMessage
from flintmq.protocol.typed_request import TypedRequest
from flintmq.store.files.store_config import TransferLimits
from flintmq.store.queues.queue_reader import READ_BYTES_MAX, GetStatus, ReadResult
from flintmq.store.queues.selection import Selection

log = logger(__name__)

USUAL_BYTES: Final = 262_144
"""What a push consumer of 5.x says it takes.  Who says more may get more records at once."""

ANSWER_BYTES_MIN: Final = 100
"""A limit below this is taken for this, as RocketMQ does."""

LARGE_ANSWER_BYTES: Final = 4 * 1024 * 1024
"""The most for those who take more: a quarter of the frames a Java client accepts."""

HELD_CHARACTERS_MAX: Final = 16 * 1024 * 1024
"""Characters of subscriptions in pulls that are held; the tests behind them take 15 times as many
bytes.  100,000 usual pulls have half of it."""

HOLD_MS_MAX: Final = 3_600_000
"""No pull is held for longer, whatever it asks for."""

HOLD_SHARES: Final = 4
"""One connection may have this part of all holds.  A client has one for each of its queues."""

HOLD_SHARE_MIN: Final = 1_000
"""And no fewer than these, however few holds there are."""

_LARGE = TransferLimits(
    memory_bytes=LARGE_ANSWER_BYTES,
    memory_count=READ_BYTES_MAX,
    disk_bytes=LARGE_ANSWER_BYTES,
    disk_count=READ_BYTES_MAX,
)
"""No limit but bytes: the number of records is limited by what is asked for."""

NOT_FOUND = int(ResponseCode.PULL_NOT_FOUND)
RETRY = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
MOVED = int(ResponseCode.PULL_OFFSET_MOVED)

CODES: Final = {
    GetStatus.MESSAGE_WAS_REMOVING: RETRY,
    GetStatus.NO_MATCHED_MESSAGE: RETRY,
    GetStatus.NO_MATCHED_LOGIC_QUEUE: MOVED,
    GetStatus.NO_MESSAGE_IN_QUEUE: MOVED,
    GetStatus.OFFSET_FOUND_NULL: NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: MOVED,
    GetStatus.OFFSET_TOO_SMALL: MOVED,
}
"""Offset 0 of an empty queue is right: there MOVED becomes NOT_FOUND."""

_EMPTY = (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE)
"""A queue is created with its first message here, and when it is asked for in RocketMQ,
so clients get the second answer in both cases."""

# Plain numbers: operations on flags of an enum cost ten times as much.
_COMMIT_OFFSET = int(PullFlag.COMMIT_OFFSET)
_SUSPEND = int(PullFlag.SUSPEND)

_HEADER: Final = (
    b'{"suggestWhichBrokerId":"%d","nextBeginOffset":"%d","minOffset":"%d","maxOffset":"%d",'
    b'"topicSysFlag":"%d","groupSysFlag":"%d"}'
)

_TEMPLATE: Final = _HEADER.replace(b"%d", b"%b")

_PLACE = record_struct("log_offset", "sys_flag")
_STORE_MS = record_struct("store_ms", start=STORE_MS_AT)
_BORN_HOST_V6 = int(BORN_HOST_V6)


def pull(
    request: TypedRequest[PullMessage], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361): serve a pull that has just come in."""
    return _pull(request, state, peer, now_ms, is_first=True)


def pull_again(
    request: TypedRequest[PullMessage], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """Serve a pull that was held; whatever comes out is its answer."""
    return _pull(request, state, peer, now_ms, is_first=False)


def _pull(
    request: TypedRequest[PullMessage],
    state: BrokerState,
    peer: Peer,
    now_ms: int,
    *,
    is_first: bool,
) -> Outcome:
    header = request.header
    group, topic, wanted = admit(request, state, peer, now_ms)
    group_name, topic_name, queue_id = header.consumer_group, header.topic, header.queue_id
    offsets = state.offsets
    reset = None
    if state.config.server_side_reset:
        reset = offsets.take_reset(group_name, topic_name, queue_id)
    if reset is None and state.quotas.consumes:
        limited = _limited(header, state, peer, now_ms, wanted, is_first=is_first)
        if limited is not None:
            return limited
    if reset is not None:
        result = _reset_to(reset, state, header)
        code, remark = MOVED, "OFFSET_RESET"
    else:
        result = _read(state, header, wanted)
        code, remark = _verdict(result, header.queue_offset)
        if is_first and header.sys_flag & _COMMIT_OFFSET and state.takes_commits_of_pulls:
            offsets.commit(group_name, topic_name, queue_id, header.commit_offset, peer.address)
    suggested = _suggested_broker(state, group, result)
    next_offset: int = result.next_offset
    if code == MOVED and not _may_move(state):
        code, next_offset, suggested = RETRY, header.queue_offset, group.broker_id
    offsets.note_pull(group_name, topic_name, queue_id, next_offset)
    if code == SUCCESS:
        count_found(state, (group_name, topic_name, queue_id), result, now_ms)
        if state.quotas.consumes:
            taken = result.record_count, result.size_bytes
            state.quotas.pay(QuotaUse.CONSUME, peer.account, group_name, *taken, now_ms)
    else:
        if code == NOT_FOUND and is_first and header.sys_flag & _SUSPEND and _may_hold(state, peer):
            until_ms = now_ms + _hold_ms(state, header)
            offset = QueueOffset(header.queue_offset)
            return Hold(topic_name, queue_id, offset, until_ms, wanted)
        if code == MOVED:
            _store_moved_event(state, header, next_offset, now_ms)
        state.stats.pulled(group_name, topic_name, 0, 0, now_ms)
    fields = _HEADER % (
        suggested,
        next_offset,
        result.min_offset,
        result.max_offset,
        topic.topic_sys_flag,
        group.group_sys_flag or 0,
    )
    if state.hooks.on_pull:
        event = Pulled(
            peer, group_name, topic_name, queue_id, code, result.record_count, result.size_bytes
        )
        run_hooks(state.hooks.on_pull, event)
    return Answer(code, Raw(fields), result.views or b"", remark)


def _limited(
    header: PullMessage,
    state: BrokerState,
    peer: Peer,
    now_ms: int,
    wanted: Selection,
    *,
    is_first: bool,
) -> Outcome:
    """What becomes of a pull that is over a quota; None when it is over none."""
    may_hold = is_first and header.sys_flag & _SUSPEND and _may_hold(state, peer)
    hold_ms = _hold_ms(state, header) if may_hold else None
    limited = over_quota(header, state, peer, now_ms, wanted, hold_ms, is_first=is_first)
    commits = is_first and header.sys_flag & _COMMIT_OFFSET and state.takes_commits_of_pulls
    if limited is not None and commits:
        place = header.consumer_group, header.topic, header.queue_id
        state.offsets.commit(*place, header.commit_offset, peer.address)
    return limited


def _read(state: BrokerState, header: PullMessage, wanted: Selection) -> ReadResult:
    usual = usual_limits(state, header)
    limits = None
    if usual is not None:
        count_max, bytes_max = usual
    else:
        limits, bytes_max = _LARGE, header.max_msg_bytes or 0
        count_max = min(header.max_msg_nums, state.config.large_pull_count_max)
    if header.max_msg_nums > count_max and limits is None and header.topic in state.log.batched:
        count_max = header.max_msg_nums  # the store ends with the batch that reaches its limit
    return state.log.read(
        header.topic,
        header.queue_id,
        QueueOffset(header.queue_offset),
        count_max,
        bytes_max=bytes_max,
        wanted=wanted,
        limits=limits,
    )


def usual_limits(state: BrokerState, header: PullMessage) -> tuple[int, int] | None:
    """Records and bytes that a pull may get; nothing for one that may get more than usual."""
    count_max, bytes_max = header.max_msg_nums, header.max_msg_bytes
    pull_count_max = state.config.pull_count_max
    if bytes_max is None or bytes_max <= 0:
        bytes_max = READ_BYTES_MAX
    elif bytes_max > USUAL_BYTES and count_max > pull_count_max:
        return None
    return min(count_max, pull_count_max), max(bytes_max, ANSWER_BYTES_MIN)


def found_template(state: BrokerState, group: GroupConfig, topic: TopicConfig) -> bytes:
    """The header of an answer to a pull that found something, of which a slave need know nothing.

    It has holes for the next, the smallest and the largest offset and for the opaque number.
    """
    suggested = group.broker_id if state.config.slave_read else 0
    flags = topic.topic_sys_flag, group.group_sys_flag or 0
    fixed = [b"%d" % number for number in (suggested, *flags)]
    hole = b"%d"
    return answer_template(_TEMPLATE % (fixed[0], hole, hole, hole, fixed[1], fixed[2]), "FOUND")


def _reset_to(offset: QueueOffset, state: BrokerState, header: PullMessage) -> ReadResult:
    first = state.log.min_offset(header.topic, header.queue_id)
    last = state.log.max_offset(header.topic, header.queue_id)
    return ReadResult(GetStatus.OFFSET_TOO_SMALL, offset, first, last, [], 0, 0, False)


def _verdict(result: ReadResult, offset: int) -> tuple[int, str]:
    """Code and remark for how a read ended."""
    status = result.status
    if status is GetStatus.FOUND:
        return SUCCESS, "FOUND"
    code = CODES[status]
    if status in _EMPTY:
        status = GetStatus.NO_MESSAGE_IN_QUEUE
        code = code if offset else NOT_FOUND
    return code, status.value


def _suggested_broker(state: BrokerState, group: GroupConfig, result: ReadResult) -> int:
    """Where to pull next: 0 is the master."""
    if not state.config.slave_read:
        return 0
    return group.which_broker_when_consume_slowly if result.is_far_behind else group.broker_id


def _may_move(state: BrokerState) -> bool:
    """Whether a reader is told another offset: a slave may merely be behind, or be younger."""
    return state.config.role.is_master or state.config.offset_check_in_slave


def _may_hold(state: BrokerState, peer: Peer) -> bool:
    held, config = state.held, state.config
    holds_max = config.holds_max
    own_max = config.connection_holds_max or max(holds_max // HOLD_SHARES, HOLD_SHARE_MIN)
    if state.is_stopping:
        return False
    if len(held) >= holds_max:
        state.refusals.count("heldPullsMax")
    elif held.count_of(peer) >= own_max:
        state.refusals.count("heldPullsPerConnectionMax")
    elif held.characters >= HELD_CHARACTERS_MAX:
        state.refusals.count("HELD_CHARACTERS_MAX")
    else:
        return True
    return False


def _hold_ms(state: BrokerState, header: PullMessage) -> int:
    config = state.config
    if not config.long_polling:
        return config.short_polling_ms
    wish_ms = header.suspend_timeout_millis
    return min(wish_ms, HOLD_MS_MAX) if wish_ms > 0 else config.hold_sweep_ms


def count_found(
    state: BrokerState, place: tuple[str, str, int], result: ReadResult, now_ms: int
) -> None:
    """Statistics of records for a group, topic and queue, and how far behind their reader is.

    Behind in bytes is what the log has after the last record, behind in time the age of the
    oldest one in the last run of records.
    """
    last = result.views[-1]
    log_offset, flags = _PLACE.unpack_from(last)
    store_at = STORE_MS_AT + V6_BYTES_MORE if flags & _BORN_HOST_V6 else STORE_MS_AT
    store_ms = _STORE_MS.unpack_from(last, store_at)[0]
    fall_bytes = state.log.end_offset - log_offset - len(last)
    state.stats.found_behind(
        place,
        result.record_count,
        result.size_bytes,
        max(fall_bytes, 0),
        max(now_ms - store_ms, 0),
        now_ms,
    )


def _store_moved_event(
    state: BrokerState, header: PullMessage, offset_new: int, now_ms: int
) -> None:
    """Store an OFFSET_MOVED_EVENT: a group is sent from the offset it asked for to another one.

    4.9 writes one for each answer 21, and tools read them; 5.x no longer does.  When the event
    cannot be stored, the pull is answered all the same.
    """
    group = header.consumer_group
    log.info(
        "%s in %s queue %d: offset %d becomes %d",
        group, header.topic, header.queue_id, header.queue_offset, offset_new,
    )  # fmt: skip
    event = OffsetMovedEvent(
        consumer_group=group,
        message_queue=QueueRef(header.topic, state.config.broker_name, header.queue_id),
        offset_new=offset_new,
        offset_request=header.queue_offset,
    )
    message = NewMessage(
        topic=OFFSET_MOVED_TOPIC,
        queue_id=0,
        body=event.to_body(),
        properties={names.TAGS: group, names.DELAY: "0", names.KEYS: group},
        born_ms=now_ms,
        born_host=state.host,
        store_host=state.host,
    )
    try:
        append(state, message, now_ms)
    except (Refusal, FlintError) as error:
        log.warning("the moved offset of %s in %s is not told: %s", group, header.topic, error)


PROCESSORS: dict[RequestCode, Processor] = {
    RequestCode.PULL_MESSAGE: pull,
    RequestCode.LITE_PULL_MESSAGE: pull,
}
