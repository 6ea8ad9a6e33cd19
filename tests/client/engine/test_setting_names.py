"""Deprecated names work and warn, words stand for enums, Java's names are answered with ours."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import flintmq
from flintmq import (
    Admin,
    App,
    EmbeddedBroker,
    InvalidSetting,
    LitePullConsumer,
    Producer,
    PullConsumer,
    PushConsumer,
    ScheduledPull,
    aio,
)
from flintmq.client.engine.client_config import ClientConfig
from flintmq.client.engine.setting_names import JAVA_NAMES
from flintmq.client.engine.timing import SYSTEM
from flintmq.client.producer.producer_settings import ProducerSettings
from flintmq.client.pull.pull_settings import LitePullSettings, ScheduledPullSettings
from flintmq.client.push.push_settings import PushSettings, read_settings
from flintmq.model.group import MessageModel
from flintmq.model.start_point import read_start

Made = Callable[..., Any]


# Deprecated settings


@pytest.mark.parametrize("consumer", [PushConsumer, aio.PushConsumer])
def test_suspend_ms_of_a_push_consumer_is_ordered_suspend_ms(consumer: Made) -> None:
    with pytest.warns(DeprecationWarning, match="suspend_ms is deprecated: use ordered_suspend_ms"):
        made = consumer("g", suspend_ms=50)

    assert made.config.ordered_suspend_ms == 50


@pytest.mark.parametrize("consumer", [aio.PullConsumer, aio.LitePullConsumer])
def test_suspend_ms_of_a_consumer_that_pulls_is_hold_ms(consumer: Made) -> None:
    with pytest.warns(DeprecationWarning, match="use hold") as warned:
        made = consumer("g", suspend_ms=50, suspend_timeout_ms=60)

    assert (made.config.hold_ms, made.config.hold_timeout_ms) == (50, 60)
    assert {str(each.message).partition("use ")[2] for each in warned} == {
        "hold_ms",
        "hold_timeout_ms",
    }


@pytest.mark.parametrize("consumer", [PullConsumer, LitePullConsumer, ScheduledPull])
def test_the_threaded_faces_take_the_old_names_too(consumer: Made) -> None:
    with pytest.warns(DeprecationWarning, match="use hold_ms"):
        consumer("g", suspend_ms=50)


def test_an_app_warns_where_the_setting_is_given_and_not_again() -> None:
    with pytest.warns(DeprecationWarning, match="use ordered_suspend_ms") as warned:
        app = App("g", suspend_ms=50)  # type: ignore[call-arg]  # the old name has no type

    assert [each.filename for each in warned] == [__file__]
    _, config = read_settings(app.group, app.settings)
    assert config.ordered_suspend_ms == 50


def test_timing_is_no_public_setting_any_more() -> None:
    with pytest.warns(DeprecationWarning, match="timing is deprecated"):
        Producer("g", timing=SYSTEM)  # type: ignore[call-arg]


def test_the_old_and_the_new_name_together_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="old name of hold_ms"):
        PullConsumer("g", suspend_ms=50, hold_ms=60)  # type: ignore[call-arg]


# Deprecated methods


@pytest.mark.parametrize(
    ("owner", "old", "new"),
    [
        (owner, old, new)
        for old, new, owners in [
            ("listen", "on_queues_changed", (PullConsumer, LitePullConsumer)),
            ("listen", "on_queues_changed", (aio.PullConsumer, aio.LitePullConsumer)),
            ("register", "share_topic", (PullConsumer, aio.PullConsumer)),
            ("update", "update_offset", (PullConsumer, aio.PullConsumer)),
            ("resize", "resize_pool", (PushConsumer, aio.PushConsumer)),
            ("consumer", "push_consumer", (EmbeddedBroker,)),
            ("lite_consumer", "lite_pull_consumer", (EmbeddedBroker,)),
        ]
        for owner in owners
    ],
)
def test_an_old_method_has_the_arguments_of_the_new_one(owner: type, old: str, new: str) -> None:
    former, present = getattr(owner, old), getattr(owner, new)

    assert inspect.signature(former) == inspect.signature(present)
    assert former.__doc__ == f"Deprecated: `{new}`."


def test_old_methods_of_consumers_that_pull_warn_and_do_what_the_new_ones_do(
    broker: EmbeddedBroker,
) -> None:
    with broker.producer("filling") as producer:
        producer.send(flintmq.Message("renamed", b"x"))
    with broker.pull_consumer("renamed") as consumer:
        with pytest.warns(DeprecationWarning, match="register is deprecated: use share_topic"):
            consumer.register("renamed")
        with pytest.warns(DeprecationWarning, match="listen is deprecated: use on_queues_changed"):
            consumer.listen("renamed", lambda *_: None)
        queue = consumer.queues("renamed")[0]
        with pytest.warns(DeprecationWarning, match="update is deprecated: use update_offset"):
            consumer.update(queue, 1)
        assert consumer.committed(queue) == 1
        broker.wait_for(lambda: consumer.own_queues("renamed"))


def test_old_methods_of_an_embedded_broker_and_a_push_consumer_warn(
    broker: EmbeddedBroker,
) -> None:
    with pytest.warns(DeprecationWarning, match="lite_consumer is deprecated"):
        lite = broker.lite_consumer("renamed")
    with pytest.warns(DeprecationWarning, match="listen is deprecated: use on_queues_changed"):
        lite.listen("renamed", lambda *_: None)
    with pytest.warns(DeprecationWarning, match="consumer is deprecated: use push_consumer"):
        made = broker.consumer("renamed", lambda _: None, threads_max=2)
    with (
        made.subscribe("renamed") as consumer,
        pytest.warns(DeprecationWarning, match="resize is deprecated: use resize_pool"),
        pytest.raises(InvalidSetting, match="threads_max"),
    ):
        consumer.resize(0)


# Words


STARTS = (
    "first",
    "earliest",
    "start",
    "last",
    "latest",
    "end",
    "timestamp",
    7,
    "2026-11-17T08:30Z",
)


@pytest.mark.parametrize("value", STARTS)
def test_every_consumer_that_starts_somewhere_takes_words_times_and_offsets(
    value: str | int,
) -> None:
    wanted = read_start(value)

    assert aio.PushConsumer("g", start_from=value).config.start_from == wanted
    assert aio.LitePullConsumer("g", start_from=value).config.start_from == wanted
    assert read_settings("g", App("g", start_from=value).settings)[1].start_from == wanted


@pytest.mark.parametrize("consumer", [aio.PushConsumer, aio.LitePullConsumer, aio.PullConsumer])
def test_every_consumer_takes_a_word_for_its_model(consumer: Made) -> None:
    assert consumer("g", model="broadcasting").config.model is MessageModel.BROADCASTING
    assert consumer("g", model="clustering").config.model is MessageModel.CLUSTERING
    ScheduledPull("g", model="broadcasting")
    with pytest.raises(InvalidSetting, match="is one of clustering, broadcasting"):
        consumer("g", model="all")


# Names of Java


@pytest.mark.parametrize(
    ("client", "name", "hint"),
    [
        (PushConsumer, "consumeThreadMin", "consumeThreadMin of Java is threads_min here"),
        (PushConsumer, "consume_thread_min", "consumeThreadMin of Java is threads_min here"),
        (PushConsumer, "namesrvAddr", "is namesrv here"),
        (PushConsumer, "consumerGroup", "the group is the first argument"),
        (LitePullConsumer, "pullBatchSize", "is pull_batch_max here"),
        (PullConsumer, "maxReconsumeTimes", "is retry_max here"),
        (ScheduledPull, "pullThreadNums", "only ScheduledPull has threads"),
        (Producer, "retryTimesWhenSendFailed", "is retries here"),
        (Producer, "sendMsgTimeout", "give timeout_ms to each send"),
        (Producer, "consumeThreadMin", "there is no such setting"),
    ],
)
def test_a_setting_of_java_is_answered_with_ours(client: Made, name: str, hint: str) -> None:
    with pytest.raises(InvalidSetting, match=hint):
        client("g", **{name: 1})


def test_an_admin_and_an_app_answer_so_too() -> None:
    with pytest.raises(InvalidSetting, match="is namesrv here"):
        Admin(namesrvAddr="h:1")  # type: ignore[call-arg]
    with pytest.raises(InvalidSetting, match="is threads_max here"):
        App("g", consumeThreadMax=3)  # type: ignore[call-arg]


def test_every_name_of_java_leads_to_a_setting_that_exists() -> None:
    kinds = (ProducerSettings, PushSettings, LitePullSettings, ScheduledPullSettings)
    settings = {name for kind in kinds for name in kind.__annotations__}

    assert set(JAVA_NAMES.values()) <= settings
    assert {name for name in settings if name.startswith("_")} == {"_timing"}
    assert "_timing" in ClientConfig.__dataclass_fields__


# What is exported


def test_every_exported_name_exists_and_is_its_own() -> None:
    for name in flintmq.__all__:
        assert hasattr(flintmq, name), name
    assert issubclass(flintmq.SendFailed, flintmq.FlintError)
