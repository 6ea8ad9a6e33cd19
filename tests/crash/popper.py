"""A broker process whose members pop until it is killed, and which says what was answered.

    python popper.py DIRECTORY SEED

Each line on its output is what a member knows: ``sent N``, ``popped N`` or ``acked N``.  The first
line says that it serves.  Without a seed it pops and acknowledges what is there, and ends.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.store.files.store_config import Flush, StoreConfig
from support.broker.popping import TOPIC, Popped, ack, change, pop, saved
from support.broker.world import World

CONFIG = BrokerConfig(
    store=StoreConfig(
        commit_log_file_bytes=4 * 1024 * 1024,
        queue_file_bytes=20_000,
        index_slots=1_000,
        index_entries=20_000,
        flush=Flush.SYNC,
        clean_percent=99,
        clean_forced_percent=100,
        refuse_percent=100,
    )
)
QUEUES = 2
INVISIBLE_MS = 300
SAVE_STEPS = 60


def now() -> int:
    return int(time.time() * 1000)


def say(word: str, body: bytes) -> None:
    print(word, body.decode(), flush=True)


def taken(world: World, popped: Popped, acked_percent: int, chance: Random) -> None:
    """Acknowledge some of what was popped."""
    for message in popped.messages:
        say("popped", message.body)
    for message, handle in zip(popped.messages, popped.handles, strict=True):
        world.now_ms = now()
        if chance.randrange(100) >= acked_percent:
            continue
        if chance.random() < 0.1:
            handle = change(world, handle, INVISIBLE_MS)
        answer = ack(world, handle)
        if answer.code == 0 and world.now_ms < handle.expires_ms:
            say("acked", message.body)


def work(world: World, chance: Random, number: int) -> None:
    """Send, pop and acknowledge for ever."""
    step = 0
    while True:
        step += 1
        world.now_ms = now()
        world.engine.tick(world.now_ms)
        world.settle()
        if chance.random() < 0.5:
            number += 1
            body = b"%d" % number
            answer = world.send(TOPIC, body, queue_id=chance.randrange(QUEUES))
            if answer.code == 0:
                say("sent", body)
        else:
            taken(world, pop(world, invisible_time=INVISIBLE_MS, max_msg_nums=4), 70, chance)
        if step % SAVE_STEPS == 0:
            saved(world)


def drain(world: World) -> None:
    """Pop and acknowledge all there is; a jump of the clock brings back what is in flight."""
    for _ in range(3):
        while (popped := pop(world, invisible_time=60_000)).messages:
            for message, handle in zip(popped.messages, popped.handles, strict=True):
                say("popped", message.body)
                assert ack(world, handle).code == 0
                say("acked", message.body)
        world.advance(100_000)
    saved(world)
    world.stop()


def main() -> None:
    world = World(Path(sys.argv[1]), CONFIG, start_ms=now())
    world.state.topics.ensure(TOPIC, QUEUES, world.now_ms)
    print("serves", flush=True)
    if len(sys.argv) > 2:
        seed = int(sys.argv[2])
        work(world, Random(seed), 1_000_000 * seed)
    else:
        drain(world)


if __name__ == "__main__":
    main()
