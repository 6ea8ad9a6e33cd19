"""A slave's copy of its master's tables: topics, groups, offsets, delay levels and timers.

    topics 21, groups 201           replaced as a whole when the version of the master is another
    consumer offsets 43             stored over the slave's own, none beyond the end of its queue
    delay levels 45, timers 61, 60  where the next master goes on with its deliveries

Positions, the last two, are stored when the log has all that the master had then (28).

The requests are RocketMQ's, so the master may be one of Java; what a 4.9 master does not know is
left out.  A slave that may act as the master first commits there (UPDATE_CONSUMER_OFFSET 15) what
was committed to itself and is further.  Consumer filters are not copied: consumers bring them with
their heartbeats, to slaves too.  What a slave changes itself, such as the retry topic of a new
member, gives its table a version of its own, so the next copy removes it.

A copy that fails is logged once, until one succeeds, and tried again with the next period.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from itertools import islice
from typing import TypeVar

from flintmq.broker.state.broker_state import BrokerState
from flintmq.broker.tables.attributes import keeps_batches
from flintmq.broker.tables.offsets import SEPARATOR
from flintmq.errors import BrokerRefused, FlintError, Unreachable
from flintmq.logs import logger
from flintmq.model.queue import LogOffset
from flintmq.net.channels.channel_pool import Channels
from flintmq.protocol.bodies.body import Body
from flintmq.protocol.bodies.common_bodies import KvTable
from flintmq.protocol.bodies.group import GroupTable
from flintmq.protocol.bodies.offset import ConsumerOffsets, DelayOffsets, TimerPositions
from flintmq.protocol.bodies.replica import TimerCheckPoint, TimerMetrics
from flintmq.protocol.bodies.topic import TopicTable
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import request
from flintmq.protocol.fields import Header
from flintmq.protocol.headers.offset import UpdateConsumerOffset

log = logger(__name__)

COPY_MS = 3_000
"""How long the master may take to answer; what RocketMQ's slaves allow."""

CATCH_UP_MS = 2_000
"""How long a copy of positions waits for the log to come that they belong to."""

LOOK_MS = 10
"""How often it is looked whether it has come."""

PART_PLACES = 200
"""Topics of groups whose offsets are stored before others have their turn: a millisecond."""

LAST_OFFSET = 2**44 - 1
"""Beyond every queue offset of a timer message: all that were due at a millisecond."""

B = TypeVar("B", bound=Body)


