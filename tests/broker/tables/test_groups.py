"""A group is made only when it may be, and every change is noted once."""

from __future__ import annotations

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.tables.groups import READ_FORBIDDEN, Groups
from flintmq.errors import Overloaded
from flintmq.model.group import PRESET_GROUPS
from flintmq.protocol.bodies.group import GroupConfig, GroupTable

NOW_MS = 1_000_000


def new_groups(saved: GroupTable | None = None, *, auto_create: bool = True) -> Groups:
    return Groups(BrokerConfig(auto_create_group=auto_create), saved, NOW_MS)


def saved_and_loaded(groups: Groups) -> Groups:
    return new_groups(GroupTable.from_file(groups.table().to_file()))


def test_a_new_broker_has_the_preset_groups() -> None:
    groups = new_groups()

    assert {each.group_name for each in groups} == set(PRESET_GROUPS)
    assert groups.is_dirty


def test_an_unknown_group_is_made_with_defaults() -> None:
    groups = new_groups()
    before = groups.version

    made = groups.find_or_create("G", NOW_MS + 1)

    assert made == GroupConfig(group_name="G")
    assert "G" in groups
    assert groups.find("G") is made
    assert groups.find_or_create("G", NOW_MS + 2) is made
    assert (groups.version.counter, groups.version.timestamp) == (before.counter + 1, NOW_MS + 1)


def test_where_groups_are_not_made_only_those_of_the_system_are() -> None:
    groups = new_groups(auto_create=False)

    assert groups.find_or_create("G", NOW_MS) is None
    assert groups.find_or_create("CID_RMQ_SYS_X", NOW_MS) is not None
    assert groups.find_or_create("TOOLS_CONSUMER", NOW_MS) is not None
    assert "G" not in groups


@pytest.mark.parametrize(
    ("name", "is_made"),
    [("G-1_%|", True), ("g" * 255, True), ("g" * 256, False), ("a b", False), ("", True)],
)
def test_a_group_is_made_only_with_a_good_name(name: str, is_made: bool) -> None:
    groups = new_groups()

    assert (groups.find_or_create(name, NOW_MS) is not None) == is_made
    assert (name in groups) == is_made


def test_a_group_that_is_known_is_found_whatever_its_name() -> None:
    groups = new_groups(auto_create=False)
    odd = GroupConfig(group_name="a b")

    groups.create_or_replace(odd, NOW_MS)

    assert groups.find_or_create("a b", NOW_MS) is odd


def test_putting_the_same_settings_again_is_no_change() -> None:
    groups = new_groups()
    groups.create_or_replace(GroupConfig(group_name="G", retry_max_times=3), NOW_MS)
    groups.is_dirty = False
    before = groups.version

    groups.create_or_replace(GroupConfig(group_name="G", retry_max_times=3), NOW_MS + 1)
    groups.remove("nobody", NOW_MS + 1)

    assert groups.version == before
    assert not groups.is_dirty


def test_a_group_that_is_removed_is_gone_with_what_was_forbidden_to_it() -> None:
    groups = new_groups()
    groups.find_or_create("G", NOW_MS)
    groups.allow_reading("G", "T", NOW_MS, allowed=False)

    groups.remove("G", NOW_MS)

    assert "G" not in groups
    assert groups.may_read("G", "T")
    assert groups.table().forbidden_table == {}


def test_reading_can_be_forbidden_and_allowed_again() -> None:
    groups = new_groups()

    groups.allow_reading("G", "T", NOW_MS, allowed=False)

    assert not groups.may_read("G", "T")
    assert groups.may_read("G", "U")
    assert groups.may_read("H", "T")
    assert groups.table().forbidden_table == {"G": {"T": 4}}

    groups.allow_reading("G", "T", NOW_MS, allowed=True)

    assert groups.may_read("G", "T")
    assert groups.table().forbidden_table == {}


def test_allowing_what_is_allowed_is_no_change() -> None:
    groups = new_groups()
    before = groups.version

    groups.allow_reading("G", "T", NOW_MS + 1, allowed=True)

    assert groups.version == before


def test_other_bits_of_the_forbidden_table_stay() -> None:
    other = 8
    groups = new_groups(GroupTable(forbidden_table={"G": {"T": other, "U": -1}}))

    groups.allow_reading("G", "T", NOW_MS, allowed=False)
    groups.allow_reading("G", "U", NOW_MS, allowed=False)
    both = groups.table().forbidden_table
    groups.allow_reading("G", "T", NOW_MS, allowed=True)

    assert both == {"G": {"T": other | READ_FORBIDDEN, "U": READ_FORBIDDEN}}
    assert groups.table().forbidden_table == {"G": {"T": other, "U": READ_FORBIDDEN}}


def test_groups_come_back_from_their_file() -> None:
    groups = new_groups()
    groups.create_or_replace(GroupConfig(group_name="G", consume_enable=False), NOW_MS)
    groups.allow_reading("G", "T", NOW_MS, allowed=False)

    again = saved_and_loaded(groups)

    assert again.find("G") == groups.find("G")
    assert not again.may_read("G", "T")
    assert again.version == groups.version
    assert not again.is_dirty


def test_room_for_forbidden_topics_comes_back_and_is_counted_after_a_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("flintmq.broker.tables.groups.FORBIDDEN_MAX", 2)
    groups = new_groups()

    def forbid(group: str, topic: str) -> None:
        groups.allow_reading(group, topic, NOW_MS, allowed=False)

    forbid("G", "a")
    forbid("G", "b")
    with pytest.raises(Overloaded):
        forbid("H", "a")
    groups.allow_reading("G", "a", NOW_MS, allowed=True)
    forbid("H", "a")
    groups = saved_and_loaded(groups)
    with pytest.raises(Overloaded):
        forbid("H", "b")
    groups.remove("G", NOW_MS)
    forbid("H", "b")

    assert not groups.may_read("H", "b")
