"""Asking producers what became of half messages that did not end in time.

A round goes through the half topic from where the last one stopped.  What has ended is passed
over.  The first message that is too young to be asked about ends the round, as everything
behind it is younger.  Any other message is put at the end of the topic once more, with one
check more on its count, and its producer is asked about that copy.  One that was asked about
too often, or is older than the log is kept, goes to a topic for the given up.

A message that asks for more time (``CHECK_IMMUNITY_TIME_IN_SECONDS``) is put at the end too,
without a question, and remembers where it was first: its producer knows that place.

A round works in parts, a limited number of records each.  What a part did counts once its
records are written; when that fails the round is given up, and the next one finds everything
as it was.

Two things differ from RocketMQ on purpose.  Before a message is asked about or given up, all
op messages there are have been read; and a message that only waits is not counted as checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from flintmq.broker.requests.outcome import Refusal, Tell
from flintmq.broker.scheduled.append import append
from flintmq.broker.scheduled.op_messages import EndMarks
from flintmq.broker.scheduled.redelivery import Allowance, home_of, rebuilt, record_of
from flintmq.broker.tables.broker_tables import BrokerTables
from flintmq.errors import FlintError, LocalProtocolError
from flintmq.logs import logger
from flintmq.model import properties as names
from flintmq.model.group import TRANSACTION_GROUP
from flintmq.model.message_id import offset_id
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.topic import CHECK_MAX_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import request
from flintmq.protocol.headers.transaction import CheckTransactionState
from flintmq.protocol.records.properties import encode_properties, parse_properties
from flintmq.protocol.records.record import TOPIC_BYTES_MAX, Record, Version, encode_record
from flintmq.store.message_log import Appended

if TYPE_CHECKING:
    from flintmq.errors import DiskFailed

log = logger(__name__)

PART_RECORDS_MAX = 500
"""Records one part of a round looks at."""

RETRY_MS = 1_000
"""When a round that was given up begins again."""

AHEAD_MS_MAX = 3_600_000
"""How far the clock of a producer may be ahead, for a message of it to be given more time.

