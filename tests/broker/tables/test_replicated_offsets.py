"""Offsets of a master and a slave: copied one way, handed back the other, never moved back."""

from __future__ import annotations

import pytest

from flintmq.broker.tables.offsets import Offsets
from flintmq.protocol.bodies.common_bodies import DataVersion
from flintmq.protocol.bodies.offset import ConsumerOffsets

WHO = "127.0.0.1:40000"
END = 100


def ends(_topic: str, _queue_id: int) -> int:
    return END


def table(timestamp: int, **queues: dict[int, int]) -> ConsumerOffsets:
    """Offsets of groups in one topic, changed last at a time."""
    return ConsumerOffsets(
        data_version=DataVersion(counter=1, timestamp=timestamp),
        offset_table={f"T@{group}": offsets for group, offsets in queues.items()},
    )


def test_a_copy_has_the_version_of_the_master_until_something_is_committed_here() -> None:
    slave = Offsets(None, notes_commits=True)
    told = table(5, G={0: 3})

    slave.copy_from(told, ends)
    assert slave.is_dirty  # it has to be saved
    assert slave.table(now_ms=9) == told

    slave.commit("G", "T", 0, 4, WHO)
    own = slave.table(now_ms=10)
    assert own.data_version == DataVersion(counter=2, timestamp=10)
    assert slave.table(now_ms=11) == own


def test_a_master_takes_the_further_offset_of_each_queue_up_to_its_end() -> None:
    master = Offsets(table(5, G={0: 7, 1: 7, 2: 7}, H={0: 1}))

    count = master.merge(table(9, G={0: 8, 1: 6, 2: END + 50}, new={3: 2}), ends)

    assert count == 3
    assert master.queues("G", "T") == {0: 8, 1: 7, 2: END}
    assert master.queues("H", "T") == {0: 1}
    assert master.queues("new", "T") == {3: 2}
    assert master.is_dirty
    assert master.table(now_ms=20).data_version == DataVersion(counter=2, timestamp=20)


@pytest.mark.parametrize(
    "told",
    [
        table(4, G={0: 9}),
        ConsumerOffsets(offset_table={"T@G": {0: 9}}),
        ConsumerOffsets(
            data_version=DataVersion(counter=0, timestamp=5), offset_table={"T@G": {0: 9}}
        ),
    ],
    ids=["older", "no version", "same time, fewer changes"],
)
def test_a_table_that_is_older_changes_nothing(told: ConsumerOffsets) -> None:
    """Its offsets may be further because the master's were reset since."""
    master = Offsets(table(5, G={0: 2}))

    assert master.merge(told, ends) == 0
    assert master.queues("G", "T") == {0: 2}


def test_commits_are_noted_once_and_only_by_a_slave_that_may_act() -> None:
    plain, acting = Offsets(None), Offsets(None, notes_commits=True)
    for each in (plain, acting):
        each.commit("G", "T", 0, 4, WHO)
        each.commit("G", "T", 0, 6, WHO)

    assert plain.take_noted() == {}
    assert acting.take_noted() == {("G", "T", 0): 6}
    assert acting.take_noted() == {}


def test_what_could_not_be_handed_over_is_noted_again_unless_it_moved() -> None:
    offsets = Offsets(None, notes_commits=True)
    offsets.commit("G", "T", 0, 4, WHO)
    offsets.commit("G", "T", 1, 4, WHO)
    noted = offsets.take_noted()
    offsets.commit("G", "T", 1, 5, WHO)

    offsets.note_again(noted)

    assert offsets.take_noted() == {("G", "T", 0): 4, ("G", "T", 1): 5}


def test_a_copy_leaves_what_was_committed_since_and_is_further() -> None:
    offsets = Offsets(None, notes_commits=True)
    offsets.commit("G", "T", 0, 8, WHO)
    offsets.commit("G", "T", 1, 2, WHO)

    offsets.copy_from(table(5, G={0: 3, 1: 3}), ends)

    assert offsets.queues("G", "T") == {0: 8, 1: 3}
    assert offsets.table(now_ms=9).data_version != DataVersion(counter=1, timestamp=5)
