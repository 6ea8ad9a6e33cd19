"""Both event loops for every test that asks for `run`, and certificates for those with TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
import uvloop

from support.net.certificates import Authority
from support.net.support import Run, other_tasks

T = TypeVar("T")

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.new_event_loop,
}


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    """Run a coroutine on the loop under test; no task may outlive it, no error go unseen."""
    loop_factory = LOOPS[request.param]

    async def watched(main: Coroutine[Any, Any, T]) -> T:
        unseen: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
        result = await main
        await asyncio.sleep(0)  # for what was cancelled in the last turn
        assert not other_tasks()
        assert not unseen
        return result

    def on_loop(main: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(watched(main))

    return on_loop


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"), "authority")
