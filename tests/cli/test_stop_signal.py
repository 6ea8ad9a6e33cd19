"""A process that is asked to stop ends within its limit, whatever hangs, and says what did."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

PROGRAM = """
import asyncio, sys, threading
from flintmq.cli.shared import server_process as process
from flintmq.net.loop import run

process.STOP_LIMIT_S = {limit_s}

def hang_here():
    print("stopping", flush=True)
    while True:
        pass

async def main():
    stopping = process.stop_signal()
    print("ready", flush=True)
    {body}

run(main())
"""

BLOCKED = "hang_here()"
"""The loop is blocked before the signal comes."""

STUCK = "await stopping.wait(); hang_here()"
"""The loop hears the signal and then hangs."""

THREAD = "await stopping.wait(); threading.Thread(target=hang_here).start()"
"""Everything ended but a thread, which the interpreter waits for."""

PROMPT = "await stopping.wait(); print('stopping', flush=True)"


@contextmanager
def program(body: str, limit_s: float) -> Iterator[subprocess.Popen[str]]:
    text = PROGRAM.format(body=body, limit_s=limit_s)
    process = subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("body", [BLOCKED, STUCK, THREAD], ids=["blocked", "stuck", "thread"])
def test_what_hangs_is_cut_and_named(body: str, number: signal.Signals) -> None:
    with program(body, limit_s=0.2) as process:
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)

    assert process.returncode == 1
    assert "hang_here" in errors


@pytest.mark.parametrize("body", [BLOCKED, STUCK], ids=["blocked", "stuck"])
def test_asked_twice_it_ends_at_once(body: str) -> None:
    with program(body, limit_s=600) as process:
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(signal.SIGINT)
        try:  # it may have come before the first one was handled
            process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    assert process.returncode == -signal.SIGINT


def test_what_stops_in_time_ends_as_it_likes() -> None:
    with program(PROMPT, limit_s=600) as process:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)

    assert (process.returncode, errors) == (0, "")
