"""Pops, acknowledgements and what they answered, for tests of a broker without sockets."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.config.pop_config import PopConfig
from flintmq.broker.requests.outcome import Answer
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.saving import take_names, take_positions
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset
from flintmq.model.topic import TIMER_TOPIC
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.pop import (
    AckMessage,
    ChangeInvisibleTime,
    InvisibleTimeAnswer,
    PopAnswer,
    PopMessage,
)
from flintmq.protocol.pop.receipts import Receipt, ReceiptHandle, receipts_of
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.received import decode_messages
from flintmq.store.files.disk import Disk
from support.broker.world import SMALL_STORE, World, body_of, header_of

GROUP = "G"
TOPIC = "T"
BROKER = "broker-a"

NO_RETRY_FIRST = BrokerConfig(store=SMALL_STORE, pop=PopConfig(retry_first_percent=0))
"""Settings with which a pop reads the queues before what comes back."""


def pop_world(
    directory: Path, config: BrokerConfig = NO_RETRY_FIRST, *, disk: Disk | None = None
) -> World:
    """A broker with one topic of one queue."""
    world = World(directory, config, disk=disk)
    world.state.topics.ensure(TOPIC, 1, world.now_ms)
    return world


def send(world: World, *bodies: bytes, **more: Any) -> None:
    for body in bodies:
        world.send(TOPIC, body, **more)


@dataclass
class Popped:
    """One answer to a pop, as a client reads it."""

    code: int
    remark: str | None
    header: PopAnswer
    messages: list[ReceivedMessage] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    @property
    def handles(self) -> list[ReceiptHandle]:
        return [receipt.handle for receipt in self.receipts]


def pop_header(world: World, **fields: Any) -> PopMessage:
    given: dict[str, Any] = {
        "consumer_group": GROUP,
        "topic": TOPIC,
        "queue_id": -1,
        "max_msg_nums": 32,
        "invisible_time": 60_000,
        "poll_time": 0,
        "born_time": world.now_ms,
        "init_mode": 0,
    }
    return PopMessage(**given | fields)


def read_popped(answer: Answer) -> Popped:
    """An answer as a client reads it."""
    header = header_of(answer, PopAnswer)
    popped = Popped(answer.code, answer.remark, header)
    if answer.code == ResponseCode.SUCCESS:
        received = decode_messages(body_of(answer), broker=BROKER)
        assert received.fault is None
        assert not received.bad
        popped.messages = received.messages
        popped.receipts = receipts_of(header, received.messages, BROKER)
    return popped


def pop(world: World, *, peer: Peer | None = None, **fields: Any) -> Popped:
    """Pop, and read what came at once."""
    answer = world.ask(RequestCode.POP_MESSAGE, pop_header(world, **fields), peer=peer)
    assert answer is not None, "it is held"
    return read_popped(answer)


def hold(world: World, *, peer: Peer | None = None, **fields: Any) -> int:
    """Pop what is not there yet; give the opaque number of the pop."""
    fields.setdefault("poll_time", 15_000)
    header = pop_header(world, **fields)
    opaque = world.submit(RequestCode.POP_MESSAGE, header, peer=peer)
    world.settle()
    assert world.answer_to(opaque) is None
    return opaque


def answered(world: World, opaque: int) -> Popped:
    """What a pop that was held got."""
    answer = world.answer_to(opaque)
    assert answer is not None
    return read_popped(answer)


def ack(
    world: World, handle: ReceiptHandle, *, group: str = GROUP, topic: str = TOPIC, **fields: Any
) -> Answer:
    """Acknowledge the message of a handle."""
    given: dict[str, Any] = {
        "consumer_group": group,
        "topic": handle.topic(group, topic),
        "queue_id": handle.queue_id,
        "extra_info": handle.text,
        "offset": handle.queue_offset,
    }
    answer = world.ask(RequestCode.ACK_MESSAGE, AckMessage(**given | fields))
    assert answer is not None
    return answer


def change_header(
    handle: ReceiptHandle,
    invisible_ms: int,
    *,
    group: str = GROUP,
    topic: str = TOPIC,
    **fields: Any,
) -> ChangeInvisibleTime:
    given: dict[str, Any] = {
        "consumer_group": group,
        "topic": handle.topic(group, topic),
        "queue_id": handle.queue_id,
        "extra_info": handle.text,
        "offset": handle.queue_offset,
        "invisible_time": invisible_ms,
    }
    return ChangeInvisibleTime(**given | fields)


def change(world: World, handle: ReceiptHandle, invisible_ms: int, **fields: Any) -> ReceiptHandle:
    """Change when the message of a handle comes back; give the new handle."""
    header = change_header(handle, invisible_ms, **fields)
    answer = world.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS, answer
    return handle.renewed(header_of(answer, InvisibleTimeAnswer))


def offset_of(world: World, queue_id: int = 0, *, group: str = GROUP, topic: str = TOPIC) -> int:
    """The group's offset, -1 without one."""
    return world.state.offsets.queues(group, topic).get(queue_id, -1)


def timer_records(world: World) -> list[tuple[str, bytes]]:
    """Tag and body of everything in the timer topic."""
    found = []
    for unit in world.state.log.lookup.entries(TIMER_TOPIC, 0, QueueOffset(0), 10_000):
        record = world.state.log.lookup.record_at(unit.log_offset)
        assert record is not None
        found.append((parse_properties(record.properties).get("TAGS", ""), record.body))
    return found


def saved(world: World) -> None:
    """Save all tables, as a broker does every few seconds."""
    world.settle()
    take_names(world.state, world.tables).save()
    take_positions(world.state, world.tables, world.now_ms).save()


def started_again(world: World, *, save: bool, disk: Disk | None = None) -> World:
    """The broker on its directory after a stop, or after a crash that lost the last tables."""
    if save:
        saved(world)
    world.stop()
    return World(world.directory, world.state.config, start_ms=world.now_ms, disk=disk)
