"""A program with listeners on Spark ends well on a signal: no message is consumed twice or lost."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from flintmq import PushConsumer
from flintmq.embedded.broker import EmbeddedBroker
from scenarios.spark.stopped_program import GROUP, TOPIC
from support.cli.serving import environment
from support.client.push_support import Ear, committed, filled, numbered
from support.spark.support import wait_for

pytestmark = [pytest.mark.java, pytest.mark.timeout(480)]

PROGRAM = Path(__file__).with_name("stopped_program.py")
START_S = 240.0
"""Spark starts in ten seconds on a machine that is idle."""

COUNT = 1_000
"""More than the program consumes before the signal comes: a call of its listener takes 50 ms."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda each: each.name)
def test_after_a_signal_the_group_goes_on_without_a_repeat(
    own_broker: EmbeddedBroker, tmp_path: Path, number: signal.Signals
) -> None:
    filled(own_broker, TOPIC, numbered(COUNT))
    diary = tmp_path / "diary"
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), own_broker.namesrv, str(diary)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        wait_for(lambda: process.poll() is not None or diary.exists(), START_S)
        process.send_signal(number)
        out, errors = process.communicate(timeout=90)
    finally:
        process.kill()
        process.wait()
    on_spark = diary.read_text().split()

    assert process.returncode == 0, errors
    assert "after the run" in out, "the program goes on after the run"
    assert 0 < len(on_spark) < COUNT
    assert sum(committed(own_broker, GROUP, TOPIC).values()) == len(on_spark)

    ear = Ear()
    consumer = PushConsumer(GROUP, namesrv=own_broker.namesrv)
    consumer.subscribe(TOPIC, listener=ear)
    with consumer:
        ear.wait_for(COUNT - len(on_spark))
    heard = Counter([*on_spark, *(body.decode() for body in ear.bodies)])
    assert heard == Counter(body.decode() for body in numbered(COUNT))
