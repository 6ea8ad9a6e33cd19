"""A program sees what its producers and consumers do: times, caches, retries, dead letters."""

from __future__ import annotations

import asyncio
import http.server
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from flintmq import (
    App,
    DeadLetter,
    LitePullConsumer,
    Message,
    PullConsumer,
    ScheduledPull,
    aio,
)
from flintmq.client.pull.scheduled_pull import PullContext
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import FlintError, InvalidSetting
from flintmq.metrics.client_metrics import FAMILIES, ClientMetrics
from flintmq.metrics.families import Kind
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef
from flintmq.protocol.codes import RequestCode
from support.metrics.scraping import Scrape, page, scrape

SUCCESS = {"invocation_status": "success"}
FAILURE = {"invocation_status": "failure"}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def look(metrics: ClientMetrics) -> Scrape:
    return Scrape(metrics.text().decode())


def test_sends_are_timed_and_their_messages_counted(broker: EmbeddedBroker) -> None:
    metrics = ClientMetrics()
    with broker.producer("shop", metrics=metrics) as producer:
        for _ in range(5):
            producer.send(Message("sent", b"x"))
        producer.send_batch([Message("sent", b"x") for _ in range(3)])
        producer.send_async(Message("sent", b"x")).result(60)
        found = look(metrics)
        client_id = producer.client_id

    assert found.value("flintmq_client_sent_messages_total", topic="sent", **SUCCESS) == 9
    name = "rocketmq_send_cost_time_milliseconds"
    assert found.value(f"{name}_count", topic="sent", client_id=client_id, **SUCCESS) == 7
    assert {each.labels["le"] for each in found.find(f"{name}_bucket")} == {
        *("1.0", "5.0", "10.0", "20.0", "50.0", "200.0", "500.0", "+Inf")
    }
    assert found.value(f"{name}_sum", topic="sent") > 0


def test_a_producer_with_metrics_still_sends_past_the_loop(broker: EmbeddedBroker) -> None:
    with broker.producer("shop", metrics=ClientMetrics()) as producer:
        assert producer._direct is not None


def test_tries_that_fail_and_retries_are_counted() -> None:
    metrics = ClientMetrics()
    with EmbeddedBroker() as broker, broker.producer("shop", metrics=metrics) as producer:
        producer.send(Message("retried", b"x"))
        broker.drop_next(RequestCode.SEND_MESSAGE_V2, lost="connection")
        producer.send(Message("retried", b"x"))
        found = look(metrics)

    assert found.value("flintmq_client_sent_messages_total", topic="retried", **SUCCESS) == 2
    assert found.value("flintmq_client_sent_messages_total", topic="retried", **FAILURE) == 1
    assert found.value("flintmq_client_send_retries_total", topic="retried") == 1


def test_listeners_are_timed_and_what_came_of_messages_is_counted(broker: EmbeddedBroker) -> None:
    metrics, is_over = ClientMetrics(), threading.Event()

    def listen(messages: Sequence[ReceivedMessage]) -> None:
        if messages[0].body == b"dead":
            raise DeadLetter("no order")
        if messages[0].reconsume_times:
            is_over.wait(60)  # it comes again, after ten seconds, and is not to be counted
        if messages[0].body == b"again":
            raise LookupError("later")

    def is_done() -> bool:
        found = look(metrics)
        return (
            found.total("flintmq_client_sent_back_total", topic="heard") == 2
            and found.total("flintmq_client_consumed_messages_total", topic="heard") == 4
        )

    with broker.producer("shop") as producer:
        for body in (b"well", b"well", b"dead", b"again"):
            producer.send(Message("heard", body))
    with broker.push_consumer("g-heard", listen, start_from="first", metrics=metrics).subscribe(
        "heard"
    ):
        try:
            broker.wait_for(is_done, 60)
            found = look(metrics)
        finally:
            is_over.set()

    of = {"topic": "heard", "consumer_group": "g-heard"}
    assert found.value("flintmq_client_consumed_messages_total", **of, **SUCCESS) == 2
    assert found.value("flintmq_client_consumed_messages_total", **of, **FAILURE) == 2
    assert found.value("rocketmq_process_time_milliseconds_count", **of, **SUCCESS) == 2
    assert found.value("flintmq_client_sent_back_total", **of, target="dead_letter") == 1
    assert found.value("flintmq_client_sent_back_total", **of, target="retry") == 1
    assert found.value("flintmq_client_bad_records_total", consumer_group="g-heard") == 0


