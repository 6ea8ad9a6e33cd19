"""A process that writes to a store until it is killed, and says what is safe.

    python writer.py DIRECTORY SEED

Each line on its output is a message that was acknowledged: number, topic, queue id, queue
offset.  The first line tells how long opening took, in milliseconds.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from random import Random

from flintmq.model.host import Host
from flintmq.protocol.records.properties import encode_properties
from flintmq.protocol.records.record_pattern import RecordPattern, packed_host
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import MessageLog

CONFIG = StoreConfig(
    commit_log_file_bytes=256 * 1024,
    queue_file_bytes=20_000,
    index_slots=1_000,
    index_entries=4_000,
    clean_percent=99,
    clean_forced_percent=100,
    refuse_percent=100,
)
HOST = Host.parse("127.0.0.1:10911")
TOPICS = ("orders", "events")


def body_of(number: int) -> bytes:
    return b"%d:" % number + bytes(number % 700)


def main() -> None:
    directory, chance = Path(sys.argv[1]), Random(int(sys.argv[2]))
    began = time.monotonic()
    log = MessageLog.open(directory, CONFIG, process_id=os.getpid())
    print(f"opened {(time.monotonic() - began) * 1000:.0f}", flush=True)
    number = 1_000_000 * int(sys.argv[2])
    while True:
        turn = []
        for _ in range(chance.randint(1, 40)):
            number += 1
            topic, queue_id = chance.choice(TOPICS), chance.randrange(3)
            now_ms = int(time.time() * 1000)
            at = log.append(
                RecordPattern(topic, queue_id, store_host=HOST),
                body_of(number),
                encode_properties({"UNIQ_KEY": f"U{number}"}),
                now_ms,
                packed_host(HOST),
                keys=(f"U{number}",),
                now_ms=now_ms,
            )
            turn.append(f"{number} {topic} {queue_id} {at.queue_offset}")
        log.write()
        plan = log.begin_sync(thorough=chance.random() < 0.1)
        assert plan is not None
        plan.run()
        log.finish_sync(plan)
        print("\n".join(turn), flush=True)


if __name__ == "__main__":
    main()
