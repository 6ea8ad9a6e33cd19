"""Receive, work, acknowledge: threads share one consumer, and one message comes again.

    python examples/simple_consumer.py

You will see how many messages four threads packed.  With NAMESRV_ADDR set it works on your cluster.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from contextlib import ExitStack

from flintmq import EmbeddedBroker, Message, Producer, SimpleConsumer

TOPIC = f"parcels-{time.time_ns()}"
COUNT = 40


class Workers:
    def __init__(self, consumer: SimpleConsumer) -> None:
        self._consumer = consumer
        self.packed: Counter[str] = Counter()
        self.is_dropped = False

    def work(self) -> None:
        while self.packed.total() < COUNT:
            for message in self._consumer.receive(4, invisible_ms=60_000, wait_ms=1_000):
                if message.body == b"7" and message.reconsume_times == 0:
                    self._consumer.change_invisible(message, 0)  # give it back
                    self.is_dropped = True
                    continue
                self._consumer.ack(message)
                self.packed[threading.current_thread().name] += 1

    def run(self) -> None:
        threads = [threading.Thread(target=self.work, name=f"worker-{n}") for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    with ExitStack() as stack:
        address = os.environ.get("NAMESRV_ADDR")
        address = address or stack.enter_context(EmbeddedBroker()).namesrv
        with Producer("shop", namesrv=address) as producer:
            for number in range(COUNT):
                producer.send(Message(TOPIC, str(number).encode()))
        with SimpleConsumer("packing", namesrv=address, start_from="first").subscribe(
            TOPIC
        ) as all_of:
            workers = Workers(all_of)
            workers.run()
        print(f"{workers.packed.total()} packed, one came again: {workers.is_dropped}")