One that says it is born later than that would be stored again in every round, for years.
"""

DIGITS_MAX = 18
"""A longer number is not taken for one."""


class _Question(NamedTuple):
    half: Record
    properties: dict[str, str]
    put_back: Appended


class _Round:
    """How far a round has come."""

    def __init__(self, state: BrokerTables, waiting: set[QueueOffset]) -> None:
        start = state.log.min_offset(HALF_TOPIC, 0)
        self.stop = state.log.max_offset(HALF_TOPIC, 0)
        at = _position(state, HALF_TOPIC)
        self.at = QueueOffset(max(start, min(at, self.stop)))
        self.marks = EndMarks(_position(state, OP_HALF_TOPIC), self.at, waiting)
        self.is_over = False

    def advance(self) -> None:
        self.at = QueueOffset(self.at + 1)


class HalfCheck:
    """The check of one broker."""

    def __init__(self) -> None:
        self._round: _Round | None = None
        self._begin_ms: int | None = None
        self._is_under_way = False
        self._waiting: set[QueueOffset] = set()  # where messages that want more time were first
        self._over: list[QueueOffset] = []  # of those, where that is over with the part under way
        self._questions: list[_Question] = []
        self.unreadable_count = 0
        """Half messages that were skipped."""

    def next_due_ms(self, state: BrokerTables, now_ms: int) -> int | None:
        """When `run` should be called next."""
        return now_ms if self._round is not None else self._due_ms(state, now_ms)

    def run(self, state: BrokerTables, now_ms: int) -> None:
        """Begin a round when it is time, or go on with one."""
        if self._is_under_way:
            return
        if self._round is None:
            if now_ms < self._due_ms(state, now_ms):
                return
            self._round = _Round(state, self._waiting)
        part = self._round
        allowance = Allowance(PART_RECORDS_MAX)
        try:
            while not (part.is_over or allowance.is_spent):
                self._step(state, part, allowance, now_ms)
        except FlintError as failure:
            log.error("the check of half messages stops here: %s", failure)  # noqa: TRY400
            self._begin_ms = now_ms + RETRY_MS
            part.is_over = True
        else:
            self._begin_ms = now_ms + state.config.transaction_check_ms
        if part.is_over:
            self._round = None
        self._is_under_way = True
        state.after_write.append(lambda failure: self._settle(state, part, failure, now_ms))

    def _due_ms(self, state: BrokerTables, now_ms: int) -> int:
        interval_ms = state.config.transaction_check_ms
        if self._begin_ms is None or self._begin_ms > now_ms + interval_ms:
            self._begin_ms = now_ms + interval_ms  # the first round, or the clock went back
        return self._begin_ms

    def _settle(
        self, state: BrokerTables, part: _Round, failure: DiskFailed | None, now_ms: int
    ) -> None:
        self._is_under_way = False
        questions, self._questions = self._questions, []
        over, self._over = self._over, []
        if failure is not None:
            self._round = None
            self._begin_ms = now_ms + RETRY_MS
            return
        for topic, offset in ((HALF_TOPIC, part.at), (OP_HALF_TOPIC, part.marks.position)):
            if offset or state.offsets.query(TRANSACTION_GROUP, topic, 0) is not None:
                state.offsets.commit(TRANSACTION_GROUP, topic, 0, offset, "half check")
        self._waiting.difference_update(over)
        for question in questions:
            _ask(state, question)

    # One half message

    def _step(self, state: BrokerTables, part: _Round, allowance: Allowance, now_ms: int) -> None:
        if part.at >= part.stop:
            part.is_over = True
            return
        if part.marks.remove(part.at):
            allowance.spend()
            part.advance()
            return
        half = self._read(state, part.at)
        allowance.spend(0 if half is None else len(half.body))
        if half is None:
            part.advance()
            return
        properties = parse_properties(half.properties)
        age_ms = now_ms - half.born_ms
        timeout_ms = state.config.transaction_timeout_ms
        immunity_ms = immunity_of(properties, timeout_ms)
        if immunity_ms is None and 0 <= age_ms < timeout_ms:
            part.is_over = True
            return
        while read := part.marks.read(state):
            for _ in range(read):
                allowance.spend()
            if allowance.is_spent:
                return
        first = _number(properties.get(names.TRAN_PREPARED_QUEUE_OFFSET))
        is_ended = part.marks.remove(part.at)
        if not is_ended and first is not None:
            is_ended = part.marks.remove(QueueOffset(first))
        if not is_ended:
            self._put_back_or_give_up(state, half, properties, immunity_ms, now_ms)
        if first is not None and (is_ended or immunity_ms is None or age_ms >= immunity_ms):
            self._over.append(QueueOffset(first))
        part.advance()

    def _read(self, state: BrokerTables, offset: QueueOffset) -> Record | None:
        units = state.log.lookup.entries(HALF_TOPIC, 0, offset, 1)
        half = record_of(state, units[0], HALF_TOPIC, 0, offset) if units else None
        if half is None:
            self.unreadable_count += 1
            log.error("half message at queue offset %d cannot be read; it is skipped", offset)
        return half

    def _put_back_or_give_up(
        self,
        state: BrokerTables,
        half: Record,
        properties: dict[str, str],
        immunity_ms: int | None,
        now_ms: int,
    ) -> None:
        checks = _number(properties.get(names.TRANSACTION_CHECK_TIMES)) or 0
        age_ms = now_ms - half.born_ms
        kept_ms = state.config.store.retention_hours * 3_600_000
        topic = HALF_TOPIC
        is_asked = False
        if checks >= state.config.transaction_checks_max or age_ms > kept_ms:
            topic = CHECK_MAX_TOPIC
            state.topics.ensure(topic, 1, now_ms)
            log.error(
                "half message at queue offset %d is given up after %d checks, %d ms old",
                half.queue_offset, checks, age_ms,
            )  # fmt: skip
        elif immunity_ms is not None and -AHEAD_MS_MAX <= age_ms < immunity_ms:
            first = properties.setdefault(names.TRAN_PREPARED_QUEUE_OFFSET, str(half.queue_offset))
            self._waiting.add(QueueOffset(_number(first) or 0))
        else:
            properties[names.TRANSACTION_CHECK_TIMES] = str(checks + 1)
            is_asked = True
        try:
            put_back = append(state, rebuilt(half, properties, topic, 0), now_ms)
        except Refusal as refusal:
            self.unreadable_count += 1
            log.error(  # noqa: TRY400
                "half message at queue offset %d cannot be stored again, it is skipped: %s",
                half.queue_offset, refusal.remark,
            )  # fmt: skip
            return
        if is_asked:
            self._questions.append(_Question(half, properties, put_back))


def immunity_of(properties: dict[str, str], timeout_ms: int) -> int | None:
    """For how long a message wants not to be asked about, if it says so at all."""
    text = properties.get(names.CHECK_IMMUNITY_SECONDS)
    if text is None:
        return None
    seconds = _number(text)
    return timeout_ms if seconds is None else seconds * 1_000


def _position(state: BrokerTables, topic: str) -> QueueOffset:
    offset = state.offsets.query(TRANSACTION_GROUP, topic, 0)
    return state.log.min_offset(topic, 0) if offset is None else offset


def _number(text: str | None) -> int | None:
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > DIGITS_MAX:
        return None
    return int(text)


def _ask(state: BrokerTables, question: _Question) -> None:
    """Ask a producer about a half message that was put back."""
    half, properties, put_back = question
    home = home_of(properties)
    group = properties.get(names.PRODUCER_GROUP, "")
    may_publish = state.may_publish
    member = None
    if home is not None:
        member = state.clients.next_producer(
            group, lambda each: may_publish is None or may_publish(each.peer.address, home.topic)
        )
    if home is None or member is None:
        log.warning("nobody to ask about a half message of producer group %r", group)
        return
    unique_id = properties.get(names.UNIQ_KEY)
    header = CheckTransactionState(
        broker_name=state.config.broker_name,
        topic=HALF_TOPIC,
        tran_state_table_offset=put_back.queue_offset,
        commit_log_offset=put_back.log_offset,
        msg_id=unique_id,
        transaction_id=unique_id,
        offset_msg_id=offset_id(half.store_host, put_back.log_offset),
    )
    is_short = len(home.topic.encode()) <= TOPIC_BYTES_MAX[Version.V1]
    record = Record(
        Version.V1 if is_short else Version.V2,
        half.body_crc,
        home.queue_id,
        half.flag,
        put_back.queue_offset,
        put_back.log_offset,
        half.sys_flag,
        half.born_ms,
        half.born_host,
        half.store_ms,
        half.store_host,
        half.reconsume_times,
        LogOffset(half.prepared_offset),
        half.body,
        home.topic,
        encode_properties(properties),
    )
    try:
        body = encode_record(record)
    except LocalProtocolError as error:
        log.warning("no question about a half message: %s", error)
        return
    check = request(RequestCode.CHECK_TRANSACTION_STATE, header, body, oneway=True)
    state.outbox.append(Tell(member.peer, check))
