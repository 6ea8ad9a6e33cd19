"""Collects what happens to messages and sends it to a trace topic, beside the real work.

    add, from any thread ──► waiting, up to a limit ──► 10 or more, or every 5 s ──► trace topic
                                   └─ full ──► dropped, counted, told as an event

One message takes all that fits in it, so the more is traced, the less each record costs.

Traces have a producer of their own, with its own client id and connections.  Nothing here ever
makes a send or a listener wait, or fail: what cannot be traced is dropped.

    created ──start──► running ──stop──► stopped

Invariant: at most `RECORDS_MAX` records wait.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from functools import partial
from typing import Any, Final, Literal, Protocol, cast

from flintmq.client.engine.client_config import ClientConfig
from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.engine.event_log import EventLog
from flintmq.client.producer.producer_settings import ProducerSettings
from flintmq.core.producer.receipt import SendReceipt
from flintmq.core.producer.trace_records import (
    MESSAGE_BYTES_MAX,
    Happening,
    TraceMessage,
    pack,
    traced_to,
)
from flintmq.errors import FlintError
from flintmq.logs import logger
from flintmq.model.group import GROUP_CHARACTERS_MAX
from flintmq.model.message import Message

log = logger(__name__)

RECORDS_MAX: Final = 65_536
"""Of all that waits: about 30 MB, and what a burst of some seconds leaves.