def test_what_is_cached_is_told_while_the_consumer_runs(broker: EmbeddedBroker) -> None:
    metrics, go_on = ClientMetrics(), threading.Event()

    def wait(_messages: object) -> None:
        go_on.wait(60)

    with broker.producer("shop") as producer:
        for _ in range(10):
            producer.send(Message("cached", b"x" * 100))
    with broker.push_consumer("g-cached", wait, start_from="first", metrics=metrics).subscribe(
        "cached"
    ):
        try:
            name = "rocketmq_consumer_cached_messages"
            broker.wait_for(lambda: look(metrics).total(name, topic="cached") == 10, 60)
            size_bytes = look(metrics).value("rocketmq_consumer_cached_bytes", topic="cached")
        finally:
            go_on.set()
        done = "rocketmq_process_time_milliseconds_count"
        broker.wait_for(lambda: look(metrics).total(done, topic="cached") == 10, 60)
    stopped = look(metrics)

    assert size_bytes >= 1_000
    assert list(stopped.find(name)) == []
    assert stopped.total(done, topic="cached") == 10


def test_the_same_on_asyncio_asked_on_the_loop_itself(broker: EmbeddedBroker) -> None:
    metrics = ClientMetrics()

    async def run() -> Scrape:
        async with aio.Producer("shop", namesrv=broker.namesrv, metrics=metrics) as producer:
            await producer.send(Message("async", b"x"))
        heard = asyncio.Event()

        async def listen(_messages: object) -> None:
            await asyncio.sleep(0)
            heard.set()

        consumer = aio.PushConsumer(
            "g-async", listen, namesrv=broker.namesrv, start_from="first", metrics=metrics
        ).subscribe("async")
        async with consumer, asyncio.timeout(60):
            await heard.wait()
            while not look(metrics).total(  # noqa: ASYNC110
                "flintmq_client_consumed_messages_total", topic="async"
            ):
                await asyncio.sleep(0.01)
            return look(metrics)

    found = asyncio.run(run())

    assert found.value("flintmq_client_sent_messages_total", topic="async", **SUCCESS) == 1
    assert found.value("flintmq_client_consumed_messages_total", topic="async", **SUCCESS) == 1
    assert found.total("flintmq_client_queues", topic="async") > 0


def test_an_app_has_them_and_they_are_served(broker: EmbeddedBroker) -> None:
    metrics = ClientMetrics()
    app = App("g-app", metrics=metrics, start_from="first")

    @app.listener("app")
    def listen(_messages: object) -> None:
        pass

    with broker.producer("shop") as producer:
        producer.send(Message("app", b"x"))
    where = metrics.serve("127.0.0.1:0")
    try:
        with broker.running(app):
            name = "flintmq_client_consumed_messages_total"
            broker.wait_for(lambda: scrape(where).total(name, topic="app") == 1, 60)
        alive = page(where, "/healthz")
        with pytest.raises(InvalidSetting, match="served already"):
            metrics.serve("127.0.0.1:0")
    finally:
        metrics.close()

    assert alive[0] == 200
    with pytest.raises(OSError, match="refused"):
        page(where, "/healthz")
    metrics.close()  # twice is no error


def test_an_address_that_cannot_be_had_leaves_no_thread() -> None:
    metrics = ClientMetrics()

    with pytest.raises(FlintError):
        metrics.serve("192.0.2.1:1")

    assert not any(t.name == "flintmq-client-metrics" for t in threading.enumerate())


