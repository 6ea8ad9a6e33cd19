"""The driver of `core.pop.simple_pop`: makes its pops, and ends receives.

Everything happens on the loop of the engine.  A pop is never cancelled with the receive that it
was made for: what it brings is handed to the next receive, or returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.engine.machine_driver import Actions, MachineDriver, known_error
from flintmq.client.popping.pop_calls import PopCalls
from flintmq.core.bad_record_rule import OnBadRecord
from flintmq.core.pop.pop_request import Pop
from flintmq.core.pop.simple_actions import (
    AckUnwanted,
    BadPopped,
    HandOut,
    HideBuffered,
    Receiving,
)
from flintmq.core.pop.simple_pop import SimplePop
from flintmq.errors import FlintError, Unreachable
from flintmq.model import properties as names
from flintmq.model.message import ReceivedMessage
from flintmq.protocol.pop.receipts import ReceiptHandle

LAST_POPS_S: Final = 0.5
"""How long a stop waits for pops under way: one that is not held is answered in this time, and a
held one ends with its connection."""

LAST_CALLS_S: Final = 5.0
"""How long a stop waits until messages that nobody took are returned."""


class SimpleDriver(MachineDriver):
    """The pops of one simple consumer.  Names are those of the wire."""

    def __init__(
        self,
        engine: ClientEngine,
        machine: SimplePop,
        calls: PopCalls,
        group: str,
        on_bad: OnBadRecord,
    ) -> None:
        super().__init__(engine, "a simple consumer")
        self.machine = machine
        self._pop_calls = calls
        self._group = group
        self._on_bad = on_bad
        self._pops: set[asyncio.Task[None]] = set()
        self._waiting: dict[Receiving, asyncio.Future[tuple[ReceivedMessage, ...]]] = {}
        self.on(Pop, self._pop)
        self.on(HandOut, self._hand_out)
        self.on_call(HideBuffered, self._hide, machine.hidden, machine.hide_failed)
        self.on(AckUnwanted, self._ack_unwanted)
        self.on(BadPopped, self._bad_popped)

    def tick(self, now_ms: int) -> Actions:
        return self.machine.tick(now_ms)

    def next_due_ms(self) -> int | None:
        return self.machine.next_due_ms()

    async def receive(self, receiving: Receiving) -> tuple[ReceivedMessage, ...]:
        """Wait for messages.  A receive that is cancelled loses none."""
        future: asyncio.Future[tuple[ReceivedMessage, ...]]
        future = self._waiting[receiving] = asyncio.get_running_loop().create_future()
        self.event(self.machine.receive(receiving, self._clock()))
        try:
            return await future
        except asyncio.CancelledError:
            self.machine.give_up(receiving)
            if future.done() and not future.cancelled():
                with suppress(FlintError):
                    self.give_back(future.result())
            raise
        finally:
            del self._waiting[receiving]

    def give_back(self, messages: Iterable[ReceivedMessage]) -> None:
        """Show messages to others again."""
        self.event([HideBuffered(each, each.topic, 0, None) for each in messages])

    async def stop(self) -> None:
        """End every receive, and return what came for none."""
        self.event(self.machine.close(self._clock()))
        if self._pops:
            await asyncio.wait(self._pops, timeout=LAST_POPS_S)
        if self._calls:
            await asyncio.wait(self._calls, timeout=LAST_CALLS_S)
        self.close()

    # Actions

    def _pop(self, pop: Pop) -> None:
        task = self._engine.spawn(self._pop_once(pop), f"pop of {pop.source}")
        self._pops.add(task)
        task.add_done_callback(self._pops.discard)

    async def _pop_once(self, pop: Pop) -> None:
        try:
            found = await self._pop_calls.pop(self._group, pop)
        except Exception as error:
            known = known_error(error)
            if isinstance(known, Unreachable):
                self._engine.doubt_route(pop.source.topic)
            self.event(self.machine.pop_failed(pop, known, self._clock()))
        else:
            self.event(self.machine.popped(pop, found, self._clock()))

    def _hand_out(self, handed: HandOut) -> None:
        future = self._waiting.get(handed.to)
        if future is None or future.done():
            self.give_back(handed.messages)
        elif handed.error is not None:
            future.set_exception(handed.error)
        else:
            future.set_result(handed.messages)

    async def _hide(self, ask: HideBuffered) -> ReceivedMessage:
        handle = ReceiptHandle.parse(ask.message.properties[names.POP_CK])
        newer = await self._pop_calls.hide(self._group, ask.topic, handle, ask.invisible_ms)
        return with_receipt(ask.message, newer)

    def _ack_unwanted(self, unwanted: AckUnwanted) -> None:
        handles = [ReceiptHandle.parse(each.properties[names.POP_CK]) for each in unwanted.messages]
        popped = [(unwanted.topic, handle) for handle in handles]
        self.begin(unwanted, self._ack_quietly(popped))

    async def _ack_quietly(self, popped: list[tuple[str, ReceiptHandle]]) -> None:
        broker = popped[0][1].broker
        for failure in await self._pop_calls.ack_many(self._group, broker, popped):
            if failure is not None:
                self._engine.events.add("ack", popped[0][0], str(failure))
                return

    def _bad_popped(self, laid: BadPopped) -> None:
        self.begin(laid, self._pop_calls.lay_aside(self._group, laid, self._on_bad))


def with_receipt(message: ReceivedMessage, handle: ReceiptHandle) -> ReceivedMessage:
    """The message with a newer receipt."""
    return message._replace(properties={**message.properties, names.POP_CK: handle.text})
