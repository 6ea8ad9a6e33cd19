"""The broker without sockets: requests in, turns of the store, answers out.

    request · request · … ──► end_turn ─┬─► answers        (async flush, reads)
                                        └─► `parked_sends` ────► answers   (sync flush, slaves)

A turn is whatever came in since the last one.  Its records are written once, then the answers
that depend on them leave, and pulls that waited for them run again.  `tick` does what is due
by the clock.  Whoever owns the engine is its `Port`: it sends answers, asks clients,
and syncs the store where that may take its time.

A request that changes topics is answered when they are registered with the name servers: its
sender may ask for the route next.  So is the first send to a topic, which creates it.

Invariant: a request that wants an answer gets exactly one, unless RocketMQ gives none; and
`Stored` ones never get theirs before the log has their bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flintmq.broker.consume.client_requests import connection_lost, tell_late
from flintmq.broker.consume.fast_pull import QuickPulls
from flintmq.broker.consume.held_requests import AT_LAST, PASSES
from flintmq.broker.consume.pull import pull_again
from flintmq.broker.counters.call_times import RequestTimes
from flintmq.broker.counters.message_counts import FIFO, NORMAL
from flintmq.broker.engine_port import Port, Request
from flintmq.broker.failures import PULLS, failure_answer, unsupported
from flintmq.broker.parked_sends import AnyParked, Parked, ParkedSends
from flintmq.broker.pops.held_pops import HeldPop, HeldPops
from flintmq.broker.processor_table import processors
from flintmq.broker.requests.outcome import Answer, Ask, Hold, HoldPop, Outcome, Steps, Stored
from flintmq.broker.requests.peer import Peer
from flintmq.broker.send.fast_send import QuickSends
from flintmq.broker.send.sent_group import SentGroup
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.broker.stepping import SteppedRequest, Stepping
from flintmq.broker.tables.held_pulls import HeldPull
from flintmq.broker.upkeep.periodic import PeriodicTask
from flintmq.errors import DiskFailed, Overloaded
from flintmq.logs import logger
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command

log = logger(__name__)


class BrokerEngine:
    """One broker at work."""

    def __init__(self, state: BrokerState, port: Port) -> None:
        self.state = state
        self._port = port
        self._processors: Mapping[int, Processor] = processors()
        self.quick = QuickSends(state)
        self.pulls = QuickPulls(state)
        self.calls: RequestTimes | None = None
        """How long requests take; None where no metrics are served."""
        self._unwritten: list[AnyParked] = []
        self._parked = ParkedSends(state, port, self.refuse, self._answered)
        self._unannounced: list[tuple[Peer, Request, Answer]] = []
        self._creating: list[Parked] = []
        self.stepping = Stepping()
        self.deadlines_moved = True
        """Whether `next_due_ms` may be earlier than when it was last asked for."""
        self._due_ms = 0  # what it said then
        self._holds = (state.held_pops, state.held_notices)
        config, started_ms = state.config, state.started_ms
        self._periodic = (
            PeriodicTask(config.hold_sweep_ms, self._sweep, started_ms),
            PeriodicTask(config.client_scan_ms, self._scan, started_ms),
        )

    # Requests

    def serve(self, request: Request, peer: Peer, now_ms: int) -> None:
        """Run a request; its answer may come now, at the end of the turn, or later."""
        processor = self._processors.get(request.code)
        if processor is None:
            self.refuse(request, peer, unsupported(request.code))
            return
        request.came_ms = now_ms
        if request.code not in PULLS:
            self.deadlines_moved = True
        topics, names = self.state.topics, self.state.names
        version = topics.version
        names.maker, names.now_ms = peer.ip, now_ms
        try:
            outcome = processor(request, self.state, peer, now_ms)
        except Exception as error:
            outcome = failure_answer(self.state, request, peer, error)
        names.maker = None
        if topics.version is not version and isinstance(outcome, Answer):
            self._drain_outbox()
            self._unannounced.append((peer, request, outcome))
        elif topics.version is not version and isinstance(outcome, Stored):
            self._drain_outbox()
            self._creating.append(self._park(Parked(peer, request, outcome, is_creating=True)))
        else:
            self._settle(request, peer, outcome)

    def park(self, group: SentGroup, now_ms: int) -> None:
        """Sends were taken by the fast path: their answers wait for the end of the turn."""
        stats = self.state.stats
        for topic, sizes in group.sizes.items():
            stats.sent(topic, len(sizes), sum(sizes), now_ms)
            stats.counts.add(topic, NORMAL, sizes)
        for topic, sizes in group.fifo_sizes.items():
            stats.sent(topic, len(sizes), sum(sizes), now_ms)
            stats.counts.add(topic, FIFO, sizes)
        for topic, count, size_bytes in group.batches:
            stats.sent(topic, count, size_bytes, now_ms)
            stats.counts.add_alike(topic, NORMAL, count, size_bytes)
        self._unwritten.append(group)

    def refuse(self, request: Request, peer: Peer, answer: Answer) -> None:
        if self.calls is not None:
            self.calls.answered(request, answer.code)
        if not request.is_oneway:
            self._port.answer(peer, request, answer)

    def lost(self, peer: Peer, now_ms: int) -> None:
        """A connection was lost."""
        self.state.held.drop(peer)
        for held in self._holds:
            held.drop(peer)
        self.stepping.drop(peer)
        connection_lost(self.state, peer, now_ms)
        self._drain_outbox()

    def step(self, is_over: Callable[[], bool]) -> None:
        """Go on with answers that are computed in parts until the time is over."""
        for work, outcome in self.stepping.run(is_over):
            self.deadlines_moved = True
            if isinstance(outcome, Exception):
                outcome = failure_answer(self.state, work.request, work.peer, outcome)
            self._settle(work.request, work.peer, outcome)

    # Turns

    @property
    def has_turn(self) -> bool:
        """Whether something waits for `end_turn`."""
        state = self.state
        return (
            bool(self._unwritten or state.after_write or self._unannounced or state.topics.changed)
            or state.log.has_turn
            or state.held_pops.has_woken
            or state.held_notices.has_woken
        )

    @property
    def has_news(self) -> bool:
        """Whether something waits for the end of a turn: a write, the timer, or new names."""
        return self.deadlines_moved or self.has_turn or self.state.has_new_names

    def end_turn(self, now_ms: int) -> None:
        """Write what was appended; answer; wake the pulls that waited for it."""
        state = self.state
        while self.has_turn:
            parked, self._unwritten = self._unwritten, []
            callbacks, state.after_write = state.after_write, []
            failure: DiskFailed | None = None
            grown = []
            try:
                grown = state.log.write()
            except DiskFailed as error:
                failure = error
                state.put_times.not_written()
                log.error("%d requests refused: %s", len(parked), error)  # noqa: TRY400
            for callback in callbacks:
                self.deadlines_moved = True
                callback(failure)
            if failure is None:
                self._parked.add(parked, now_ms)
                self.deadlines_moved |= self._parked.next_due_ms() is not None
            else:
                for each in parked:
                    self._parked.answer(each, failure)
            for pull in state.held.grown(grown):
                self._pull_again(pull, now_ms)
            for held in self._holds:
                held.grown(grown)
                for pop in held.take_woken():
                    self._pop_again(pop, now_ms, at_last=False)
            self._drain_outbox()
            if self._unannounced or self._creating or state.topics.changed:
                self._announce()

    def durable(self, now_ms: int) -> None:
        """A sync ended well: go on with what waited for it."""
        self._parked.durable(now_ms)
        self.deadlines_moved |= self._parked.next_due_ms() is not None

    def sync_failed(self, failure: DiskFailed) -> None:
        """A sync failed: whoever waits for it must send again."""
        count = self._parked.sync_failed(failure)
        if count or failure is not self.state.log.failed:  # that one is logged once
            log.error("%d requests refused: %s", count, failure)
        self.state.put_times.not_synced()

    def replicated(self) -> None:
        """A slave has stored more: answer what waited for it."""
        self._parked.replicated()

    @property
    def wants_sync(self) -> bool:
        """Whether a send waits for the disk."""
        return self._parked.wants_sync

    @property
    def waits_up_to(self) -> int | None:
        """Where in the log the last send that waits for the disk ends, if any does."""
        return self._parked.waits_up_to

    # The clock

    def tick(self, now_ms: int) -> int:
        """Do what is due, end the turn, and return when to call again."""
        state = self.state
        for task in self._periodic:
            task.run_if_due(now_ms)
        for pull in state.held.due(now_ms):
            self._pull_again(pull, now_ms)
        for held in self._holds:
            for pop in held.due(now_ms):
                self._pop_again(pop, now_ms, at_last=pop.hold.until_ms <= now_ms)
        self._parked.expire(now_ms)
        for topic, group, queue_id in state.ordered.freed(now_ms):
            for held in self._holds:
                held.freed(topic, group, queue_id)
        if not state.is_read_only:
            state.delays.deliver(state, now_ms)
            state.timers.deliver(state, now_ms)
            state.halves.check(state, now_ms)
            if state.timers.is_ready:  # else acknowledgements may not be read yet
                state.revival.run(state, now_ms)
        self._drain_outbox()
        self.end_turn(now_ms)
        return self.next_due_ms(now_ms)

    def next_due_ms(self, now_ms: int) -> int:
        """When `tick` should run next."""
        self.deadlines_moved = False
        state = self.state
        due_ms = min(task.due_ms for task in self._periodic)
        others_ms = [
            state.held.next_due_ms(),
            self._parked.next_due_ms(),
            state.ordered.next_due_ms(),
            *(held.next_due_ms() for held in self._holds),
        ]
        if not state.is_read_only:
            others_ms += (
                state.delays.next_due_ms(state, now_ms),
                state.timers.next_due_ms(state, now_ms),
                state.halves.next_due_ms(state, now_ms),
                state.revival.next_due_ms(),
            )
        due_ms = min([due_ms, *(other_ms for other_ms in others_ms if other_ms is not None)])
        self._due_ms = due_ms
        return due_ms

    def release_holds(self, now_ms: int) -> None:
        """Answer every held pull and every large answer: the broker is about to stop."""
        for pull in self.state.held.drain():
            self._pull_again(pull, now_ms)
        for held in self._holds:
            for pop in held.drain():
                self._pop_again(pop, now_ms, at_last=True)
        for work in self.stepping.drain():
            answer = Answer(ResponseCode.SERVICE_NOT_AVAILABLE, remark="the broker is stopping")
            self.refuse(work.request, work.peer, answer)

    # Inside

    def _sweep(self, now_ms: int) -> None:
        for pull in self.state.held.sweep():
            self._pull_again(pull, now_ms)

    def _scan(self, now_ms: int) -> None:
        self.state.locks.forget_expired(now_ms)
        tell_late(self.state, now_ms)
        for peer in self.state.clients.expired(now_ms):
            self._port.close(peer, "no heartbeat came in time")

    def _settle(self, request: Request, peer: Peer, outcome: Outcome) -> None:
        self._drain_outbox()
        if isinstance(outcome, Stored):
            self._park(Parked(peer, request, outcome))
        elif isinstance(outcome, Answer):
            self.refuse(request, peer, outcome)
        elif isinstance(outcome, Hold):
            request.is_held = True
            if outcome.until_ms < self._due_ms:
                self.deadlines_moved = True
            self.state.held.add(HeldPull(request, peer, outcome))
        elif isinstance(outcome, HoldPop):
            request.is_held = True
            self.deadlines_moved = True
            self._held_of(request).add(HeldPop(request, peer, outcome))
        elif isinstance(outcome, Ask):
            self._ask(request, peer, outcome)
        elif isinstance(outcome, Steps):
            try:
                self.stepping.add(SteppedRequest(peer, request, outcome))
            except Overloaded as error:
                self.refuse(request, peer, failure_answer(self.state, request, peer, error))

    def _park(self, parked: Parked) -> Parked:
        self._unwritten.append(parked)
        parked.peer.owed_bytes += parked.answer_bytes
        return parked

    def _ask(self, request: Request, peer: Peer, ask: Ask) -> None:
        def then(reply: Command | None) -> None:
            self.deadlines_moved = True
            try:
                outcome = ask.then(reply)
            except Exception as error:
                outcome = failure_answer(self.state, request, peer, error)
            self._settle(request, peer, outcome)

        self._port.ask_client(ask.peer, ask.request, ask.timeout_ms, then)

    def _announce(self) -> None:
        """Register changed topics; who changed them is answered when that is done."""
        waiting, self._unannounced = self._unannounced, []
        creating, self._creating = self._creating, []
        changed, self.state.topics.changed = self.state.topics.changed, set()

        def then() -> None:
            for peer, request, answer in waiting:
                self.refuse(request, peer, answer)
            for parked in creating:
                parked.is_creating = False
                if parked.is_due:
                    self._parked.answer(parked, None)

        if changed:
            self._port.announce(changed, then)
        else:
            then()

    def _pull_again(self, pull: HeldPull, now_ms: int) -> None:
        try:
            outcome = pull_again(pull.request, self.state, pull.peer, now_ms)
        except Exception as error:
            outcome = failure_answer(self.state, pull.request, pull.peer, error)
        self._settle(pull.request, pull.peer, outcome)

    def _pop_again(self, pop: HeldPop, now_ms: int, *, at_last: bool) -> None:
        """Run a request that was held; it may be held again unless its deadline has come."""
        serve = (AT_LAST if at_last else PASSES)[pop.request.code]
        try:
            outcome = serve(pop.request, self.state, pop.peer, now_ms)
        except Exception as error:
            outcome = failure_answer(self.state, pop.request, pop.peer, error)
        self._settle(pop.request, pop.peer, outcome)

    def _held_of(self, request: Request) -> HeldPops:
        is_pop = request.code == RequestCode.POP_MESSAGE
        return self.state.held_pops if is_pop else self.state.held_notices

    def _answered(self, group: SentGroup) -> None:
        if self.calls is not None:
            self.calls.sends_answered(len(group.frames), len(group.batches), group.came_ms)

    def _drain_outbox(self) -> None:
        outbox = self.state.outbox
        if outbox:
            self.state.outbox = []
            for each in outbox:
                self._port.send_oneway(each.peer, each.request)
