"""Times each try of a send, for metrics; hooks, if there are any, see it too.

Most sends are of one message and go well the first time.  Those add one number to a queue of their
topic; everything else takes the longer way.  Where a thread sends past the loop nobody else wants
to see it: `timed` times the calls themselves, which costs half of what a `SendTimer` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING

from flintmq.core.producer.receipt import STORED

if TYPE_CHECKING:
    from flintmq.client.hooks.send_hooks import SendWatch
    from flintmq.core.conversation import Call
    from flintmq.core.producer.send_draft import Draft
    from flintmq.metrics.producer_counts import ProducerCounts
    from flintmq.model.message import Message
    from flintmq.model.queue import QueueRef
    from flintmq.protocol.command import Command

_SUCCESS = 0


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
        messages = self._messages
        if answer is not None and answer.code == _SUCCESS and len(messages) == 1:
            self._counts.went_well(messages[0].topic, took_ns)
        else:
            is_well = error is None and (answer is None or answer.code in STORED)
            self._counts.sent(messages[0].topic, len(messages), took_ns, is_well=is_well)
        if self._watch is not None:
            self._watch.ended(answer, error)


def timed(
    counts: ProducerCounts, topic: str, count: int, make: Callable[[Call], Command]
) -> Callable[[Call], Command]:
    """``make``, with each call timed as a try to send so many messages."""
    is_again = False

    def call(wanted: Call) -> Command:
        nonlocal is_again
        if is_again:
            counts.retried(topic)
        is_again = True
        start_ns = perf_counter_ns()
        try:
            answer = make(wanted)
        except BaseException:
            counts.sent(topic, count, perf_counter_ns() - start_ns, is_well=False)
            raise
        took_ns = perf_counter_ns() - start_ns
        if answer.code == _SUCCESS and count == 1:
            counts.went_well(topic, took_ns)
        else:
            counts.sent(topic, count, took_ns, is_well=answer.code in STORED)
        return answer

    return call
