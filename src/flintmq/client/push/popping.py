"""The pop part of a push consumer's driver: pops, acknowledgements, invisible times, assignments.

`client.push.push_driver` carries the other actions out.  A pop is a task of its own: a stop waits
only a moment for it, since a held one ends with its connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Final

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.engine.machine_driver import MachineDriver, known_error
from flintmq.client.hooks.consume_hooks import FilterHook, run_filters
from flintmq.client.popping.pop_calls import PopCalls
from flintmq.client.push.consume_stats import ConsumerStats
from flintmq.client.push.push_settings import PushConfig
from flintmq.core.consumer.group_consumer import GroupConsumer
from flintmq.core.group.actions import AskAssignment
from flintmq.core.pop.pop_request import Pop, PopFound
from flintmq.core.pop.popped_message import AckPopped, HidePopped, HideWhy
from flintmq.core.pop.simple_actions import BadPopped
from flintmq.errors import Unreachable
from flintmq.model.queue import QueueRef
from flintmq.protocol.pop.receipts import ReceiptHandle

LAST_POPS_S: Final = 0.5
"""How long a stop waits for pops under way: one that is not held is answered in this time."""

HIDES_MAX: Final = 64
"""Messages that are hidden anew at once: a consumer that stops may return thousands."""


class Popping:
    """What one driver does about pops."""

    def __init__(
        self,
        driver: MachineDriver,
        machine: GroupConsumer,
        engine: ClientEngine,
        config: PushConfig,
        stats: ConsumerStats,
        on_retry: Callable[[str], None],
    ) -> None:
        self._driver = driver
        self._machine = machine
        self._engine = engine
        self._config = config
        self._stats = stats
        self._on_retry = on_retry
        self._calls = calls = PopCalls(engine)
        self._group = group = config.wire_group
        self._pops: set[asyncio.Task[None]] = set()
        self._hides = asyncio.Semaphore(HIDES_MAX)
        driver.on(Pop, self._pop)
        driver.on_call(
            AskAssignment,
            lambda ask: calls.assignment(group, ask.topic),
            machine.assigned,
            machine.members_failed,
        )
        driver.on_call(
            AckPopped,
            self._ack,
            machine.acked,
            lambda ask, why, now_ms: machine.acked(ask, [why] * len(ask.entries), now_ms),
        )
        driver.on_call(HidePopped, self._hide, machine.hidden, machine.hide_failed)
        driver.on(
            BadPopped,
            lambda laid: driver.begin(laid, calls.lay_aside(group, laid, config.bad_rule)),
        )

    async def wait(self) -> None:
        """Give pops under way a moment; what they bring is returned by a machine that stops."""
        if self._pops:
            await asyncio.wait(self._pops, timeout=LAST_POPS_S)

    def _pop(self, pop: Pop) -> None:
        task = self._engine.spawn(self._pop_once(pop), f"pop of {pop.source}")
        self._pops.add(task)
        task.add_done_callback(self._pops.discard)

    async def _pop_once(self, pop: Pop) -> None:
        machine, clock, topic = self._machine, self._engine.clock, pop.source.topic
        asked_ms = clock()
        try:
            found = await self._calls.pop(self._group, pop)
        except Exception as error:
            known = known_error(error)
            if isinstance(known, Unreachable):
                self._engine.doubt_route(topic)
            self._driver.event(machine.pop_failed(pop, known, clock()))
            return
        if found.messages:
            self._stats.pulled(topic, len(found.messages), clock() - asked_ms)
            if self._config.filter_hooks:
                found = _filtered(self._config.filter_hooks, pop, found)
        self._driver.event(machine.popped(pop, found, clock()))

    async def _ack(self, ask: AckPopped) -> Sequence[str | None]:
        popped = [(ask.topic, entry.handle) for entry in ask.entries]
        outcomes = await self._calls.ack_many(self._group, ask.broker, popped)
        return [None if error is None else str(error) for error in outcomes]

    async def _hide(self, ask: HidePopped) -> ReceiptHandle:
        entry = ask.entry
        async with self._hides:
            newer = await self._calls.hide(self._group, ask.topic, entry.handle, ask.invisible_ms)
        if ask.why is HideWhy.RETRY:
            self._on_retry(entry.message.topic)
        return newer


def _filtered(hooks: Sequence[FilterHook], pop: Pop, found: PopFound) -> PopFound:
    """Hooks see the messages of one queue at a time; what they leave out is acknowledged."""
    wanted = []
    for queue_id, some in groupby(found.messages, attrgetter("queue_id")):
        queue = QueueRef(pop.source.topic, pop.source.broker, queue_id)
        wanted += run_filters(hooks, queue, list(some))
    receipts = {message.receipt for message in wanted}
    others = [message for message in found.messages if message.receipt not in receipts]
    return replace(found, messages=wanted, unwanted=others)
