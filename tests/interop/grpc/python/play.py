"""Scenarios of the official Python client: ``play.py ENDPOINTS PREFIX [ACCESS_KEY SECRET_KEY]``.

Every event is a line of JSON.  Names of topics and groups begin with the prefix and are there
already.  All scenarios run at once, each on a thread.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from rocketmq import (  # type: ignore[import-not-found]  # in the cache, for this program alone
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)

LIMIT_S = 150.0
ENDPOINTS, PREFIX = sys.argv[1:3]
CREDENTIALS = Credentials(*sys.argv[3:5])

_lock = threading.Lock()


def tell(scenario: str, event: str, **more: Any) -> None:
    with _lock:
        event_at = {"scenario": scenario, "event": event, "at": time.time()}
        print(json.dumps({**event_at, **more}), flush=True)


def configuration() -> ClientConfiguration:
    return ClientConfiguration(ENDPOINTS, CREDENTIALS)


def name(scenario: str) -> str:
    return f"{PREFIX}-{scenario}"


def message(scenario: str, body: str) -> Message:
    made = Message()
    made.topic = name(scenario)
    made.body = body.encode()
    return made


def tell_message(scenario: str, event: str, got: Message) -> None:
    tell(
        scenario,
        event,
        body=got.body.decode(),
        tag=got.tag,
        keys=sorted(got.keys or []),
        properties=dict(got.properties or {}),
        attempt=got.delivery_attempt,
        group=got.message_group,
    )


class Listener(MessageListener):  # type: ignore[misc]  # it has no types
    """Tells every message; ends when enough came."""

    def __init__(self, scenario: str, count: int, *, fails: bool = False) -> None:
        self.scenario, self.count, self.fails = scenario, count, fails
        self.done = threading.Event()

    def consume(self, message: Message) -> ConsumeResult:
        tell_message(self.scenario, "got", message)
        self.count -= 1
        if self.count <= 0:
            self.done.set()
        return ConsumeResult.FAILURE if self.fails else ConsumeResult.SUCCESS


def consume(scenario: str, listener: Listener, tags: str = "*") -> None:
    consumer = PushConsumer(
        configuration(), name(scenario), listener, {name(scenario): FilterExpression(tags)}
    )
    consumer.startup()
    try:
        if not listener.done.wait(LIMIT_S):
            tell(scenario, "late")
        time.sleep(1)  # acknowledgements are sent in the background
    finally:
        consumer.shutdown()


def with_producer(work: Callable[[Producer], None], scenario: str, checker: Any = None) -> None:
    producer = Producer(configuration(), (name(scenario),), checker)
    producer.startup()
    try:
        work(producer)
    finally:
        producer.shutdown()


def normal() -> None:
    def send(producer: Producer) -> None:
        for number in range(10):
            made = message("normal", f"m{number}")
            made.tag = "ab"[number % 2]
            made.keys = f"k{number}"
            made.add_property("color", "blue")
            tell("normal", "sent", id=producer.send(made).message_id)

    with_producer(send, "normal")
    consume("normal", Listener("normal", 5), "a || c")


def simple() -> None:
    def send(producer: Producer) -> None:
        for number in range(4):
            producer.send(message("simple", f"s{number}"))

    with_producer(send, "simple")
    consumer = SimpleConsumer(
        configuration(), name("simple"), {name("simple"): FilterExpression()}, 5
    )
    consumer.startup()
    again, settled = None, 0
    deadline = time.monotonic() + LIMIT_S
    try:
        while settled < 4 and time.monotonic() < deadline:
            for got in consumer.receive(2, 20) or []:
                tell_message("simple", "got", got)
                if again is None:
                    again = got.message_id
                    consumer.change_invisible_duration(got, 1)
                else:
                    consumer.ack(got)
                    settled += 1
    finally:
        consumer.shutdown()


def fifo() -> None:
    def send(producer: Producer) -> None:
        for number in range(10):
            made = message("fifo", f"f{number}")
            made.message_group = "one"
            producer.send(made)

    with_producer(send, "fifo")
    consume("fifo", Listener("fifo", 10))


def delay() -> None:
    def send(producer: Producer) -> None:
        made = message("delay", str(time.time()))
        made.delivery_timestamp = int(time.time()) + 4
        producer.send(made)

    with_producer(send, "delay")
    consume("delay", Listener("delay", 1))


def recall() -> None:
    def send(producer: Producer) -> None:
        due_s = int(time.time()) + 8
        for body in ("recalled", "kept"):
            made = message("recall", body)
            made.delivery_timestamp = due_s
            sent = producer.send(made)
            if body == "recalled":
                tell("recall", "sent", id=sent.message_id)
                again = producer.recall_message(name("recall"), sent.recall_handle)
                tell("recall", "recalled", id=again)

    with_producer(send, "recall")
    consume("recall", Listener("recall", 1))


class Checker(TransactionChecker):  # type: ignore[misc]  # as above
    def check(self, message: Message) -> TransactionResolution:
        tell_message("tx", "check", message)
        is_rolled_back = message.body == b"rollback"  # a broker may ask before it has heard
        return TransactionResolution.ROLLBACK if is_rolled_back else TransactionResolution.COMMIT


def tx() -> None:
    def send(producer: Producer) -> None:
        for body in ("commit", "rollback", "forgotten"):
            transaction = producer.begin_transaction()
            producer.send(message("tx", body), transaction)
            if body != "forgotten":
                getattr(transaction, body)()
        consume("tx", Listener("tx", 2))

    with_producer(send, "tx", Checker())


def dead() -> None:
    with_producer(lambda producer: producer.send(message("dead", "poison")) and None, "dead")
    listener = Listener("dead", 2, fails=True)
    consumer = PushConsumer(
        configuration(), name("dead"), listener, {name("dead"): FilterExpression()}
    )
    consumer.startup()
    simple = SimpleConsumer(
        configuration(), name("burial"), {f"%DLQ%{name('dead')}": FilterExpression()}, 5
    )
    try:
        if not listener.done.wait(LIMIT_S):
            tell("dead", "late")
        simple_is_up = False
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            try:
                if not simple_is_up:
                    simple.startup()
                    simple_is_up = True
                found = simple.receive(1, 20) or []
            except Exception:
                time.sleep(1)  # the topic of dead letters is not there yet
                simple = SimpleConsumer(
                    configuration(), name("burial"), {f"%DLQ%{name('dead')}": FilterExpression()}, 5
                )
                simple_is_up = False
                continue
            if found:
                tell_message("dead", "buried", found[0])
                simple.ack(found[0])
                break
    finally:
        consumer.shutdown()
        if simple_is_up:
            simple.shutdown()


SCENARIOS = (normal, simple, fifo, delay, recall, tx, dead)


def run(scenario: Callable[[], None]) -> None:
    failure = None
    try:
        scenario()
    except Exception:
        failure = traceback.format_exc()
    tell(scenario.__name__, "end", failure=failure)


threads = [threading.Thread(target=run, args=(each,)) for each in SCENARIOS]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.stdout.flush()
os._exit(0)  # its threads do not end by themselves
