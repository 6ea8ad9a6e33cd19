"""A job waits for servers that are started later or restarted, and says so; not for ever."""

from __future__ import annotations

import logging
import threading
from contextlib import closing

import pytest

from flintmq.arrow.reading.access import Access
from flintmq.arrow.reading.cluster_queues import ClusterQueues
from flintmq.arrow.reading.patience import patiently
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import NoRoute, Unreachable
from support.spark.late_servers import free_address, started_after
from support.spark.support import create_topic, wait_for


def test_queues_are_found_by_a_job_that_started_before_its_servers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    namesrv, asked = free_address(), threading.Event()

    def find() -> int:
        with closing(ClusterQueues(Access((str(namesrv),)))) as cluster:
            try:
                return len(cluster.queues(["late"]))
            except NoRoute as error:  # its topic comes a moment later
                raise Unreachable(str(namesrv), "no topic yet") from error
            finally:
                asked.set()

    servers = started_after(asked, namesrv, lambda servers: create_topic(servers, "late", 2))
    with servers, caplog.at_level(logging.WARNING):
        found = patiently("the job waits", 30_000, find)

    assert found == 2
    assert f"the job waits: {namesrv}: refused" in caplog.text


def test_a_name_server_without_brokers_is_waited_for_and_a_missing_topic_is_not(
    own_broker: EmbeddedBroker,
) -> None:
    create_topic(own_broker, "orders")
    with closing(ClusterQueues(Access((own_broker.namesrv,)))) as cluster:
        with pytest.raises(NoRoute):
            cluster.queues(["ordrs"])
        own_broker.stop_broker("broker-a")

        def has_no_broker() -> bool:
            try:
                cluster.queues(["other"])
            except Unreachable as error:
                return "no broker is registered" in error.reason
            except NoRoute:
                return False
            return False

        wait_for(has_no_broker)


def test_the_last_error_says_how_long_it_was_tried() -> None:
    calls = []

    def ask() -> None:
        calls.append(1)
        raise Unreachable("127.0.0.1:1", "refused")

    with pytest.raises(Unreachable, match=r"refused; tried for 0\.5 s"):
        patiently("the job waits", 500, ask)
    assert len(calls) > 2

    calls.clear()
    with pytest.raises(Unreachable, match=r"refused$"):
        patiently("the job waits", 0, ask)
    assert len(calls) == 1
