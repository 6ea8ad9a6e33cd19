"""The metrics of a broker are RocketMQ 5's, by name, type, label and bucket; values are right.

`tests/golden/metrics/broker-5.3.3.prom` is what a real broker 5.3.3 answered; see its README.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq import DeadLetter, Message, TransactionState
from flintmq.broker.config.metrics_settings import OWN_LABELS
from flintmq.broker.monitoring.broker_families import FAMILIES
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.metrics.families import Kind
from flintmq.net.address import Address
from support.metrics.scraping import (
    BASE,
    HAS_PROMTOOL,
    WITHOUT_PROMTOOL,
    Scrape,
    promtool,
    scrape,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "metrics" / "broker-5.3.3.prom"
ANYWHERE = Address("127.0.0.1", 0)

NOT_OURS = re.compile(r"target_info|otel_scope_info|rocketmq_pop_\w+")
"""Of OpenTelemetry's exporter, and of pop consumption, which this broker does not serve."""

THEIRS_ONLY = {"otel_scope_name", "dc"}
"""Labels of OpenTelemetry's exporter, and what metricsLabel was set to."""

ELSEWHERE = {
    "rocketmq_consumer_group_create_execution_time_milliseconds",
    "rocketmq_producer_connections",
    "flintmq_slave_behind_bytes",
    "flintmq_following",
    "flintmq_scrub_bytes_total",
    "flintmq_scrub_found_total",
    "flintmq_scrub_healed_total",
    "flintmq_scrub_damaged_places",
}
"""Metrics that `test_group_metrics`, `test_replica_metrics` and `test_scrubbing` look at."""


@pytest.fixture(scope="module")
def worked() -> Iterator[tuple[EmbeddedBroker, Scrape]]:
    """A broker through which messages of every kind went, and a scrape of it."""
    with EmbeddedBroker(metrics=ANYWHERE) as broker:
        with broker.admin() as admin:
            admin.create_topic("orders", queues=4)
        with broker.producer("shop") as producer:
            for _ in range(10):
                producer.send(Message("orders", b"x" * 100))
            for _ in range(3):
                producer.send(Message("orders", b"fifo"), sharding_key="customer-1")
            producer.send_batch([Message("orders", b"x" * 5_000) for _ in range(4)])
            producer.send(Message("orders", b"soon", delay_level=1))
            producer.send(Message("orders", b"timed", delay_ms=5_000))
            producer.send(Message("orders", b"later", delay_ms=100_000))
            broker.advance(7)
            producer.send(Message("bad", b"dead"))
        pay(broker)
        with broker.push_consumer("billing", bury, start_from="first").subscribe("bad"):
            broker.wait_for(lambda: len(broker.messages("%DLQ%billing")) == 1, 60)
            broker.wait_for(lambda: broker.lag("billing", "bad") == 0, 60)
            yield broker, scrape(broker.metrics)


def pay(broker: EmbeddedBroker) -> None:
    """One transaction that is committed, one that is rolled back, and one that stays open."""
    ends = {
        b"1": TransactionState.COMMIT,
        b"2": TransactionState.ROLLBACK,
        b"3": TransactionState.UNKNOWN,
    }

    def end_of(message: Message, _transaction_id: str) -> TransactionState:
        return ends[message.body]

    with broker.transaction_producer("pay", lambda _: TransactionState.UNKNOWN) as paying:
        for body in ends:
            paying.send_in_transaction(Message("payments", body), end_of)
        broker.wait_for(lambda: ended_count(scrape(broker.metrics)) == 2, 60)


def ended_count(found: Scrape) -> float:
    ends = ("rocketmq_commit_messages_total", "rocketmq_rollback_messages_total")
    return sum(found.total(name) for name in ends)


def bury(_messages: object) -> None:
    raise DeadLetter("no order")


def bucket_ends(found: Scrape, name: str) -> set[str]:
    return {each.labels["le"] for each in found.find(f"{name}_bucket")}


# Names


def test_every_name_of_rocketmq_that_applies_is_there(
    worked: tuple[EmbeddedBroker, Scrape],
) -> None:
    theirs = {name for name in Scrape(GOLDEN.read_text()).names if not NOT_OURS.fullmatch(name)}

    assert len(theirs) > 35
    assert theirs - worked[1].names == set()


def test_every_label_of_rocketmq_is_there_and_no_other(
    worked: tuple[EmbeddedBroker, Scrape],
) -> None:
    ours = {each.name: set(each.labels) for each in worked[1].series}
    for each in Scrape(GOLDEN.read_text()).series:
        if not NOT_OURS.fullmatch(each.name):
            assert ours[each.name] == set(each.labels) - THEIRS_ONLY, each.name


def test_types_are_those_that_rocketmq_declares(worked: tuple[EmbeddedBroker, Scrape]) -> None:
    """RocketMQ declares them for names without the unit, which nobody finds; ours are right."""
    declared = dict(re.findall(r"# TYPE (\S+) (\S+)", GOLDEN.read_text()))
    checked = 0
    for family in FAMILIES:
        for unit in ("", "_milliseconds", "_bytes", "_seconds"):
            theirs = declared.get(family.name.removesuffix(unit))
            if theirs is not None and family.name.startswith("rocketmq_"):
                assert family.kind.value == theirs, family.name
                checked += 1
                break
    assert checked > 25


def test_histograms_have_the_buckets_of_rocketmq(worked: tuple[EmbeddedBroker, Scrape]) -> None:
    golden = Scrape(GOLDEN.read_text())
    names = {
        each.name.removesuffix("_bucket")
        for each in golden.series
        if each.name.endswith("_bucket") and not NOT_OURS.fullmatch(each.name)
    }

    assert len(names) == 4
    for name in names:
        assert bucket_ends(worked[1], name) == bucket_ends(golden, name), name


