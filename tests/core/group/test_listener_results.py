"""Nothing a listener returns makes a message count as consumed by accident."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.core.group.listener_results import (
    ALL_CONSUMED,
    CONSUMED,
    DELAY_LEVEL_MAX,
    SHOWN_CHARACTERS_MAX,
    Ack,
    Again,
    Consumed,
    Dead,
    DeadLetter,
    Retry,
    ReturnKind,
    outcomes_of,
)
from flintmq.errors import InvalidResult


def test_none_means_that_all_is_consumed() -> None:
    assert outcomes_of(None, 3) is ALL_CONSUMED
    assert ALL_CONSUMED.kind is ReturnKind.SUCCESS
    assert ALL_CONSUMED.consumed_count is None


@pytest.mark.parametrize(
    ("up_to", "consumed"), [(None, None), (-1, 0), (0, 1), (1, 2), (2, None), (99, None)]
)
def test_an_ack_consumes_up_to_its_index_and_including_it(
    up_to: int | None, consumed: int | None
) -> None:
    verdict = outcomes_of(Ack(up_to), 3)

    assert verdict.consumed_count == consumed
    if consumed is not None:
        assert verdict.outcomes == (CONSUMED,) * consumed + (Again(),) * (3 - consumed)


@pytest.mark.parametrize("up_to", [-2, True, "1", 1.0])
def test_an_ack_of_no_index_consumes_nothing(up_to: Any) -> None:
    verdict = outcomes_of(Ack(up_to), 2)

    assert verdict.consumed_count == 0
    assert verdict.fault is not None


def test_a_retry_brings_all_again_with_its_delay() -> None:
    verdict = outcomes_of(Retry(delay_level=4, suspend_ms=70), 2)

    assert verdict == ((Again(4, 70),) * 2, ReturnKind.FAILED, None)


def test_the_delay_level_minus_one_means_the_dead_letters() -> None:
    assert outcomes_of(Retry(delay_level=-1), 1).outcomes == (Dead(),)
    assert outcomes_of(DeadLetter("too old"), 1).outcomes == (Dead("too old"),)


@pytest.mark.parametrize("level", [-2, DELAY_LEVEL_MAX + 1])
def test_a_level_that_cannot_be_is_refused_where_it_is_made(level: int) -> None:
    with pytest.raises(InvalidResult, match="delay level"):
        Retry(delay_level=level)


def test_a_list_has_one_result_for_each_message() -> None:
    verdict = outcomes_of([None, Retry(2), DeadLetter("x"), Ack()], 4)

    assert verdict.outcomes == (CONSUMED, Again(2), Dead("x"), CONSUMED)
    assert verdict.kind is ReturnKind.FAILED
    assert outcomes_of((None, None), 2) is ALL_CONSUMED


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (42, "42"),
        ("ok", "'ok'"),
        (True, "True"),
        (False, "False"),
        (Retry, "Retry"),
        ({}, "{}"),
        ([None], "1 results for 2 messages"),
        ([None, 7], "7"),
        ([None, Ack(0)], "Ack"),
        ([None, (None,)], "(None,)"),
    ],
)
def test_any_other_value_is_an_error_that_names_it_and_all_comes_again(
    result: object, says: str
) -> None:
    verdict = outcomes_of(result, 2)

    assert verdict.consumed_count == 0
    assert verdict.kind is ReturnKind.NULL
    assert says in str(verdict.fault)


def test_an_exception_brings_all_again() -> None:
    verdict = outcomes_of(ValueError("no such order"), 2)

    assert verdict.consumed_count == 0
    assert verdict.kind is ReturnKind.EXCEPTION
    assert verdict.fault is None
    assert verdict.outcomes is not None
    assert isinstance(verdict.outcomes[0], Again)
    assert "no such order" in verdict.outcomes[0].reason


def test_a_value_that_cannot_be_shown_is_named_by_its_type() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError

    assert "a Odd that cannot be shown" in str(outcomes_of(Odd(), 1).fault)


def test_a_long_value_is_cut() -> None:
    fault = outcomes_of("x" * 1_000, 1).fault

    assert fault is not None
    assert len(fault.value) == SHOWN_CHARACTERS_MAX


@pytest.mark.parametrize("error", [Retry(3, 20, "later"), DeadLetter("bad")])
def test_results_that_are_raised_survive_pickling(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))

    assert (type(again), vars(again)) == (type(error), vars(error))


@settings(max_examples=50)
@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.builds(Ack, st.integers(-3, 5)),
        lambda inner: st.lists(inner, max_size=4),
    ),
    st.integers(1, 4),
)
def test_every_message_gets_an_outcome(result: object, count: int) -> None:
    verdict = outcomes_of(result, count)

    assert verdict.outcomes is None or len(verdict.outcomes) == count
    if verdict.fault is not None:
        assert verdict.outcomes is not None
        assert not any(isinstance(outcome, Consumed) for outcome in verdict.outcomes)
