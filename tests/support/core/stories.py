"""A story of a group: members come, go and fail while messages are sent, and then it is calm."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from flintmq.core.consumer.group_consumer import GroupConsumer, Phase
from flintmq.core.group.actions import Deliver
from flintmq.core.group.allocate import (
    Strategy,
    allocate_averagely,
    allocate_by_circle,
    allocate_by_consistent_hash,
    allocate_sticky,
)
from flintmq.core.group.consumer_settings import ConsumerSettings
from flintmq.core.group.listener_results import Ack, DeadLetter, Retry
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.model.group import ConsumeFromWhere, dead_letter_topic
from flintmq.model.queue import QueueOffset
from flintmq.protocol.records.record import decode_record
from support.core.simulated_broker import START_MS, ClientSide, Clock, Faults, SimulatedBroker
from support.core.simulated_members import Listener, Member, Truth, check_commits

PULL_LAG_MS = 400
GROUP = "billing"
TOPICS = {"orders": 3, "bills": 2}
TROUBLE_MS = 30_000
CALM_MS_MAX = 300_000
QUIET_MS = 10_000
"""Who was cut off in the trouble has pulled again by then, and knows how far the others came."""
LISTENER_MS_MAX = 3_000
CHECK_MS = 500
STRATEGIES: tuple[Strategy, ...] = (
    allocate_averagely,
    allocate_by_circle,
    allocate_by_consistent_hash,
    allocate_sticky,
)


class GroupStory:
    """Members of a group that come, go and fail, whatever broker they find."""

    broker: ClientSide

    def __init__(self, seed: int) -> None:
        self.chance = chance = Random(seed)
        self.clock = Clock()
        self.truth = Truth()
        self.ordered = chance.random() < 0.5
        self.batch_max = chance.choice((1, 1, 3, 8))
        self.tags = chance.choice(("*", "*", "a || b"))
        self.strategy = chance.choice(STRATEGIES)
        self.limits: dict[str, Any] = chance.choice(({}, {"queue_count_max": 4}, {"span_max": 5}))
        self.members: list[Member] = []
        self.joined = 0
        self.is_calm = False
        self.sent = 0
        if self.ordered:
            self.truth.ordered_topics = set(TOPICS)

    @property
    def live(self) -> list[Member]:
        return [m for m in self.members if m.is_alive and m.consumer.phase is Phase.RUNNING]

    @property
    def is_done(self) -> bool:
        return not self.lagging() and not self.truth.missing() - self.dead_letters()

    def trouble_a_member(self, what: float) -> bool:
        """Do something to a member, or let another one join, if the number says so."""
        chance, live = self.chance, self.live
        if what < 0.3 and len(live) < 4:
            self.join()
        elif what < 0.5 and len(live) > 1:
            chance.choice(live).stop()
        elif what < 0.6 and len(live) > 1:
            chance.choice(live).crash()
        elif what < 0.75 and live:
            chance.choice(live).cut()
        elif what < 0.85 and live:
            chance.choice(live).freeze(chance.randint(1_000, 90_000))
        else:
            return False
        return True

    def join(self) -> None:
        self.joined += 1
        settings = ConsumerSettings(
            group=GROUP,
            ordered=self.ordered,
            batch_max=self.batch_max,
            start_from=ConsumeFromWhere.FIRST_OFFSET,
            consume_timeout_ms=2_000,
            ordered_suspend_ms=200,
            retry_max=None if self.chance.random() < 0.5 else 5,
            **self.limits,
        )
        consumer = GroupConsumer(
            settings,
            f"10.0.0.{self.joined}@{self.chance.randrange(1_000)}",
            [TopicSubscription(topic, self.tags) for topic in TOPICS],
            strategy=self.strategy,
            now_ms=self.clock.now_ms,
            wall_ms=START_MS + self.clock.now_ms,
        )
        threads = self.chance.randint(1, 4)
        member = Member(
            consumer,
            self.broker,
            self.clock,
            self.chance,
            self.truth,
            self.listener(),
            TOPICS,
            threads,
        )
        self.members.append(member)

    def listener(self) -> Listener:
        slow = self.chance.random() < 0.2

        def listen(batch: Deliver, chance: Random) -> tuple[int, object]:
            lasts_ms = chance.randint(0, 100)
            if self.is_calm:
                return lasts_ms, None
            if slow and chance.random() < 0.1:
                lasts_ms = chance.randint(100, LISTENER_MS_MAX)
            return lasts_ms, self.result(len(batch.messages), chance)

        return listen

    def result(self, count: int, chance: Random) -> object:
        what = chance.random()
        if what < 0.8:
            return None
        if what < 0.86:
            return ValueError("no")
        if what < 0.9:
            return Ack(up_to=chance.randint(-1, count))
        if what < 0.94:
            return [
                chance.choice((None, None, Retry(), Retry(delay_level=1))) for _ in range(count)
            ]
        if what < 0.96:
            return 42
        if what < 0.98:
            return Retry(delay_level=2, suspend_ms=50)
        return DeadLetter("hopeless")

    # The end

    def dead_letters(self) -> set[bytes]:
        if self.broker.engine is None:
            return set()
        log, topic = self.broker.engine.state.log, dead_letter_topic(GROUP)
        bodies: set[bytes] = set()
        at = log.min_offset(topic, 0)
        while at < log.max_offset(topic, 0):
            (view,) = log.read(topic, 0, at, 1).views
            bodies.add(bytes(decode_record(bytes(view)).body))
            at = QueueOffset(at + 1)
        return bodies

    def lagging(self) -> list[str]:
        """Queues whose end the broker does not know to be consumed."""
        if self.broker.engine is None:
            return ["the broker is down"]
        state = self.broker.engine.state
        return [
            f"{topic}/{queue_id} at {stored} of {end}"
            for topic, queues in TOPICS.items()
            for queue_id in range(queues)
            for stored in [state.offsets.query(GROUP, topic, queue_id) or 0]
            for end in [state.log.max_offset(topic, queue_id)]
            if stored != end
        ]

    def explain(self) -> str:
        missing = sorted(self.truth.missing() - self.dead_letters())
        states = "\n".join(
            f"{member.consumer.client_id}: {queue}"
            for member in self.live
            for queue in member.consumer.status().queues
        )
        head = f"{len(missing)} of {self.sent} are missing, first {missing[:5]}; {self.lagging()}"
        return f"{head}\n{states}"


class Story(GroupStory):
    """One run with one broker: a time of trouble, then calm until everything is consumed."""

    broker: SimulatedBroker

    def __init__(self, seed: int, directory: Path) -> None:
        super().__init__(seed)
        self.broker = SimulatedBroker(directory, self.clock, self.chance)
        self.broker.on_arrival = check_commits(self.truth)
        for topic, queues in TOPICS.items():
            self.broker.add_topic(topic, queues)

    def run(self) -> None:
        chance, clock = self.chance, self.clock
        self.broker.faults = Faults(
            chance.choice((0, 0.02)), chance.choice((0, 0.05)), chance.choice((0, 0, PULL_LAG_MS))
        )
        for _ in range(chance.randint(1, 3)):
            clock.after(chance.randint(0, 2_000), self.join)
        clock.after(100, self.send)
        clock.after(3_000, self.trouble)
        clock.at(TROUBLE_MS, self.calm)
        clock.run(TROUBLE_MS)
        while not self.is_done or clock.now_ms < TROUBLE_MS + QUIET_MS:
            assert clock.now_ms < TROUBLE_MS + CALM_MS_MAX, self.explain()
            clock.run(clock.now_ms + CHECK_MS)
        last = self.live
        for member in last:
            member.stop()
        clock.run(clock.now_ms + 15_000)
        assert {member.consumer.phase for member in last} == {Phase.STOPPED}
        assert not self.lagging()

    def run_in_turns(self) -> None:
        """Members one after the other, each stopped in the middle of its work; no trouble else."""
        self.is_calm = True
        self.broker.faults = Faults(pull_lag_ms=PULL_LAG_MS)
        for _ in range(6):
            self.join()
            for _ in range(3):
                self.send()
                self.clock.run(self.clock.now_ms + self.chance.randint(50, 1_500))
            self.members[-1].stop()
            self.clock.run(self.clock.now_ms + 12_000)
            assert self.members[-1].consumer.phase is Phase.STOPPED
        self.join()
        self.clock.run(self.clock.now_ms + 20_000)
        assert self.is_done, self.explain()

    # What happens

    def send(self) -> None:
        if self.broker.engine is not None:
            for _ in range(self.chance.randint(1, 6)):
                topic = self.chance.choice(list(TOPICS))
                queue_id = self.chance.randrange(TOPICS[topic])
                body = f"{topic}/{queue_id}/{self.sent}".encode()
                self.sent += 1
                tag = self.chance.choice("abc")
                offset = self.broker.engine.state.log.max_offset(topic, queue_id)
                self.broker.send(topic, queue_id, body, tag)
                if tag in "ab" or self.tags == "*":
                    self.truth.wanted.add(body)
                else:
                    self.truth.unwanted(topic, queue_id, offset)
        if not self.is_calm:
            self.clock.after(self.chance.randint(50, 800), self.send)

    def trouble(self) -> None:
        if self.is_calm:
            return
        chance = self.chance
        if not self.trouble_a_member(chance.random()) and self.broker.engine is not None:
            self.broker.stop(saved=chance.random() < 0.5)
            down_ms = chance.randint(100, 8_000)
            if self.ordered:  # locks are gone with the broker: listeners must be done by then
                down_ms += LISTENER_MS_MAX
            self.clock.after(down_ms, self.broker.start)
        self.clock.after(chance.randint(500, 6_000), self.trouble)

    def calm(self) -> None:
        self.is_calm = True
        self.broker.faults = Faults()
        if not self.live:
            self.join()
