"""What a consumer does with a record that cannot be decoded: the setting ``on_bad_record``.

    dead_letter   the broker copies it to the group's dead letters, and the queue goes on
    skip          it is reported, and the queue goes on
    stop          the queue is not consumed any further until somebody moves its offset

A push consumer of a group has dead letters, and that is its rule unless another is set.  All
others skip: broadcasting has no dead letters, and consumers that pull settle nothing by themselves.

A body for which a package is missing on this machine is not the message's fault: under ``skip``
such a record stops the queue, so that it is not lost.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, assert_never

from flintmq.errors import InvalidSetting, UndecodableRecord
from flintmq.model.bad_record import BadRecord
from flintmq.model.host import Host
from flintmq.model.queue import LogOffset, QueueOffset, QueueRef

OnBadRecord: TypeAlias = Literal["dead_letter", "skip", "stop"]

RULES: Final[tuple[OnBadRecord, ...]] = ("dead_letter", "skip", "stop")

FRAME_TRIES: Final = 3
"""Pulls of one offset whose answers have no intact frame.  One may have been damaged on its way;
so many in a row were not."""

KIND: Final = "bad record"
"""Under which events and logs report one."""

_NOWHERE: Final = Host(bytes(4), 0)


def check_rule(rule: object, *, dead_letters: str = "") -> None:
    """Refuse what is no rule, and dead letters where ``dead_letters`` says why there are none."""
    if rule not in RULES:
        raise InvalidSetting("on_bad_record", str(rule), f"is one of {', '.join(RULES)}")
    if rule == "dead_letter" and dead_letters:
        raise InvalidSetting("on_bad_record", str(rule), f"{dead_letters}; use skip or stop")


def stops(rule: OnBadRecord, bad: BadRecord) -> bool:
    """Whether a queue goes no further than this record."""
    return rule == "stop" or (rule == "skip" and bool(bad.missing))


def fate_of(rule: OnBadRecord, bad: BadRecord) -> str:
    """What becomes of a bad record, as the report says it."""
    match rule:
        case "dead_letter":
            return "goes to the dead letters" if bad.raw else "skipped, the broker cannot copy it"
        case "skip":
            return f"the queue stops: install {bad.missing}" if bad.missing else "skipped"
        case "stop":
            return f"the queue stops; move its offset to {bad.queue_offset + 1} to go on behind it"
        case _:
            assert_never(rule)


def broken_frame(queue: QueueRef, offset: QueueOffset, reason: str) -> BadRecord:
    """The record at ``offset`` when not even its frame can be read: nothing else is known of it."""
    return BadRecord(
        topic=queue.topic,
        broker=queue.broker,
        queue_id=queue.queue_id,
        queue_offset=offset,
        log_offset=LogOffset(-1),
        store_host=_NOWHERE,
        store_ms=0,
        born_ms=0,
        reconsume_times=0,
        sys_flag=0,
        size_bytes=0,
        reason=reason,
    )


def stopped_by(queue: QueueRef, bad: BadRecord) -> UndecodableRecord:
    """What a program gets that asks a stopped queue for more.  ``queue`` has the user's names."""
    return UndecodableRecord(
        queue.topic, queue.broker, queue.queue_id, bad.queue_offset, bad.reason
    )
