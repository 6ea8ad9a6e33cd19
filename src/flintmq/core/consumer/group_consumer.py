"""One member of a consumer group: what happened in, what to do out.

    driver ──event, now_ms──► GroupConsumer ──actions──► driver

The driver owns sockets, clocks, the pool of listeners and the offset store.  It calls a method
for everything that happened and carries out the actions that come back, in their order, none of
them waiting for another.  Every action that has an answer is reported exactly once, with the
action itself; a late report does no harm, a missing one holds a queue up.

    action            carry out                                 report with
    ───────────────   ───────────────────────────────────────   ──────────────────────────────────
    Heartbeat         HEART_BEAT (34) to all brokers            heartbeat_done
    AskMembers        GET_CONSUMER_LIST_BY_GROUP (38)           members_known | members_failed
    AskAssignment     QUERY_ASSIGNMENT (400)                    assigned | members_failed
    AskStartOffset    the stored offset, or one chosen by       start_known | start_failed
                      `choose_start_offset`
    Pull              PULL_MESSAGE (11)                         pull_answered | pull_failed
    Pop               POP_MESSAGE (200050)                      popped | pop_failed
    AckPopped         ACK_MESSAGE (200051), or BATCH_ACK_…      acked
    HidePopped        CHANGE_MESSAGE_INVISIBLETIME (200053)     hidden | hide_failed
    BadPopped         a dead letter of it, then ACK_MESSAGE     nothing
    Deliver           queue it for a listener                   started, then consumed
    SendBack          CONSUMER_SEND_MSG_BACK (36)               sent_back | send_back_failed
    SendToRetry       send ``ask.message.body`` with            copied | copy_failed
                      ``properties`` to ``topic``
    DeadLetterRecord  CONSUMER_SEND_MSG_BACK (36), level -1;    record_answered | record_failed
                      the refusal, None if it was stored
    CommitOffset      UPDATE_CONSUMER_OFFSET (15) oneway,       commit_failed, if it is known
                      or into the file
      is_urgent       the same, waiting until it is stored      committed | commit_failed
    ConfirmOffset     ``pull``, then QUERY_CONSUMER_OFFSET (14) confirmed | confirm_failed
    LockQueues        LOCK_BATCH_MQ (41)                        locked | lock_failed
    UnlockQueues      UNLOCK_BATCH_MQ (42), oneway              nothing
    QueuesChanged     call the user's listener on queues        nothing
    Report            add an event                              nothing
    Unregister        UNREGISTER_CLIENT (35) to all brokers     nothing

Besides: `route_known` when the queues of a topic are known or change, `notified` when a broker
says that members changed, `reset` when an admin moves the group, `broker_lost` when the connection
to a master is closed, `tick` when `next_due_ms` has come.  `started` says whether the batch is
still wanted: one that is not is thrown away and not reported.

    created ──start──► running ──stop──► stopping ──nothing runs, all committed──► stopped
                                             └──abandon──────────────────────────────┘

``now_ms`` is a clock that never goes back.  ``wall_ms`` is the time of day when the machine is
made: versions of subscriptions are times of day.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final

from flintmq.core.consumer.assigned_queue import (
    AssignedQueue,
    Locating,
    Moved,
    Working,
)
from flintmq.core.consumer.consumer_status import GroupStatus, queue_status
from flintmq.core.consumer.member_actions import Action
from flintmq.core.consumer.queue_events import Actions, QueueWork
from flintmq.core.consumer.queue_table import QueueTable
from flintmq.core.consumer.running_batches import check_interval_ms
from flintmq.core.consumer.settle_concurrent import SettleRules, settle_rules
from flintmq.core.group.actions import (
    AskAssignment,
    AskMembers,
    CommitOffset,
    ConfirmOffset,
    Deliver,
    LockQueues,
    QueuesChanged,
    ReportEvent,
    SendHeartbeat,
    Unregister,
)
from flintmq.core.group.allocate import Strategy, allocate_averagely
from flintmq.core.group.consumer_settings import ConsumerSettings
from flintmq.core.group.rebalance import Assigned, Rebalance, Share
from flintmq.core.group.subscriptions import Subscriptions, TopicSubscription
from flintmq.errors import InvalidSetting
from flintmq.model.group import is_retry_topic
from flintmq.model.queue import QueueOffset, QueueRef

HEARTBEAT_APART_MS: Final = 1_000
"""A broker that does not know our subscription is told at once, but not for every pull again."""


class Phase(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class GroupConsumer(QueueWork):
    """The state machine of one member.  Events of its queues are those of `QueueWork`."""

    def __init__(
        self,
        settings: ConsumerSettings,
        client_id: str,
        subscriptions: Iterable[TopicSubscription],
        *,
        strategy: Strategy = allocate_averagely,
        now_ms: int,
        wall_ms: int,
    ) -> None:
        wanted = Subscriptions(settings, subscriptions, wall_ms)
        super().__init__(settings, wanted, QueueTable(settings, wanted))
        if settings.mode == "pop" and wanted.has_ordered:
            raise InvalidSetting("mode", "pop", "an ordered topic needs mode='pull'")
        self.client_id = client_id
        self.phase = Phase.CREATED
        self._wall_ahead_ms = wall_ms - now_ms
        self._rebalance = Rebalance(
            client_id,
            [each.topic for each in self.subscriptions],
            strategy,
            settings.rebalance_interval_ms,
            now_ms,
            is_broadcasting=not settings.is_clustering,
            by_broker=self.topics_by_broker,
            always_pop=settings.mode == "pop",
        )
        self._is_known = False  # whether a heartbeat has introduced us
        self._heartbeat_ms = now_ms
        self._commit_ms = now_ms + settings.commit_interval_ms
        self._expire_ms = now_ms + check_interval_ms(settings.consume_timeout_ms)
        self._group_due_ms = self._commit_ms

    @property
    def topics_by_broker(self) -> frozenset[str]:
        """The topics that brokers share out: those to pop, if it is for them to say."""
        wanted = self.subscriptions
        return frozenset(
            each.topic
            for each in wanted
            if not is_retry_topic(each.topic)
            and self.settings.is_shared_by_broker(ordered=wanted.is_ordered(each.topic))
        )

    # Life

    def start(self, now_ms: int) -> Actions:
        """Introduce the group to the brokers; all else follows."""
        assert self.phase is Phase.CREATED
        self.phase = Phase.RUNNING
        return self._end([self._beat(now_ms)], now_ms)

    def stop(self, now_ms: int) -> Actions:
        """Pull no more; let listeners end; then commit, unlock and leave."""
        if self.phase is not Phase.RUNNING:
            return ()
        self.phase = Phase.STOPPING
        out: list[Action] = []
        for home in self._table:
            out += self._table.close(home)
        return self._end([*out, *self._pops.stop()], now_ms)

    def abandon(self, now_ms: int) -> Actions:
        """Wait no longer for what `still_running` names."""
        if self.phase is not Phase.STOPPING:
            return ()
        out: list[Action] = []
        for home in self._table:
            out += self._table.abandon(home)
        return self._end([*out, *self._pops.abandon()], now_ms)

    def still_running(self) -> list[Deliver]:
        """Batches that listeners have, those of queues we gave up included."""
        pulled = [batch for home in self._table for batch in home.settling.running]
        return pulled + self._pops.still_running()

    # Routes, members, notifications

    def heartbeat_done(self, heartbeat: SendHeartbeat, now_ms: int) -> Actions:
        """Brokers know the subscriptions; those that were unreachable get a later heartbeat."""
        self.subscriptions.confirmed(heartbeat.section)
        if self._is_known:
            return ()
        self._is_known = True
        return self.tick(now_ms)

    def route_known(self, topic: str, queues: Iterable[QueueRef], now_ms: int) -> Actions:
        self._rebalance.route_known(topic, queues, now_ms)
        return self.tick(now_ms)

    def notified(self, now_ms: int) -> Actions:
        """Members joined or left (NOTIFY_CONSUMER_IDS_CHANGED, 40)."""
        self._rebalance.wake(now_ms)
        return self.tick(now_ms)

    def members_known(self, ask: AskMembers, members: Iterable[str], now_ms: int) -> Actions:
        out: list[Action] = []
        for each in self._rebalance.members_known(ask, members, now_ms):
            out += self._apply(each, now_ms) if isinstance(each, Share) else (each,)
        return self._end(out, now_ms)

    def assigned(
        self, ask: AskAssignment, found: Iterable[Assigned] | None, now_ms: int
    ) -> Actions:
        """A broker said what is ours to pull and where to pop; None: nothing changes."""
        out: list[Action] = []
        for share in self._rebalance.assigned(ask, found, now_ms):
            out += self._apply(share, now_ms)
        return self._end(out, now_ms)

    def members_failed(self, ask: AskMembers, reason: str, now_ms: int) -> Actions:
        return self._end([*self._rebalance.members_failed(ask, reason, now_ms)], now_ms)

    # Where to begin, locks, commits

    def locked(self, ask: LockQueues, granted: Iterable[QueueRef], now_ms: int) -> Actions:
        out = self._table.locked(ask, granted, now_ms)
        for queue in ask.queues:
            home = self._table.find(queue)
            if home is not None:
                out += self._advance(home, now_ms)
        return self._end(out, now_ms)

    def lock_failed(self, ask: LockQueues, reason: str, now_ms: int) -> Actions:
        self._table.locks.failed(ask, now_ms)
        text = f"{len(ask.queues)} locks not known: {reason}"
        return self._end([ReportEvent("lock", ask.broker, text, logging.WARNING)], now_ms)

    def broker_lost(self, broker: str, now_ms: int) -> Actions:
        """The connection to a master is closed, and perhaps all its locks are lost."""
        self._table.locks.doubt(broker, now_ms)
        return self.tick(now_ms)

    def committed(self, commit: CommitOffset, now_ms: int) -> Actions:
        return self._end(self._table.committed(commit), now_ms)

    def commit_failed(self, commit: CommitOffset, reason: str, now_ms: int) -> Actions:
        self._table.ledger.failed(commit.queue)
        text = f"{commit.offset} was not committed: {reason}"
        report = ReportEvent("offset", str(commit.queue), text, logging.WARNING)
        return self._end([report, *self._table.committed(commit, failed=True)], now_ms)

    def confirmed(self, ask: ConfirmOffset, stored: QueueOffset | None, now_ms: int) -> Actions:
        return self._end(self._table.confirmed(ask, stored), now_ms)

    def confirm_failed(self, ask: ConfirmOffset, reason: str, now_ms: int) -> Actions:
        text = f"whether {ask.offset} stayed committed is not known: {reason}"
        report = ReportEvent("offset", str(ask.queue), text, logging.WARNING)
        return self._end([report, *self._table.confirmed(ask, None)], now_ms)

    def reset(self, offsets: Mapping[QueueRef, QueueOffset], now_ms: int) -> Actions:
        """An admin moved the group (RESET_CONSUMER_CLIENT_OFFSET, 220): pull from there."""
        out: list[Action] = []
        for queue, to in offsets.items():
            home = self._table.find(queue)
            if home is not None and isinstance(home.stage, Working | Locating | Moved):
                out.append(
                    ReportEvent("reset", str(queue), f"begins anew at {to}", logging.WARNING)
                )
                self._table.move(home, to, now_ms)
        return self._end(out, now_ms)

    # The clock

    def next_due_ms(self) -> int:
        """When to call `tick`.  Cheap: it may be asked after every event."""
        times = (self._table.agenda.next_due_ms(), self._pops.next_due_ms(), self._group_due_ms)
        return min(each for each in times if each is not None)

    def tick(self, now_ms: int) -> Actions:
        """Do what is due."""
        table, out = self._table, self._share_out(now_ms)
        if now_ms >= self._commit_ms:
            self._commit_ms = now_ms + self.settings.commit_interval_ms
            out += [CommitOffset(queue, offset) for queue, offset in table.ledger.next_commits()]
        if now_ms >= self._expire_ms:
            self._expire_ms = now_ms + check_interval_ms(self.settings.consume_timeout_ms)
            for home in table:
                out += home.settling.expire(now_ms) if home.counts else ()
        out += table.check_locks(now_ms)
        for home in table.agenda.pop_due(now_ms):
            out += self._advance(home, now_ms)
        return self._end([*out, *self._pops.tick(now_ms)], now_ms)

    def carry(self, delta_ms: int) -> None:
        """The clock is about to be moved by so much: what is alive stays as alive as it was."""
        self._table.carry(delta_ms)

    def status(self) -> GroupStatus:
        """What each queue does and waits for."""
        table = self._table
        positions = table.ledger.offsets()
        troubles = {each.topic: self._rebalance.trouble(each.topic) for each in self.subscriptions}
        return GroupStatus(
            group=self.settings.wire_group,
            client_id=self.client_id,
            phase=self.phase.value,
            queues=tuple(queue_status(home, positions.get(home.queue)) for home in table),
            troubles={topic: text for topic, text in troubles.items() if text},
            bad_count=self.bad_count,
            pops=self._pops.places(),
        )

    def rules_of(self, batch: Deliver) -> SettleRules:
        """The rules by which the messages of a batch are settled."""
        home = batch.home
        if isinstance(home, AssignedQueue):
            return home.settling.rules
        return settle_rules(self.settings, self.subscriptions, batch.queue.topic)

    def offsets(self) -> Mapping[QueueRef, QueueOffset]:
        """Offsets of the queues this member owns (GET_CONSUMER_STATUS_FROM_CLIENT, 221)."""
        return self._table.ledger.offsets()

    # Inside

    def _beat(self, now_ms: int) -> SendHeartbeat:
        self._heartbeat_ms = now_ms
        return SendHeartbeat(self.subscriptions.section())

    def _share_out(self, now_ms: int) -> list[Action]:
        """Ask who is in the group, where it is time to."""
        out: list[Action] = []
        if self._is_known and self.phase is Phase.RUNNING:
            for each in self._rebalance.due(now_ms):
                out += self._apply(each, now_ms) if isinstance(each, Share) else (each,)
        return out

    def _apply(self, share: Share, now_ms: int) -> list[Action]:
        """Our share of a topic is known.  Brokers learn of a change before pulls name it."""
        if self.phase is not Phase.RUNNING:
            return []
        out: list[Action] = []
        share = self._one_way_at_a_time(share, out)
        applied = self._table.apply(share, now_ms)
        pops, have_pops_changed = self._pops.apply(share, now_ms)
        out += [*applied.actions, *pops]
        if applied.has_changed or have_pops_changed:
            self.subscriptions.changed(share.topic, now_ms + self._wall_ahead_ms)
            out.append(self._beat(now_ms))
            out.append(QueuesChanged(share.topic, share.queues, tuple(sorted(share.own))))
        return out + self._table.check_locks(now_ms)

    def _one_way_at_a_time(self, share: Share, out: list[Action]) -> Share:
        """A topic that is pulled is popped when its queues are committed, and the reverse."""
        if share.popped:
            pulled = [h for h in self._table if h.queue.topic == share.topic]
            for home in pulled:
                out += self._table.close(home)
            if any(home.queue.topic == share.topic for home in self._table):
                return replace(share, own=frozenset(), popped=frozenset())
        elif share.own and self._pops.is_popping(share.topic):
            return replace(share, own=frozenset())
        return share

    def _end(self, out: list[Action], now_ms: int) -> Actions:
        """Add what follows from any event: rebalance, heartbeat, the end, the next due time."""
        table = self._table
        if table.is_freed or self._pops.is_freed:
            table.is_freed = self._pops.is_freed = False
            self._rebalance.wake(now_ms)
            out += self._share_out(now_ms)
        if self._wants_heartbeat and now_ms - self._heartbeat_ms >= HEARTBEAT_APART_MS:
            self._wants_heartbeat = False
            out.append(self._beat(now_ms))
        if self.phase is Phase.STOPPING and not len(table) and not len(self._pops):
            self.phase = Phase.STOPPED
            out.append(Unregister(self.settings.wire_group))
        known = (
            self._rebalance.next_due_ms() if self._is_known else None,
            table.locks.next_due_ms(),
        )
        times = [self._commit_ms, self._expire_ms, *(ms for ms in known if ms is not None)]
        self._group_due_ms = min(times)
        return out
