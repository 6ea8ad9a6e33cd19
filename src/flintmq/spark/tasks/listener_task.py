"""The task of a listener run: calls listeners with its part of a queue, and settles the messages.

    pages ──► messages ──► batches ──► listener ──► verdict ──┬─► consumed ──► row
                ▲                                             ├─► sent back ──► row
                └──── ordered: the same again, after a pause ─┘

A record that cannot be decoded is given to no listener; see `flintmq.spark.outcomes.bad_outcomes`.

The rules are those of consumers on threads: `flintmq.core.consumer.settle_concurrent` and
`flintmq.core.consumer.settle_orderly`.  Two things differ because a task has an end: a message
that no broker takes back fails the task, and a listener has no time limit.

A task that fails runs again from its start, so messages that it had consumed are consumed again.

Failures and dead letters are reported to the driver in a column of the rows
(`flintmq.spark.outcomes.task_reports`).  An ordered listener that fails is tried in place, perhaps
for ever, so that is in the log of the executor at once.

Invariant: every message of the part has one row, and is settled when that row is yielded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from itertools import groupby
from queue import SimpleQueue
from time import time_ns
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

import pyarrow as pa

from flintmq.arrow.reading.cluster_pages import RemotePages, check_gap
from flintmq.arrow.reading.queue_source import PageReader, ReadPart
from flintmq.client.hooks.consume_hooks import run_filters
from flintmq.client.hooks.receive_hooks import Watch, flush_all
from flintmq.client.push.failure_log import FailureLog, failing_call
from flintmq.client.push.listeners import Surroundings
from flintmq.core.consumer.assigned_queue import as_listeners_see
from flintmq.core.consumer.process_queue import ProcessQueue
from flintmq.core.consumer.settle_concurrent import ConcurrentSettling, SettleRules, settle_rules
from flintmq.core.consumer.settle_orderly import OrderlySettling
from flintmq.core.group.actions import Deliver
from flintmq.core.group.listener_failures import is_failure
from flintmq.core.group.listener_results import (
    Consumed,
    Dead,
    DeadLetter,
    Outcome,
    Retry,
    Verdict,
    outcomes_of,
)
from flintmq.core.group.subscriptions import Subscriptions
from flintmq.core.reading.read_span import EVERYTHING, Page, Wanted
from flintmq.logs import logger
from flintmq.model.group import without_namespace
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef
from flintmq.net.clock import monotonic_ms, wall_ms
from flintmq.protocol.records.received import Received
from flintmq.spark.outcomes.bad_outcomes import BadOutcomes
from flintmq.spark.outcomes.circuit_breaker import FailureStreak
from flintmq.spark.outcomes.outcome_rows import (
    CONSUMED,
    ERROR_CHARACTERS_MAX,
    Fate,
    OutcomeColumns,
    OutcomeKind,
)
from flintmq.spark.outcomes.task_reports import TaskReports
from flintmq.spark.tasks.listener_calls import Called, ListenerCalls
from flintmq.spark.tasks.packed_app import Program
from flintmq.spark.tasks.task_send_back import Returns

log = logger(__name__)

PULL_COUNT_MAX: Final = 1_024
"""Messages asked for by one pull."""

FAILURE_LOGS_MAX: Final = 16
"""Groups whose failures one worker process counts; a worker usually serves one."""

REST_MS_MAX: Final = 200
"""The longest single sleep while an ordered queue pauses before a retry."""


def listen_all(
    program: Program, parts: Sequence[ReadPart], *, is_slim: bool = False
) -> Iterator[pa.RecordBatch]:
    """`listen` for the parts of a task.

    They are one after the other; but ordered queues are independent of each other, so a listener
    with ``threads=n`` consumes n of them at once, and each in order.
    """
    at_once = _queues_at_once(program, parts)
    if at_once == 1:
        for part in parts:
            yield from listen(program, part, is_slim=is_slim)
        return
    done: SimpleQueue[pa.RecordBatch | BaseException | None] = SimpleQueue()

    def consume(part: ReadPart) -> None:
        try:
            for rows in listen(program, part, is_slim=is_slim):
                done.put(rows)
        except BaseException as error:
            done.put(error)
        else:
            done.put(None)

    with ThreadPoolExecutor(at_once, thread_name_prefix="flintmq-queue") as pool:
        left = [pool.submit(consume, part) for part in parts]
        while left:
            found = done.get()
            if isinstance(found, pa.RecordBatch):
                yield found
            elif found is None:
                left.pop()
            else:
                pool.shutdown(wait=True, cancel_futures=True)
                raise found


def _queues_at_once(program: Program, parts: Sequence[ReadPart]) -> int:
    """How many of the queues of a task are consumed at once."""
    if len(parts) == 1:
        return 1
    subscriptions = Subscriptions(program.config, program.subscriptions, 0)
    topics = {part.span.queue.topic for part in parts}
    if not all(map(subscriptions.is_ordered, topics)):
        return 1  # threads call listeners with the messages of one queue
    threads = [each.threads or 1 for each in program.listeners]
    return min(max(threads), len(parts))


def listen(
    program: Program,
    part: ReadPart,
    pages: PageReader | None = None,
    *,
    is_slim: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Call the listeners with a part of a queue; yields the outcomes, page by page.

    The last page has the report of the task.  ``is_slim`` rows have nothing else.
    """
    config = program.config
    subscriptions = Subscriptions(config, program.subscriptions, wall_ms())
    queue = part.span.queue
    rules = settle_rules(config, subscriptions, queue.topic)
    is_retry = queue.topic == config.retry_topic
    wanted = _wanted(subscriptions, queue.topic)
    around = Surroundings(
        config.group, config.namespace, config.consume_hooks, config.consume_timeout_ms
    )
    watch = Watch(
        config.consume_hooks,
        config.group,
        config.namespace,
        partial(without_namespace, config.namespace),
    )
    calls = ListenerCalls(program.listeners, around)
    reader = pages or RemotePages(program.access)
    try:
        with program.access.open() as line:
            reports = TaskReports()
            retry_ms = program.access.retry_ms
            returns = Returns(line, config, reports.add_dead, retry_ms=retry_ms, watch=watch)
            bad = BadOutcomes(queue, config, rules.tries_max, line)
            streak = FailureStreak(config.group, program.failures_max)
            around_calls = _Calls(config.group, rules, calls, returns, reports, streak)
            worker = _consumption(queue, subscriptions, around_calls)
            started_ns, outcomes = time_ns(), OutcomeColumns(queue, is_slim=is_slim)
            for page in reader.pages(part, wanted, PULL_COUNT_MAX):
                check_gap(page, fail_on_data_loss=False)
                for received in _received(page, wanted):
                    page_before, outcomes = outcomes, OutcomeColumns(queue, is_slim=is_slim)
                    if received.bad:
                        bad.settle(received.bad, outcomes, reports.counts)
                    messages = as_listeners_see(
                        _filtered(program, queue, received.messages),
                        queue,
                        is_retry=is_retry,
                        namespace=config.namespace,
                    )
                    if watch:
                        watch.received(queue, messages, started_ns)
                    worker.consume(messages, outcomes)
                    if not outcomes:
                        outcomes = page_before
                    elif (rows := page_before.batch()) is not None:
                        yield rows
                started_ns = time_ns()
            if (rows := outcomes.batch(reports.drain)) is not None:
                yield rows
            bad.close()
    finally:
        calls.close()
        flush_all(config.consume_hooks)