def test_each_name_that_is_declared_is_served(worked: tuple[EmbeddedBroker, Scrape]) -> None:
    served = worked[1].names
    for family in FAMILIES:
        name = f"{family.name}_count" if family.kind is Kind.HISTOGRAM else family.name
        if family.name not in ELSEWHERE:
            assert name in served, name


def test_labels_that_a_broker_conf_may_not_take_are_known() -> None:
    own = {label for family in FAMILIES for label in family.labels}

    assert own | BASE | {"le"} <= OWN_LABELS


@pytest.mark.skipif(not HAS_PROMTOOL, reason=WITHOUT_PROMTOOL)
def test_promtool_finds_nothing_but_rocketmqs_own_units(
    worked: tuple[EmbeddedBroker, Scrape],
) -> None:
    """Prometheus prefers seconds; the names are RocketMQ's."""
    _, said = promtool("check", "metrics", text=worked[1].text)

    for line in said.splitlines():
        assert re.fullmatch(
            r"rocketmq_\w+_milliseconds use base unit \"seconds\" instead of \"milliseconds\"", line
        ), said


# Values


def test_messages_are_counted_by_type(worked: tuple[EmbeddedBroker, Scrape]) -> None:
    found = worked[1]

    counts = {
        each.labels["message_type"]: each.value
        for each in found.find("rocketmq_messages_in_total", topic="orders")
    }
    assert counts == {"normal": 14, "fifo": 3, "delay": 2}
    half = "RMQ_SYS_TRANS_HALF_TOPIC"
    assert found.value("rocketmq_messages_in_total", topic=half, message_type="transaction") == 3
    assert found.value("rocketmq_messages_in_total", topic="SCHEDULE_TOPIC_XXXX") == 1
    assert found.total("rocketmq_messages_in_total", is_system="true") >= 4


def test_sizes_are_those_of_records(worked: tuple[EmbeddedBroker, Scrape]) -> None:
    """A record has 91 bytes beside its body, its topic and its properties."""
    found = worked[1]
    normal = {"topic": "orders", "message_type": "normal"}

    small = found.value("rocketmq_message_size_bucket", le="1024.0", **normal)
    assert small == 10
    assert found.value("rocketmq_message_size_bucket", le="4096.0", **normal) == 10
    assert found.value("rocketmq_message_size_count", **normal) == 14
    stored = found.value("rocketmq_throughput_in_total", **normal)
    bodies = 10 * 100 + 4 * 5_000
    assert bodies + 14 * 91 < stored < bodies + 14 * 400
    assert found.value("rocketmq_message_size_sum", **normal) == stored


def test_a_dead_letter_counts_for_its_topic_and_group(
    worked: tuple[EmbeddedBroker, Scrape],
) -> None:
    found = worked[1]

    assert (
        found.value("rocketmq_send_to_dlq_messages_total", topic="bad", consumer_group="billing")
        == 1
    )
    assert found.value("rocketmq_messages_out_total", topic="bad", consumer_group="billing") == 1


def test_transactions_are_counted_as_they_ended(worked: tuple[EmbeddedBroker, Scrape]) -> None:
    found = worked[1]

    assert found.value("rocketmq_commit_messages_total", topic="payments") == 1
    assert found.value("rocketmq_rollback_messages_total", topic="payments") == 1
    assert found.value("rocketmq_half_messages", topic="payments") == 1
    assert found.value("rocketmq_finish_message_latency_milliseconds_count", topic="payments") == 1


def test_timers_are_counted_when_they_come_when_they_wait_and_when_they_go(
    worked: tuple[EmbeddedBroker, Scrape],
) -> None:
    found = worked[1]

    assert found.value("rocketmq_timer_enqueue_total", topic="orders") == 2
    assert found.value("rocketmq_timer_dequeue_total", topic="orders") == 1
    assert found.value("rocketmq_timer_message_snapshot", timer_bound_s="300") == 1
    assert found.value("rocketmq_timing_messages", topic="orders") == 1
    assert found.value("rocketmq_delay_message_latency_seconds_bucket", le="60.0") == 1
    assert found.value("rocketmq_delay_message_latency_seconds_count") == 2


def test_requests_are_timed_by_code_and_answer(worked: tuple[EmbeddedBroker, Scrape]) -> None:
    found = worked[1]
    name = "rocketmq_rpc_latency_milliseconds_count"

    sends = found.total(name, request_code="send_message_v2", response_code="success")
    assert sends == 10 + 3 + 3 + 1 + 3 + 1  # the last one is the dead letter
    assert found.total(name, request_code="send_batch_message") == 1
    assert found.total(name, request_code="end_transaction", result="oneway") == 2  # not UNKNOWN
    assert found.total(name, request_code="update_and_create_topic") == 1
    assert (
        found.value(
            "rocketmq_topic_create_execution_time_milliseconds_count", invocation_status="success"
        )
        == 1
    )


def test_a_broker_that_is_well_says_so(worked: tuple[EmbeddedBroker, Scrape]) -> None:
    found = worked[1]

    assert found.value("flintmq_ready") == 1
    assert found.value("flintmq_store_writable") == 1
    assert found.value("rocketmq_broker_permission") == 6
    assert found.value("rocketmq_storage_size_bytes", storage_type="local") > 0
    assert found.value("flintmq_namesrv_brokers", cluster="DefaultCluster") == 1
    assert found.value("flintmq_metrics_left_out") == 0
