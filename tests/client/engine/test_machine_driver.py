"""The driver of machines reports every call once and keeps its timer, also after a bug."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec

import pytest

from flintmq.client.engine.client_config import ClientConfig
from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.engine.machine_driver import MachineDriver
from flintmq.core.group.actions import ReportEvent
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.reading.pull_request import Pull
from flintmq.errors import Unreachable
from flintmq.model.queue import QueueOffset, QueueRef
from support.client.support import run

P = ParamSpec("P")

QUEUE = QueueRef("orders", "broker-a", 0)
PATIENCE_S = 60


@dataclass(frozen=True)
class Ask:
    text: str


class Recorder(MachineDriver):
    """A machine that writes down what it hears; ``due_ms`` is when it wants to be called."""

    def __init__(self, engine: ClientEngine) -> None:
        super().__init__(engine, "the recorder")
        self.engine = engine
        self.heard: list[str] = []
        self.change = asyncio.Event()
        self.due_ms: int | None = None
        self.tick_fails = 0

    def tick(self, now_ms: int) -> Iterable[object]:
        self.due_ms = None
        if self.tick_fails:
            self.tick_fails -= 1
            raise RuntimeError("a bug")
        return self.write("tick")

    def next_due_ms(self) -> int | None:
        return self.due_ms

    def write(self, text: str) -> Iterable[object]:
        self.heard.append(text)
        self.change.set()
        return ()

    async def until(self, *texts: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.heard != list(texts):
                self.change.clear()
                await self.change.wait()


def on_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @wraps(test)
    def run_it(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return run_it


@asynccontextmanager
async def recorder() -> AsyncIterator[Recorder]:
    engine = ClientEngine(ClientConfig(namesrv="127.0.0.1:1"), what="a test")
    engine.start()
    try:
        yield Recorder(engine)
    finally:
        await engine.stop()


def answering(driver: Recorder, error: Exception | None = None) -> None:
    async def call(ask: Ask) -> int:
        await asyncio.sleep(0)
        if error is not None:
            raise error
        return len(ask.text)

    driver.on_call(
        Ask,
        call,
        lambda ask, answer, _: driver.write(f"{ask.text}={answer}"),
        lambda ask, reason, _: driver.write(f"{ask.text}: {reason}"),
    )


@on_a_loop
async def test_the_answer_of_a_call_is_an_event() -> None:
    async with recorder() as driver:
        answering(driver)
        driver.event([Ask("one")])
        await driver.until("one=3")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Unreachable("127.0.0.1:1", "refused"), str(Unreachable("127.0.0.1:1", "refused"))),
        (ValueError("a bug"), "ValueError: a bug"),
    ],
)
@on_a_loop
async def test_a_call_that_fails_is_reported_even_if_it_is_a_bug(
    error: Exception, reason: str
) -> None:
    async with recorder() as driver:
        answering(driver, error)
        driver.event([Ask("one")])
        await driver.until(f"one: {reason}")


@on_a_loop
async def test_calls_of_names_the_calls_that_actions_began() -> None:
    async with recorder() as driver:
        answering(driver)
        driver.event([Ask("before")])
        calls = driver.calls_of([Ask("one"), Ask("two")])
        assert len(calls) == 2
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait(calls)
        assert set(driver.heard) >= {"one=3", "two=3"}


@on_a_loop
async def test_the_machine_is_called_when_it_is_due() -> None:
    async with recorder() as driver:
        driver.due_ms = 0
        driver.event(())
        await driver.until("tick")


@on_a_loop
async def test_a_bug_of_the_machine_does_not_stop_its_timer() -> None:
    async with recorder() as driver:
        driver.due_ms, driver.tick_fails = 0, 1
        driver.event(())
        await driver.until("tick")


@on_a_loop
async def test_a_pull_that_follows_from_an_answer_is_made_in_the_same_task() -> None:
    async with recorder() as driver:
        tasks: set[asyncio.Task[object] | None] = set()

        async def pull_once(pull: Pull) -> Iterable[object]:
            await asyncio.sleep(0)
            tasks.add(asyncio.current_task())
            driver.write(f"pulled {pull.offset}")
            return [a_pull(pull.offset + 1)] if pull.offset < 3 else []

        driver.on_pull(pull_once)
        driver.event([a_pull(1)])
        await driver.until("pulled 1", "pulled 2", "pulled 3")
        assert len(tasks) == 1


@on_a_loop
async def test_a_report_becomes_an_event_of_the_client() -> None:
    async with recorder() as driver:
        driver.event([ReportEvent("lock", "broker-a", "lost")])
        assert "lock broker-a: lost" in map(str, driver.engine.events.latest())


@on_a_loop
async def test_a_closed_driver_carries_out_nothing() -> None:
    async with recorder() as driver:
        answering(driver)
        driver.due_ms = 0
        calls = driver.calls_of([Ask("one")])
        driver.close()
        driver.event([Ask("two")])
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait(calls)
        assert driver.heard == ["one=3"]


def a_pull(offset: int) -> Pull:
    return Pull(QUEUE, QueueOffset(offset), TopicSubscription("orders"), count_max=32)