class TableCopy:
    """Copies the tables of one master, one copy at a time."""

    def __init__(
        self,
        state: BrokerState,
        outgoing: Channels,
        thread: Executor,
        clock: Callable[[], int],
        registered: asyncio.Event | None = None,
        catch_up_ms: int = CATCH_UP_MS,
    ) -> None:
        self.copied_ms: int | None = None
        """When the last copy ended well."""
        self._state = state
        self._outgoing = outgoing
        self._thread = thread  # large tables are read there
        self._now_ms = clock
        self._registered = registered  # only then it is known where the master is
        self._catch_up_ms = catch_up_ms
        self._lock = asyncio.Lock()
        self._is_failing = False

    async def run(self) -> None:
        """Copy all tables, if the master is known and no copy is under way."""
        if self._registered is not None:
            await self._registered.wait()
        if self._lock.locked() or self._state.master_address is None:
            return
        async with self._lock:
            try:
                await self._copy(self._state.master_address)
            except FlintError as error:
                if not self._is_failing:
                    log.warning("the tables of the master are not copied: %s", error)
                self._is_failing = True
            else:
                if self._is_failing:
                    log.info("the tables of the master are copied again")
                self._is_failing = False
                self.copied_ms = self._now_ms()

    async def last(self) -> None:
        """Copy once more before this slave becomes the master.  Raises what goes wrong."""
        async with self._lock:
            if self._state.master_address is None:
                raise Unreachable("the master", "no name server has told where it is")
            await self._copy(self._state.master_address)

    async def _copy(self, master: str) -> None:
        """Copy names at once, and positions once the log has all that the master had then.

        Else a slave that becomes the master would take messages for delivered, or for handed out
        to members that pop, of which its log knows nothing.
        """
        await self._copy_names(master)
        delays = await self._fetch(master, RequestCode.GET_ALL_DELAY_OFFSET, DelayOffsets)
        timers = await self._timer_positions(master)
        offsets = await self._fetch(master, RequestCode.GET_ALL_CONSUMER_OFFSET, ConsumerOffsets)
        if offsets is not None:
            await self._hand_over(master, offsets)
        figures = await self._fetch(master, RequestCode.GET_BROKER_RUNTIME_INFO, KvTable)
        text = "" if figures is None else figures.table.get("commitLogMaxOffset", "")
        if not text.isdecimal() or not await self._has_log_to(LogOffset(int(text))):
            log.info("positions are not copied: the log is behind that of the master")
            return
        if offsets is not None:  # before the timers, which say up to where these know of pops
            await self._store_offsets(offsets)
        if delays is not None:
            self._state.delays.copy_from(delays)
        if timers is not None:
            self._state.timers.copy_from(timers)

    async def _copy_names(self, master: str) -> None:
        state = self._state
        topics = await self._fetch(master, RequestCode.GET_ALL_TOPIC_CONFIG, TopicTable)
        if topics is not None:
            copy_topics(state, topics)
        groups = await self._fetch(master, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, GroupTable)
        if groups is not None:
            state.groups.copy_from(groups)

    async def _has_log_to(self, end: LogOffset) -> bool:
        """Whether the log reaches as far as the master's did, now or soon."""
        left_ms = self._catch_up_ms
        while self._state.log.end_offset < end:
            if left_ms <= 0:
                return False
            left_ms -= LOOK_MS
            await asyncio.sleep(LOOK_MS / 1000)
        return True

    async def _timer_positions(self, master: str) -> TimerPositions | None:
        """Exactly, from a master of ours; to the second, from a Java one that has timers."""
        metrics = await self._fetch(master, RequestCode.GET_TIMER_METRICS, TimerMetrics)
        if metrics is None or metrics.flintmq_positions is not None:
            return None if metrics is None else metrics.flintmq_positions
        body = await self._ask(master, RequestCode.GET_TIMER_CHECK_POINT)
        return None if body is None else positions_of(TimerCheckPoint.from_body(body))

    async def _hand_over(self, master: str, table: ConsumerOffsets) -> None:
        """Commit at the master what was committed here and is further; the table has it then."""
        noted = self._state.offsets.take_noted()
        try:
            while noted:
                place = group, topic, queue_id = next(iter(noted))
                queues = table.offset_table.setdefault(f"{topic}{SEPARATOR}{group}", {})
                if noted[place] > queues.get(queue_id, -1):
                    await self._commit(master, place, noted[place])
                    queues[queue_id] = noted[place]
                del noted[place]
        finally:
            self._state.offsets.note_again(noted)

    async def _commit(self, master: str, place: tuple[str, str, int], offset: int) -> None:
        group, topic, queue_id = place
        header = UpdateConsumerOffset(
            consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
        )
        try:
            await self._ask(master, RequestCode.UPDATE_CONSUMER_OFFSET, header)
        except BrokerRefused as error:
            log.warning("the master does not take the offset of %s in %s: %s", group, topic, error)

    async def _store_offsets(self, table: ConsumerOffsets) -> None:
        places = iter(table.offset_table.items())
        while part := dict(islice(places, PART_PLACES)):
            self._state.offsets.copy_from(
                ConsumerOffsets(offset_table=part), self._state.log.max_offset
            )
            await asyncio.sleep(0)
        empty = ConsumerOffsets(data_version=table.data_version)
        self._state.offsets.copy_from(empty, self._state.log.max_offset)

    async def _fetch(self, master: str, code: RequestCode, kind: type[B]) -> B | None:
        body = await self._ask(master, code)
        if body is None:
            return None
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, kind.from_file, body)

    async def _ask(
        self, master: str, code: RequestCode, header: Header | None = None
    ) -> bytes | None:
        """The body of an answer; None where the master has no such table."""
        answer = await self._outgoing.call(master, request(code, header), COPY_MS)
        if answer.code == ResponseCode.SUCCESS:
            return answer.body
        if code in _OPTIONAL and answer.code in _ABSENT:
            return None
        raise BrokerRefused(answer.code, answer.remark or "", master)


_OPTIONAL = frozenset(
    {
        RequestCode.GET_ALL_DELAY_OFFSET,  # the file is not there before the first delay
        RequestCode.GET_TIMER_METRICS,  # 5.x
        RequestCode.GET_TIMER_CHECK_POINT,
    }
)
_ABSENT = frozenset({ResponseCode.SYSTEM_ERROR, ResponseCode.REQUEST_CODE_NOT_SUPPORTED})


def copy_topics(state: BrokerState, table: TopicTable) -> None:
    """Take over the topics of the master; the store knows first which of them keep batches."""
    queued = {span.topic for span in state.log.queues()}
    for topic in table.topic_config_table.values():
        name = topic.topic_name
        if keeps_batches(topic.attributes) and name not in state.log.batched and name not in queued:
            state.log.batched.keep(name)
    state.topics.copy_from(table)


def positions_of(point: TimerCheckPoint) -> TimerPositions:
    """What the check point of a 5.x master says, in our terms.

    It speaks of whole seconds: a message is due within the second that follows its noted time, so
    what is noted for before ``last_read_time_ms`` is due by then, and nothing else is.
    """
    return TimerPositions(
        delivered_ms=point.last_read_time_ms,
        delivered_offset=LAST_OFFSET,
        next_offset=point.master_timer_queue_offset,
    )
