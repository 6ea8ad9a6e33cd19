"""One message among 100,000 from which a listener does not come back, by offsets and by pops.

A run on Spark has it and hangs; another member of the group, on threads, has nothing else to do.
By offsets the queues of the run wait with it, however long they are.  By pops the other member
gets all that is not in the micro-batch with the message.  Then the run is killed, and the other
member fails on the message until it is a dead letter.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.client.push.threaded_push import PushConsumer
from flintmq.core.group.consumer_settings import ConsumeMode
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.model.message import ReceivedMessage
from scenarios.spark.killed_program import HANG_BATCH, LISTENED, LISTENERS, POISON
from support.spark.driver_program import EVERYTHING, PATIENCE_S, Program
from support.spark.support import create_topic, dead_letters, lag, send, wait_for

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(3_600), pytest.mark.java]

COUNT = 100_000
QUEUES = 4
STILL_S = 5.0
"""A member that hears nothing for so long has nothing to do."""
CACHED_MAX = 256
"""What the other member has of one queue, at most: its pops, or what it pulled ahead."""


class Other:
    """The member on threads; it fails on one message."""

    def __init__(self, namesrv: str, mode: ConsumeMode) -> None:
        self._lock = threading.Lock()
        self.heard: list[str] = []
        self.tries = 0
        self.consumer = PushConsumer(
            LISTENERS, self._hear, namesrv=namesrv, start_from="first", mode=mode, retry_max=1
        ).subscribe(LISTENED)

    def _hear(self, messages: tuple[ReceivedMessage, ...]) -> None:
        (message,) = messages
        with self._lock:
            if message.body == POISON:
                self.tries += 1
                raise ValueError("poison")
            self.heard.append(message.body.decode())

    def count(self) -> int:
        return len(self.heard)


def until_still(count: Callable[[], int]) -> None:
    """Wait until a number has not changed for a while."""
    seen, since_s = count(), time.monotonic()

    def is_still() -> bool:
        nonlocal seen, since_s
        if count() != seen:
            seen, since_s = count(), time.monotonic()
        return time.monotonic() - since_s > STILL_S

    wait_for(is_still, PATIENCE_S)


@pytest.mark.parametrize("mode", ["pull", "pop"])
def test_what_one_message_holds_back_and_what_a_kill_repeats(
    mode: ConsumeMode, tmp_path: Path
) -> None:
    diary, hangs = tmp_path / "heard", tmp_path / "hangs"
    with EmbeddedBroker() as servers:
        create_topic(servers, LISTENED, QUEUES)
        bodies = [f"{number}" for number in range(COUNT - 1)]
        bodies.insert(COUNT // 5, POISON.decode())
        for queue_id in range(QUEUES):
            send(servers, LISTENED, bodies[queue_id::QUEUES], queue_id=queue_id)
        program = Program(f"hang-{mode}", servers, tmp_path, tmp_path / "log")
        other = Other(servers.namesrv, mode)
        try:
            program.start()
            wait_for(lambda: hangs.exists() or not program.is_running, PATIENCE_S)
            until_still(lambda: diary.stat().st_size)
            before = diary.read_text().split()
            behind = lag(servers, LISTENERS)
            with other.consumer:
                until_still(other.count)
                held = COUNT - len({*before, *other.heard})
                assert program.kill(EVERYTHING)
                while not dead_letters(servers, LISTENERS):
                    until_still(other.count)
                    servers.advance(120)  # invisible times and retry delays are over
                until_still(other.count)
        except BaseException:
            print(program.tail())
            raise
        finally:
            program.end()

    counts = Counter([*before, *other.heard])
    repeats = counts.total() - len(counts)
    print(
        f"\n{mode}: {COUNT} messages, the run hung after {len(before)}, lag {behind}; the other "
        f"member left {held} of them; after the kill {repeats} repeats, {other.tries} tries of the "
        "one message"
    )
    assert set(counts) == {f"{number}" for number in range(COUNT - 1)}, "nothing is lost"
    assert max(counts.values()) == 2
    assert repeats <= HANG_BATCH, "what is committed, or acknowledged, is not repeated"
    assert 1 <= other.tries <= 2
    if mode == "pop":
        assert held <= HANG_BATCH + QUEUES * CACHED_MAX
    else:
        assert held >= COUNT // QUEUES, "the queue of the message, and others of the run"