_Settling = TypeVar("_Settling", ConcurrentSettling, OrderlySettling)


class _Calls(NamedTuple):
    """What every call of a listener in this task needs."""

    group: str
    rules: SettleRules
    calls: ListenerCalls
    returns: Returns
    reports: TaskReports
    streak: FailureStreak


class _Consumption(Generic[_Settling]):
    """Calls listeners with the messages of a queue, and settles them by the rules of the group."""

    ordered: ClassVar[bool]

    def __init__(self, settling: _Settling, cached: ProcessQueue, task: _Calls) -> None:
        self._settling: _Settling = settling
        self._cached = cached
        self._task = task

    def _count(self, called: Called) -> bool:
        """Whether a call raised.  `CircuitOpen` where so many before it did too."""
        task, topic = self._task, called.batch.messages[0].topic
        if not is_failure(called.result):
            task.streak.ended(topic)
            return False
        assert isinstance(called.result, BaseException)
        task.streak.raised(topic, task.calls.listener_of(topic), called.result)
        return True

    def _settle(self, called: Called) -> list[Fate] | None:
        """Settle the messages of one call; their fates, or None when all were consumed."""
        verdict = self._judge(called)
        actions = self._settling.consumed(called.batch, verdict, monotonic_ms())
        self._task.returns.carry_out(self._settling, actions)
        return fates_of(called, verdict, self._task.rules)

    def _judge(self, called: Called) -> Verdict:
        """The verdict on a listener's result; what it raised is reported to the driver."""
        batch, result, task = called.batch, called.result, self._task
        listener = task.calls.listener_of(batch.messages[0].topic)
        if self.ordered:  # it may be tried in place for ever, and then its page never ends
            log_of = _failure_log(task.group)
            log_of.add(listener, batch, result, task.rules, monotonic_ms(), ordered=True)
        elif failing := failing_call(
            task.group, listener, batch, result, task.rules, ordered=False
        ):
            task.reports.add_failure(failing)
        verdict = outcomes_of(result, len(batch.messages))
        if verdict.fault is not None:
            task.reports.add_fault(batch.messages[0].topic, verdict.fault)
        return verdict


