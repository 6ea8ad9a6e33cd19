"""mypy refuses listeners that cannot work, and wrong settings of an app; and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mypy import api

PROGRAM = """\
from collections.abc import Sequence

from flintmq import Ack, App, DeadLetter, PushConsumer, ReceivedMessage, Retry, aio

Messages = tuple[ReceivedMessage, ...]

app = App("billing", namesrv="127.0.0.1:9876", retry_max=3)
consumer = PushConsumer("billing", namesrv="127.0.0.1:9876")
on_loop = aio.PushConsumer("billing", namesrv="127.0.0.1:9876")


@app.listener("a")
def returns_nothing(messages: Messages) -> None: ...


@app.listener("b")
def takes_any_sequence(messages: Sequence[ReceivedMessage]) -> Ack | None:
    return Ack(0) if messages else None


@app.listener("c")
def judges_each(messages: Messages) -> list[Retry | DeadLetter | None]:
    return [None for _ in messages]


@app.listener("d")
async def awaits(messages: Messages) -> Retry | None: ...


@app.listener("e", as_table=True)
def takes_a_table(table: object) -> None: ...


@consumer.listener("a")
def in_threads(messages: Messages) -> None: ...


@on_loop.listener
async def for_all_topics(messages: Messages) -> None: ...


@app.listener("f")  # error
def says_true(messages: Messages) -> bool:
    return True


@app.listener("g")  # error
def takes_one(message: ReceivedMessage) -> None: ...


@app.listener("h")  # error
async def awaits_a_bool(messages: Messages) -> bool:
    return True


@app.listener("i")  # error
def takes_a_list(messages: list[ReceivedMessage]) -> None: ...


@app.listener("j")  # error
def takes_two(messages: Messages, context: object) -> None: ...


@consumer.listener("b")  # error
def says_text(messages: Messages) -> str:
    return "done"


@consumer.listener  # error
def bare_bool(messages: Messages) -> bool:
    return True


@on_loop.listener("k")  # error
async def awaits_one(message: ReceivedMessage) -> None: ...


def good(messages: Messages) -> None: ...


consumer.subscribe("c", listener=good)
consumer.subscribe("d", listener=says_true)  # error
on_loop.subscribe("e", listener=takes_one)  # error
PushConsumer("more", good)
PushConsumer("more", takes_one)  # error
App("more", retri_max=3)  # error
App("more", retry_max="three")  # error
"""
"""A program; a type checker refuses the lines that end with ``# error`` and no others."""


@pytest.mark.timeout(600)  # the first run reads the whole package
def test_wrong_listeners_are_errors_of_mypy_and_right_ones_are_not(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    assert pytestconfig.cache is not None
    kept = pytestconfig.cache.mkdir("mypy")  # the next run is quick
    none = tmp_path / "mypy.ini"
    none.write_text("[mypy]\n", encoding="utf-8")

    told, trouble, _ = api.run(
        ["--strict", f"--cache-dir={kept}", f"--config-file={none}", str(program)]
    )

    lines = PROGRAM.splitlines()
    expected = [number for number, line in enumerate(lines, 1) if line.endswith("# error")]
    found = [int(number) for number in re.findall(r"program\.py:(\d+): error", told)]
    assert trouble == ""
    assert found == expected, told
    assert 'did you mean "retry_max"?' in told
