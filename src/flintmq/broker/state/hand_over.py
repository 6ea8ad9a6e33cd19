"""The last thing a broker does before it stops: what waits by time, put where others find it.

Timer messages and messages in flight are in memory, by records anywhere in the timer topic.  A
RocketMQ broker has files of its own for that (``timerlog``, ``timerwheel``), which we do not write.
So everything that waits is appended to the timer topic once more, and ``timercheck`` says that
the timer goes on there: exact, and without those files.  Files that RocketMQ left are outdated
then and are moved aside.

After a crash ``timercheck`` names the first record that may still wait: RocketMQ then delivers some
messages twice, and loses none.
"""

from __future__ import annotations

from typing import Final

from flintmq.broker.requests.outcome import Refusal
from flintmq.broker.scheduled.append import append
from flintmq.broker.scheduled.redelivery import rebuilt, record_of
from flintmq.broker.state.broker_state import BrokerState
from flintmq.errors import DiskFailed, Overloaded
from flintmq.logs import logger
from flintmq.model.topic import TIMER_TOPIC
from flintmq.protocol.records.properties import parse_properties
from flintmq.store.files.json_tables import Tables

log = logger(__name__)

RECORDS_MAX: Final = 20_000
"""Records that are written again: a second of work.  With more, a RocketMQ broker would begin at
the first that waits."""

OUTDATED: Final = ("timerlog", "timerwheel")


def hand_over(state: BrokerState, now_ms: int) -> None:
    """Append what waits.  The caller ends the turn and saves the tables."""
    timers = state.timers
    if state.is_read_only or state.log.why_not is not None or state.log.has_turn:
        return
    timers.finish_reading(state)
    if timers.scheduled_count + len(state.in_flight) > RECORDS_MAX:
        return
    if not state.log.max_offset(TIMER_TOPIC, 0):
        return
    try:
        _append_timers(state, now_ms)
        state.journal.hand_over(state, now_ms)
    except (DiskFailed, Overloaded, Refusal) as failure:
        log.warning("what waits by time stays where it is: %s", failure)


def _append_timers(state: BrokerState, now_ms: int) -> None:
    """Put every timer message that waits at the end of the timer topic."""
    first = state.log.max_offset(TIMER_TOPIC, 0)
    for offset in state.timers.waiting_offsets():
        units = state.log.lookup.entries(TIMER_TOPIC, 0, offset, 1)
        record = record_of(state, units[0], TIMER_TOPIC, 0, offset) if units else None
        if record is not None:
            properties = parse_properties(record.properties)
            append(state, rebuilt(record, properties, TIMER_TOPIC, 0), now_ms)

    def written(failure: DiskFailed | None) -> None:
        if failure is None:
            state.timers.begin_at(first)

    state.after_write.append(written)


def move_outdated(tables: Tables) -> None:
    """Put files aside that a RocketMQ broker would go on with."""
    for name in OUTDATED:
        path = tables.directory / name
        if tables.disk.is_directory(path) or tables.disk.is_file(path):
            aside = path.with_name(name + ".aside")
            if not tables.disk.is_directory(aside) and not tables.disk.is_file(aside):
                tables.disk.rename(path, aside)
