"""Where a consumer's offsets live: in memory first, and behind it at the broker or in a file.

    update ──► memory ──persist──► store        read: memory │ store │ memory first
                  ▲                  │
                  └────── read ──────┘           (what the store says is remembered)

`RemoteOffsets` is for groups that share their queues, `FileOffsets` for those that broadcast.
Anything with the methods of `OffsetStore` may take their place.

A queue that was frozen takes no updates until it is removed: its offset was set from outside,
and what is still being consumed must not undo that.

Invariant: an update that may only increase never makes an offset smaller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypeAlias

from flintmq.client.offsets.offset_file import offsets_path, read_offsets, write_offsets
from flintmq.core.conversation import Call
from flintmq.core.reading.broker_offsets import commit_offset, commit_oneway, group_offset
from flintmq.errors import FlintError
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.net.drive import drive_async
from flintmq.protocol.command import Command

STORE_MS = 5_000
"""How long a broker may take to give or take an offset."""

Failures: TypeAlias = Mapping[QueueRef, FlintError]
"""The queues whose offset could not be stored, and why."""


class ReadFrom(StrEnum):
    """Where an offset is looked up."""

    MEMORY = "memory"
    STORE = "store"
    MEMORY_FIRST = "memory first"


class OffsetStore(Protocol):
    """What a consumer needs of a store.  A store of the user's own has these methods.

    None is an offset that nobody knows; a store that cannot say raises instead, or its
    consumer would start where it should not.
    """

    async def load(self) -> None:
        """Called once, before anything else."""

    async def read(
        self, queue: QueueRef, where: ReadFrom = ReadFrom.MEMORY_FIRST
    ) -> QueueOffset | None:
        """Where the group stands."""

    def update(self, queue: QueueRef, offset: QueueOffset, *, increase_only: bool = True) -> None:
        """Remember an offset; nothing is stored yet."""

    async def persist(self, queues: Collection[QueueRef]) -> Failures:
        """Store what is remembered of these queues."""

    async def put(self, queue: QueueRef, offset: QueueOffset) -> None:
        """Store one offset at once, whatever is remembered, and raise when that fails."""

    def freeze(self, queue: QueueRef) -> None:
        """Take no updates of this queue until it is removed."""

    def remove(self, queue: QueueRef) -> None:
        """Forget a queue.  What is stored stays stored."""

    def clone(self, topic: str | None = None) -> dict[QueueRef, QueueOffset]:
        """A copy of what is remembered, of one topic or of all."""


class _Memory:
    """What both stores keep in memory: the offsets to be stored."""

    def __init__(self) -> None:
        self._offsets: dict[QueueRef, QueueOffset] = {}
        self._frozen: set[QueueRef] = set()

    async def load(self) -> None:
        """Nothing has to be known in advance."""

    def update(self, queue: QueueRef, offset: QueueOffset, *, increase_only: bool = True) -> None:
        if queue in self._frozen:
            return
        known = self._offsets.get(queue)
        if known is None or not increase_only or offset > known:
            self._offsets[queue] = offset

    def freeze(self, queue: QueueRef) -> None:
        self._frozen.add(queue)

    def remove(self, queue: QueueRef) -> None:
        self._offsets.pop(queue, None)
        self._frozen.discard(queue)

    def clone(self, topic: str | None = None) -> dict[QueueRef, QueueOffset]:
        return {
            queue: offset
            for queue, offset in self._offsets.items()
            if topic is None or queue.topic == topic
        }


class RemoteOffsets(_Memory):
    """Offsets at the brokers: QUERY_CONSUMER_OFFSET (14) and UPDATE_CONSUMER_OFFSET (15).

    ``call`` carries a call out; ``address_of`` gives the master of a queue's broker, ``reader_of``
    whom else to ask for an offset: a slave while there is no master.  None is stored at slaves.

    The first commit of a topic to a broker is waited for before the others leave.  Brokers of
    RocketMQ handle commits side by side and make a table for the group with the first one: of
    two that come at once they can lose one and still say yes to both.
    """

    def __init__(
        self,
        group: str,
        *,
        call: Callable[[Call], Awaitable[Command]],
        address_of: Callable[[QueueRef], Awaitable[str]],
        reader_of: Callable[[QueueRef], Awaitable[str]] | None = None,
    ) -> None:
        super().__init__()
        self._group = group
        self._call = call
        self._address_of = address_of
        self._reader_of = reader_of or address_of
        self._opened: set[tuple[str, str]] = set()
        self._opening: dict[tuple[str, str], asyncio.Event] = {}

    async def read(
        self, queue: QueueRef, where: ReadFrom = ReadFrom.MEMORY_FIRST
    ) -> QueueOffset | None:
        if where is not ReadFrom.STORE and queue in self._offsets:
            return self._offsets[queue]
        if where is ReadFrom.MEMORY:
            return None
        address = await self._reader_of(queue)
        offset = await drive_async(
            group_offset(address, self._group, queue, timeout_ms=STORE_MS), self._call
        )
        if offset is not None:
            self.update(queue, offset, increase_only=False)
        return offset

    async def persist(self, queues: Collection[QueueRef]) -> Failures:
        """Commit by oneway requests; only the first of a topic to a broker is answered.

        A failure is one that was not sent, or a first one that was not taken.
        """
        wanted = [(queue, self._offsets[queue]) for queue in queues if queue in self._offsets]
        outcomes = await asyncio.gather(
            *(self._store_newest(queue, offset) for queue, offset in wanted)
        )
        return {
            queue: error
            for (queue, _), error in zip(wanted, outcomes, strict=True)
            if error is not None
        }

    async def put(self, queue: QueueRef, offset: QueueOffset) -> None:
        """Commit by a request that is answered, so that a refusal is raised."""
        if not await self._open(queue, offset):
            await self._ask(queue, offset)

    async def _store_newest(self, queue: QueueRef, offset: QueueOffset) -> FlintError | None:
        """Commit ``offset``, or what is known by now: pulls commit too, and no offset goes back."""
        try:
            if not await self._open(queue, self._offsets.get(queue, offset)):
                address = await self._address_of(queue)
                newest = self._offsets.get(queue, offset)
                conversation = commit_oneway(
                    address, self._group, queue, newest, timeout_ms=STORE_MS
                )
                await drive_async(conversation, self._call)
        except FlintError as error:
            return error
        return None

    async def _open(self, queue: QueueRef, offset: QueueOffset) -> bool:
        """Commit if it is the first of its topic there; False when another one was.

        Those who waited for one that failed go on side by side: a broker that does not answer
        must not cost its timeout once for every queue.
        """
        place = (queue.topic, queue.broker)
        if place in self._opened:
            return False
        if place in self._opening:
            await self._opening[place].wait()
            return False
        ended = self._opening[place] = asyncio.Event()
        try:
            await self._ask(queue, offset)
            self._opened.add(place)
        finally:
            del self._opening[place]
            ended.set()
        return True

    async def _ask(self, queue: QueueRef, offset: QueueOffset) -> None:
        address = await self._address_of(queue)
        conversation = commit_offset(address, self._group, queue, offset, timeout_ms=STORE_MS)
        await drive_async(conversation, self._call)


class FileOffsets(_Memory):
    """Offsets in a file of this machine, shared with nobody."""

    def __init__(self, client_id: str, group: str, *, directory: Path | str | None = None) -> None:
        super().__init__()
        self.path = offsets_path(client_id, group, directory)
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        """Read the whole file, so that a broken one is found at the start."""
        self._offsets.update(await asyncio.to_thread(read_offsets, self.path))

    async def read(
        self, queue: QueueRef, where: ReadFrom = ReadFrom.MEMORY_FIRST
    ) -> QueueOffset | None:
        if where is not ReadFrom.STORE and queue in self._offsets:
            return self._offsets[queue]
        if where is ReadFrom.MEMORY:
            return None
        offset = (await asyncio.to_thread(read_offsets, self.path)).get(queue)
        if offset is not None:
            self.update(queue, offset, increase_only=False)
        return offset

    async def persist(self, queues: Collection[QueueRef]) -> Failures:
        """Write the file once for all; offsets of other queues stay in it."""
        wanted = {queue: self._offsets[queue] for queue in queues if queue in self._offsets}
        if not wanted:
            return {}
        try:
            await self._merge(wanted)
        except FlintError as error:
            return dict.fromkeys(wanted, error)
        return {}

    async def put(self, queue: QueueRef, offset: QueueOffset) -> None:
        await self._merge({queue: offset})

    async def _merge(self, changes: Mapping[QueueRef, QueueOffset]) -> None:
        async with self._writing:
            await asyncio.to_thread(self._write, changes)

    def _write(self, changes: Mapping[QueueRef, QueueOffset]) -> None:
        write_offsets(self.path, {**read_offsets(self.path), **changes})
