"""Which dead letters are dealt with: marked, replayed or purged.

RocketMQ has no way to take one message out of a queue.  Three ways are left, and all of them work
with brokers of 4.9 and 5.x:

    mark       an offset in the dead letter queue, committed for a group of our own: what is before
               it is dealt with.  The messages stay, and every tool still reads them.
    replayed   the copy that a replay sends names its dead letter in the property `DLQ_REPLAY_OF`.
               The copy has the unique id of the message, so the key index finds it: what was
               replayed is known without a list of our own, for as long as the copy is kept.
    purge      the dead letter topic is deleted on every broker.  A broker creates it again with
               the group's next dead letter.  The records stay in the log until retention takes
               them, and no consumer reaches them.

A dead letter without a unique id cannot be recognised as replayed; only a mark covers it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flintmq.core.admin.cluster import readable_brokers, require_route
from flintmq.core.admin.dead_letters import BuriedMessage, replay_name
from flintmq.core.admin.groups import create_group
from flintmq.core.admin.messages import messages_by_id
from flintmq.core.admin.spans import Target, resolve
from flintmq.core.admin.topics import delete_topic
from flintmq.core.conversation import Conversation
from flintmq.core.reading.broker_offsets import commit_offset, extent, group_offset
from flintmq.core.routes import NameServers
from flintmq.errors import BrokerRefused, NoRoute
from flintmq.model import properties as names
from flintmq.model.group import dead_letter_topic, retry_topic
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import Extent, QueueOffset, QueueRef

MARK_GROUP = "flintmq-dlq-marks"
"""The group whose offsets in dead letter topics are the marks.  It has no members."""


@dataclass(frozen=True, slots=True)
class DeadLetterMark:
    """One dead letter queue: what it holds, and up to where it is dealt with."""

    queue: QueueRef
    address: str
    extent: Extent
    marked_to: QueueOffset

    @property
    def open_count(self) -> int:
        return self.extent.stop - self.marked_to


def fetch_marks(namesrv: NameServers, group: str) -> Conversation[tuple[DeadLetterMark, ...]]:
    """The mark in every dead letter queue of a group; none when it never had a dead letter."""
    topic = dead_letter_topic(group)
    try:
        route = yield from require_route(namesrv, topic)
    except NoRoute:
        return ()
    addresses = readable_brokers(route)
    found = []
    for queue in route.subscribe_queues(topic):
        address = addresses.get(queue.broker)
        if address is None:
            continue
        bounds = yield from extent(address, queue)
        at = yield from _mark_at(address, queue)
        marked_to = QueueOffset(min(max(at or 0, bounds.start), bounds.stop))
        found.append(DeadLetterMark(queue, address, bounds, marked_to))
    return tuple(found)


def _mark_at(address: str, queue: QueueRef) -> Conversation[QueueOffset | None]:
    """None too where the broker does not know the group: then nobody ever marked."""
    try:
        return (yield from group_offset(address, MARK_GROUP, queue, zero_if_young=False))
    except BrokerRefused:
        return None


def move_marks(
    namesrv: NameServers, group: str, target: Target
) -> Conversation[Mapping[QueueRef, QueueOffset]]:
    """Move the mark of every dead letter queue of a group, forwards or back; where they are."""
    marks = yield from fetch_marks(namesrv, group)
    moved = {}
    for mark in marks:
        moved[mark.queue] = yield from resolve(mark.address, mark.queue, target, mark.extent)
    yield from _commit(namesrv, marks, moved)
    return moved


def _commit(
    namesrv: NameServers,
    marks: tuple[DeadLetterMark, ...],
    moved: Mapping[QueueRef, QueueOffset],
) -> Conversation[None]:
    if marks:
        yield from create_group(namesrv, MARK_GROUP)  # 5.x keeps no offsets of an unknown group
    for mark in marks:
        yield from commit_offset(mark.address, MARK_GROUP, mark.queue, moved[mark.queue])


def fetch_replays(
    namesrv: NameServers, group: str, letter: BuriedMessage
) -> Conversation[tuple[ReceivedMessage, ...]]:
    """The copies that replays of this dead letter sent, to the group or to its first topic."""
    unique_id = letter.message.properties.get(names.UNIQ_KEY)
    if not unique_id:
        return ()
    name = replay_name(letter.message)
    found: list[ReceivedMessage] = []
    for topic in filter(None, (retry_topic(group), letter.origin_topic)):
        try:
            copies = yield from messages_by_id(namesrv, topic, unique_id)
        except NoRoute:
            continue
        found += (each for each in copies if each.properties.get(names.DLQ_REPLAY_OF) == name)
    return tuple(found)


def purge_dead_letters(namesrv: NameServers, group: str) -> Conversation[tuple[str, ...]]:
    """Delete the dead letter topic of a group on every broker; which brokers had it.

    Its marks go back to the start first: offsets count from 0 again in the next topic.
    """
    marks = yield from fetch_marks(namesrv, group)
    if any(mark.marked_to > mark.extent.start for mark in marks):
        yield from _commit(namesrv, marks, {mark.queue: QueueOffset(0) for mark in marks})
    return (yield from delete_topic(namesrv, dead_letter_topic(group)))
