"""Times each try of a send, for metrics; hooks, if there are any, see it too."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING

from flintmq.core.producer.receipt import STORED

if TYPE_CHECKING:
    from flintmq.client.hooks.send_hooks import SendWatch
    from flintmq.core.producer.send_draft import Draft
    from flintmq.metrics.client_metrics import ProducerCounts
    from flintmq.model.message import Message
    from flintmq.model.queue import QueueRef
    from flintmq.protocol.command import Command


class SendTimer:
    """Watches one send, on the thread that holds it."""

    __slots__ = ("_counts", "_messages", "_start_ns", "_watch")

    def __init__(
        self, counts: ProducerCounts, messages: Sequence[Message], watch: SendWatch | None
    ) -> None:
        self._counts = counts
        self._messages = messages
        self._watch = watch
        self._start_ns = 0

    def leaving(self, draft: Draft, queue: QueueRef, address: str) -> None:
        if self._start_ns:
            self._counts.retried(self._messages[0].topic)
        if self._watch is not None:
            self._watch.leaving(draft, queue, address)
        self._start_ns = perf_counter_ns()

    def ended(self, answer: Command | None, error: BaseException | None) -> None:
        took_ns = perf_counter_ns() - self._start_ns
        is_well = error is None and (answer is None or answer.code in STORED)
        messages = self._messages
        self._counts.sent(messages[0].topic, len(messages), took_ns, is_well=is_well)
        if self._watch is not None:
            self._watch.ended(answer, error)
