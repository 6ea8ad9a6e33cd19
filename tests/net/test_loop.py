"""Code runs on uvloop where there is one, and nobody else's loops are changed."""

from __future__ import annotations

import asyncio
import sys

import pytest

from flintmq.net.loop import new_event_loop, run


async def loop_module() -> str:
    return type(asyncio.get_running_loop()).__module__


def test_runs_on_uvloop_where_it_is_installed() -> None:
    assert run(loop_module()) == "uvloop"


def test_runs_on_asyncio_where_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)

    assert run(loop_module()).startswith("asyncio")


def test_the_policy_of_the_program_is_left_alone() -> None:
    before = asyncio.get_event_loop_policy()

    run(loop_module())

    assert asyncio.get_event_loop_policy() is before
    assert asyncio.run(loop_module()).startswith("asyncio")


def test_a_loop_can_be_had_for_a_thread_of_ones_own() -> None:
    loop = new_event_loop()

    assert loop.run_until_complete(loop_module()) == "uvloop"
    loop.close()


def test_errors_come_out() -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(fail())
