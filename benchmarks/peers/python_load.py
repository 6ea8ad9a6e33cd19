"""Load made by a Python client of another system: a process of its own, with nothing of ours in it.

    python -m benchmarks.peers.python_load CLIENT ADDRESS

runs in the environment of that client, reads commands and answers each with a line of JSON:

    make    TOPIC                   with 4 partitions, where a topic has them
    fill    TOPIC SIZE COUNT
    send    TOPIC SIZE SECONDS      one after the other, each waits for its answer
    async   TOPIC SIZE SECONDS      many under way
    consume TOPIC COUNT             from the first on, in a group of its own, many at a time

Programs are written as the documentation of each client has it for many messages, with its
defaults.  Where a consumer has to say of each message that it is done, it does.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from benchmarks.peers.rocketmq_load import CppBinding, GrpcClient

PARTITIONS = 4
BATCH = 500  # messages asked for at once
PIPELINE = 100
UNDER_WAY = 1_000
ANSWER_S = 30

Result = dict[str, float]

_ids = (f"load{number}_{os.getpid()}" for number in itertools.count())


class Meter:
    """Counts messages; its clock and CPU go from the first to the last that is wanted."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._count = 0
        self.start()

    def start(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def add(self, some: int) -> bool:
        """Whether more are wanted."""
        if not self._count:
            self.start()
        self._count += some
        return self._count < self._wanted

    def result(self, failed: int = 0) -> Result:
        now = time.perf_counter(), time.process_time()
        seconds, cpu_s = (end - start for start, end in zip(self._began, now, strict=True))
        return {"count": self._count, "failed": failed, "seconds": seconds, "cpu_s": cpu_s}


def numbers(count: int | None, seconds: float | None) -> Iterator[int]:
    """So many, or for so long."""
    if count is not None:
        return iter(range(count))
    assert seconds is not None
    stop_s = time.perf_counter() + seconds
    return itertools.takewhile(lambda _: time.perf_counter() < stop_s, itertools.count())


class AioKafka:
    """aiokafka: asyncio, the codec in Cython."""

    def __init__(self, address: str) -> None:
        self._lib: Any = importlib.import_module("aiokafka")
        self._address = address
        self._producer: Any = None

    async def start(self) -> None:
        self._producer = self._lib.AIOKafkaProducer(bootstrap_servers=self._address)
        await self._producer.start()

    async def stop(self) -> None:
        await self._producer.stop()

    async def make(self, topic: str) -> None:
        lib: Any = importlib.import_module("aiokafka.admin")
        admin = lib.AIOKafkaAdminClient(bootstrap_servers=self._address)
        await admin.start()
        await admin.create_topics([lib.NewTopic(topic, PARTITIONS, 1)])
        await admin.close()

    async def send(self, topic: str, body: bytes, turns: Iterator[int]) -> int:
        count = 0
        for _ in turns:
            await self._producer.send_and_wait(topic, body)
            count += 1
        return count

    async def send_many(self, topic: str, body: bytes, turns: Iterator[int]) -> int:
        count, waiting = 0, deque[Any]()
        for _ in turns:
            waiting.append(await self._producer.send(topic, body))
            count += 1
            if len(waiting) >= UNDER_WAY:
                await waiting.popleft()
        await asyncio.gather(*waiting)
        return count

    async def consume(self, topic: str, meter: Meter) -> None:
        consumer = self._lib.AIOKafkaConsumer(
            topic,
            bootstrap_servers=self._address,
            group_id=next(_ids),
            auto_offset_reset="earliest",
        )
        await consumer.start()
        more = True
        while more:
            found = await consumer.getmany(timeout_ms=1_000, max_records=BATCH)
            if found:
                more = meter.add(sum(map(len, found.values())))
        await consumer.stop()


class KafkaPython:
    """kafka-python: threads, Python alone."""

    def __init__(self, address: str) -> None:
        self._lib: Any = importlib.import_module("kafka")
        self._address = address
        self._producer: Any = None

    async def start(self) -> None:
        self._producer = self._lib.KafkaProducer(bootstrap_servers=self._address)

    async def stop(self) -> None:
        self._producer.close()

    async def make(self, topic: str) -> None:
        lib: Any = importlib.import_module("kafka.admin")
        admin = lib.KafkaAdminClient(bootstrap_servers=self._address)
        admin.create_topics([lib.NewTopic(topic, PARTITIONS, 1)])
        admin.close()

    async def send(self, topic: str, body: bytes, turns: Iterator[int]) -> int:
        count = 0
        for _ in turns:
            self._producer.send(topic, body).get(ANSWER_S)
            count += 1
        return count

    async def send_many(self, topic: str, body: bytes, turns: Iterator[int]) -> int:
        sent = [self._producer.send(topic, body) for _ in turns]
        self._producer.flush(ANSWER_S)
        return sum(1 for each in sent if each.succeeded())

    async def consume(self, topic: str, meter: Meter) -> None:
        consumer = self._lib.KafkaConsumer(
            topic,
            bootstrap_servers=self._address,
            group_id=next(_ids),
            auto_offset_reset="earliest",
        )
        more = True
        while more:
            found = consumer.poll(timeout_ms=1_000, max_records=BATCH)
            if found:
                more = meter.add(sum(map(len, found.values())))
        consumer.close()


class Confluent:
    """confluent-kafka: librdkafka, which is C."""

    def __init__(self, address: str) -> None:
        self._lib: Any = importlib.import_module("confluent_kafka")
        self._address = {"bootstrap.servers": address}
        self._at_once: Any = None
        self._producer: Any = None

    async def start(self) -> None:
        # By default it holds a message back for 5 ms to send it with others.
        self._at_once = self._lib.Producer({**self._address, "linger.ms": 0})
        self._producer = self._lib.Producer(self._address)

    async def stop(self) -> None:
        self._producer.flush(ANSWER_S)

    async def make(self, topic: str) -> None:
        lib: Any = importlib.import_module("confluent_kafka.admin")
        admin = lib.AdminClient(self._address)  # must be there until the answer is
        admin.create_topics([lib.NewTopic(topic, PARTITIONS, 1)])[topic].result()

    async def send(self, topic: str, body: bytes, turns: Iterator[int]) -> int:
        count = 0
        for _ in turns:
            self._at_once.produce(topic, body)
            self._at_once.flush(ANSWER_S)
            count += 1
        return count

    async def send_many(self, topic: str, body: bytes, turns: Iterator[int]) -> int:
        stored = 0

        def ended(error: object, _message: object) -> None:
            nonlocal stored
            stored += error is None

        for _ in turns:
            while True:
                try:
                    self._producer.produce(topic, body, on_delivery=ended)
                    break
                except BufferError:  # too many are under way
                    self._producer.poll(0.01)
            self._producer.poll(0)
        self._producer.flush(ANSWER_S)
        return stored

    async def consume(self, topic: str, meter: Meter) -> None:
        settings = {"group.id": next(_ids), "auto.offset.reset": "earliest"}
        consumer = self._lib.Consumer({**self._address, **settings})
        consumer.subscribe([topic])
        more = True
        while more:
            found = consumer.consume(BATCH, 1.0)
            if found:
                more = meter.add(len(found))
        consumer.close()


class RedisPy:
    """redis-py: sockets that block, streams with groups."""

    def __init__(self, address: str) -> None:
        lib: Any = importlib.import_module("redis")
        host, _, port = address.partition(":")
        self._redis: Any = lib.Redis(host, int(port))

    async def start(self) -> None:
        self._redis.ping()

    async def stop(self) -> None:
        self._redis.close()

    async def make(self, topic: str) -> None:
        """A stream is there once something is put into it."""

    async def send(self, topic: str, body: bytes, turns: Iterator[int]) -> int:
        count = 0
        for _ in turns:
            self._redis.xadd(topic, {b"body": body})
            count += 1
        return count

    async def send_many(self, topic: str, body: bytes, turns: Iterator[int]) -> int:
        count = 0
        pipeline = self._redis.pipeline(transaction=False)
        for _ in turns:
            pipeline.xadd(topic, {b"body": body})
            if len(pipeline) == PIPELINE:
                count += len(pipeline.execute())
        return count + len(pipeline.execute())

    async def consume(self, topic: str, meter: Meter) -> None:
        group, more = next(_ids), True
        self._redis.xgroup_create(topic, group, id="0")
        while more:
            found = self._redis.xreadgroup(group, "one", {topic: ">"}, count=BATCH)
            for messages in _messages_of(found):
                self._redis.xack(topic, group, *(number for number, _ in messages))
                more = meter.add(len(messages))
        self._redis.xgroup_destroy(topic, group)


def _messages_of(found: Any) -> Iterator[list[Any]]:
    """The messages of each stream; releases of redis-py give them as pairs or as a dict."""
    if isinstance(found, dict):
        for parts in found.values():
            yield from parts
    else:
        for _, messages in found or ():
            yield messages


class NatsPy:
    """nats-py: asyncio, JetStream with a pull consumer."""

    def __init__(self, address: str) -> None:
        self._lib: Any = importlib.import_module("nats")
        self._address = address
        self._client: Any = None
        self._streams: Any = None

    async def start(self) -> None:
        self._client = await self._lib.connect(f"nats://{self._address}")
        self._streams = self._client.jetstream(publish_async_max_pending=UNDER_WAY)

    async def stop(self) -> None:
        await self._client.close()

    async def make(self, topic: str) -> None:
        await self._streams.add_stream(name=topic, subjects=[topic])

    async def send(self, topic: str, body: bytes, turns: Iterator[int]) -> int:
        count = 0
        for _ in turns:
            await self._streams.publish(topic, body)
            count += 1
        return count

    async def send_many(self, topic: str, body: bytes, turns: Iterator[int]) -> int:
        count = 0
        for _ in turns:
            await self._streams.publish_async(topic, body, wait_stall=ANSWER_S)
            count += 1
        await self._streams.publish_async_completed()
        return count

    async def consume(self, topic: str, meter: Meter) -> None:
        subscription, more = await self._streams.pull_subscribe(topic, next(_ids)), True
        while more:
            found = await subscription.fetch(BATCH)
            for message in found:
                await message.ack()
            more = meter.add(len(found))
        await subscription.unsubscribe()


CLIENTS: dict[str, Any] = {
    "aiokafka": AioKafka,
    "kafka-python": KafkaPython,
    "confluent-kafka": Confluent,
    "redis-py": RedisPy,
    "nats-py": NatsPy,
    "rocketmq": CppBinding,
    "rocketmq-python-client": GrpcClient,
}


async def answer(client: Any, words: list[str]) -> Result:
    match words:
        case ["make", topic]:
            await client.make(topic)
            return Meter(0).result()
        case ["consume", topic, count]:
            meter = Meter(int(count))
            await client.consume(topic, meter)
            return meter.result()
        case ["fill", topic, size, count]:
            how, turns = client.send_many, numbers(int(count), None)
        case ["send" | "async" as kind, topic, size, seconds]:
            how = client.send if kind == "send" else client.send_many
            turns = numbers(None, float(seconds))
        case _:
            raise ValueError(f"no command: {words}")
    meter = Meter(0)
    stored = await how(topic, b"x" * int(size), turns)
    result = meter.result()
    return {**result, "count": stored}


async def main() -> None:
    client = CLIENTS[sys.argv[1]](sys.argv[2])
    loop = asyncio.get_running_loop()
    await client.start()
    # Read beside the loop: clients have heartbeats to send meanwhile.
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        try:
            result: dict[str, Any] = dict(await answer(client, line.split()))
        except Exception as error:  # whoever asked is to know
            result = {"error": repr(error)}
        print("RESULT " + json.dumps(result), flush=True)
    await client.stop()


if __name__ == "__main__":
    asyncio.run(main())