def test_they_can_be_pushed_to_a_gateway(broker: EmbeddedBroker) -> None:
    got: list[tuple[str, bytes]] = []

    class Gateway(http.server.BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            got.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            pass

    metrics = ClientMetrics()
    with broker.producer("shop", metrics=metrics) as producer:
        producer.send(Message("pushed", b"x"))
    with http.server.HTTPServer(("127.0.0.1", 0), Gateway) as gateway:
        thread = threading.Thread(target=gateway.handle_request)
        thread.start()
        metrics.push(f"127.0.0.1:{gateway.server_port}", "nightly")
        thread.join()

    ((path, body),) = got
    assert path == "/metrics/job/nightly"
    assert Scrape(body.decode()).total("flintmq_client_sent_messages_total", topic="pushed") == 1


def test_every_family_is_declared_once_and_has_a_help() -> None:
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
    assert all(family.help.endswith(".") for family in FAMILIES)
    assert all(family.bounds for family in FAMILIES if family.kind is Kind.HISTOGRAM)


def test_anything_else_than_metrics_is_refused(broker: EmbeddedBroker) -> None:
    for make in (broker.producer, broker.push_consumer):
        with pytest.raises(InvalidSetting, match="give a ClientMetrics"):
            make("g", metrics="127.0.0.1:9100")  # type: ignore[arg-type]  # on purpose


def test_pulls_are_timed_and_their_messages_counted(broker: EmbeddedBroker) -> None:
    metrics = ClientMetrics()
    with broker.admin() as admin:
        admin.create_topic("pulled", queues=1)
    with broker.producer("shop") as producer:
        producer.send_batch([Message("pulled", b"x") for _ in range(3)])
    queue = QueueRef("pulled", "broker-a", 0)
    with PullConsumer("pulling", namesrv=broker.namesrv, metrics=metrics) as consumer:
        found = consumer.pull(queue, 0)
        consumer.pull(queue, 3)
        consumer.send_back(found.messages[0])
        consumer.send_back(found.messages[1], delay_level=-1)
        with pytest.raises(FlintError):
            consumer.pull(QueueRef("pulled", "nobody", 0), 0)
        seen = look(metrics)
        client_id = consumer.client_id

    who = {"topic": "pulled", "consumer_group": "pulling", "client_id": client_id}
    name = "flintmq_client_pull_time_milliseconds_count"
    assert seen.value("flintmq_client_pulled_messages_total", **who) == 3
    assert seen.value(name, **who, **SUCCESS) == 2
    assert seen.value(name, **who, **FAILURE) == 1
    assert seen.value("flintmq_client_sent_back_total", target="retry", **who) == 1
    assert seen.value("flintmq_client_sent_back_total", target="dead_letter", **who) == 1


def test_a_lite_pull_consumer_tells_what_it_holds(broker: EmbeddedBroker) -> None:
    metrics = ClientMetrics()
    with broker.admin() as admin:
        admin.create_topic("polled", queues=1)
    with broker.producer("shop") as producer:
        producer.send_batch([Message("polled", b"abc") for _ in range(4)])
    settings: dict[str, Any] = {
        "namesrv": broker.namesrv,
        "start_from": "first",
        "metrics": metrics,
    }
    who = {"topic": "polled", "consumer_group": "polling"}
    with LitePullConsumer("polling", pull_batch_max=2, **settings) as consumer:
        consumer.subscribe("polled")
        got: list[ReceivedMessage] = []
        while len(got) < 2:
            got += consumer.poll()
        broker.wait_for(
            lambda: look(metrics).total("rocketmq_consumer_cached_messages", **who) == 2, 60
        )
        seen = look(metrics)
        while len(got) < 4:
            got += consumer.poll()
        broker.wait_for(
            lambda: look(metrics).total("flintmq_client_pulled_messages_total", **who) == 4, 60
        )
    after = look(metrics)

    assert seen.value("flintmq_client_queues", **who) == 1
    assert seen.value("rocketmq_consumer_cached_bytes", **who) == 6
    assert seen.value("flintmq_client_pulled_messages_total", **who) == 2
    assert after.total("flintmq_client_pull_time_milliseconds_count", **who, **SUCCESS) >= 2
    assert not list(after.find("flintmq_client_queues", **who))


def test_the_functions_of_a_scheduled_pull_are_timed(broker: EmbeddedBroker) -> None:
    metrics = ClientMetrics()
    with broker.admin() as admin:
        admin.create_topic("scheduled", queues=1)
    with broker.producer("shop") as producer:
        producer.send(Message("scheduled", b"x"))

    def pull(queue: QueueRef, context: PullContext[PullConsumer]) -> None:
        context.consumer.pull(queue, 0)
        context.next_delay_ms = 60_000

    schedule = ScheduledPull("schedule", namesrv=broker.namesrv, metrics=metrics)
    schedule.register("scheduled", pull)
    who = {"topic": "scheduled", "consumer_group": "schedule"}
    name = "rocketmq_process_time_milliseconds_count"
    with schedule:
        broker.wait_for(lambda: look(metrics).total(name, **who, **SUCCESS) == 1, 60)

    assert look(metrics).value("flintmq_client_pulled_messages_total", **who) == 1


def test_pull_consumers_refuse_metrics_that_are_none(broker: EmbeddedBroker) -> None:
    for kind in (PullConsumer, LitePullConsumer):
        with pytest.raises(InvalidSetting, match="ClientMetrics"):
            kind("g", namesrv=broker.namesrv, metrics="yes")  # type: ignore[arg-type]  # on purpose
