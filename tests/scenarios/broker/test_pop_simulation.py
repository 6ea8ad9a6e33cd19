"""Whatever is lost, expires or is killed: popped messages are delivered until they are acked,
none whose acknowledgement was answered in time comes back, and ordered queues stay in order.

Members pop from the real broker engine on a directory; answers get lost, handles expire, groups
pop in order, and the broker is stopped or killed.  A failure is one seed:
``pytest tests/scenarios/broker/test_pop_simulation.py -k seed-17``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.config.pop_config import PopConfig
from flintmq.broker.state.saving import take_names, take_positions
from flintmq.protocol.pop.receipts import ReceiptHandle
from support.broker.popping import Popped, ack, change, pop, started_again
from support.broker.world import SMALL_STORE, World
from support.core.simulated_broker import QuickDisk

SEEDS = 20
HEAVY_SEEDS = 1_000
HEAVY_EACH = 20
STEPS = 120
CALM_ROUNDS_MAX = 400
TOPIC = "T"
QUEUES = 2
INVISIBLE_MS = (500, 2_000, 8_000)


@dataclass
class Delivered:
    """A message that a member has, and the handle it has it by."""

    body: bytes
    handle: ReceiptHandle


@dataclass
class Member:
    """A group with one or more members; what they have, and what they know to be done."""

    group: str
    is_ordered: bool = False
    has: dict[bytes, Delivered] = field(default_factory=dict)
    seen: set[bytes] = field(default_factory=set)
    done: set[bytes] = field(default_factory=set)
    acked: set[bytes] = field(default_factory=set)
    tried: set[bytes] = field(default_factory=set)
    """Acknowledged in time or not: one that is too late may still count, or not."""
    attempts: int = 0


class PopStory:
    """One run: trouble, then calm until everything is acknowledged."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.chance = Random(seed)
        is_v2 = self.chance.random() < 0.3
        config = BrokerConfig(store=SMALL_STORE, pop=PopConfig(retry_topic_v2=is_v2))
        self.world = World(directory, config, disk=QuickDisk())
        self.world.state.topics.ensure(TOPIC, QUEUES, self.world.now_ms)
        self.sent: list[list[bytes]] = [[] for _ in range(QUEUES)]
        self.members = [Member("free"), Member("other"), Member("ordered", is_ordered=True)]
        self.save()

    def run(self) -> None:
        steps = (
            (self.send, 5), (self.pop, 8), (self.ack, 8), (self.renew, 2), (self.wait, 4),
            (self.save, 1), (self.restart, 1), (self.switch_retry_topic, 0.3),
        )  # fmt: skip
        for _ in range(STEPS):
            self.chance.choices(*zip(*steps, strict=True))[0]()
        self.calm()

    # Steps

    def send(self) -> None:
        for _ in range(self.chance.randint(1, 5)):
            queue_id = self.chance.randrange(QUEUES)
            body = b"%d-%d" % (queue_id, len(self.sent[queue_id]))
            self.world.send(TOPIC, body, queue_id=queue_id)
            self.sent[queue_id].append(body)

    def pop(self, member: Member | None = None, *, calmly: bool = False) -> bool:
        """Pop as one group; the answer may be lost."""
        member = member or self.chance.choice(self.members)
        member.attempts += 1
        popped = pop(
            self.world,
            consumer_group=member.group,
            order=member.is_ordered,
            max_msg_nums=self.chance.randint(1, 8),
            invisible_time=self.chance.choice(INVISIBLE_MS),
            attempt_id=f"attempt-{member.attempts}" if member.is_ordered else None,
        )
        is_lost = not calmly and self.chance.random() < 0.2
        self.check(member, popped)
        if not is_lost:
            for message, handle in zip(popped.messages, popped.handles, strict=True):
                member.has[message.body] = Delivered(message.body, handle)
        else:
            for message in popped.messages:
                member.has.pop(message.body, None)
        return bool(popped.messages)

    def check(self, member: Member, popped: Popped) -> None:
        again = member.done.intersection(popped.bodies)
        assert not again, f"{member.group}: {again} were acknowledged"
        for message in popped.messages:
            if member.is_ordered:
                queue = self.sent[message.queue_id]
                before = queue[: queue.index(message.body)]
                unseen = set(before) - member.seen
                assert not unseen, f"{message.body!r} overtook {unseen}"
                member.acked -= set(queue) - member.done  # behind one that was not acknowledged
            member.seen.add(message.body)

    def ack(self, member: Member | None = None, *, calmly: bool = False) -> None:
        """Acknowledge something a group has, in time or not; the answer may be lost."""
        member = member or self.chance.choice(self.members)
        if not member.has:
            return
        taken = member.has.pop(self.chance.choice(sorted(member.has)))
        handle = taken.handle
        in_time = self.world.now_ms < handle.expires_ms
        if not calmly and self.chance.random() < 0.1:
            return  # the request is lost
        answer = ack(self.world, handle, group=member.group, topic=TOPIC)
        assert answer.code == 0
        member.tried.add(taken.body)
        if in_time:
            self.note_done(member, taken)

    def note_done(self, member: Member, taken: Delivered) -> None:
        """An unordered message is done with; an ordered one when all before it are."""
        member.acked.add(taken.body)
        if not member.is_ordered:
            member.done.add(taken.body)
            return
        for queue in self.sent:
            for body in queue:
                if body not in member.acked:
                    break
                member.done.add(body)

    def renew(self) -> None:
        member = self.chance.choice(self.members)
        if not member.has:
            return
        taken = member.has[self.chance.choice(sorted(member.has))]
        if self.world.now_ms >= taken.handle.expires_ms:
            del member.has[taken.body]
            return
        invisible_ms = self.chance.choice(INVISIBLE_MS)
        new = change(self.world, taken.handle, invisible_ms, group=member.group, topic=TOPIC)
        if self.chance.random() < 0.2 or not new.pop_ms:
            del member.has[taken.body]  # the answer is lost, and the old handle does nothing
        else:
            member.has[taken.body] = Delivered(taken.body, new)

    def wait(self) -> None:
        self.world.advance(self.chance.choice((1, 100, 900, 5_000)))
        now_ms = self.world.now_ms
        for member in self.members:
            if self.chance.random() < 0.7:  # the others try too late
                member.has = {
                    body: taken
                    for body, taken in member.has.items()
                    if now_ms < taken.handle.expires_ms
                }

    def save(self) -> None:
        self.world.settle()
        take_names(self.world.state, self.world.tables).save()
        take_positions(self.world.state, self.world.tables, self.world.now_ms).save()

    def restart(self) -> None:
        self.world = started_again(self.world, save=self.chance.random() < 0.3, disk=QuickDisk())

    def switch_retry_topic(self) -> None:
        config = self.world.state.config
        pops = replace(config.pop, retry_topic_v2=not config.pop.retry_topic_v2)
        self.world.state.config = replace(config, pop=pops)

    # The end

    def calm(self) -> None:
        """Everything is popped and acknowledged at last; then nothing is left."""
        everything = {body for queue in self.sent for body in queue}
        for member in self.members:
            member.has.clear()
            empty_count = 0
            for _ in range(CALM_ROUNDS_MAX):
                if not self.pop(member, calmly=True):
                    empty_count += 1
                    if empty_count == 3:
                        break
                    self.world.advance(max(INVISIBLE_MS))
                while member.has:
                    self.ack(member, calmly=True)
            lost = everything - member.tried
            assert not lost, f"{member.group}: {lost} are lost"
        self.world.advance(60_000)
        assert self.world.state.in_flight.message_count == 0
        for member in self.members:
            assert not self.pop(member, calmly=True)
        self.world.stop()


@pytest.mark.parametrize("seed", [pytest.param(n, id=f"seed-{n}") for n in range(SEEDS)])
def test_nothing_is_lost_and_nothing_acknowledged_comes_back(seed: int, tmp_path: Path) -> None:
    PopStory(seed, tmp_path).run()


@pytest.mark.heavy
@pytest.mark.parametrize("first", range(SEEDS, SEEDS + HEAVY_SEEDS, HEAVY_EACH))
def test_a_thousand_stories(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + HEAVY_EACH):
        directory = tmp_path / str(seed)
        directory.mkdir()
        try:
            PopStory(seed, directory).run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
