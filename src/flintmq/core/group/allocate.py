"""Which queues of a topic a member of a group takes: one function for each way to share.

A strategy is any function ``(client_id, queues, members) -> queues``.  Every member runs it by
itself on the same sorted lists, so it must depend on nothing else, or a queue is taken twice or
by nobody.  Those here give what RocketMQ's of the same name give, so that Java members and ours
can be in one group; `allocate_sticky` is ours alone.

Invariant: over all members the shares of a strategy do not overlap; and, unless queues are
configured or in rooms nobody serves, no queue is left out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b, md5
from typing import Final, TypeAlias, TypeVar

from flintmq.errors import InvalidSetting
from flintmq.model.queue import QueueRef

_T = TypeVar("_T")

Strategy: TypeAlias = Callable[[str, Sequence[QueueRef], Sequence[str]], Iterable[QueueRef]]

VIRTUAL_NODES: Final = 10
"""Places of one member on the ring.  All members must use the same number."""

ROOM_SEPARATOR: Final = "@"
"""Between room and name of a broker: ``room@name``."""

RINGS_KEPT_MAX: Final = 64
"""Rings and sticky shares remembered: members change far less often than they rebalance."""


def allocate_averagely(
    client_id: str, queues: Sequence[QueueRef], members: Sequence[str]
) -> list[QueueRef]:
    """Neighbouring queues to each member; the first members get those that are left over."""
    if client_id not in members:
        return []
    each, over = divmod(len(queues), len(members))
    index = members.index(client_id)
    start = index * each + min(index, over)
    return list(queues[start : start + each + (index < over)])


def allocate_by_circle(
    client_id: str, queues: Sequence[QueueRef], members: Sequence[str]
) -> list[QueueRef]:
    """Queues dealt out like cards."""
    if client_id not in members:
        return []
    return list(queues[members.index(client_id) :: len(members)])


def allocate_configured(chosen: Iterable[QueueRef]) -> Strategy:
    """Always the same queues, whoever else is there."""
    wanted = frozenset(chosen)

    def allocate(
        client_id: str, queues: Sequence[QueueRef], members: Sequence[str]
    ) -> list[QueueRef]:
        if client_id not in members:
            return []
        return [queue for queue in queues if queue in wanted]

    return allocate


def allocate_by_machine_room(rooms: Iterable[str]) -> Strategy:
    """Only queues of brokers in these rooms, whose names are ``room@name``."""
    allowed = frozenset(rooms)

    def allocate(
        client_id: str, queues: Sequence[QueueRef], members: Sequence[str]
    ) -> list[QueueRef]:
        if client_id not in members:
            return []
        near = [queue for queue in queues if _room(queue.broker) in allowed]
        each, over = divmod(len(near), len(members))
        index = members.index(client_id)
        own = near[index * each : (index + 1) * each]
        if index < over:
            own.append(near[len(members) * each + index])
        return own

    return allocate


def allocate_nearby(
    strategy: Strategy,
    room_of_broker: Callable[[QueueRef], str],
    room_of_member: Callable[[str], str],
) -> Strategy:
    """Queues of a room to its members; those of rooms without members to everybody."""

    def allocate(
        client_id: str, queues: Sequence[QueueRef], members: Sequence[str]
    ) -> list[QueueRef]:
        if client_id not in members:
            return []
        queues_in = _grouped(queues, room_of_broker)
        members_in = _grouped(members, room_of_member)
        own_room = room_of_member(client_id)
        own = list(strategy(client_id, queues_in.get(own_room, ()), members_in[own_room]))
        for room in sorted(queues_in.keys() - members_in.keys()):
            own += strategy(client_id, queues_in[room], members)
        return own

    return allocate


def allocate_by_consistent_hash(
    client_id: str, queues: Sequence[QueueRef], members: Sequence[str]
) -> list[QueueRef]:
    """Queues to the next place of a member on a ring; a change moves few of them."""
    if client_id not in members:
        return []
    places, owners = _ring(tuple(members))
    own = []
    for queue in queues:
        at = bisect_left(places, _ring_hash(_java_text(queue)))
        if owners[at % len(places)] == client_id:
            own.append(queue)
    return own


def allocate_sticky(
    client_id: str, queues: Sequence[QueueRef], members: Sequence[str]
) -> list[QueueRef]:
    """Even shares, as averagely, of which few queues move when members come and go.

    Every queue has an order of preference among all possible members.  The first member of it
    that has room takes the queue.
    """
    if client_id not in members:
        return []
    owners = _sticky_owners(tuple(queues), tuple(members))
    return [queue for queue, owner in zip(queues, owners, strict=True) if owner == client_id]


def sorted_members(members: Iterable[str]) -> list[str]:
    """In the order Java sorts texts, which is by UTF-16 units; each member once."""
    return sorted(set(members), key=lambda member: member.encode("utf-16-be", "surrogatepass"))


@lru_cache(maxsize=RINGS_KEPT_MAX)
def _ring(members: tuple[str, ...]) -> tuple[list[int], list[str]]:
    """Sorted places and their owners.  Of two on one place the later member has it, as in Java."""
    ring = {
        _ring_hash(f"{member}-{number}"): member
        for member in members
        for number in range(VIRTUAL_NODES)
    }
    places = sorted(ring)
    return places, [ring[place] for place in places]


def _ring_hash(text: str) -> int:
    digest = md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4])


def _java_text(queue: QueueRef) -> str:
    """How Java writes a queue; its hash decides who gets it."""
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker}, queueId={queue.queue_id}]"
    )


@lru_cache(maxsize=RINGS_KEPT_MAX)
def _sticky_owners(queues: tuple[QueueRef, ...], members: tuple[str, ...]) -> list[str]:
    """The owner of each queue.

    All pairs of queue and member are gone through by score, best first.  As many members as
    there are queues left over may have one more than the rest.
    """
    marks = [(_mark(member), member) for member in members]
    pairs = sorted(
        (_score(queue_mark, mark), index, member)
        for index, queue_mark in enumerate(map(_mark, map(_java_text, queues)))
        for mark, member in marks
    )
    each, over = divmod(len(queues), len(members))
    room = dict.fromkeys(members, each)
    owners: list[str | None] = [None] * len(queues)
    for _, index, member in pairs:
        if owners[index] is not None:
            continue
        if room[member] > 0:
            room[member] -= 1
        elif room[member] == 0 and over > 0:
            room[member] = -1
            over -= 1
        else:
            continue
        owners[index] = member
    assert None not in owners
    return [owner for owner in owners if owner is not None]


def _mark(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def _score(queue_mark: int, member_mark: int) -> int:
    """A number that looks random and depends on both: a round of splitmix64."""
    mixed = (queue_mark ^ member_mark) & 0xFFFF_FFFF_FFFF_FFFF
    mixed = (mixed ^ mixed >> 30) * 0xBF58_476D_1CE4_E5B9 & 0xFFFF_FFFF_FFFF_FFFF
    mixed = (mixed ^ mixed >> 27) * 0x94D0_49BB_1331_11EB & 0xFFFF_FFFF_FFFF_FFFF
    return mixed ^ mixed >> 31


def _room(broker: str) -> str | None:
    """The room in a broker's name, if it has the form; Java drops empty parts at the end."""
    parts = broker.rstrip(ROOM_SEPARATOR).split(ROOM_SEPARATOR)
    return parts[0] if len(parts) == 2 else None


def _grouped(items: Sequence[_T], key: Callable[[_T], str]) -> dict[str, list[_T]]:
    groups: dict[str, list[_T]] = {}
    for item in items:
        room = key(item)
        if not room:
            raise InvalidSetting("room", str(item), "is in no room")
        groups.setdefault(room, []).append(item)
    return groups
