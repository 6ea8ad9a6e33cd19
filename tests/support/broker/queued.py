"""Messages put into a `World` without a producer, and what its queues hold."""

from __future__ import annotations

import shutil
from pathlib import Path

from flintmq.broker.scheduled.append import NewMessage
from flintmq.broker.state.put_message import put_message
from flintmq.model.host import Host
from flintmq.model.queue import QueueOffset
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.record import Record
from flintmq.store.message_log import Appended
from support.broker.world import World

BORN_HOST = Host.parse("10.0.0.2:40000")


def message(
    world: World, topic: str, body: bytes, *, queue_id: int = 0, **properties: object
) -> NewMessage:
    """A message as a producer's would arrive."""
    return NewMessage(
        topic,
        queue_id,
        body,
        {name: str(value) for name, value in properties.items()},
        world.now_ms,
        BORN_HOST,
        world.state.host,
        flag=7,
    )


def put(
    world: World,
    topic: str,
    body: bytes = b"hello",
    *,
    queue_id: int = 0,
    end: bool = True,
    **properties: object,
) -> Appended:
    """Store a message; ``end`` ends the turn too."""
    new = message(world, topic, body, queue_id=queue_id, **properties)
    appended = put_message(world.state, new, world.now_ms)
    if end:
        world.settle()
    return appended


def records(world: World, topic: str, queue_id: int = 0) -> list[Record]:
    """Every record of a queue that can be read."""
    log = world.state.log
    start, stop = log.min_offset(topic, queue_id), log.max_offset(topic, queue_id)
    entries = log.lookup.entries(topic, queue_id, QueueOffset(start), stop - start)
    found = (log.lookup.record_at(entry.log_offset) for entry in entries)
    return [record for record in found if record is not None]


def bodies(world: World, topic: str, queue_id: int = 0) -> list[bytes]:
    return [record.body for record in records(world, topic, queue_id)]


def properties_of(record: Record) -> dict[str, str]:
    return parse_properties(record.properties)


def crashed(directory: Path, to: Path) -> Path:
    """What a crash would leave of a store that is open."""
    shutil.copytree(directory, to)
    return to


def damage(directory: Path, log_offset: int, size_bytes: int) -> None:
    """Turn the bytes of a record in the first file of the log into something else."""
    file = min((directory / "commitlog").iterdir())
    with file.open("r+b") as log:
        log.seek(log_offset + 8)
        log.write(b"\xff" * (size_bytes - 8))
