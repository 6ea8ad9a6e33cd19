"""What happens to the queues of a member: pulls, listeners, and what they come to.

The part of a `GroupConsumer` that is busy for every message.  Group-wide consequences, another
rebalance or a heartbeat, are left to `_end`, which sees the actions of every event that can have
some.

Invariant: no batch is given out of a queue whose lock is not held, and none starts then.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from flintmq.core.bad_record_rule import KIND
from flintmq.core.consumer.assigned_queue import (
    AssignedQueue,
    Locating,
    Moved,
    Working,
    as_listeners_see,
)
from flintmq.core.consumer.member_actions import Action
from flintmq.core.consumer.pull_loop import Gate, PullWaiting, Reason
from flintmq.core.consumer.queue_table import QueueTable
from flintmq.core.group.actions import (
    AskStartOffset,
    DeadLetterRecord,
    Deliver,
    ReportEvent,
    SendBack,
    SendToRetry,
)
from flintmq.core.group.consumer_settings import ConsumerSettings
from flintmq.core.group.listener_results import Verdict, outcomes_of
from flintmq.core.group.pull_answers import OffsetMoved, PullAnswer
from flintmq.core.group.start_offset import StartOffset
from flintmq.core.group.subscriptions import Subscriptions
from flintmq.core.pop.pop_request import Pop, PopFound
from flintmq.core.pop.pop_table import PopTable
from flintmq.core.pop.popped_message import AckPopped, HidePopped
from flintmq.core.pop.popped_queue import PoppedQueue
from flintmq.core.reading.pull_request import Pull
from flintmq.errors import BrokerRefused, FlintError
from flintmq.model.bad_record import BadRecord
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.pop.receipts import ReceiptHandle

Actions = Sequence[Action]

_UNKNOWN_TO_BROKER: Final = frozenset(
    {
        int(ResponseCode.SUBSCRIPTION_NOT_EXIST),
        int(ResponseCode.SUBSCRIPTION_NOT_LATEST),
        int(ResponseCode.FILTER_DATA_NOT_EXIST),
        int(ResponseCode.FILTER_DATA_NOT_LATEST),
    }
)
"""What a broker answers that has not had our heartbeat, or was started after it."""

_home_of: Callable[[Deliver], object] = attrgetter("home")


class QueueWork(ABC):
    """Events of queues in, actions out: the base of `GroupConsumer`."""

    def __init__(
        self,
        settings: ConsumerSettings,
        subscriptions: Subscriptions,
        table: QueueTable,
    ) -> None:
        self.settings = settings
        self.subscriptions = subscriptions
        self._table = table
        self._pops = PopTable(settings, subscriptions)
        self._retry_topic = settings.retry_topic
        self._paused: set[QueueRef | None] = set()  # None stands for all
        self._wants_heartbeat = False
        """Whether a broker did not know our subscription."""
        self.bad_count = 0
        """Records that could not be decoded, of all queues."""

    # Begin

    def start_known(self, ask: AskStartOffset, start: StartOffset, now_ms: int) -> Actions:
        home = self._table.begin(ask, start, now_ms)
        return self._end([] if home is None else self._advance(home, now_ms), now_ms)

    def start_failed(self, ask: AskStartOffset, reason: str, now_ms: int) -> Actions:
        return self._end(self._table.begin_failed(ask, reason, now_ms), now_ms)

    # Pulls

    def pull_answered(self, pull: Pull, answer: PullAnswer, now_ms: int) -> Actions:
        home = self._table.find(pull.queue)
        if home is None or not isinstance(home.stage, Working) or not home.stage.loop.owns(pull):
            self._table.pull_ended(pull)
            return ()
        home.pulled_ms = now_ms
        loop, position = home.stage.loop, home.stage.position
        if isinstance(answer, OffsetMoved):
            to = answer.next_offset
            if to <= answer.max_offset < pull.offset:  # the end of a log that has lost its tail
                to = min(to, position.settled_to)  # what is cached was not consumed
            text = f"{pull.offset} does not exist, begins anew at {to}"
            self._table.move(home, to, now_ms)
            return [ReportEvent("offset", str(pull.queue), text, logging.WARNING)]
        messages, odd, bad = loop.answered(pull, answer, now_ms)
        if odd:
            self._count_bad(odd)
        delivers: list[Deliver] = []
        if messages:
            is_retry = pull.queue.topic == self._retry_topic
            seen = as_listeners_see(
                messages, pull.queue, is_retry=is_retry, namespace=self.settings.namespace
            )
            delivers = home.cache(seen)
        if bad:
            return self._lay_aside(home, bad, [*odd, *delivers], now_ms)
        if not messages and home.cached.count == 0:
            position.advance(loop.next_offset)
        return [*odd, *self._advance(home, now_ms), *delivers]

    def pull_failed(self, pull: Pull, error: FlintError, now_ms: int) -> Actions:
        home = self._table.find(pull.queue)
        if home is None or not isinstance(home.stage, Working) or not home.stage.loop.owns(pull):
            return ()
        out: list[Action] = list(home.stage.loop.failed(pull, error, now_ms))
        self._table.agenda.schedule(home, home.next_due_ms())
        if isinstance(error, BrokerRefused) and error.code in _UNKNOWN_TO_BROKER:
            self._wants_heartbeat = True
        return self._end(out, now_ms)

    # Listeners

    def started(self, batch: Deliver, now_ms: int) -> bool:
        """A listener is about to begin.  False: do not call it, the batch is not ours any more."""
        home = batch.home
        if isinstance(home, PoppedQueue):
            return home.settling.started(batch, now_ms)
        assert isinstance(home, AssignedQueue)
        if not isinstance(home.stage, Working):
            return False
        if not home.is_free(now_ms):
            home.withdraw(batch)
            return False
        home.settling.running.start(batch, now_ms)
        return True

    def started_of(self, batches: Sequence[Deliver], now_ms: int) -> list[Deliver]:
        """`started` for many: those that are still ours."""
        ours: list[Deliver] = []
        for home, some in groupby(batches, _home_of):
            pulled = home if isinstance(home, AssignedQueue) else None
            if pulled is not None and isinstance(pulled.stage, Working) and pulled.is_free(now_ms):
                begun = list(some)
                pulled.settling.running.start_all(begun, now_ms)
                ours += begun
            else:
                ours += [batch for batch in some if self.started(batch, now_ms)]
        return ours

    def consumed(self, batch: Deliver, result: object, now_ms: int) -> Actions:
        """A listener ended, with what it returned or the exception it raised."""
        home = batch.home
        if isinstance(home, PoppedQueue):
            return self._consumed_popped(home, batch, result, now_ms)
        assert isinstance(home, AssignedQueue)
        home.consumed_ms = now_ms
        settling = home.settling
        if not home.counts:
            settling.running.pop(batch, None)
            return self._end(self._table.settled(home), now_ms)
        if result is None and settling.consumed_all(batch):
            return self._settled(home, [], now_ms)
        verdict = outcomes_of(result, len(batch.messages))
        out: list[Action] = [*settling.consumed(batch, verdict, now_ms), *_fault(batch, verdict)]
        return self._settled(home, out, now_ms)

    def _consumed_popped(
        self, home: PoppedQueue, batch: Deliver, result: object, now_ms: int
    ) -> Actions:
        verdict = outcomes_of(result, len(batch.messages))
        out: list[Action] = [*self._pops.consumed(home, batch, verdict, now_ms)]
        return self._end(out + _fault(batch, verdict), now_ms)

    def consumed_whole(self, batches: Iterable[Deliver], now_ms: int) -> list[Action]:
        """`consumed` of many batches, each without exception or result: one look for a queue."""
        out: list[Action] = []
        for home, some in groupby(batches, _home_of):
            closely: Sequence[Deliver] = list(some)
            if isinstance(home, AssignedQueue) and home.counts:
                home.consumed_ms = now_ms
                closely = home.settling.consumed_all_of(closely)
                out += self._settled(home, [], now_ms)
            for batch in closely:
                out += self.consumed(batch, None, now_ms)
        return out

    def sent_back(self, ask: SendBack, now_ms: int) -> Actions:
        home = ask.home
        if isinstance(home, PoppedQueue):
            return self._end([*self._pops.dead_letter_stored(ask, now_ms)], now_ms)
        assert isinstance(home, AssignedQueue)
        if not home.counts:
            return ()
        home.settling.sent_back(ask, now_ms)
        return self._settled(home, [], now_ms)

    def send_back_failed(self, ask: SendBack, reason: str, now_ms: int) -> Actions:
        home = ask.home
        if isinstance(home, PoppedQueue):
            return self._end([*self._pops.dead_letter_failed(ask, reason, now_ms)], now_ms)
        assert isinstance(home, AssignedQueue)
        if not home.counts:
            return ()
        return self._settled(home, [*home.settling.send_back_failed(ask, reason, now_ms)], now_ms)

    def copied(self, copy: SendToRetry, now_ms: int) -> Actions:
        return self.sent_back(copy.ask, now_ms)

    def copy_failed(self, copy: SendToRetry, reason: str, now_ms: int) -> Actions:
        home = copy.ask.home
        assert isinstance(home, AssignedQueue)
        if not home.counts:
            return ()
        out = home.settling.copy_failed(copy.ask, reason, now_ms)
        return self._settled(home, [*out], now_ms)

    # Pops

    def popped(self, pop: Pop, found: PopFound, now_ms: int) -> Actions:
        """A broker handed messages out, or none."""
        self.bad_count += len(found.bad)
        return self._end([*self._pops.popped(pop, found, now_ms)], now_ms)

    def pop_failed(self, pop: Pop, error: FlintError, now_ms: int) -> Actions:
        return self._end([*self._pops.pop_failed(pop, error, now_ms)], now_ms)

    def acked(self, ask: AckPopped, failures: Sequence[str | None], now_ms: int) -> Actions:
        """Popped messages are acknowledged; why not, of each."""
        return self._end([*self._pops.acked(ask, failures, now_ms)], now_ms)

    def hidden(self, ask: HidePopped, newer: ReceiptHandle, now_ms: int) -> Actions:
        return self._end([*self._pops.hidden(ask, newer, now_ms)], now_ms)

    def hide_failed(self, ask: HidePopped, reason: str, now_ms: int) -> Actions:
        return self._end([*self._pops.hide_failed(ask, reason, now_ms)], now_ms)

    # Records that cannot be decoded

    def record_answered(self, ask: DeadLetterRecord, refusal: str | None, now_ms: int) -> Actions:
        """A broker has stored the dead letter, or said why not."""
        home = ask.home
        assert isinstance(home, AssignedQueue)
        if not home.counts or home.bad is None:
            return ()
        if refusal is None:
            home.bad.stored(ask)
            return self._settled(home, [], now_ms)
        return self._settled(home, [*home.bad.refused(ask, refusal, now_ms)], now_ms)

    def record_failed(self, ask: DeadLetterRecord, reason: str, now_ms: int) -> Actions:
        """The request for a dead letter got no answer."""
        home = ask.home
        assert isinstance(home, AssignedQueue)
        if not home.counts or home.bad is None:
            return ()
        return self._settled(home, [*home.bad.failed(ask, reason, now_ms)], now_ms)

    # Pause and resume

    def pause(self, queues: Iterable[QueueRef] | None = None) -> None:
        """Pull no more, all queues or these; what is cached is still delivered."""
        self._paused.add(None) if queues is None else self._paused.update(queues)
        self._pops.is_paused = None in self._paused

    def resume(self, now_ms: int, queues: Iterable[QueueRef] | None = None) -> Actions:
        """Pull again, all queues or these."""
        self._paused.clear() if queues is None else self._paused.difference_update(queues)
        out: list[Action] = [] if self._paused else [*self._pops.resume(now_ms)]
        for home in self._table:
            if isinstance(home.stage, Working):
                home.stage.loop.retry(Reason.PAUSED, now_ms)
                out += self._advance(home, now_ms)
        return out

    # Inside

    @abstractmethod
    def _end(self, out: list[Action], now_ms: int) -> Actions:
        """Add what an event means for the group."""

    def _advance(self, home: AssignedQueue, now_ms: int) -> list[Action]:
        """Do for a queue what can be done now."""
        out: list[Action] = []
        stage = home.stage
        if isinstance(stage, Working):
            is_free = home.is_free(now_ms)
            out += home.settling.tick(now_ms)
            if home.bad is not None:
                out += home.bad.tick(now_ms)
            if is_free:
                stage.loop.retry(Reason.NOT_LOCKED, now_ms)
                out += home.next_batches()
            if home.is_time_to_pull(now_ms):
                gate = self._gate(home, stage.position.settled_to, is_free)
                out += stage.loop.next_pull(gate, now_ms)
        elif isinstance(stage, Moved) and stage.until_ms <= now_ms:
            out += self._table.close(home)
        elif isinstance(stage, Locating) and stage.ask is None and stage.due_ms <= now_ms:
            out.append(home.locate(now_ms))
        self._table.agenda.schedule(home, home.next_due_ms())
        return out

    def _gate(self, home: AssignedQueue, settled_to: QueueOffset, is_free: bool) -> Gate:
        topic, paused = home.queue.topic, self._paused
        commits = self.settings.is_clustering and settled_to > 0
        return Gate(
            self.subscriptions.find(topic),
            self.subscriptions.confirmed_version(topic),
            settled_to if commits else None,
            bool(paused) and (None in paused or home.queue in paused),
            is_free,
        )

    def _settled(self, home: AssignedQueue, out: list[Action], now_ms: int) -> Actions:
        """Messages of a queue were settled, or at least looked at."""
        stage = home.stage
        if not isinstance(stage, Working):
            return self._end(out + self._table.settled(home), now_ms)
        loop = stage.loop
        if loop.is_full and loop.has_room_again:
            loop.is_full = False
            loop.state = PullWaiting(Reason.READY, now_ms)
            out += self._advance(home, now_ms)
        elif home.ordered and home.is_free(now_ms):
            out += home.next_batches()
        elif not out:
            return out  # the usual end of a batch
        self._table.agenda.schedule(home, home.settling.next_due_ms())
        if home.bad is not None:
            self._table.agenda.schedule(home, home.bad.next_due_ms())
        return out

    def _count_bad(self, odd: Iterable[ReportEvent]) -> None:
        self.bad_count += sum(report.kind == KIND for report in odd)

    def _lay_aside(
        self, home: AssignedQueue, bad: Sequence[BadRecord], out: list[Action], now_ms: int
    ) -> list[Action]:
        """Settle records that cannot be decoded, and go on behind them."""
        stage = home.stage
        assert isinstance(stage, Working)
        out += home.lay_aside(bad)
        if home.cached.count == 0:
            stage.position.advance(stage.loop.next_offset)
        return out + self._advance(home, now_ms)


def _fault(batch: Deliver, verdict: Verdict) -> list[Action]:
    """Report a result that means nothing."""
    if verdict.fault is None:
        return []
    return [ReportEvent("result", str(batch.queue), str(verdict.fault), logging.ERROR)]