RocketMQ's clients keep 2,048 sends, which one turn of a busy loop can fill.
"""

BATCH_MIN: Final = 10
"""So many sends or calls leave without waiting for the clock."""

BATCH_RECORDS: Final = 250
"""A batch that has so many takes no more: their ids fill the keys of one message, and writing
them takes about a millisecond of the loop."""

INTERVAL_MS: Final = 5_000
"""How long a record waits for company, and how often drops are told."""

SEND_MS: Final = 5_000

SENDS_MAX: Final = 10
"""Trace messages under way at once."""

STOP_S: Final = 3.0
"""How long a stop waits for the last traces: they are not worth more."""

STOPPED: Final = "the client stopped"

_numbers = itertools.count(1)


class TraceSender(Protocol):
    """The producer that traces leave by."""

    async def start(self) -> object: ...

    async def stop(self) -> None: ...

    async def send(self, message: Message, *, timeout_ms: int) -> SendReceipt: ...


class Tracer:
    """The traces of one client.  `add` is for any thread, all else for its loop."""

    def __init__(
        self, topic: str, sender: TraceSender, events: EventLog, *, interval_ms: int = INTERVAL_MS
    ) -> None:
        self.topic = topic
        self.dropped_count = 0
        """Records that will never be seen."""
        self._sender = sender
        self._events = events
        self._interval_s = interval_ms / 1000
        self._lock = threading.Lock()
        self._waiting: deque[Happening] = deque()
        self._record_count = 0
        self._told_count = 0
        self._told_at_s = float("-inf")
        self._reason = ""
        self._is_open = False
        self._is_woken = False
        self._wake = asyncio.Event()
        self._room = asyncio.Semaphore(SENDS_MAX)
        self._loop: asyncio.AbstractEventLoop
        self._task: asyncio.Task[None]

    def __repr__(self) -> str:
        return f"<Tracer to {self.topic!r}, {len(self._waiting)} wait>"

    async def start(self) -> None:
        await self._sender.start()
        self._loop = asyncio.get_running_loop()
        self._is_open = True
        self._task = self._loop.create_task(self._run(), name="flintmq trace")

    async def stop(self) -> None:
        """Send what waits, if that is quickly done.  Stopping twice is no error."""
        with self._lock:
            was_open, self._is_open = self._is_open, False
        if not was_open:
            return
        self._wake.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await self._task
        self._lose(sum(len(each.records) for each in self._waiting), STOPPED)
        self._waiting.clear()
        self._log_drops(at_once=True)
        await self._sender.stop()

    def add(self, happening: Happening) -> None:
        """Queue a trace; drop it when too many wait."""
        count = len(happening.records)
        with self._lock:
            if not self._is_open:
                return
            if self._record_count + count > RECORDS_MAX:
                self.dropped_count += count
                self._reason = f"{self._record_count} wait already"
                return
            self._waiting.append(happening)
            self._record_count += count
            if self._is_woken or len(self._waiting) < BATCH_MIN:
                return
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._wake.set)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as sends:
            while True:
                is_due = False
                try:
                    async with asyncio.timeout(self._interval_s):
                        await self._wake.wait()
                except TimeoutError:
                    is_due = True
                self._wake.clear()
                is_last = not self._is_open
                while batch := self._next_batch(1 if is_due or is_last else BATCH_MIN):
                    await self._send_all(sends, pack(batch))
                    await asyncio.sleep(0)
                self._log_drops()
                if is_last:
                    return

    def _next_batch(self, count_min: int) -> list[Happening]:
        with self._lock:
            if len(self._waiting) < count_min:
                self._is_woken = False
                return []
            taken: list[Happening] = []
            count = 0
            while self._waiting and count < BATCH_RECORDS:
                taken.append(self._waiting.popleft())
                count += len(taken[-1].records)
            self._record_count -= count
            return taken

    async def _send_all(self, sends: asyncio.TaskGroup, messages: list[TraceMessage]) -> None:
        left = deque(messages)
        try:
            while left:
                await self._room.acquire()
                message = left.popleft()
                task = sends.create_task(self._send(message))
                task.add_done_callback(partial(self._sent, message))
        finally:
            self._lose(sum(each.record_count for each in left), STOPPED)

    async def _send(self, trace: TraceMessage) -> str | None:
        """Send a batch of traces; the reason why it was not stored, or None."""
        try:
            message = Message(self.topic, trace.body, keys=trace.keys)
            await self._sender.send(message, timeout_ms=SEND_MS)
        except FlintError as error:
            return str(error)
        except Exception as error:  # a bug of ours must not end the traces
            log.exception("a trace message was not sent")
            return repr(error)
        return None

    def _sent(self, trace: TraceMessage, task: asyncio.Task[str | None]) -> None:
        self._room.release()
        reason = STOPPED if task.cancelled() else task.result()
        if reason is not None:
            self._lose(trace.record_count, reason)

    def _lose(self, count: int, reason: str) -> None:
        if count:
            with self._lock:
                self.dropped_count += count
                self._reason = reason

    def _log_drops(self, *, at_once: bool = False) -> None:
        """Log how many traces were dropped since the last time, once in a while."""
        now_s = self._loop.time()
        count = self.dropped_count - self._told_count
        if count and (at_once or now_s - self._told_at_s >= self._interval_s):
            self._told_count += count
            self._told_at_s = now_s
            text = f"{count} trace records were dropped: {self._reason}"
            self._events.add("trace", self.topic, text, logging.WARNING)


class _Traced(Protocol):
    """Settings of a client that may leave traces."""

    @property
    def trace(self) -> bool: ...

    @property
    def trace_topic(self) -> str | None: ...


async def start_tracer(
    make: Callable[..., TraceSender],
    engine: ClientEngine,
    config: _Traced,
    group: str,
    role: Literal["PRODUCE", "CONSUME"],
) -> Tracer | None:
    """Start the tracer of a client whose settings want one; ``make`` is the class of producers."""
    topic = traced_to(config.trace, config.trace_topic)
    if topic is None:
        return None
    sender = make(_sender_group(group, role), **_sender_settings(engine.config))
    tracer = Tracer(topic, sender, engine.events)
    await tracer.start()
    return tracer


def _sender_group(group: str, role: Literal["PRODUCE", "CONSUME"]) -> str:
    """The group of the producer that traces for a group."""
    start, end = "_INNER_TRACE_PRODUCER-", f"-{role}-{next(_numbers)}"
    return start + group[: GROUP_CHARACTERS_MAX - len(start) - len(end)] + end


def _sender_settings(config: ClientConfig) -> ProducerSettings:
    """Settings for that producer: those of the client, but not its name and namespace."""
    common: dict[str, Any] = {each.name: getattr(config, each.name) for each in fields(config)}
    del common["namespace"], common["instance_name"]
    return cast(ProducerSettings, {**common, "message_bytes_max": MESSAGE_BYTES_MAX})
