"""A consumer may be started before its name server is there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flintmq import PushConsumer
from flintmq.client.engine.client_config import ClientConfig
from flintmq.errors import InvalidSetting, Unreachable
from support.client.outages import Frozen, Servers, new_topic, serving, tell
from support.client.push_support import Ear
from support.client.support import in_enough_time, nothing_left, wait_for
from support.net.support import closed_port


def test_a_start_waits_for_a_name_server_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ear, namesrv = Ear(), closed_port()
    consumer = PushConsumer("early", ear, namesrv=namesrv, start_from="first").subscribe("later")
    with nothing_left(), ThreadPoolExecutor(1) as threads:
        started = threads.submit(consumer.start)
        wait_for(lambda: consumer.events("start"))
        assert not started.done()
        with serving(tmp_path, namesrv) as servers:
            started.result()
            _send(Frozen(servers), "later")
            ear.wait_for(1)
            consumer.stop()

    warnings = [each.getMessage() for each in caplog.records if namesrv in each.getMessage()]
    assert any("the start waits up to 30000 ms (start_timeout_ms)" in text for text in warnings)


def _send(servers: Servers, topic: str) -> None:
    new_topic(servers, topic, 1)
    tell(servers, topic, [b"x"])


def test_a_start_whose_time_is_over_says_how_often_it_asked_and_what_to_do() -> None:
    told = r"asking for the route of .*; asked \d+ times in \d+ ms: see that"

    def start(timeout_ms: int) -> None:
        late = PushConsumer("late", Ear(), namesrv=closed_port(), start_timeout_ms=timeout_ms)
        with pytest.raises(Unreachable, match=told):
            late.subscribe("t").start()

    in_enough_time(start)


def test_without_a_timeout_a_start_fails_at_once() -> None:
    consumer = PushConsumer("hasty", Ear(), namesrv=closed_port(), start_timeout_ms=0)

    with pytest.raises(Unreachable, match="asked once"):
        consumer.subscribe("t").start()


@pytest.mark.parametrize("value", [-1, 1.5, "10 s", None])
def test_a_timeout_that_cannot_be_meant_is_refused(value: object) -> None:
    with pytest.raises(InvalidSetting, match="start_timeout_ms"):
        ClientConfig(start_timeout_ms=value)  # type: ignore[arg-type]  # what users write
