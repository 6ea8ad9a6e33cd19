"""A driver that pops settles what is committed and nothing else, also when it is killed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flintmq.core.group.listener_results import Again, Consumed, Dead, DeadLetter, Outcome, Retry
from flintmq.core.pop.pop_request import POP_COUNT_MAX
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.model.message import ReceivedMessage
from flintmq.spark.listeners.pop_driver import cut_tasks
from flintmq.spark.listeners.pop_member import SETTLE_S, ParkedCall, PopMember
from flintmq.spark.source.control_files import ControlFiles
from flintmq.spark.tasks.packed_app import read_program
from flintmq.spark.tasks.popped_verdicts import VERDICTS, read_verdicts, write_verdict
from support.spark import popping_program
from support.spark.popping_program import BATCH, Micro, app_of
from support.spark.support import create_topic, send

COUNT = 200
PATIENCE_S = 120


def test_after_a_kill_only_messages_come_again_that_were_not_acknowledged(
    own_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    create_topic(own_broker, "pop-kill", 4)
    for queue_id in range(4):
        numbers = range(queue_id, COUNT, 4)
        send(own_broker, "pop-kill", [f"{number}" for number in numbers], queue_id=queue_id)
    diary = tmp_path / "diary"
    words = [own_broker.namesrv, "pop-kill", "pop-kill", str(diary)]
    killed = subprocess.run(
        [sys.executable, popping_program.__file__, *words], timeout=PATIENCE_S, check=False
    )
    assert killed.returncode < 0
    settled, _, unsettled = diary.read_text().partition("settled\n")
    first, second = settled.split(), unsettled.split()
    assert 0 < len(first) <= BATCH
    assert 0 < len(second) <= BATCH

    own_broker.advance(3_600)  # the invisible time of what it had is over
    diary.write_text("")
    control = tmp_path / "control"
    control.mkdir()
    micro = Micro(app_of(*words), ControlFiles(str(control)))
    micro.driver.stop_at_now()
    try:
        while micro.run_batch():
            micro.settle()
    finally:
        micro.driver.close()
    later = diary.read_text().split()

    assert sorted(map(int, [*first, *later])) == list(range(COUNT)), "nothing is lost"
    assert set(second) <= set(later), "what was not acknowledged came again"
    assert not set(first) & set(later), "what was acknowledged did not"


def test_a_micro_batch_whose_outcome_nobody_knows_is_not_consumed(
    own_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    create_topic(own_broker, "pop-unknown")
    send(own_broker, "pop-unknown", ["a", "b"])
    words = [own_broker.namesrv, "pop-unknown", "pop-unknown", str(tmp_path / "diary")]
    micro = Micro(app_of(*words), ControlFiles(str(tmp_path)))
    try:
        assert micro.driver.plan(0, None)
        assert sum(len(some.messages) for task in micro.driver.tasks(1) for some in task) == 2
        assert micro.driver.tasks(7) == [], "one that ran before a crash is empty"
        micro.settle()
        micro.driver.finish(1)
        own_broker.advance(60)
        assert micro.driver.plan(1, None)
        (again,) = micro.driver.tasks(2)[0][:1]
        assert again.messages[0].reconsume_times == 1
    finally:
        micro.driver.close()


def test_a_run_to_the_end_outlives_pops_that_brokers_held_in_vain(
    own_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    create_topic(own_broker, "pop-long")
    send(own_broker, "pop-long", ["a"])
    words = [own_broker.namesrv, "pop-long", "pop-long", str(tmp_path / "diary")]
    micro = Micro(app_of(*words, invisible_ms=300_000), ControlFiles(str(tmp_path)))
    micro.driver.stop_at_now()
    try:
        assert micro.run_batch()
        own_broker.advance(60)  # a long micro-batch: no broker holds a pop any more
        micro.settle()
        assert not micro.run_batch(), "it ends, and does not fail"
    finally:
        micro.driver.close()


class SlowVerdicts(ControlFiles):
    """Verdicts are read only after others had the time to write them."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.reading, self.written = threading.Event(), threading.Event()

    def read(self, name: str) -> Any:
        if name == VERDICTS:
            self.reading.set()
            self.written.wait(1)
        return super().read(name)

    def write(self, name: str, value: Any = None) -> None:
        super().write(name, value)
        if name == VERDICTS and self.reading.is_set():
            self.written.set()


