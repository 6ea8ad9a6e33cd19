"""`flintmq perf` puts a bounded load on a topic and tells rate, latency and CPU."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator

import pytest

from flintmq import EmbeddedBroker, Message
from flintmq.cli.traffic.perf import quantile
from support.cli.asking import Shell


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def user(broker: EmbeddedBroker) -> Shell:
    return Shell(broker.namesrv)


def test_as_many_are_sent_as_were_asked_for(broker: EmbeddedBroker, user: Shell) -> None:
    facts = user.facts("perf", "send", "load", "--count", "200", "--size", "32", "--threads", "3")
    batched = user.facts("perf", "send", "batches", "--count", "100", "--batch", "10")
    told = user.told("perf", "send", "load", "--count", "10")

    assert (facts["messages"], facts["failed"]) == (200, 0)
    assert facts["messages_per_s"] > 0
    assert 0 < facts["latency_p50_ms"] <= facts["latency_p99_ms"] <= facts["latency_max_ms"]
    assert facts["cpu_us_per_message"] > 0
    assert {len(message.body) for message in broker.messages("load")} == {32, 1024}
    assert (batched["messages"], len(broker.messages("batches"))) == (100, 100)
    assert "latency p99" in told


def test_it_ends_after_its_seconds_and_keeps_its_rate(user: Shell) -> None:
    before_s = time.monotonic()

    facts = user.facts("perf", "send", "slow", "--rate", "20", "--seconds", "0.5")

    assert time.monotonic() - before_s < 20
    assert 1 <= facts["messages"] <= 20


def test_what_is_there_is_read_and_nothing_is_committed(
    broker: EmbeddedBroker, user: Shell
) -> None:
    user.told("perf", "send", "read", "--count", "150", "--size", "10")

    facts = user.facts("perf", "consume", "read")
    some = user.facts("perf", "consume", "read", "--count", "50")

    assert (facts["messages"], some["messages"]) == (150, 50)
    assert 0 < facts["seconds"] < 60
    assert facts["latency_p99_ms"] is None  # it would be the age of the messages
    assert broker.lag("flintmq-perf", "read") in (0, 150)  # never a part


def test_what_comes_is_measured_from_its_birth(broker: EmbeddedBroker, user: Shell) -> None:
    user.told("perf", "send", "live", "--count", "1")
    stop = threading.Event()

    def keep_sending() -> None:
        with broker.producer("shop") as producer:
            while not stop.wait(0.01):
                producer.send(Message("live", b"x"))

    sender = threading.Thread(target=keep_sending)
    sender.start()
    try:
        facts = user.facts("perf", "consume", "live", "--from-end", "--count", "20")
    finally:
        stop.set()
        sender.join()

    assert facts["messages"] == 20
    assert 0 <= facts["latency_p50_ms"] <= facts["latency_p99_ms"] < 60_000


def test_an_empty_topic_is_an_error(user: Shell) -> None:
    user.told("topic", "create", "empty")

    code, words = user.complaint("perf", "consume", "empty", "--seconds", "0.3")

    assert code == 1
    assert "no message" in words


def test_a_load_that_reaches_no_broker_ends_with_the_first_failure_of_each_sender() -> None:
    code, words = Shell("127.0.0.1:1").complaint("perf", "send", "x", "--threads", "3")

    assert code == 1
    failed = re.search(r"(\d+) messages failed, the last: ", words)
    assert failed is not None, words
    assert 1 <= int(failed[1]) <= 3


def test_a_quantile_is_a_value_that_occurs() -> None:
    assert quantile([], 0.5) is None
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.0
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.99) == 4.0
