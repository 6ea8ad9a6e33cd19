"""A member that knows too little takes no queue and gives none away."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from flintmq.core.group.actions import AskMembers, ReportEvent
from flintmq.core.group.allocate import Strategy, allocate_averagely
from flintmq.core.group.rebalance import AGAIN_MS, MEMBERS_MAX, Rebalance, Share
from flintmq.model.queue import QueueRef

QUEUES = tuple(QueueRef("orders", "broker-a", number) for number in range(4))


def rebalance(strategy: Strategy = allocate_averagely, *, broadcasting: bool = False) -> Rebalance:
    made = Rebalance("me", ["orders"], strategy, 20_000, 0, is_broadcasting=broadcasting)
    made.route_known("orders", reversed(QUEUES), 0)
    return made


def asked(made: Rebalance, now_ms: int = 0) -> AskMembers:
    (ask,) = made.due(now_ms)
    assert isinstance(ask, AskMembers)
    return ask


def share(found: Sequence[Share | ReportEvent]) -> Share:
    (only,) = found
    assert isinstance(only, Share)
    return only


def report(found: Sequence[Share | ReportEvent]) -> ReportEvent:
    (only,) = found
    assert isinstance(only, ReportEvent)
    return only


def test_members_are_asked_for_and_queues_shared_out() -> None:
    made = rebalance()

    found = share(made.members_known(asked(made), ["you", "me"], 5))

    assert found == Share("orders", QUEUES, frozenset(QUEUES[:2]))
    assert made.trouble("orders") == ""


def test_it_is_done_again_every_20_s() -> None:
    made = rebalance()
    made.members_known(asked(made), ["me"], 5)

    assert made.next_due_ms() == 20_000
    assert made.due(19_999) == []
    assert made.due(20_000) != []


def test_a_notification_is_followed_at_once_and_starts_the_20_s_again() -> None:
    made = rebalance()
    made.members_known(asked(made), ["me"], 5)

    made.wake(7_000)
    made.members_known(asked(made, 7_000), ["me"], 7_005)

    assert made.next_due_ms() == 27_000


def test_who_is_woken_while_a_question_is_under_way_asks_once_more() -> None:
    made = rebalance()
    ask = asked(made)
    made.wake(1)
    made.wake(2)
    assert made.due(2) == []
    assert made.next_due_ms() is None

    made.members_known(ask, ["me"], 5)

    again = asked(made, 5)
    assert again is not ask
    made.members_known(again, ["me"], 6)
    assert made.due(6) == []


def test_a_late_answer_to_an_old_question_is_ignored() -> None:
    made = rebalance()
    ask = asked(made)
    made.members_known(ask, ["me"], 1)

    assert made.members_known(ask, ["me"], 2) == []
    assert made.members_failed(ask, "late", 2) == []


def test_a_changed_route_is_shared_out_at_once_and_the_same_one_is_not() -> None:
    made = rebalance()
    made.members_known(asked(made), ["me"], 5)

    made.route_known("orders", QUEUES, 10)
    assert made.due(10) == []
    made.route_known("orders", QUEUES[:3], 10)
    assert made.due(10) != []
    made.route_known("strangers", QUEUES, 10)
    assert made.trouble("strangers") == "not subscribed"


def test_a_topic_without_a_route_changes_nothing() -> None:
    made = Rebalance("me", ["orders"], allocate_averagely, 20_000, 0, is_broadcasting=False)

    assert made.due(0) == []
    assert made.trouble("orders") == "the topic has no route"


def test_in_broadcasting_all_queues_are_ours() -> None:
    (found,) = rebalance(broadcasting=True).due(0)

    assert found == Share("orders", QUEUES, frozenset(QUEUES))


def test_members_that_are_not_known_change_nothing_and_are_asked_for_again_in_a_second() -> None:
    made = rebalance()

    told = report(made.members_failed(asked(made), "no answer", 10))

    assert "no answer" in told.text
    assert "no answer" in made.trouble("orders")
    assert made.next_due_ms() == 10 + AGAIN_MS == 1_010


def test_a_group_without_members_changes_nothing() -> None:
    made = rebalance()

    assert report(made.members_known(asked(made), [], 10)).level == logging.WARNING
    assert made.next_due_ms() == 1_010


def test_a_list_of_members_that_cannot_be_is_not_believed() -> None:
    made = rebalance()

    found = made.members_known(asked(made), (str(n) for n in range(MEMBERS_MAX + 1)), 10)

    assert "100001 members" in report(found).text


def test_a_strategy_that_raises_changes_nothing_and_is_reported() -> None:
    def broken(*_: object) -> list[QueueRef]:
        raise ZeroDivisionError("oh")

    made = rebalance(broken)

    told = report(made.members_known(asked(made), ["me"], 10))

    assert told.level == logging.ERROR
    assert "ZeroDivisionError: oh" in told.text
    assert "ZeroDivisionError" in made.trouble("orders")
    assert made.next_due_ms() == 20_000


@pytest.mark.parametrize("given", [[QueueRef("orders", "x", 9)], [7], None])
def test_a_strategy_that_gives_no_queues_of_the_topic_changes_nothing(given: object) -> None:
    made = rebalance(lambda *_: given)  # type: ignore[arg-type]

    assert "the strategy failed" in report(made.members_known(asked(made), ["me"], 0)).text
