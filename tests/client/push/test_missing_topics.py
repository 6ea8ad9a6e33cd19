"""A subscribed topic that does not exist is reported, again and again, with the nearest name."""

from __future__ import annotations

import logging

import pytest

from flintmq import LitePullConsumer, PushConsumer
from flintmq.client.admin import Admin
from flintmq.embedded.broker import EmbeddedBroker
from support.client.push_support import Ear, send
from support.client.support import create_topic, wait_for
from support.net.support import closed_port

WARNING = "topic 'ordrs' has no route: nobody created it yet; did you mean 'orders'?"


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def moved(broker: EmbeddedBroker, seconds: int) -> bool:
    broker.advance(seconds)
    return True


@pytest.mark.parametrize("kind", ["push", "lite pull"])
def test_a_misspelt_topic_is_a_warning_every_minute_and_a_trouble_in_the_status(
    own_broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    create_topic(own_broker, "orders")
    consumer: PushConsumer | LitePullConsumer
    if kind == "push":
        consumer = own_broker.push_consumer("typo", Ear()).subscribe("ordrs")
    else:
        consumer = own_broker.lite_pull_consumer("typo")

    with consumer:
        if isinstance(consumer, LitePullConsumer):
            consumer.subscribe("ordrs")
        wait_for(lambda: moved(own_broker, 1) and consumer.events("no route"))
        first = len(consumer.events("no route"))
        assert consumer.status().troubles["ordrs"] == WARNING
        assert any(text.endswith(WARNING) for text in warnings(caplog))

        wait_for(lambda: moved(own_broker, 10) and len(consumer.events("no route")) > first)


def test_a_group_that_waits_for_its_only_topic_is_known_to_the_broker(
    broker: EmbeddedBroker,
) -> None:
    with (
        PushConsumer("waiting", Ear(), namesrv=broker.namesrv).subscribe("not-yet") as consumer,
        Admin(namesrv=broker.namesrv) as admin,
    ):
        wait_for(lambda: consumer.events("no route"))
        wait_for(lambda: admin.diagnose("waiting").online)
        found = admin.diagnose("waiting")

    assert found.missing == ("topic 'not-yet' has no route: nobody created it yet",)


def test_a_topic_that_is_created_later_is_consumed_and_no_trouble_any_more(
    broker: EmbeddedBroker,
) -> None:
    ear = Ear()
    consumer = PushConsumer("patient", ear, namesrv=broker.namesrv, start_from="first")
    with consumer.subscribe("created-later"):
        wait_for(lambda: consumer.status().troubles)
        create_topic(broker, "created-later")
        send(broker, "created-later", [b"first"])
        ear.wait_for(1)

        assert "created-later" not in consumer.status().troubles


def test_a_retry_topic_is_never_reported(broker: EmbeddedBroker) -> None:
    create_topic(broker, "there")
    consumer = PushConsumer("quiet", Ear(), namesrv=broker.namesrv)
    with consumer.subscribe("there"):
        wait_for(consumer.queues)

    assert consumer.events("no route") == []


def test_a_lite_pull_consumer_whose_name_server_is_away_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nowhere = closed_port()
    with LitePullConsumer("nowhere", namesrv=nowhere) as consumer:
        consumer.subscribe("orders")
        wait_for(lambda: nowhere in consumer.status().troubles.get("orders", ""))

    assert any(nowhere in text and "route of 'orders'" in text for text in warnings(caplog))
