"""A Spark query that pops, as a member of its group: a push consumer whose listeners are parked.

    broker ──pop──► PushConsumer ──► parked ──micro-batch──► tasks call listeners
      ▲                  │ renews invisible times meanwhile      │
      └──ack, retry, dead letter◄── the parked call returns ◄────┘ the micro-batch is committed

Nothing is decided here about messages: a consumer in pop mode does that, as on threads.  Its
listener returns when the micro-batch of its messages is committed, with what tasks said of them.

Messages are popped only while a micro-batch is gathered, so that others get what this query cannot
begin yet; a pop that a broker holds may still bring some, and they are in the next one.

Invariant: a message is acknowledged only after the micro-batch with it is committed.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from flintmq.client.push.push_consumer import PushConsumer
from flintmq.core.group.listener_results import ListenerResult, MessageResult, Retry
from flintmq.core.pop.pop_request import POP_COUNT_MAX
from flintmq.core.pop.pop_table import PopStatus
from flintmq.model.message import ReceivedMessage
from flintmq.spark.tasks.packed_app import Program

QUIET_S: Final = 0.05
"""A micro-batch is gathered when nothing came for so long."""

MORE_S: Final = 0.25
"""The same after a pop that was full: there is more, and its broker is busy."""

GATHER_S: Final = 2.0
"""The longest that a micro-batch is gathered."""

SETTLE_S: Final = 10.0
"""How long to wait until brokers know what became of a micro-batch; it goes on afterwards."""

CALLS_MAX: Final = 1_000
"""Parked calls, as many as a consumer may have; each has the messages of one pop."""

UNACKED_MAX: Final = 65_535
"""Messages of one place that may be under way."""

DAYS_MS: Final = 7 * 86_400_000
"""A listener has no time limit on Spark: as long as a setting may be."""

SOON_LEVEL: Final = 1
"""The shortest delay."""

LOOK_S: Final = 0.02


@dataclass(eq=False, slots=True)
class ParkedCall:
    """The messages of one pop, and what the consumer waits for."""

    pop: int
    messages: tuple[ReceivedMessage, ...]
    result: asyncio.Future[ListenerResult]


class ParkedConsumer(PushConsumer):
    """A consumer whose listeners wait for something else, and do not end by themselves."""

    def places(self) -> tuple[PopStatus, ...]:
        """Where it pops.  `status` would say too where in its code each of the parked calls is."""
        return self._require().machine.status().pops

    async def stop_now(self, calls: Iterable[ParkedCall]) -> None:
        """Show the messages of these calls to others, and leave the group."""
        driver = self._require()
        driver.event(driver.machine.stop(self._engine.clock()))
        driver.event(driver.machine.abandon(self._engine.clock()))
        for call in calls:  # what is on its way back goes there; what is renewed just now, later
            if not call.result.done():
                call.result.set_result(Retry(SOON_LEVEL, reason="the run was stopped"))
        await self.stop(SETTLE_S)


class PopMember:
    """One query in its group.  Made and used on one loop."""

    def __init__(self, program: Program) -> None:
        config = program.config
        settings = {
            **program.settings,
            "consume_hooks": (),  # they are called in tasks
            "batch_max": POP_COUNT_MAX,
            "threads_min": 1,
            "threads_max": CALLS_MAX,
            "unacked_max": UNACKED_MAX,
            "consume_timeout_ms": DAYS_MS,
        }
        self._consumer = ParkedConsumer(config.group, self._park, **settings)
        for each in program.subscriptions:
            self._consumer.subscribe(
                each.topic, tags=each.tags, sql=each.sql, batch_max=POP_COUNT_MAX
            )
        self._numbers = itertools.count()
        self._parked: list[ParkedCall] = []
        self._waiting = 0
        """Messages of the parked calls."""
        self._taken: set[ParkedCall] = set()
        self._arrived = asyncio.Event()

    @property
    def client_id(self) -> str:
        return self._consumer.client_id

    async def start(self) -> None:
        """Join the group."""
        await self._consumer.start()

    async def stop(self) -> None:
        """Leave the group; what is not settled is shown to others at once."""
        await self._consumer.stop_now([*self._parked, *self._taken])

    async def asked_in(self, timeout_s: float) -> bool:
        """Pop, and wait until every broker is asked for messages; False on timeout.

        What a broker held may have ended without any while a micro-batch ran.
        """
        await self._consumer.resume()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while True:
                    places = self._consumer.places()
                    if places and all(each.is_asked or each.unacked_count for each in places):
                        return True
                    await asyncio.sleep(LOOK_S)
        return False

    async def troubles(self) -> str:
        """Why brokers are not asked, for an error."""
        found = (await self._consumer.status()).troubles
        return "; ".join(f"{name}: {text}" for name, text in found.items()) or "no broker answered"

    async def gather(self, count_max: int, wait_s: float) -> list[ParkedCall]:
        """Pop up to about so many messages; none where nothing comes in ``wait_s``."""
        await self._consumer.resume()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(GATHER_S + wait_s):
                    timeout_s = MORE_S if self._parked else wait_s
                    while self._waiting < count_max and await self._came(timeout_s):
                        is_full = len(self._parked[-1].messages) == POP_COUNT_MAX
                        timeout_s = MORE_S if is_full else QUIET_S
        finally:
            await self._consumer.pause()
        return self._take(count_max)

    def put_back(self, calls: Iterable[ParkedCall]) -> None:
        """These are for the next micro-batch."""
        some = list(calls)
        self._taken.difference_update(some)
        self._parked[:0] = some
        self._waiting += sum(len(each.messages) for each in some)

    async def settle(
        self, calls: Sequence[ParkedCall], results: Mapping[int, Mapping[int, MessageResult]]
    ) -> None:
        """The micro-batch of these calls is committed: tell the brokers, and wait for them."""
        self._taken.difference_update(calls)
        for call in calls:
            found = results.get(call.pop)
            if not call.result.done():
                call.result.set_result(
                    None if found is None else [found.get(at) for at in range(len(call.messages))]
                )
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                while self._unacked() > self._held():  # noqa: ASYNC110  # the consumer settles
                    await asyncio.sleep(LOOK_S)

    def _unacked(self) -> int:
        return sum(each.unacked_count for each in self._consumer.places())

    def _held(self) -> int:
        """Messages of other micro-batches; pops that brokers held may bring more meanwhile."""
        return self._waiting + sum(len(each.messages) for each in self._taken)

    async def _park(self, messages: tuple[ReceivedMessage, ...]) -> ListenerResult:
        """The listener of every topic."""
        result: asyncio.Future[ListenerResult] = asyncio.get_running_loop().create_future()
        self._parked.append(ParkedCall(next(self._numbers), messages, result))
        self._waiting += len(messages)
        self._arrived.set()
        return await result

    async def _came(self, timeout_s: float) -> bool:
        """Whether messages are there that were not, or come in this time."""
        if not self._arrived.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._arrived.wait(), timeout_s)
        came = self._arrived.is_set()
        self._arrived.clear()
        return came

    def _take(self, count_max: int) -> list[ParkedCall]:
        taken: list[ParkedCall] = []
        count = 0
        while self._parked and (not taken or count + len(self._parked[0].messages) <= count_max):
            taken.append(self._parked.pop(0))
            count += len(taken[-1].messages)
        self._waiting -= count
        if not self._parked:
            self._arrived.clear()  # the next one waits for others
        self._taken.update(taken)
        return taken