class _Concurrent(_Consumption[ConcurrentSettling]):
    """Messages of a queue in any order; those that fail go back to the broker."""

    ordered = False

    def consume(self, messages: Sequence[ReceivedMessage], outcomes: OutcomeColumns) -> None:
        batches = self._settling.add(messages)
        raised: list[Called] = []  # not settled yet: the circuit breaker may open
        for _, some in groupby(batches, lambda batch: batch.messages[0].topic):
            for called in self._task.calls.call_all(list(some)):
                if self._task.streak and self._count(called):
                    raised.append(called)
                    continue
                for each in (*raised, called):
                    self._take(each, outcomes)
                raised.clear()
        for each in raised:
            self._take(each, outcomes)
        assert not self._cached.count, "every message is settled when its page is done"

    def _take(self, called: Called, outcomes: OutcomeColumns) -> None:
        all_consumed = called.result is None and self._settling.consumed_all(called.batch)
        fates = None if all_consumed else self._settle(called)
        messages, counts = called.batch.messages, self._task.reports.counts
        counts.add_rows(len(messages), fates)
        counts.add_call(messages[0].topic, called.spent_ms)
        outcomes.add(messages, called.started_us, called.spent_ms, fates)


class _Orderly(_Consumption[OrderlySettling]):
    """Messages of a queue one batch after the other; those that fail are tried in place."""

    ordered = True

    def consume(self, messages: Sequence[ReceivedMessage], outcomes: OutcomeColumns) -> None:
        self._settling.add(messages)
        while self._cached.count:
            batch = self._settling.next_batch()
            if batch is None:
                self._rest()
            else:
                self._deliver(batch, outcomes)

    def _deliver(self, batch: Deliver, outcomes: OutcomeColumns) -> None:
        (called,) = self._task.calls.call_all([batch])
        self._count(called)
        fates = self._settle(called) or (CONSUMED,) * len(batch.messages)
        done = [
            (message, fate)
            for message, fate in zip(batch.messages, fates, strict=True)
            if message.queue_offset not in self._cached
        ]
        counts, ended = self._task.reports.counts, [fate for _, fate in done]
        counts.add_rows(len(done), ended)
        counts.add_call(batch.messages[0].topic, called.spent_ms)
        messages = [message for message, _ in done]
        outcomes.add(messages, called.started_us, called.spent_ms, ended)

    def _rest(self) -> None:
        due_ms = self._settling.next_due_ms()
        assert due_ms is not None, self._settling.state
        left_ms = due_ms - monotonic_ms()
        if left_ms > 0:
            time.sleep(min(left_ms, REST_MS_MAX) / 1000)
        self._settling.tick(monotonic_ms())


def _consumption(
    queue: QueueRef, subscriptions: Subscriptions, task: _Calls
) -> _Concurrent | _Orderly:
    cached = ProcessQueue()
    if subscriptions.is_ordered(queue.topic):
        return _Orderly(OrderlySettling(queue, cached, task.rules), cached, task)
    return _Concurrent(ConcurrentSettling(queue, cached, task.rules), cached, task)


@lru_cache(maxsize=FAILURE_LOGS_MAX)
def _failure_log(group: str) -> FailureLog:
    """The log of a group's failures: one for all tasks that this process runs."""
    return FailureLog(group)


def fates_of(called: Called, verdict: Verdict, rules: SettleRules) -> list[Fate] | None:
    """The fate of each message of a call; None when all were consumed."""
    if verdict.outcomes is None:
        return None
    return [
        _fate(message, outcome, called.result, rules)
        for message, outcome in zip(called.batch.messages, verdict.outcomes, strict=True)
    ]


def _fate(message: ReceivedMessage, outcome: Outcome, result: object, rules: SettleRules) -> Fate:
    """The fate of one message: a broker makes a dead letter of it after the last attempt."""
    if isinstance(outcome, Consumed):
        return CONSUMED
    text = outcome.reason
    if isinstance(result, BaseException) and not isinstance(result, Retry | DeadLetter):
        text = f"{type(result).__name__}: {result}"
    error = text[:ERROR_CHARACTERS_MAX] or None
    if rules.is_broadcasting:
        return Fate(OutcomeKind.FAILED, error)
    if isinstance(outcome, Dead) or message.reconsume_times >= rules.tries_max:
        return Fate(OutcomeKind.DEAD, error)
    return Fate(OutcomeKind.SENT_BACK, error)


def _wanted(subscriptions: Subscriptions, topic: str) -> Wanted:
    found = subscriptions.find(topic)
    if found is None:
        return EVERYTHING
    return Wanted(found.expression_type, found.text)


def _received(page: Page, wanted: Wanted) -> Iterator[Received]:
    """The records of a page, in pieces where they unpack to too many bytes for one.

    Raises `MalformedRecord` where a frame is broken.
    """
    while page.records:
        received = page.received(wanted)
        if received.fault is not None and not received.fault.position:
            raise received.fault
        yield received
        if received.fault is None:
            return
        page = replace(page, records=page.records[received.fault.position :])


def _filtered(
    program: Program, queue: QueueRef, messages: list[ReceivedMessage]
) -> list[ReceivedMessage]:
    hooks = program.config.filter_hooks
    return run_filters(hooks, queue, messages) if hooks and messages else messages
