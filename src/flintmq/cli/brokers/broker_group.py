"""Broker processes of one cluster: started together, started again, stopped together.

    starting ─ready─► running ─ended─► waiting ─► starting again, on the same ports
        └─ ended before anything was ready: the start as a whole fails

The wait doubles with each end up to `RESTART_MAX_S`, and is short again after a broker ran for
`STEADY_S`.  A broker is started again for ever: the others go on serving meanwhile, and a full disk
may be emptied.  All of them stop when their pipe is closed; those that have not by then are killed
after `STOP_S`.

Invariant: while the group runs, every broker has at most one process, and after `stop` none has.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from flintmq.cli.brokers.child_lines import (
    LINE_BYTES_MAX,
    BrokerReady,
    ChildLine,
    ChildPlan,
    TopicMade,
    line_of,
    pack,
    read_line,
)
from flintmq.errors import Unreachable
from flintmq.logs import logger
from flintmq.metrics.families import Work
from flintmq.metrics.pages import Source
from flintmq.net.address import Address
from flintmq.protocol.bodies.topic import TopicConfig

log = logger(__name__)

RESTART_FIRST_S: Final = 0.5
"""Wait before a broker that ended is started again the first time."""

RESTART_MAX_S: Final = 30.0
"""The longest wait: whoever mends the reason sees the broker come back soon."""

STEADY_S: Final = 60.0
"""A broker that ran so long did not end because of its start."""

STOP_S: Final = 23.0
"""What brokers may take to stop: their own limit is 20 s, that of the whole process is 30 s."""

TOPICS_WAITING_MAX: Final = 10_000
"""Topics kept for a broker that does not run; a message to it makes the rest."""

TOLD_AGAIN_S: Final = 5.0
"""Topics told so shortly before a broker ended are told again: it may not have heard of them."""

CHILD_MODULE: Final = "flintmq.cli.brokers.broker_child"


def restart_wait_s(ends: int) -> float:
    """How long to wait after so many ends in a row."""
    return min(RESTART_MAX_S, RESTART_FIRST_S * (1 << min(ends - 1, 16)))


class BrokerGroup:
    """The brokers of one parent.  `start` makes one, and they all answer."""

    def __init__(self, plans: Sequence[ChildPlan], when_ready: Callable[[str, str], None]) -> None:
        self._when_ready = when_ready
        self._stopping = asyncio.Event()
        self.members = [BrokerMember(plan, self._heard, self._stopping) for plan in plans]

    @classmethod
    async def start(
        cls, plans: Sequence[ChildPlan], when_ready: Callable[[str, str], None]
    ) -> BrokerGroup:
        """Start all.  Raises `Unreachable` when one ends before it is ready.

        ``when_ready`` is called with the name and the address of each, at every start.
        """
        group = cls(plans, when_ready)
        try:
            await asyncio.gather(*(member.begin() for member in group.members))
        except BaseException:
            await group.stop()
            raise
        return group

    @property
    def addresses(self) -> list[str]:
        """What clients are told of each broker."""
        return [member.ready.address for member in self.members if member.ready is not None]

    def source(self) -> Source:
        """Whether all of them are ready, for the probes of the parent."""

        def none() -> Work:
            yield from ()

        def why_not_ready() -> list[str]:
            return [f"{each.name} does not run" for each in self.members if each.ready is None]

        return Source(dict, none, why_not_ready)

    async def stop(self) -> None:
        """Stop all.  Raises `Unreachable` when one was killed or did not store everything."""
        self._stopping.set()
        failures = await asyncio.gather(*(each.stop() for each in self.members))
        for failure in failures:
            if failure is not None:
                raise failure

    def _heard(self, member: BrokerMember, told: ChildLine) -> None:
        match told:
            case BrokerReady(address=address):
                self._when_ready(member.name, address)
            case TopicMade(topic):
                for other in self.members:
                    if other is not member:
                        other.have(topic)


class BrokerMember:
    """One broker: its process, or the wait for the next one."""

    def __init__(
        self,
        plan: ChildPlan,
        heard: Callable[[BrokerMember, ChildLine], None],
        stopping: asyncio.Event,
    ) -> None:
        self.name = plan.name
        self.ready: BrokerReady | None = None
        """Where it is, while it answers."""
        self.process: asyncio.subprocess.Process | None = None
        self._plan = plan
        self._heard = heard
        self._stopping = stopping
        self._was_ready = asyncio.Event()
        self._topics: dict[str, TopicConfig] = {}  # to be told when it is ready
        self._told: deque[tuple[float, TopicConfig]] = deque(maxlen=TOPICS_WAITING_MAX)
        self._life: asyncio.Task[int] | None = None

    async def begin(self) -> None:
        """Start it, and wait until it is ready for the first time."""
        self._life = asyncio.ensure_future(self._live())
        ready = asyncio.ensure_future(self._was_ready.wait())
        await asyncio.wait([self._life, ready], return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._life.done():
            self._life.result()
            raise Unreachable(self.name, "it was stopped before it was ready")

    def have(self, topic: TopicConfig) -> None:
        """Tell it of a topic, now or when it runs."""
        if self.ready is not None:
            self._tell(topic)
        elif len(self._topics) < TOPICS_WAITING_MAX:
            self._topics[topic.topic_name] = topic

    async def stop(self) -> Unreachable | None:
        """Let it stop, for so long as it may take; the reason if it did not do so well."""
        if self._life is None or self._has_failed():
            return None
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
        done, _ = await asyncio.wait([self._life], timeout=STOP_S)
        if not done and self.process is not None:
            log.error("%s did not stop in %.0f s: it is killed", self.name, STOP_S)
            self.process.kill()
        code = await self._life
        return None if code == 0 else Unreachable(self.name, f"its stop ended with code {code}")

    def _has_failed(self) -> bool:
        """Whether the start failed, which `begin` tells."""
        return self._life is not None and self._life.done() and bool(self._life.exception())

    async def _live(self) -> int:
        """Run it over and over; gives how it ended when it was told to."""
        loop, ends = asyncio.get_running_loop(), 0
        while not self._stopping.is_set():
            started_s = loop.time()
            code = await self._run_once()
            if self._stopping.is_set():
                return code
            if not self._was_ready.is_set():
                reason = f"it ended with code {code} before it was ready; its line above says why"
                raise Unreachable(self.name, reason)
            ends = 1 if loop.time() - started_s >= STEADY_S else ends + 1
            wait_s = restart_wait_s(ends)
            log.error("%s ended with code %d: started again in %.1f s", self.name, code, wait_s)
            try:
                await asyncio.wait_for(self._stopping.wait(), wait_s)
            except TimeoutError:
                continue
        return 0

    async def _run_once(self) -> int:
        """One process, from its start to its end; gives its exit code."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", CHILD_MODULE, self.name),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is meant for the parent
            limit=LINE_BYTES_MAX,
        )
        self.process = process
        log.info("%s is process %d", self.name, process.pid)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(pack(self._plan))
        if self._stopping.is_set():
            process.stdin.close()
        try:
            while line := await process.stdout.readline():
                self.take(read_line(line))
        except (msgspec.MsgspecError, ValueError):
            log.exception("%s: a line that cannot be read", self.name)
            process.kill()
        finally:
            self.ready = None
            self.ended()
        code = await process.wait()
        self.process = None
        return code

    def take(self, told: ChildLine) -> None:
        """It said something."""
        if isinstance(told, BrokerReady):
            self.ready = told
            self._plan = _same_ports(self._plan, told)
            waiting, self._topics = self._topics, {}
            for topic in waiting.values():
                self._tell(topic)
            self._was_ready.set()
        self._heard(self, told)

    def ended(self) -> None:
        """Its process ended: what it was told last waits for the next start."""
        since_s = asyncio.get_running_loop().time() - TOLD_AGAIN_S
        for told_s, topic in self._told:
            if told_s >= since_s:
                self.have(topic)
        self._told.clear()

    def _tell(self, topic: TopicConfig) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self._told.append((asyncio.get_running_loop().time(), topic))
        self.process.stdin.write(line_of(TopicMade(topic)))


def _same_ports(plan: ChildPlan, ready: BrokerReady) -> ChildPlan:
    """The plan for the next start: where clients and Prometheus look for the broker."""
    chosen = plan.chosen
    config = chosen.config
    if chosen.listen.port == 0:
        config = replace(config, fast_port=False)
    metrics = None if ready.metrics is None else Address.parse(ready.metrics)
    listen = Address.parse(ready.listen)
    return replace(plan, chosen=replace(chosen, config=config, listen=listen, metrics=metrics))
