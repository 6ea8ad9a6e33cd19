"""The log of listeners that raise, on threads, on asyncio and in the tasks of Spark.

What is said and how often, `core.group.listener_failures` decides.  It is a WARNING, so that a
program that never set up logging sees it on stderr.
"""

from __future__ import annotations

from flintmq.core.consumer.settle_concurrent import SettleRules
from flintmq.core.group.actions import Deliver
from flintmq.core.group.listener_failures import Failing, ListenerFailures, is_failure
from flintmq.logs import logger

log = logger("flintmq.client")


class FailureLog:
    """Logs the failures of the listeners of one group."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._failures = ListenerFailures()

    def add(
        self,
        listener: object,
        batch: Deliver,
        result: object,
        rules: SettleRules,
        now_ms: int,
        *,
        ordered: bool,
    ) -> None:
        """A listener ended with ``result``; nothing is logged unless it raised."""
        failing = failing_call(self._group, listener, batch, result, rules, ordered=ordered)
        if failing is None:
            return
        line = self._failures.line(failing, now_ms)
        if line is not None:
            log.warning("%s", line.text, exc_info=line.error)


def failing_call(
    group: str,
    listener: object,
    batch: Deliver,
    result: object,
    rules: SettleRules,
    *,
    ordered: bool,
) -> Failing | None:
    """The call of a listener if it raised, else None."""
    if not is_failure(result):
        return None
    assert isinstance(result, BaseException)
    return Failing(
        group,
        listener,
        batch.queue,
        batch.messages,
        result,
        rules.tries_max,
        rules.suspend_ms if ordered else None,
        rules.is_broadcasting,
    )
