"""A queue has one owner per group at a time, and for no longer than it is renewed."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from flintmq.broker.tables import queue_locks
from flintmq.broker.tables.queue_locks import BrokerQueueLocks
from flintmq.errors import Overloaded
from flintmq.model.queue import QueueRef

LOCK_MS = 60_000
NOW_MS = 1_000_000
Q0, Q1 = QueueRef("T", "broker-a", 0), QueueRef("T", "broker-a", 1)


def test_a_free_queue_is_granted_and_a_taken_one_is_not() -> None:
    locks = BrokerQueueLocks(LOCK_MS)
    locks.lock("G", "c1", [Q0], NOW_MS)

    granted = locks.lock("G", "c2", [Q0, Q1], NOW_MS)

    assert granted == [Q1]
    assert locks.owner("G", Q0, NOW_MS) == "c1"
    assert locks.owner("G", Q1, NOW_MS) == "c2"


def test_groups_do_not_know_of_each_other() -> None:
    locks = BrokerQueueLocks(LOCK_MS)
    locks.lock("G", "c1", [Q0], NOW_MS)

    assert locks.lock("H", "c2", [Q0], NOW_MS) == [Q0]
    assert locks.lock("G", "c1", [], NOW_MS) == []


@pytest.mark.parametrize(("ms", "is_free"), [(59_500, False), (60_000, False), (60_001, True)])
def test_a_lock_lives_sixty_seconds_after_its_last_renewal(ms: int, is_free: bool) -> None:
    locks = BrokerQueueLocks(LOCK_MS)
    locks.lock("G", "c1", [Q0], NOW_MS - 1_000)
    locks.lock("G", "c1", [Q0], NOW_MS)

    owner = locks.owner("G", Q0, NOW_MS + ms)
    is_orderly = locks.is_orderly("G", NOW_MS + ms)
    granted = locks.lock("G", "c2", [Q0], NOW_MS + ms)

    assert (owner is None) == is_free
    assert is_orderly != is_free
    assert granted == ([Q0] if is_free else [])


def test_only_the_owner_gives_a_lock_up() -> None:
    locks = BrokerQueueLocks(LOCK_MS)
    locks.lock("G", "c1", [Q0], NOW_MS)

    locks.unlock("G", "c2", [Q0, Q1])
    kept = locks.owner("G", Q0, NOW_MS)
    locks.unlock("G", "c1", [Q0])

    assert kept == "c1"
    assert locks.owner("G", Q0, NOW_MS) is None
    assert not locks.is_orderly("G", NOW_MS)


def test_locks_stay_as_fresh_as_they_were_when_the_clock_moves() -> None:
    locks = BrokerQueueLocks(LOCK_MS)
    locks.lock("G", "c1", [Q0], NOW_MS)

    locks.carry(1_000_000)

    assert locks.owner("G", Q0, NOW_MS + 1_060_000) == "c1"
    assert locks.owner("G", Q0, NOW_MS + 1_060_001) is None


def test_a_group_may_not_lock_endless_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_locks, "GROUP_LOCKS_MAX", 2)
    locks = BrokerQueueLocks(LOCK_MS)
    locks.lock("G", "c1", [Q0, Q1], NOW_MS)

    with pytest.raises(Overloaded):
        locks.lock("G", "c1", [QueueRef("T", "broker-a", 2)], NOW_MS)

    assert locks.lock("G", "c1", [Q0, Q1], NOW_MS) == [Q0, Q1]
    locks.forget_expired(NOW_MS + LOCK_MS + 1)
    assert locks.lock("G", "c1", [QueueRef("T", "broker-a", 2)], NOW_MS + LOCK_MS + 1)


def test_all_groups_together_may_not_lock_endless_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_locks, "LOCKS_MAX", 2)
    locks = BrokerQueueLocks(LOCK_MS)
    locks.lock("G", "c1", [Q0], NOW_MS)
    locks.lock("H", "c1", [Q0], NOW_MS)

    with pytest.raises(Overloaded):
        locks.lock("I", "c1", [Q0], NOW_MS)

    assert len(locks) == 2
    assert locks.lock("J", "c1", [], NOW_MS) == []
    locks.unlock("G", "c1", [Q0])
    assert locks.lock("I", "c1", [Q0], NOW_MS) == [Q0]


CLIENTS = st.sampled_from(["c1", "c2", "c3"])
GROUPS = st.sampled_from(["G", "H"])
QUEUES = st.lists(st.sampled_from([Q0, Q1, QueueRef("U", "broker-b", 0)]), unique=True)


class LocksAgainstAModel(RuleBasedStateMachine):
    """The model never forgets anything and asks the time of everything."""

    def __init__(self) -> None:
        super().__init__()
        self.locks = BrokerQueueLocks(LOCK_MS)
        self.model: dict[tuple[str, QueueRef], tuple[str, int]] = {}
        self.now_ms = NOW_MS

    def owner(self, group: str, queue: QueueRef) -> str | None:
        owner, renewed_ms = self.model.get((group, queue), ("", 0))
        return owner if owner and self.now_ms - renewed_ms <= LOCK_MS else None

    @rule(group=GROUPS, client=CLIENTS, queues=QUEUES)
    def locks_some(self, group: str, client: str, queues: list[QueueRef]) -> None:
        expected = [queue for queue in queues if self.owner(group, queue) in (None, client)]

        assert self.locks.lock(group, client, queues, self.now_ms) == expected
        for queue in expected:
            self.model[group, queue] = (client, self.now_ms)

    @rule(group=GROUPS, client=CLIENTS, queues=QUEUES)
    def unlocks_some(self, group: str, client: str, queues: list[QueueRef]) -> None:
        self.locks.unlock(group, client, queues)

        for queue in queues:
            if self.model.get((group, queue), ("", 0))[0] == client:
                del self.model[group, queue]

    @rule(ms=st.sampled_from([1, 30_000, LOCK_MS, LOCK_MS + 1]), sweeps=st.booleans())
    def time_passes(self, ms: int, sweeps: bool) -> None:
        self.now_ms += ms
        if sweeps:
            self.locks.forget_expired(self.now_ms)

    @rule(group=GROUPS, queues=QUEUES)
    def asks(self, group: str, queues: list[QueueRef]) -> None:
        for queue in queues:
            assert self.locks.owner(group, queue, self.now_ms) == self.owner(group, queue)
        is_orderly = any(
            name == group and self.owner(*key) for key in self.model for name in key[:1]
        )
        assert self.locks.is_orderly(group, self.now_ms) == is_orderly


TestLocksAgainstAModel = LocksAgainstAModel.TestCase
TestLocksAgainstAModel.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)
