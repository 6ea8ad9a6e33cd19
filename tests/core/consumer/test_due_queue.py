"""Everything on the agenda comes up once, at the earliest time that was asked for."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.core.consumer.due_queue import Agenda


def test_items_come_up_in_time_and_only_once() -> None:
    agenda: Agenda[str] = Agenda()
    agenda.schedule("late", 30)
    agenda.schedule("soon", 10)

    assert agenda.next_due_ms() == 10
    assert agenda.pop_due(9) == []
    assert agenda.pop_due(10) == ["soon"]
    assert agenda.pop_due(10) == []
    assert agenda.next_due_ms() == 30


def test_an_earlier_time_counts_and_a_later_one_does_not() -> None:
    agenda: Agenda[str] = Agenda()
    agenda.schedule("item", 20)
    agenda.schedule("item", 30)
    agenda.schedule("item", None)
    agenda.schedule("item", 10)

    assert agenda.pop_due(10) == ["item"]
    assert agenda.next_due_ms() is None
    assert agenda.pop_due(99) == []


def test_what_is_dropped_never_comes_up() -> None:
    agenda: Agenda[str] = Agenda()
    agenda.schedule("item", 20)

    agenda.drop("item")
    agenda.drop("item")

    assert (agenda.next_due_ms(), agenda.pop_due(99)) == (None, [])


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50)), max_size=30))
def test_it_behaves_like_a_map_of_earliest_times(puts: list[tuple[str, int]]) -> None:
    agenda, model = Agenda[str](), dict[str, int]()
    for item, due_ms in puts:
        agenda.schedule(item, due_ms)
        model[item] = min(due_ms, model.get(item, due_ms))

    assert agenda.next_due_ms() == min(model.values(), default=None)
    assert set(agenda.pop_due(25)) == {item for item, due_ms in model.items() if due_ms <= 25}
