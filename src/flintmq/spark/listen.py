"""What a task of Spark does with its part of a queue: listeners, and what they come to.

    pages ──► messages ──► batches ──► listener ──► verdict ──┬─► consumed ──► row
                ▲                                             ├─► sent back ──► row
                └──── ordered: the same again, after a rest ──┘

The rules are those of consumers on threads (`core.settle_concurrent`, `core.settle_orderly`).
Two things differ because a task has an end: a message that nobody takes back fails the task, and
no listener is given up for taking too long.

A task that fails runs again from its start, so what it had consumed is consumed once more.

Invariant: every message of the part has one row, and is settled when that row is given out.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import pyarrow as pa

from flintmq.client.consume_hooks import run_filters
from flintmq.client.listeners import Surroundings
from flintmq.core.actions import Deliver
from flintmq.core.assigned_queue import as_listeners_see
from flintmq.core.process_queue import ProcessQueue
from flintmq.core.read_span import EVERYTHING, Page, Wanted
from flintmq.core.results import (
    Consumed,
    Dead,
    DeadLetter,
    Outcome,
    Retry,
    Verdict,
    outcomes_of,
)
from flintmq.core.settle_concurrent import ConcurrentSettling, SettleRules
from flintmq.core.settle_orderly import OrderlySettling
from flintmq.core.settle_rules import settle_rules
from flintmq.core.subscriptions import Subscriptions
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef
from flintmq.net.clock import monotonic_ms, wall_ms
from flintmq.spark.callers import Called, Callers
from flintmq.spark.outcome import ERROR_CHARACTERS_MAX, OutcomeKind, OutcomeRow, outcome_batch
from flintmq.spark.program import Program
from flintmq.spark.queues import PageReader, ReadPart
from flintmq.spark.returns import Returns
from flintmq.spark.task import RemotePages, check_gap

log = logging.getLogger(__name__)

PULL_COUNT_MAX: Final = 1_024
"""Messages asked for at once."""

REST_MS_MAX: Final = 200
"""How long to sleep at once while an ordered queue rests."""


def listen(
    program: Program, part: ReadPart, pages: PageReader | None = None
) -> Iterator[pa.RecordBatch]:
    """Run the listeners on a part of a queue; the outcomes, page by page."""
    config = program.config
    subscriptions = Subscriptions(config, program.subscriptions, wall_ms())
    queue = part.span.queue
    rules = settle_rules(config, subscriptions, queue.topic)
    is_retry = queue.topic == config.retry_topic
    wanted = _wanted(subscriptions, queue.topic)
    around = Surroundings(
        config.group, config.namespace, config.consume_hooks, config.consume_timeout_ms
    )
    callers = Callers(program.listeners, around)
    reader = pages or RemotePages(program.access)
    try:
        with program.access.open() as line:
            returns = Returns(line, config)
            worker: _Concurrent | _Orderly
            if subscriptions.is_ordered(queue.topic):
                worker = _Orderly(queue, rules, callers, returns)
            else:
                worker = _Concurrent(queue, rules, callers, returns)
            for page in reader.pages(part, wanted, PULL_COUNT_MAX):
                check_gap(page, fail_on_data_loss=False)
                messages = as_listeners_see(
                    _filtered(program, page, wanted),
                    queue,
                    is_retry=is_retry,
                    namespace=config.namespace,
                )
                rows = worker.consume(messages)
                if rows:
                    yield outcome_batch(rows)
    finally:
        callers.close()


class _Concurrent:
    """Messages of a queue in any order; those that fail go back to the broker."""

    def __init__(
        self, queue: QueueRef, rules: SettleRules, callers: Callers, returns: Returns
    ) -> None:
        self._rules = rules
        self._callers = callers
        self._returns = returns
        self._cached = ProcessQueue()
        self._settling = ConcurrentSettling(queue, self._cached, rules)

    def consume(self, messages: Sequence[ReceivedMessage]) -> list[OutcomeRow]:
        rows: list[OutcomeRow] = []
        batches = self._settling.put(messages)
        for _, some in groupby(batches, lambda batch: batch.messages[0].topic):
            for called in self._callers.call_all(list(some)):
                rows += self._settle(called)
        assert not self._cached.count, "every message is settled when its page is done"
        return rows

    def _settle(self, called: Called) -> list[OutcomeRow]:
        batch = called.batch
        if called.result is None and self._settling.consumed_all(batch):
            return _rows(called, batch.messages, None, self._rules)
        verdict = _judged(called)
        actions = self._settling.consumed(batch, verdict, monotonic_ms())
        self._returns.carry_out(self._settling, actions)
        return _rows(called, batch.messages, verdict, self._rules)


class _Orderly:
    """Messages of a queue one batch after the other; those that fail are tried in place."""

    def __init__(
        self, queue: QueueRef, rules: SettleRules, callers: Callers, returns: Returns
    ) -> None:
        self._rules = rules
        self._callers = callers
        self._returns = returns
        self._cached = ProcessQueue()
        self._settling = OrderlySettling(queue, self._cached, rules)

    def consume(self, messages: Sequence[ReceivedMessage]) -> list[OutcomeRow]:
        rows: list[OutcomeRow] = []
        self._settling.put(messages)
        while self._cached.count:
            batch = self._settling.next_batch()
            if batch is None:
                self._rest()
            else:
                rows += self._deliver(batch)
        return rows

    def _deliver(self, batch: Deliver) -> list[OutcomeRow]:
        (called,) = self._callers.call_all([batch])
        verdict = _judged(called)
        actions = self._settling.consumed(batch, verdict, monotonic_ms())
        self._returns.carry_out(self._settling, actions)
        rows = _rows(called, batch.messages, verdict, self._rules)
        return [
            row
            for row, message in zip(rows, batch.messages, strict=True)
            if message.queue_offset not in self._cached
        ]

    def _rest(self) -> None:
        due_ms = self._settling.next_due_ms()
        assert due_ms is not None, self._settling.state
        left_ms = due_ms - monotonic_ms()
        if left_ms > 0:
            time.sleep(min(left_ms, REST_MS_MAX) / 1000)
        self._settling.tick(monotonic_ms())


@dataclass(frozen=True, slots=True)
class _Fate:
    kind: OutcomeKind
    error: str | None


def _judged(called: Called) -> Verdict:
    """What a listener's result means; what it raised is in the log of the executor."""
    result, count = called.result, len(called.batch.messages)
    if isinstance(result, BaseException) and not isinstance(result, Retry | DeadLetter):
        log.warning("the listener of %s failed", called.batch.queue, exc_info=result)
    verdict = outcomes_of(result, count)
    if verdict.fault is not None:
        log.error("%s: %s", called.batch.queue, verdict.fault)
    return verdict


