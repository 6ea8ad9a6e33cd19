"""Our clients with right, wrong and no accounts: real brokers refuse what ours refuse.

Every kind of client does what its account allows, and raises with the broker's own code and remark
where it does not, at our broker with each kind of access control and at the real ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from flintmq import (
    LitePullConsumer,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    QueueRef,
    TransactionProducer,
    TransactionState,
    aio,
)
from flintmq.errors import BrokerRefused, FlintError, SendFailed
from flintmq.model.group import ConsumeFromWhere
from support.client.push_support import Ear
from support.client.support import nothing_left
from support.interop.access_answers import (
    NO_ACCOUNT,
    NO_ADMIN,
    NO_NAME,
    NO_SIGNATURE,
    OK,
    denied,
)
from support.interop.account_programs import Account
from support.interop.filled import BROKER, SEND_MS, numbered, patiently
from support.interop.guarded_brokers import (
    ANALYST,
    AUTH,
    BOSS,
    NOBODY,
    PACKER,
    PLAIN,
    RIGHT,
    STRANGER,
    WRONG,
    Guarded,
)
from support.spark.support import bodies, read_stream, run_until_now, session

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),  # the first test starts servers and JVMs
]

CALL_MS = 15_000


def settings_of(at: Guarded, who: Account) -> dict[str, Any]:
    return {"namesrv": at.namesrv, "call_timeout_ms": CALL_MS, **who.keys}


# What clients do


def send(at: Guarded, who: Account, topic: str) -> None:
    with Producer("shop", **settings_of(at, who)) as producer:
        producer.send(Message(topic, b"x"), timeout_ms=SEND_MS)


def send_async(at: Guarded, who: Account, topic: str) -> None:
    with Producer("shop", **settings_of(at, who)) as producer:
        producer.send_async(Message(topic, b"x"), timeout_ms=SEND_MS).result()


def send_on_asyncio(at: Guarded, who: Account, topic: str) -> None:
    async def main() -> None:
        async with aio.Producer("shop", **settings_of(at, who)) as producer:
            await producer.send(Message(topic, b"x"), timeout_ms=SEND_MS)

    asyncio.run(main())


def send_batch(at: Guarded, who: Account, topic: str) -> None:
    with Producer("shop", **settings_of(at, who)) as producer:
        producer.send_batch([Message(topic, b"x"), Message(topic, b"y")], timeout_ms=SEND_MS)


def send_half(at: Guarded, who: Account, topic: str) -> None:
    def commit(*_: object) -> TransactionState:
        return TransactionState.COMMIT

    with TransactionProducer("shop", commit, **settings_of(at, who)) as producer:
        producer.send_in_transaction(Message(topic, b"x"), commit, timeout_ms=SEND_MS)


def pull(at: Guarded, who: Account, group: str, topic: str) -> None:
    with PullConsumer(group, **settings_of(at, who)) as consumer:
        consumer.pull(QueueRef(topic, BROKER, 0), 0)


def lite_pull(at: Guarded, who: Account, group: str, topic: str) -> None:
    start_from = ConsumeFromWhere.FIRST_OFFSET
    with LitePullConsumer(group, start_from=start_from, **settings_of(at, who)) as consumer:
        consumer.subscribe(topic)
        patiently(lambda: consumer.poll(200))


def push(at: Guarded, who: Account, group: str, topic: str) -> None:
    ear = Ear()
    consumer = PushConsumer(group, ear, start_from="first", **settings_of(at, who))
    with consumer.subscribe(topic):
        patiently(lambda: ear.messages)


def create_topic(at: Guarded, who: Account, topic: str) -> None:
    with at.admin(who) as admin:
        admin.create_topic(topic)


class Row(NamedTuple):
    """A client that does something, and the answer by the dialect of the accounts."""

    does: Callable[..., None]
    names: tuple[str, ...]
    who: Account
    expected: dict[str, str]


Does = Callable[..., None]
SENDING: tuple[Does, ...] = (send, send_async, send_on_asyncio, send_batch, send_half)
CONSUMING: tuple[Does, ...] = (pull, lite_pull, push)


def rows() -> Iterator[Row]:
    for does in SENDING:
        yield Row(does, ("orders",), RIGHT, OK)
        yield Row(does, ("wages",), RIGHT, denied("topic", "wages"))
        yield Row(does, ("orders",), WRONG, NO_SIGNATURE)
        yield Row(does, ("orders",), STRANGER, NO_ACCOUNT)
        yield Row(does, ("orders",), NOBODY, NO_NAME)
    for does in CONSUMING:
        yield Row(does, ("billing", "orders"), RIGHT, OK)
        yield Row(does, ("payroll", "orders"), RIGHT, denied("group", "payroll"))
        yield Row(does, ("billing", "wages"), RIGHT, denied("topic", "wages"))
        yield Row(does, ("billing", "orders"), WRONG, NO_SIGNATURE)
        yield Row(does, ("billing", "orders"), STRANGER, NO_ACCOUNT)
        yield Row(does, ("billing", "orders"), NOBODY, NO_NAME)
    yield Row(create_topic, ("by-boss",), BOSS, OK)
    yield Row(create_topic, ("mine",), RIGHT, NO_ADMIN)
    yield Row(create_topic, ("mine",), WRONG, NO_SIGNATURE)
    yield Row(create_topic, ("mine",), NOBODY, NO_NAME)


HOLES = {
    ("real", "plain", send_batch, "wages"): "4.9 asks no rights for SEND_BATCH_MESSAGE (320)",
}


def answer_to(does: Callable[[], None]) -> str:
    """The code and what was raised."""
    try:
        with nothing_left():
            does()
    except (BrokerRefused, SendFailed) as error:
        return f"{error.code} {error}"
    except FlintError as error:
        return f"{type(error).__name__} {error}"
    return "0 "


def test_every_client_of_ours_is_refused_alike_everywhere(guarded: Guarded) -> None:
    send(guarded, BOSS, "orders")  # something to pull
    wrong = []
    for row in rows():
        expected = row.expected[guarded.acl]
        if (guarded.whose, guarded.acl, row.does, row.names[-1]) in HOLES:
            expected = OK[guarded.acl]
        answer = answer_to(partial(row.does, guarded, row.who, *row.names))
        code, _, remark = expected.partition(" ")
        if not answer.startswith(f"{code} ") or remark not in answer:
            wrong.append((row.does.__name__, row.names, row.who.name, answer, expected))

    assert wrong == []
    with guarded.admin() as admin:
        assert "mine" not in {topic.name for topic in admin.topics()}


def test_a_failed_message_comes_again_and_offsets_are_committed_with_an_account(
    guarded: Guarded,
) -> None:
    """Retry, commit and rebalance are signed requests too."""
    common = settings_of(guarded, PACKER)
    with Producer("school", **settings_of(guarded, BOSS)) as producer:
        for body in numbered(5):
            producer.send(Message("parcels", body), timeout_ms=SEND_MS)
    ear = Ear(ValueError("once more"))
    with (
        nothing_left(),
        PushConsumer("packing", ear, start_from="first", **common).subscribe("parcels"),
    ):
        patiently(lambda: len(ear.messages) >= 6)
    with PullConsumer("packing", **common) as consumer:
        queues = [QueueRef("parcels", BROKER, number) for number in range(2)]
        stands_at = [consumer.committed(queue, from_store=True) or 0 for queue in queues]

    assert sorted(set(ear.bodies)) == numbered(5)
    assert sum(stands_at) == 5


def test_a_push_consumer_says_at_its_start_what_to_do(guarded: Guarded) -> None:
    common = settings_of(guarded, NOBODY)
    for keys, group, topic, words in (
        (RIGHT.keys, "payroll", "orders", f"orders.*payroll.*{RIGHT.name!r}|{RIGHT.name!r}"),
        ({}, "billing", "orders", "set access_key"),
        (WRONG.keys, "billing", "orders", "secret_key is right"),
    ):
        with nothing_left(), pytest.raises(BrokerRefused, match=words):
            PushConsumer(group, Ear(), **common, **keys).subscribe(topic).start()


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with session(tmp_path_factory.mktemp("spark")) as made:
        yield made


def options_of(at: Guarded, who: Account) -> dict[str, str]:
    keys = {"accessKey": who.name, "secretKey": who.secret} if who is not NOBODY else {}
    return {"namesrv": at.namesrv, "retryTimeout": "0s", **keys}  # a refusal is final


def spark_read(spark: SparkSession, at: Guarded, who: Account, topic: str) -> list[str]:
    options = {**options_of(at, who), "subscribe": topic, "startingOffsets": "earliest"}
    return bodies(spark.read.format("rocketmq").options(**options).load())


def spark_stream(
    spark: SparkSession, at: Guarded, who: Account, topic: str, place: Path
) -> list[str]:
    """A stream over a topic that commits for a group."""
    options = {**options_of(at, who), "subscribe": topic, "startingOffsets": "earliest"}
    frame = read_stream(spark, at, **options, consumerGroup="reports")
    return run_until_now(frame, str(place)).rows


def spark_write(spark: SparkSession, at: Guarded, who: Account, topic: str) -> None:
    rows = spark.range(3, numPartitions=1).selectExpr("concat('row ', id) AS body")
    options = {**options_of(at, who), "topic": topic}
    rows.write.format("rocketmq").mode("append").options(**options).save()


def test_spark_reads_and_writes_with_an_account(
    guarded: Guarded, spark: SparkSession, tmp_path: Path
) -> None:
    spark_write(spark, guarded, ANALYST, "orders")
    assert [body for body in spark_read(spark, guarded, ANALYST, "orders") if "row" in body] == [
        f"row {number}" for number in range(3)
    ]
    streamed = spark_stream(spark, guarded, ANALYST, "orders", tmp_path / "checkpoint")
    assert streamed.count("row 0") == 1

    refused: list[tuple[Callable[..., object], str, Account, dict[str, str]]] = [
        (spark_write, "orders", WRONG, NO_SIGNATURE),
        (spark_write, "orders", NOBODY, NO_NAME),
        (spark_read, "wages", ANALYST, denied("topic", "wages", ANALYST)),
        (spark_read, "orders", WRONG, NO_SIGNATURE),
        (spark_read, "orders", NOBODY, NO_NAME),
    ]
    if (guarded.whose, guarded.acl) == ("real", PLAIN):  # 4.9 lets batches into every topic
        spark_write(spark, guarded, RIGHT, "wages")
    else:
        refused.append((spark_write, "wages", RIGHT, denied("topic", "wages")))
    if guarded.acl == AUTH:  # Get is a right of its own there
        refused.append((spark_read, "orders", RIGHT, denied("topic", "orders")))
    for does, topic, who, expected in refused:
        with pytest.raises(PySparkException) as raised:
            does(spark, guarded, who, topic)
        remark = expected[guarded.acl].partition(" ")[2]
        assert remark in str(raised.value), (does.__name__, topic, who.name)
        assert who is NOBODY or who.secret not in str(raised.value)
