"""The sink's options: what is read, and what is refused with a reason."""

from __future__ import annotations

import pickle

import pytest

from flintmq.client.producer.producer_settings import ProducerConfig
from flintmq.errors import InvalidSetting
from flintmq.spark.options.sink_options import SinkOptions, sink_options

HERE = {"namesrv": "127.0.0.1:9876"}


def test_every_option_is_read_whatever_its_case() -> None:
    found = sink_options(
        HERE
        | {
            "topic": "bills",
            "SHARDINGKEY": "customer",
            "runid": "nightly-7",
            "producerGroup": "billing",
            "batchBytes": "65536",
            "inflight": "2",
            "sendTimeout": "5s",
            "retries": "0",
            "dropSystemProperties": "true",
            "accessKey": "a",
            "secretKey": "s",
            "namespace": "shop",
        }
    )

    assert (found.topic, found.sharding_column, found.run_id) == ("bills", "customer", "nightly-7")
    assert (found.group, found.batch_bytes, found.in_flight) == ("billing", 65536, 2)
    assert (found.timeout_ms, found.retries, found.drop_system) == (5000, 0, True)
    settings = found.producer_settings()
    assert settings["namespace"] == "shop"
    assert settings["secret_key"] == "s"


def test_the_defaults_are_those_of_a_producer_but_for_the_timeout() -> None:
    found = sink_options(HERE)

    assert found == SinkOptions(found.access)
    assert found.batch_bytes == ProducerConfig().batch_bytes_max
    assert found.retries == ProducerConfig().retries


def test_options_travel_to_tasks_and_show_no_secret() -> None:
    found = sink_options(HERE | {"accessKey": "a", "secretKey": "hush"})

    assert pickle.loads(pickle.dumps(found)) == found
    assert "hush" not in repr(found)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("topik", "x", "did you mean topic?"),
        ("kafka.bootstrap.servers", "x", "namesrv"),
        ("tags", "x", "a column"),
        ("topic", "a b", "characters"),
        ("topic", "SCHEDULE_TOPIC_XXXX", "broker alone"),
        ("runId", "a.b", "letters, digits"),
        ("batchBytes", "1", "from 4096"),
        ("inFlight", "0", "from 1 to 64"),
        ("sendTimeout", "0", "above 0"),
        ("dropSystemProperties", "maybe", "true or false"),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_reason(name: str, value: str, said: str) -> None:
    with pytest.raises(InvalidSetting, match=said):
        sink_options(HERE | {name: value})


def test_a_stream_is_named_by_its_query_and_not_by_an_option() -> None:
    with pytest.raises(InvalidSetting, match="query id"):
        sink_options(HERE | {"runId": "mine"}, streaming=True)
