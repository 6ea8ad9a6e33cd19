"""Spark and consumers on threads in one group: nothing is lost while they come and go.

A message is heard twice only if it was under way when its queue went to another member.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

import flintmq.spark
from flintmq.client.admin import Admin
from flintmq.client.push.threaded_push import PushConsumer
from flintmq.core.group.app import App
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.model.message import ReceivedMessage
from support.spark.support import create_topic, lag, traffic, wait_for

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(1_800)]

NAME = "mixed"
QUEUES = 8
ROUNDS = 3
SEED = 11
PATIENCE_S = 120.0
SPARK_MAX = 200
"""Messages in one batch of Spark."""
THREADS_MAX = 64
"""Messages of one queue that a member on threads has, at most."""


class Company:
    """The members of one group, and what each of them heard."""

    def __init__(self, spark: SparkSession, servers: EmbeddedBroker, diary: Path) -> None:
        self._spark = spark
        self._servers = servers
        self._diary = diary
        self._lock = threading.Lock()
        self._heard: list[str] = []
        self._members: dict[str, ExitStack] = {}
        self.changes = 0
        diary.touch()

    def join(self, who: str) -> None:
        stack = self._members[who] = ExitStack()
        stack.enter_context(self._on_spark() if who == "spark" else self._on_threads())
        self.changes += 1

    def leave(self, who: str) -> None:
        self._members.pop(who).close()
        self.changes += 1

    def close(self) -> None:
        for who in list(self._members):
            self.leave(who)

    def __contains__(self, who: str) -> bool:
        return who in self._members

    def __len__(self) -> int:
        return len(self._members)

    @property
    def on_threads(self) -> list[str]:
        with self._lock:
            return list(self._heard)

    @property
    def on_spark(self) -> list[str]:
        return self._diary.read_text().split("\n")[:-1]

    @property
    def counts(self) -> Counter[str]:
        return Counter(self.on_threads) + Counter(self.on_spark)

    def is_settled(self) -> bool:
        """Whether the broker has as many members as there are."""
        with Admin(namesrv=self._servers.namesrv) as admin:
            found = admin.members(NAME)
        return len(found.members if found is not None else ()) == len(self)

    def _on_spark(self) -> Any:
        diary = str(self._diary)
        app = App(NAME, namesrv=self._servers.namesrv, start_from="first")

        @app.listener(NAME, batch_max=4)
        def note(messages: Any) -> None:
            with open(diary, "a") as file:  # noqa: PTH123  # it runs elsewhere
                file.write("".join(f"{message.body.decode()}\n" for message in messages))

        return flintmq.spark.run(app, self._spark, messages_max=SPARK_MAX)

    def _on_threads(self) -> PushConsumer:
        consumer = PushConsumer(
            NAME,
            self._hear,
            namesrv=self._servers.namesrv,
            start_from="first",
            queue_count_max=THREADS_MAX // 2,
            pull_batch_max=THREADS_MAX // 2,
        )
        return consumer.subscribe(NAME)

    def _hear(self, messages: tuple[ReceivedMessage, ...]) -> None:
        with self._lock:
            self._heard.extend(message.body.decode() for message in messages)


def test_nothing_is_lost_while_spark_and_threads_join_and_leave(
    spark: SparkSession, own_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    chance, start_s = Random(SEED), time.monotonic()
    create_topic(own_broker, NAME, QUEUES)
    company = Company(spark, own_broker, tmp_path / "diary")
    try:
        with traffic(own_broker, NAME, QUEUES, each_s=0.2) as sent:
            company.join("spark")
            for _ in range(ROUNDS):
                for who in chance.sample(["spark", "first", "second", "spark"], 4):
                    if who in company and len(company) > 1:
                        company.leave(who)
                    elif who not in company:
                        company.join(who)
                    wait_for(company.is_settled, PATIENCE_S)
                    enough = sent() + 100
                    wait_for(lambda most=enough: len(company.counts) >= most, PATIENCE_S)  # type: ignore[misc]
        wait_for(lambda: len(company.counts) == sent(), PATIENCE_S)
        wait_for(lambda: lag(own_broker, NAME) == 0, PATIENCE_S)
    finally:
        company.close()

    counts, took_s = company.counts, time.monotonic() - start_s
    repeats = counts.total() - len(counts)
    print(
        f"\n{company.changes} changes, {sent()} messages, {len(company.on_spark)} heard on Spark, "
        f"{len(company.on_threads)} on threads, {repeats} repeats, {took_s:.0f} s"
    )
    assert set(counts) == {f"{number:06}" for number in range(sent())}
    assert company.on_spark
    assert company.on_threads
    assert repeats <= company.changes * (SPARK_MAX + QUEUES * THREADS_MAX)
    assert lag(own_broker, NAME) == 0
