"""The task of a run that pops: calls listeners with messages that the driver popped.

    messages ──► batches ──► listener ──► verdict ──► row; if it was not consumed, with ``settle``

The task asks no broker: who popped the messages renews, acknowledges and returns them, because a
renewal replaces the receipt.  Messages of a task are in any order, and so are their rows.

A task that fails runs again from its start, so messages that it had consumed are consumed again.

Invariant: every message has one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import pyarrow as pa

from flintmq.client.hooks.receive_hooks import flush_all
from flintmq.client.push.failure_log import failing_call
from flintmq.client.push.listeners import Surroundings
from flintmq.core.consumer.settle_concurrent import settle_rules
from flintmq.core.group.actions import Deliver
from flintmq.core.group.listener_failures import is_failure
from flintmq.core.group.listener_results import CONSUMED as CONSUMED_OUTCOME
from flintmq.core.group.listener_results import outcomes_of
from flintmq.core.group.subscriptions import Subscriptions
from flintmq.model.group import with_namespace
from flintmq.model.queue import QueueRef
from flintmq.net.clock import wall_ms
from flintmq.spark.outcomes.circuit_breaker import FailureStreak
from flintmq.spark.outcomes.outcome_rows import OutcomeColumns
from flintmq.spark.outcomes.task_reports import TaskReports
from flintmq.spark.tasks.listener_calls import Called, ListenerCalls
from flintmq.spark.tasks.listener_task import fates_of
from flintmq.spark.tasks.packed_app import Program
from flintmq.spark.tasks.popped_verdicts import PoppedSome, write_verdict

CALLS_A_PAGE: Final = 256
"""Calls whose rows are given to Spark together."""


def listen_popped(
    program: Program, popped: Sequence[PoppedSome], *, is_slim: bool = False
) -> Iterator[pa.RecordBatch]:
    """Call the listeners with popped messages; yields the outcomes.

    ``is_slim`` rows have only the report of the task and what was not consumed.
    """
    config = program.config
    around = Surroundings(
        config.group, config.namespace, config.consume_hooks, config.consume_timeout_ms
    )
    calls = ListenerCalls(program.listeners, around)
    work = _PoppedCalls(program, calls, is_slim)
    try:
        for _, some in groupby(_batches(program, popped), lambda each: each.messages[0].topic):
            batches = list(some)
            for at in range(0, len(batches), CALLS_A_PAGE):
                rows = work.call(batches[at : at + CALLS_A_PAGE])
                if rows is not None:
                    yield rows
    finally:
        calls.close()
        flush_all(config.consume_hooks)


class _PoppedCalls:
    """Calls listeners, and says what became of the messages."""

    def __init__(self, program: Program, calls: ListenerCalls, is_slim: bool) -> None:
        self._is_slim = is_slim
        self._config = program.config
        self._subscriptions = Subscriptions(program.config, program.subscriptions, wall_ms())
        self._calls = calls
        self._reports = TaskReports()
        self._streak = FailureStreak(program.config.group, program.failures_max)

    def call(self, batches: Sequence[Deliver]) -> pa.RecordBatch | None:
        """One call for each batch; the rows."""
        outcomes = OutcomeColumns(None, is_slim=self._is_slim)
        for called in self._calls.call_all(batches):
            self._add(called, outcomes)
        return outcomes.batch(self._reports.drain)

    def _add(self, called: Called, outcomes: OutcomeColumns) -> None:
        batch, result, counts = called.batch, called.result, self._reports.counts
        counts.add_call(batch.messages[0].topic, called.spent_ms)
        if result is None:
            counts.add_rows(len(batch.messages), None)
            self._streak.ended(batch.messages[0].topic)
            outcomes.add(batch.messages, called.started_us, called.spent_ms)
            return
        config, topic = self._config, batch.messages[0].topic
        wire_topic = with_namespace(config.namespace, topic)
        rules = settle_rules(config, self._subscriptions, wire_topic)
        listener = self._calls.listener_of(topic)
        failing = failing_call(config.group, listener, batch, result, rules, ordered=False)
        if failing is not None:
            self._reports.add_failure(failing)
        if is_failure(result):
            assert isinstance(result, BaseException)
            self._streak.raised(topic, listener, result)
        else:
            self._streak.ended(topic)
        verdict = outcomes_of(result, len(batch.messages))
        if verdict.fault is not None:
            self._reports.add_fault(topic, verdict.fault)
        found = verdict.outcomes or (CONSUMED_OUTCOME,) * len(batch.messages)
        assert isinstance(batch.home, tuple)
        pop, first = batch.home
        settle = [write_verdict(pop, first + at, outcome) for at, outcome in enumerate(found)]
        fates = fates_of(called, verdict, rules)
        counts.add_rows(len(batch.messages), fates)
        outcomes.add(batch.messages, called.started_us, called.spent_ms, fates, settle=settle)


def _batches(program: Program, popped: Sequence[PoppedSome]) -> Iterator[Deliver]:
    """The messages as listeners want them.  ``home`` is the pop, and the place in it."""
    config = program.config
    subscriptions = Subscriptions(config, program.subscriptions, 0)
    for pop, first, messages in sorted(popped, key=lambda some: some.messages[0].topic):
        topic = messages[0].topic
        size = subscriptions.batch_max(with_namespace(config.namespace, topic))
        for at in range(0, len(messages), size):
            some = messages[at : at + size]
            queue = QueueRef(topic, some[0].broker, some[0].queue_id)
            yield Deliver(queue, some, (pop, first + at))