def _rows(
    called: Called,
    messages: Sequence[ReceivedMessage],
    verdict: Verdict | None,
    rules: SettleRules,
) -> list[OutcomeRow]:
    outcomes: Sequence[Outcome | None] = (None,) * len(messages)
    if verdict is not None and verdict.outcomes is not None:
        outcomes = verdict.outcomes
    queue, started_us, spent_ms = called.batch.queue, called.started_us, called.spent_ms
    rows = []
    for message, outcome in zip(messages, outcomes, strict=True):
        fate = _CONSUMED if outcome is None else _fate(message, outcome, called.result, rules)
        rows.append(
            OutcomeRow(
                message.topic,
                queue.topic,
                queue.broker,
                queue.queue_id,
                message.queue_offset,
                message.message_id,
                fate.kind.value,
                message.reconsume_times,
                started_us,
                spent_ms,
                fate.error,
            )
        )
    return rows


_CONSUMED: Final = _Fate(OutcomeKind.CONSUMED, None)


def _fate(message: ReceivedMessage, outcome: Outcome, result: object, rules: SettleRules) -> _Fate:
    """A broker makes a dead letter of what comes back after the last try."""
    if isinstance(outcome, Consumed):
        return _CONSUMED
    text = outcome.reason
    if isinstance(result, BaseException) and not isinstance(result, Retry | DeadLetter):
        text = f"{type(result).__name__}: {result}"
    error = text[:ERROR_CHARACTERS_MAX] or None
    if rules.is_broadcasting:
        return _Fate(OutcomeKind.FAILED, error)
    if isinstance(outcome, Dead) or message.reconsume_times >= rules.tries_max:
        return _Fate(OutcomeKind.DEAD, error)
    return _Fate(OutcomeKind.SENT_BACK, error)


def _wanted(subscriptions: Subscriptions, topic: str) -> Wanted:
    found = subscriptions.find(topic)
    if found is None:
        return EVERYTHING
    return Wanted(found.expression_type, found.text)


def _filtered(program: Program, page: Page, wanted: Wanted) -> list[ReceivedMessage]:
    messages = page.messages(wanted)
    hooks = program.config.filter_hooks
    return run_filters(hooks, page.queue, messages) if hooks and messages else messages
