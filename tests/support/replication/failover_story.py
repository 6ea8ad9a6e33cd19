"""A story of a master, its slave and their clients: what was acknowledged is there, and consumed.

Brokers are stopped, killed, promoted as planned and without their master; frames between them are
lost.  Producers note what a SYNC_MASTER answered with 0.  At the end

    every such message is where the answer said, and no two were told the same place
    every message of the log was consumed, or is a dead letter
    the slave has the log of its master

A slave that is promoted without its master lacks what it had not got.  What that takes along is
excused: messages that were sent back to the lost part of the log, and messages that come to offsets
which consumers had read of the lost part.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from flintmq.model.group import retry_topic
from flintmq.model.queue import QueueOffset
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.headers.send import SendAnswer, SendMessageV2
from flintmq.protocol.records.record import decode_record, is_filler, record_size
from flintmq.store.message_log import MessageLog
from support.core.simulated_broker import START_MS, Connection, Faults
from support.core.simulated_members import check_commits
from support.core.stories import (
    CALM_MS_MAX,
    CHECK_MS,
    GROUP,
    LISTENER_MS_MAX,
    QUIET_MS,
    TOPICS,
    TROUBLE_MS,
    GroupStory,
)
from support.replication.simulated_replicas import SimulatedReplicas

SEND_MS = 5_000
DOWN_MS_MAX = 8_000
FENCE_MS = 5_000
LINK_TROUBLE = 0.02

Place = tuple[str, int, int]


class FailoverStory(GroupStory):
    """One run."""

    broker: SimulatedReplicas

    def __init__(self, seed: int, directory: Path) -> None:
        super().__init__(seed)
        self.tags = "*"
        hidden_ms = LISTENER_MS_MAX + 100 if self.ordered else 0
        self.broker = SimulatedReplicas(directory, self.clock, self.chance, hidden_ms)
        self.broker.set_on_arrival(check_commits(self.truth))
        for topic, queues in TOPICS.items():
            self.broker.master.add_topic(topic, queues)
        self.acknowledged: dict[Place, bytes] = {}
        self.excused: set[bytes] = set()
        self.excused_places: set[Place] = set()
        self.promotions = self.lossy = 0
        self._line: Connection | None = None
        self._is_busy = False  # with a broker

    def run(self) -> None:
        chance, clock = self.chance, self.clock
        self.broker.set_faults(Faults(chance.choice((0, 0.02)), chance.choice((0, 0.05))))
        self.broker.link.trouble = chance.choice((0, LINK_TROUBLE))
        for _ in range(chance.randint(1, 3)):
            clock.after(chance.randint(0, 2_000), self.join)
        clock.after(100, self.send)
        clock.after(3_000, self.trouble)
        clock.at(TROUBLE_MS, self.calm)
        clock.run(TROUBLE_MS)
        while not self.is_over or clock.now_ms < TROUBLE_MS + QUIET_MS:
            assert clock.now_ms < TROUBLE_MS + CALM_MS_MAX, self.explain()
            clock.run(clock.now_ms + CHECK_MS)
        self.check()
        self.broker.close()

    # What happens

    def send(self) -> None:
        """Send some messages to whoever is the master; an answer of 0 is remembered."""
        if self._line is None or not self._line.is_open:
            self._line = self.broker.connect(lambda _: None, lambda: None)
        for _ in range(self.chance.randint(1, 4)):
            topic = self.chance.choice(list(TOPICS))
            queue_id = self.chance.randrange(TOPICS[topic])
            body = f"{topic}/{queue_id}/{self.sent}".encode()
            self.sent += 1
            header = SendMessageV2(
                producer_group="shop",
                topic=topic,
                default_topic="TBW102",
                default_topic_queue_nums=4,
                queue_id=queue_id,
                sys_flag=0,
                born_timestamp=START_MS + self.clock.now_ms,
                flag=0,
                reconsume_times=0,
                properties="",
            )
            wanted = request(RequestCode.SEND_MESSAGE_V2, header, body)
            answered = partial(self._answered, topic, body)
            self.broker.call(self._line, wanted, SEND_MS, answered)
        if not self.is_calm:
            self.clock.after(self.chance.randint(50, 800), self.send)

    def _answered(self, topic: str, body: bytes, reply: Command | Exception) -> None:
        if isinstance(reply, Exception) or reply.code != 0:
            return
        header = reply.header(SendAnswer)
        place = topic, header.queue_id, header.queue_offset
        other = self.acknowledged.setdefault(place, body)
        assert other == body, f"{place} was told for {other!r} and for {body!r}"

    def trouble(self) -> None:
        if self.is_calm:
            return
        chance = self.chance
        if chance.random() < 0.5:
            self.trouble_a_member(chance.random())
        elif not self._is_busy:
            self._is_busy = True
            chance.choice(
                (
                    self.restart_master,
                    self.restart_master,
                    self.restart_slave,
                    self.promote,
                    self.promote_alone,
                )
            )()
        self.clock.after(chance.randint(500, 5_000), self.trouble)

    def _later(self, act: object) -> None:
        self.clock.after(self.chance.randint(100, DOWN_MS_MAX), act)  # type: ignore[arg-type]

    def restart_master(self) -> None:
        """It is stopped or killed; consumers go on at the slave; it comes back."""
        self.broker.stop_master(saved=self.chance.random() < 0.5)

        def back() -> None:
            self.broker.start_master()
            self._is_busy = False

        self._later(back)

    def restart_slave(self) -> None:
        self.broker.stop_slave(saved=self.chance.random() < 0.5)

        def back() -> None:
            self.broker.start_slave()
            self._is_busy = False

        self._later(back)

    def promote(self) -> None:
        """Master and slave change places as soon as the slave has everything."""
        self.broker.fence(fenced=True)
        until_ms = self.clock.now_ms + FENCE_MS

        def attempt() -> None:
            if self.broker.promote():
                self.promotions += 1
            elif self.clock.now_ms < until_ms:
                self.clock.after(20, attempt)
                return
            else:
                self.broker.fence(fenced=False)
            self._is_busy = False

        self.clock.after(20, attempt)

    def promote_alone(self) -> None:
        """The master is lost with what its slave does not have."""
        assert self.broker.master.engine is not None
        log = self.broker.master.engine.state.log
        tail, end = log.raw.tail(2**40), log.end_offset
        ends = {(span.topic, span.queue_id): span.stop for span in log.queues()}
        self.broker.stop_master(saved=False)

        def go() -> None:
            assert self.broker.slave.engine is not None
            mine = self.broker.slave.engine.state.log
            lost = tail[len(tail) - (end - mine.end_offset) :] if mine.end_offset < end else b""
            self.lossy += bool(lost)
            self.promotions += 1
            self.excused |= bodies_of(lost)
            for (topic, queue_id), stop in ends.items():
                for offset in range(mine.max_offset(topic, queue_id), stop):
                    self.excused_places.add((topic, queue_id, offset))
            self.broker.promote_alone()
            self._is_busy = False

        self._later(go)

    def calm(self) -> None:
        self.is_calm = True
        self.broker.set_faults(Faults())
        self.broker.link.trouble = 0.0
        if not self.live:
            self.join()

    # The end

    @property
    def is_over(self) -> bool:
        master, slave = self.broker.master.engine, self.broker.slave.engine
        if self._is_busy or master is None or slave is None or self.broker.shown is None:
            return False
        is_same = slave.state.log.end_offset == master.state.log.end_offset
        return is_same and not self.lagging() and not self.unconsumed()

    def unconsumed(self) -> set[bytes]:
        """Messages of the log that nobody has consumed and nothing excuses."""
        assert self.broker.master.engine is not None
        log = self.broker.master.engine.state.log
        excused = set(self.excused)
        stored: set[bytes] = set()
        for span in log.queues():
            for offset in range(span.start, span.stop):
                body = body_at(log, span.topic, span.queue_id, offset)
                place = span.topic, span.queue_id, offset
                if place in self.excused_places:
                    excused.add(body)
                if span.topic in TOPICS or span.topic == retry_topic(GROUP):
                    stored.add(body)
        return stored - self.truth.consumed.keys() - self.dead_letters() - excused

    def check(self) -> None:
        master, slave = self.broker.master.engine, self.broker.slave.engine
        assert master is not None
        assert slave is not None
        log = master.state.log
        for (topic, queue_id, offset), body in self.acknowledged.items():
            assert body_at(log, topic, queue_id, offset) == body, (topic, queue_id, offset)
        mine, theirs = slave.state.log.raw.tail(2**40), log.raw.tail(2**40)
        assert theirs.endswith(mine)
        assert self.acknowledged

    def explain(self) -> str:
        where = f"{self.lagging()}, {sorted(self.unconsumed())[:5]} are missing"
        return f"{where}; {self.promotions} promotions\n{super().explain()}"


def body_at(log: MessageLog, topic: str, queue_id: int, offset: int) -> bytes:
    found = log.read(topic, queue_id, QueueOffset(offset), 1).views
    return bytes(decode_record(bytes(found[0])).body) if found else b""


def bodies_of(octets: bytes) -> set[bytes]:
    """The bodies of whole records."""
    bodies = set()
    at = 0
    while at < len(octets):
        if is_filler(octets, at):
            break
        size_bytes = record_size(octets, at)
        bodies.add(bytes(decode_record(octets[at : at + size_bytes]).body))
        at += size_bytes
    return bodies