def test_verdicts_are_read_before_the_next_micro_batch_empties_them(
    own_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    create_topic(own_broker, "pop-verdicts")
    send(own_broker, "pop-verdicts", ["a", "b"])
    diary = tmp_path / "diary"
    words = [own_broker.namesrv, "pop-verdicts", "pop-verdicts", str(diary)]
    files = SlowVerdicts(str(tmp_path))
    micro = Micro(app_of(*words), files)
    try:
        assert micro.run_batch()
        send(own_broker, "pop-verdicts", ["c"])
        settling = threading.Thread(target=micro.settle)  # as the thread that looks for its end
        settling.start()
        assert files.reading.wait(PATIENCE_S)
        assert micro.run_batch(), "Spark plans the next one meanwhile"
        settling.join()
        micro.settle()
        own_broker.advance(3_600)
        assert not micro.run_batch(), "all are acknowledged"
    finally:
        micro.driver.close()
    assert sorted(diary.read_text().split()) == ["a", "b", "c"]


def test_settling_waits_for_no_other_micro_batch(own_broker: EmbeddedBroker) -> None:
    create_topic(own_broker, "pop-two")
    send(own_broker, "pop-two", [f"{number}" for number in range(2 * POP_COUNT_MAX)])
    app = app_of(own_broker.namesrv, "pop-two", "pop-two", "/dev/null")

    async def settle_first() -> float:
        member = PopMember(read_program(app))
        await member.start()
        try:
            first = await member.gather(POP_COUNT_MAX, PATIENCE_S)
            second = await member.gather(POP_COUNT_MAX, PATIENCE_S)
            assert first
            assert second
            since_s = time.monotonic()
            await member.settle(first, {})
            return time.monotonic() - since_s
        finally:
            await member.stop()

    assert asyncio.run(settle_first()) < SETTLE_S / 2


def message(topic: str) -> ReceivedMessage:
    fields = dict.fromkeys(ReceivedMessage._fields)
    return ReceivedMessage(**{**fields, "topic": topic, "properties": {}})  # type: ignore[arg-type]


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 32)), max_size=20),
    st.integers(1, 5),
)
def test_tasks_cover_what_was_popped_once(pops: list[tuple[str, int]], limit: int) -> None:
    calls = [
        ParkedCall(number, tuple(message(topic) for _ in range(count)), None)  # type: ignore[arg-type]
        for number, (topic, count) in enumerate(pops)
    ]
    tasks = cut_tasks(calls, {"a": limit, "b": None}, 3)
    places = [
        (some.pop, some.first + at)
        for task in tasks
        for some in task
        for at in range(len(some.messages))
    ]
    wanted = [(number, at) for number, (_, count) in enumerate(pops) for at in range(count)]
    assert sorted(places) == wanted
    for topic, most in (("a", limit), ("b", 3)):
        assert sum(task[0].messages[0].topic == topic for task in tasks) <= most


def test_a_verdict_travels_as_text() -> None:
    outcomes: list[Outcome] = [Consumed(), Again(3, None, "später"), Dead("never")]
    texts = [write_verdict(7, place, outcome) for place, outcome in enumerate(outcomes)]
    assert texts[0] is None
    found = read_verdicts([text for text in texts if text is not None])[7]
    again, dead = found[1], found[2]
    assert isinstance(again, Retry)
    assert (again.delay_level, again.reason) == (3, "später")
    assert isinstance(dead, DeadLetter)
    assert dead.reason == "never"
