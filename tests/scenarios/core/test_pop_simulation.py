"""Whatever the network, the broker and the members do, a group that pops consumes every message at
least once, and nothing stays in flight.

Members are `GroupConsumer` machines; the broker is the real engine.  A failure is one seed:
``pytest tests/scenarios/core/test_pop_simulation.py -k seed-17``.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from flintmq.core.consumer.group_consumer import GroupConsumer, Phase
from flintmq.core.group.actions import Deliver
from flintmq.core.group.consumer_settings import ConsumerSettings
from flintmq.core.group.listener_results import Ack, DeadLetter, Retry
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.model.group import ConsumeFromWhere, dead_letter_topic
from flintmq.model.queue import QueueOffset
from flintmq.protocol.records.record import decode_record
from support.core.popping_members import PoppingMember
from support.core.simulated_broker import START_MS, Clock, Faults, SimulatedBroker
from support.core.simulated_members import Truth

SEEDS = 12
STOP_SEEDS = 8
HEAVY_SEEDS = 500

GROUP = "billing"
TOPICS = {"orders": 3, "bills": 2}
TROUBLE_MS = 30_000
CALM_MS_MAX = 900_000
CHECK_MS = 500
LISTENER_MS_MAX = 12_000


class PopStory:
    """One run: a time of trouble, then calm until everything is consumed."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.chance = chance = Random(seed)
        self.clock = Clock()
        self.broker = SimulatedBroker(directory, self.clock, chance)
        self.truth = Truth()
        self.batch_max = chance.choice((1, 1, 3, 8))
        self.tags = chance.choice(("*", "*", "a || b"))
        self.limits: dict[str, Any] = chance.choice(({}, {"unacked_max": 4}, {"pull_batch_max": 5}))
        self.members: list[PoppingMember] = []
        self.joined = self.sent = 0
        self.is_calm = False
        for topic, queues in TOPICS.items():
            self.broker.add_topic(topic, queues)

    def run(self) -> None:
        chance, clock = self.chance, self.clock
        self.broker.faults = Faults(chance.choice((0, 0.02)), chance.choice((0, 0.05)))
        for _ in range(chance.randint(1, 3)):
            clock.after(chance.randint(0, 2_000), self.join)
        clock.after(100, self.send)
        clock.after(3_000, self.trouble)
        clock.at(TROUBLE_MS, self.calm)
        clock.run(TROUBLE_MS)
        self.wait_until_done()
        for member in (last := self.live):
            member.stop()
        clock.run(clock.now_ms + 30_000)
        assert {member.consumer.phase for member in last} == {Phase.STOPPED}

    def run_in_turns(self) -> None:
        """Members one after the other, each stopped in the middle of its work; no trouble else."""
        self.is_calm = True
        for _ in range(6):
            self.join()
            for _ in range(3):
                self.send()
                self.clock.run(self.clock.now_ms + self.chance.randint(50, 1_500))
            self.members[-1].stop()
            self.clock.run(self.clock.now_ms + 12_000)
            assert self.members[-1].consumer.phase is Phase.STOPPED
        self.join()
        self.wait_until_done()

    def wait_until_done(self) -> None:
        begun_ms = self.clock.now_ms
        while self.missing():
            assert self.clock.now_ms < begun_ms + CALM_MS_MAX, self.explain()
            self.clock.run(self.clock.now_ms + CHECK_MS)

    @property
    def live(self) -> list[PoppingMember]:
        return [m for m in self.members if m.is_alive and m.consumer.phase is Phase.RUNNING]

    # What happens

    def send(self) -> None:
        if self.broker.engine is not None:
            for _ in range(self.chance.randint(1, 6)):
                topic = self.chance.choice(list(TOPICS))
                queue_id = self.chance.randrange(TOPICS[topic])
                body = f"{topic}/{queue_id}/{self.sent}".encode()
                self.sent += 1
                tag = self.chance.choice("abc")
                self.broker.send(topic, queue_id, body, tag)
                if tag in "ab" or self.tags == "*":
                    self.truth.wanted.add(body)
        if not self.is_calm:
            self.clock.after(self.chance.randint(50, 800), self.send)

    def trouble(self) -> None:
        if self.is_calm:
            return
        chance, live = self.chance, self.live
        what = chance.random()
        if what < 0.3 and len(live) < 4:
            self.join()
        elif what < 0.5 and len(live) > 1:
            chance.choice(live).stop()
        elif what < 0.6 and len(live) > 1:
            chance.choice(live).crash()
        elif what < 0.75 and live:
            chance.choice(live).cut()
        elif what < 0.85 and live:
            chance.choice(live).freeze(chance.randint(1_000, 30_000))
        elif self.broker.engine is not None:
            self.broker.stop(saved=chance.random() < 0.5)
            self.clock.after(chance.randint(100, 8_000), self.broker.start)
        self.clock.after(chance.randint(500, 6_000), self.trouble)

    def calm(self) -> None:
        self.is_calm = True
        self.broker.faults = Faults()
        if not self.live:
            self.join()

    def join(self) -> None:
        self.joined += 1
        settings = ConsumerSettings(
            group=GROUP,
            mode="pop",
            batch_max=self.batch_max,
            start_from=ConsumeFromWhere.FIRST_OFFSET,
            invisible_ms=5_000,
            consume_timeout_ms=9_000,
            retry_max=None if self.chance.random() < 0.5 else 5,
            **self.limits,
        )
        consumer = GroupConsumer(
            settings,
            f"10.0.0.{self.joined}@{self.chance.randrange(1_000)}",
            [TopicSubscription(topic, self.tags) for topic in TOPICS],
            now_ms=self.clock.now_ms,
            wall_ms=START_MS + self.clock.now_ms,
        )
        self.members.append(
            PoppingMember(
                consumer,
                self.broker,
                self.clock,
                self.chance,
                self.truth,
                self.listen,
                TOPICS,
                self.chance.randint(1, 4),
            )
        )

    def listen(self, batch: Deliver, chance: Random) -> tuple[int, object]:
        lasts_ms = chance.randint(0, 100)
        if self.is_calm:
            return lasts_ms, None
        if chance.random() < 0.05:
            lasts_ms = chance.randint(100, LISTENER_MS_MAX)
        what, count = chance.random(), len(batch.messages)
        if what < 0.85:
            return lasts_ms, None
        if what < 0.9:
            return lasts_ms, ValueError("no")
        if what < 0.94:
            return lasts_ms, Ack(up_to=chance.randint(-1, count))
        if what < 0.98:
            return lasts_ms, [chance.choice((None, Retry(delay_level=1))) for _ in range(count)]
        return lasts_ms, DeadLetter("hopeless")

    # The end

    def missing(self) -> set[bytes]:
        if self.broker.engine is None:
            return self.truth.wanted
        missing = self.truth.missing()
        return missing - self.dead_letters() if missing else missing

    def dead_letters(self) -> set[bytes]:
        assert self.broker.engine is not None
        log, topic = self.broker.engine.state.log, dead_letter_topic(GROUP)
        bodies: set[bytes] = set()
        at = log.min_offset(topic, 0)
        while at < log.max_offset(topic, 0):
            (view,) = log.read(topic, 0, at, 1).views
            bodies.add(bytes(decode_record(bytes(view)).body))
            at = QueueOffset(at + 1)
        return bodies

    def explain(self) -> str:
        missing = sorted(self.missing())
        states = "\n".join(
            f"{member.consumer.client_id}: {place}"
            for member in self.live
            for place in member.consumer.status().pops
        )
        return f"{len(missing)} of {self.sent} are missing, first {missing[:5]}\n{states}"


@pytest.mark.parametrize("seed", range(SEEDS), ids=lambda seed: f"seed-{seed}")
def test_a_group_that_pops_consumes_everything_through_all_kinds_of_trouble(
    seed: int, tmp_path: Path
) -> None:
    PopStory(seed, tmp_path).run()


@pytest.mark.parametrize("seed", range(STOP_SEEDS), ids=lambda seed: f"stop-{seed}")
def test_a_stop_returns_what_it_has_not_begun_and_acknowledges_the_rest(
    seed: int, tmp_path: Path
) -> None:
    story = PopStory(seed, tmp_path)
    story.run_in_turns()

    assert {body: times for body, times in story.truth.consumed.items() if times > 1} == {}


@pytest.mark.heavy
@pytest.mark.timeout(0)
def test_hundreds_of_pop_stories_end_well(tmp_path: Path) -> None:
    for seed in range(SEEDS, SEEDS + HEAVY_SEEDS):
        try:
            PopStory(seed, tmp_path / str(seed)).run()
        except BaseException:
            print(f"failing seed: {seed}")
            raise
