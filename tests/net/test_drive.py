"""All drivers hold the same conversation the same way, whatever the calls end in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator

import pytest

from flintmq.core.conversation import SENT, Call, Pause, PausingConversation
from flintmq.errors import BrokerRefused, FlintError, Unreachable
from flintmq.net.drive import Driven, drive, drive_async
from flintmq.protocol.command import Command, request

Calls = Callable[[Call], Command]


def hold_blocking(conversation: PausingConversation[str], call: Calls) -> str:
    return drive(conversation, call)


def hold_async(conversation: PausingConversation[str], call: Calls) -> str:
    async def later(wanted: Call) -> Command:
        await asyncio.sleep(0)
        return call(wanted)

    return asyncio.run(drive_async(conversation, later))


class Peers:
    """Answers calls at once, or has them awaited."""

    def __init__(self, call: Calls, *, at_once: bool) -> None:
        self._call = call
        self._at_once = at_once

    def begin(self, wanted: Call, waiter: Driven[str]) -> bool:
        if self._at_once:
            asyncio.get_running_loop().call_soon(self._answer, wanted, waiter)
        return self._at_once

    async def make(self, wanted: Call) -> Command:
        return self._call(wanted)

    def _answer(self, wanted: Call, waiter: Driven[str]) -> None:
        try:
            answer = self._call(wanted)
        except FlintError as error:
            waiter.failed(error)
        else:
            waiter.answered(answer)


async def driven(conversation: PausingConversation[str], peers: Peers) -> str:
    ended: asyncio.Future[str | BaseException] = asyncio.get_running_loop().create_future()
    Driven(conversation, peers, ended.set_result).start()
    outcome = await ended
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def hold_driven(conversation: PausingConversation[str], call: Calls) -> str:
    return asyncio.run(driven(conversation, Peers(call, at_once=True)))


def hold_driven_by_tasks(conversation: PausingConversation[str], call: Calls) -> str:
    return asyncio.run(driven(conversation, Peers(call, at_once=False)))


both = pytest.mark.parametrize(
    "hold", [hold_blocking, hold_async, hold_driven, hold_driven_by_tasks]
)
waiting = pytest.mark.parametrize("hold", [hold_blocking, hold_async])
Hold = Callable[[PausingConversation[str], Calls], str]


def ask_each(*addresses: str, closed: list[str] | None = None) -> Generator[Call, Command, str]:
    """Try each address in turn; give what the first that answers says."""
    try:
        for address in addresses:
            try:
                reply = yield Call(address, request(105), timeout_ms=3_000)
            except Unreachable:
                continue
            return reply.body.decode()
        return "nobody"
    finally:
        if closed is not None:
            closed.append("closed")


def answer_from(alive: str) -> Calls:
    def call(wanted: Call) -> Command:
        if wanted.address != alive:
            raise Unreachable(wanted.address, "refused")
        return Command(body=f"{wanted.address} heard {wanted.request.code}".encode())

    return call


@both
def test_the_reply_is_sent_in_and_the_result_comes_out(hold: Hold) -> None:
    assert hold(ask_each("a:1"), answer_from("a:1")) == "a:1 heard 105"


@both
def test_a_failed_call_is_thrown_in_and_the_conversation_tries_elsewhere(hold: Hold) -> None:
    assert hold(ask_each("a:1", "b:1", "c:1"), answer_from("c:1")) == "c:1 heard 105"
    assert hold(ask_each("a:1", "b:1"), answer_from("z:1")) == "nobody"


@both
def test_a_pause_is_slept_through_and_nobody_is_called(hold: Hold) -> None:
    def hesitate() -> PausingConversation[str]:
        assert (yield Pause(1)) is SENT
        reply = yield Call("a:1", request(105), timeout_ms=3_000)
        return reply.body.decode()

    assert hold(hesitate(), answer_from("a:1")) == "a:1 heard 105"


@both
def test_an_error_the_conversation_does_not_expect_comes_out(hold: Hold) -> None:
    def refuse(_wanted: Call) -> Command:
        raise BrokerRefused(16, "no permission")

    with pytest.raises(FlintError, match="no permission"):
        hold(ask_each("a:1"), refuse)


@both
def test_a_conversation_that_needs_no_call_just_ends(hold: Hold) -> None:
    assert hold(ask_each(), answer_from("a:1")) == "nobody"


@waiting
def test_a_broken_driver_still_ends_the_conversation(hold: Hold) -> None:
    closed: list[str] = []

    def interrupt(_wanted: Call) -> Command:
        raise KeyboardInterrupt

    conversation = ask_each("a:1", closed=closed)  # held, so that it is not closed by its end
    with pytest.raises(KeyboardInterrupt):
        hold(conversation, interrupt)

    assert closed == ["closed"]


def test_a_cancelled_driver_ends_the_conversation() -> None:
    closed: list[str] = []
    conversation = ask_each("a:1", closed=closed)

    async def main() -> None:
        begun = asyncio.Event()

        async def endless(_wanted: Call) -> Command:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError

        task = asyncio.ensure_future(drive_async(conversation, endless))
        await begun.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())

    assert closed == ["closed"]
