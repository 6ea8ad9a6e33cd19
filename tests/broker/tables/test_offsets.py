"""An offset is stored as given and comes back as stored; a reset is handed out exactly once."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flintmq.broker.tables import offsets as offsets_module
from flintmq.broker.tables.offsets import Offsets
from flintmq.errors import Overloaded
from flintmq.model.queue import QueueOffset
from flintmq.protocol.bodies.offset import ConsumerOffsets

NOW_MS = 1_000_000
WHO = "127.0.0.1:40000"


def saved_and_loaded(offsets: Offsets) -> Offsets:
    return Offsets(ConsumerOffsets.from_file(offsets.table(NOW_MS).to_file()))


def test_what_was_never_committed_is_not_known() -> None:
    offsets = Offsets(None)

    assert offsets.query("G", "T", 0) is None
    assert offsets.queues("G", "T") == {}
    assert not offsets.is_dirty


def test_a_smaller_offset_is_stored_logged_with_both_numbers_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    offsets = Offsets(None)
    offsets.commit("G", "T", 3, 70, WHO)
    offsets.commit("G", "T", 3, 80, WHO)

    with caplog.at_level(logging.WARNING):
        offsets.commit("G", "T", 3, 50, WHO)

    assert offsets.query("G", "T", 3) == 50
    assert offsets.backward_count == 1
    (record,) = caplog.records
    for part in (WHO, "G", "T", "3", "80", "50"):
        assert part in record.getMessage()


def test_a_stored_minus_one_counts_as_unknown() -> None:
    """Node clients commit it for queues in which they consumed nothing."""
    offsets = Offsets(None)

    offsets.commit("G", "T", 0, -1, WHO)

    assert offsets.query("G", "T", 0) is None
    assert offsets.queues("G", "T") == {0: -1}


def test_topics_and_groups_are_found_from_either_side() -> None:
    offsets = Offsets(None)
    offsets.commit("G", "T", 0, 1, WHO)
    offsets.commit("G", "U", 0, 2, WHO)
    offsets.commit("H", "T", 0, 3, WHO)

    assert sorted(offsets.topics_of("G")) == ["T", "U"]
    assert sorted(offsets.groups_of("T")) == ["G", "H"]


def test_a_group_may_not_have_offsets_in_endless_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets_module, "QUEUES_MAX", 2)
    offsets = Offsets(None)
    offsets.commit("G", "T", 0, 1, WHO)
    offsets.commit("G", "T", 99, 1, WHO)

    with pytest.raises(Overloaded):
        offsets.commit("G", "T", 100, 1, WHO)

    offsets.commit("G", "T", 99, 2, WHO)
    assert offsets.queues("G", "T") == {0: 1, 99: 2}


def test_all_groups_together_may_not_have_endless_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets_module, "OFFSETS_MAX", 3)
    offsets = Offsets(None)
    offsets.commit("G", "T", 0, 1, WHO)
    offsets.reset("G", "T", 1, QueueOffset(1))
    offsets.commit("H", "T", 0, 1, WHO)

    with pytest.raises(Overloaded):
        offsets.commit("I", "T", 0, 1, WHO)
    with pytest.raises(Overloaded):
        offsets.reset("I", "T", 0, QueueOffset(1))
    with pytest.raises(Overloaded):
        offsets.clone("G", "I", ["T"])

    assert len(offsets) == 3
    assert offsets.topics_of("I") == []
    offsets.remove_group("G")
    offsets.commit("I", "T", 0, 1, WHO)


def test_a_table_copies_only_what_changed_since_the_last_one() -> None:
    offsets = Offsets(None)
    offsets.commit("G", "T", 0, 1, WHO)
    offsets.commit("G", "U", 0, 1, WHO)
    offsets.commit("H", "U", 0, 1, WHO)
    first = offsets.table(NOW_MS).offset_table

    offsets.commit("G", "T", 0, 2, WHO)
    offsets.remove_group("H")
    second = offsets.table(NOW_MS).offset_table

    assert second == {"T@G": {0: 2}, "U@G": {0: 1}}
    assert second["U@G"] is first["U@G"]
    assert first == {"T@G": {0: 1}, "U@G": {0: 1}, "U@H": {0: 1}}


# Pulls


def test_where_a_pull_goes_on_is_no_commit() -> None:
    offsets = Offsets(None)

    offsets.note_pull("G", "T", 0, 12)

    assert offsets.pulled("G", "T", 0) == 12
    assert offsets.pulled("G", "T", 1) is None
    assert offsets.query("G", "T", 0) is None


# Resets


def test_a_reset_is_stored_and_told_to_one_pull() -> None:
    offsets = Offsets(None)
    offsets.commit("G", "T", 0, 70, WHO)

    offsets.reset("G", "T", 0, QueueOffset(5))

    assert offsets.has_reset("G", "T", 0)
    assert not offsets.has_reset("G", "T", 1)
    assert offsets.query("G", "T", 0) == 5
    assert offsets.take_reset("G", "T", 0) == 5
    assert offsets.take_reset("G", "T", 0) is None
    assert not offsets.has_reset("G", "T", 0)
    assert offsets.query("G", "T", 0) == 5
    assert offsets.backward_count == 0


def test_a_pending_reset_is_what_a_query_tells() -> None:
    """A pull may have committed meanwhile; the reset wins."""
    offsets = Offsets(None)
    offsets.reset("G", "T", 0, QueueOffset(5))

    offsets.commit("G", "T", 0, 70, WHO)

    assert offsets.query("G", "T", 0) == 5


def test_the_offset_of_a_reset_survives_a_restart() -> None:
    offsets = Offsets(None)
    offsets.reset("G", "T", 0, QueueOffset(5))

    again = saved_and_loaded(offsets)

    assert again.query("G", "T", 0) == 5
    assert not again.has_reset("G", "T", 0)


# Removing and copying


@pytest.mark.parametrize(("what", "left"), [("topic", {("H", "U")}), ("group", {("H", "T")})])
def test_removing_takes_offsets_pulls_and_resets(what: str, left: set[tuple[str, str]]) -> None:
    offsets = Offsets(None)
    for group, topic in (("G", "T"), *left):
        offsets.commit(group, topic, 0, 7, WHO)
        offsets.note_pull(group, topic, 0, 8)
        offsets.reset(group, topic, 0, QueueOffset(3))
    offsets.is_dirty = False

    if what == "topic":
        offsets.remove_topic("T")
    else:
        offsets.remove_group("G")

    assert offsets.query("G", "T", 0) is None
    assert offsets.pulled("G", "T", 0) is None
    assert not offsets.has_reset("G", "T", 0)
    assert offsets.is_dirty
    for group, topic in left:
        assert offsets.query(group, topic, 0) == 3
        assert offsets.pulled(group, topic, 0) == 8


def test_a_clone_stands_where_its_source_stands_and_goes_its_own_way() -> None:
    offsets = Offsets(None)
    offsets.commit("G", "T", 0, 7, WHO)
    offsets.commit("H", "T", 5, 1, WHO)
    offsets.reset("H", "T", 0, QueueOffset(2))

    offsets.clone("G", "H", ["T", "unknown"])
    offsets.commit("G", "T", 0, 8, WHO)

    assert offsets.queues("H", "T") == {0: 7}
    assert offsets.query("H", "T", 0) == 7
    assert offsets.topics_of("H") == ["T"]


def test_a_table_of_4_9_is_read_and_gets_a_version() -> None:
    table = ConsumerOffsets.from_file(b'{"offsetTable":{"T@G":{0:7,1:9},"%RETRY%G@G":{0:1}}}')

    offsets = Offsets(table)

    assert offsets.queues("G", "T") == {0: 7, 1: 9}
    assert offsets.query("G", "%RETRY%G", 0) == 1
    assert not offsets.is_dirty
    offsets.commit("G", "T", 0, 8, WHO)
    saved = offsets.table(NOW_MS)
    assert saved.data_version is not None
    assert (saved.data_version.counter, saved.data_version.timestamp) == (1, NOW_MS)
    assert saved.offset_table == {"T@G": {0: 8, 1: 9}, "%RETRY%G@G": {0: 1}}


def test_a_key_without_a_group_is_left_out() -> None:
    offsets = Offsets(ConsumerOffsets(offset_table={"T": {0: 1}, "T@G": {0: 2}}))

    assert offsets.table(NOW_MS).offset_table == {"T@G": {0: 2}}


def test_what_did_not_change_keeps_its_version_and_a_saved_table_does_not_change() -> None:
    offsets = Offsets(None)
    offsets.commit("G", "T", 0, 8, WHO)
    first = offsets.table(NOW_MS)
    offsets.is_dirty = False

    offsets.commit("G", "T", 0, 8, WHO)
    second = offsets.table(NOW_MS + 1)
    offsets.commit("G", "T", 0, 9, WHO)

    assert second == first
    assert first.offset_table == {"T@G": {0: 8}}
    assert offsets.is_dirty


GROUPS, TOPICS = st.sampled_from(["G", "H"]), st.sampled_from(["T", "U", "%RETRY%G"])
QUEUES, VALUES = st.integers(0, 2), st.integers(-1, 2**63 - 1)


class OffsetsAgainstAModel(RuleBasedStateMachine):
    """The model is one flat table, and another for pending resets."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets = Offsets(None)
        self.table: dict[tuple[str, str, int], int] = {}
        self.resets: dict[tuple[str, str, int], int] = {}
        self.backward_count = 0

    @rule(group=GROUPS, topic=TOPICS, queue_id=QUEUES, offset=VALUES)
    def commits(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self.offsets.commit(group, topic, queue_id, offset, WHO)

        self.backward_count += offset < self.table.get((group, topic, queue_id), -1)
        self.table[group, topic, queue_id] = offset
        assert self.offsets.backward_count == self.backward_count

    @rule(group=GROUPS, topic=TOPICS, queue_id=QUEUES, offset=st.integers(0, 100))
    def resets_one(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self.offsets.reset(group, topic, queue_id, QueueOffset(offset))

        self.table[group, topic, queue_id] = self.resets[group, topic, queue_id] = offset

    @rule(group=GROUPS, topic=TOPICS, queue_id=QUEUES)
    def pulls(self, group: str, topic: str, queue_id: int) -> None:
        expected = self.resets.pop((group, topic, queue_id), None)

        assert self.offsets.take_reset(group, topic, queue_id) == expected

    @rule(topic=TOPICS)
    def removes_a_topic(self, topic: str) -> None:
        self.offsets.remove_topic(topic)

        self._forget(lambda key: key[1] == topic)

    @rule(group=GROUPS)
    def removes_a_group(self, group: str) -> None:
        self.offsets.remove_group(group)

        self._forget(lambda key: key[0] == group)

    @rule(source=GROUPS, copy=GROUPS, topic=TOPICS)
    def clones(self, source: str, copy: str, topic: str) -> None:
        self.offsets.clone(source, copy, [topic])

        copied = {key: at for key, at in self.table.items() if key[:2] == (source, topic)}
        if copied:
            self._forget(lambda key: key[:2] == (copy, topic))
            self.table |= {(copy, topic, key[2]): at for key, at in copied.items()}

    @rule()
    def restarts(self) -> None:
        self.offsets = saved_and_loaded(self.offsets)
        self.resets.clear()
        self.backward_count = 0

    def _forget(self, goes: Callable[[tuple[str, str, int]], bool]) -> None:
        for table in (self.table, self.resets):
            for key in [key for key in table if goes(key)]:
                del table[key]

    @invariant()
    def knows_the_same(self) -> None:
        for group in ("G", "H"):
            for topic in ("T", "U", "%RETRY%G"):
                for queue_id in range(3):
                    key = (group, topic, queue_id)
                    expected = self.resets.get(key, self.table.get(key, -1))
                    found = self.offsets.query(group, topic, queue_id)
                    assert found == (expected if expected >= 0 else None)
                    assert self.offsets.has_reset(group, topic, queue_id) == (key in self.resets)


TestOffsetsAgainstAModel = OffsetsAgainstAModel.TestCase
TestOffsetsAgainstAModel.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)
