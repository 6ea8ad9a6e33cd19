"""A program that never set up logging sees what goes wrong, on stderr."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

import pytest

from flintmq.embedded.broker import EmbeddedBroker
from support.client.push_support import filled, numbered
from support.client.support import create_topic, wait_for

BROKEN = """
    from flintmq import App

    app = App({group!r}, namesrv={namesrv!r}, start_from="first", retry_max=5)

    @app.listener({topic!r})
    def bill(messages):
        raise KeyError("customer")

    app.run()
"""


LIKE_UVICORN = """
    import logging.config

    logging.config.dictConfig({
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"default": {"class": "logging.StreamHandler"}},
        "loggers": {"uvicorn": {"handlers": ["default"], "level": "INFO", "propagate": False}},
    })
"""
"""Handlers for its own loggers and none for others, as uvicorn and other servers set them up."""


def stderr_of(program: str, wanted: str) -> list[str]:
    """Run a program until a line of its stderr has the text; all lines until then."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stderr=subprocess.PIPE, text=True
    )
    lines: list[str] = []

    def read() -> None:
        assert process.stderr is not None
        with process.stderr:
            lines.extend(line.rstrip() for line in process.stderr)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        wait_for(lambda: any(wanted in line for line in list(lines)))
    finally:
        process.kill()
        process.wait()
        reader.join(60)
    return lines


@pytest.mark.parametrize("logging_set_up", ["", LIKE_UVICORN], ids=["none", "like uvicorn"])
def test_a_listener_with_a_bug_is_seen(broker: EmbeddedBroker, logging_set_up: str) -> None:
    topic = "silent-uvicorn" if logging_set_up else "silent"
    filled(broker, topic, numbered(3), queues=1)
    program = logging_set_up + BROKEN.format(group=topic, namesrv=broker.namesrv, topic=topic)

    lines = stderr_of(program, "this error 3 times by now")

    first = next(line for line in lines if line.startswith(f"listener bill of group {topic!r}"))
    assert f"failed: KeyError('customer'); topic {topic!r}, queue {topic}/broker-a/0" in first
    assert first.endswith("redelivered in 10 s, try 2 of 6")
    assert sum("Traceback" in line for line in lines) == 1


def test_a_misspelt_topic_is_seen(broker: EmbeddedBroker) -> None:
    create_topic(broker, "invoices")
    program = BROKEN.format(group="speller", namesrv=broker.namesrv, topic="invoises")

    lines = stderr_of(program, "invoises")

    assert lines[-1].endswith(
        "topic 'invoises' has no route: nobody created it yet; did you mean 'invoices'?"
    )
