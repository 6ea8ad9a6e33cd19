"""Who joins a group learns before it does whether the members want the same, and who wants what."""

from __future__ import annotations

from flintmq.core.admin.group_conflicts import (
    ASK_MEMBER_MS,
    MEMBERS_ASKED_MAX,
    GroupWishes,
    ask_wishes,
    describe_conflict,
    wishes_of,
)
from flintmq.errors import Unreachable
from flintmq.model.group import MessageModel
from flintmq.protocol.bodies.client import (
    SQL92,
    ClientConnection,
    ConsumerConnections,
    Subscription,
)
from flintmq.protocol.bodies.client_call import RunningConsumer
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command
from support.core.talk import Talk, reply

HERE = "10.0.0.1:10911"
OWN = {"orders": "a || b"}
CLUSTERING = MessageModel.CLUSTERING


def wish(text: str, topic: str = "orders", kind: str = "TAG") -> Subscription:
    return Subscription(topic=topic, sub_string=text, expression_type=kind)


def online(*client_ids: str, wishes: tuple[Subscription, ...] = ()) -> Command:
    body = ConsumerConnections(
        connection_set=tuple(ClientConnection(client_id=each) for each in client_ids),
        subscription_table={each.topic: each for each in wishes},
    )
    return reply(ResponseCode.SUCCESS, body=body.to_body())


def running(*wishes: Subscription) -> Command:
    return reply(ResponseCode.SUCCESS, body=RunningConsumer(subscription_set=wishes).to_body())


def ask(talk: Talk) -> GroupWishes | None:
    return talk.hold(ask_wishes(HERE, "g", "me", OWN))


def test_wishes_that_mean_the_same_are_written_the_same() -> None:
    one = wishes_of("g", [wish("b || a"), wish("*", "all"), wish("*", "%RETRY%g")])
    two = wishes_of("g", [wish("a||b"), wish("", "all")])

    assert one == two == {"orders": "a || b", "all": "*"}
    assert wishes_of("g", [wish("x > 1", kind=SQL92)]) == {"orders": "SQL92: x > 1"}


def test_a_group_without_members_has_no_wishes() -> None:
    talk = Talk([reply(ResponseCode.CONSUMER_NOT_ONLINE)])

    assert ask(talk) is None
    assert [call.request.code for call in talk.calls] == [RequestCode.GET_CONSUMER_CONNECTION_LIST]


def test_a_group_that_wants_the_same_is_not_asked_further() -> None:
    talk = Talk([online("one", "two", wishes=(wish("b||a"), wish("*", "%RETRY%g")))])

    wishes = ask(talk)

    assert wishes == GroupWishes(False, CLUSTERING, {"one": OWN, "two": OWN})
    assert describe_conflict("me", OWN, CLUSTERING, wishes) is None
    assert len(talk.calls) == 1


def test_members_of_a_group_that_differs_are_asked_and_named() -> None:
    talk = Talk(
        [
            online("two", "one", "three", wishes=(wish("c"),)),
            running(wish("c"), wish("*", "%RETRY%g")),
            Unreachable(HERE, "gone"),
            running(wish("a || b")),
        ]
    )

    wishes = ask(talk)

    assert wishes is not None
    assert wishes.members == {"one": {"orders": "c"}, "three": None, "two": OWN}
    assert [call.timeout_ms for call in talk.calls[1:]] == [ASK_MEMBER_MS] * 3
    text = describe_conflict("me", OWN, CLUSTERING, wishes)
    assert text == "me (this one) wants orders [a || b]; one wants orders [c]"


def test_where_nobody_says_what_it_wants_the_group_as_a_whole_counts() -> None:
    talk = Talk([online("one", wishes=(wish("c"),)), reply(ResponseCode.SYSTEM_ERROR)])

    wishes = ask(talk)

    assert wishes is not None
    assert wishes.members == {"one": {"orders": "c"}}


def test_a_table_that_only_the_broker_remembers_is_no_conflict() -> None:
    talk = Talk([online("one", wishes=(wish("c"),)), running(wish("a||b"))])

    wishes = ask(talk)

    assert wishes is not None
    assert describe_conflict("me", OWN, CLUSTERING, wishes) is None


def test_not_more_members_are_asked_than_a_start_may_wait_for() -> None:
    many = [f"m{number:02}" for number in range(MEMBERS_ASKED_MAX + 5)]
    talk = Talk([online(*many, wishes=(wish("c"),)), *[running(wish("c"))] * MEMBERS_ASKED_MAX])

    wishes = ask(talk)

    assert wishes is not None
    assert list(wishes.members) == many[:MEMBERS_ASKED_MAX]


def test_our_own_id_among_the_members_is_told_and_not_counted() -> None:
    wishes = ask(Talk([online("me", wishes=(wish("c"),))]))

    assert wishes == GroupWishes(True, CLUSTERING, {})
    assert describe_conflict("me", OWN, CLUSTERING, wishes) is None


def test_another_model_is_a_conflict() -> None:
    wishes = GroupWishes(False, CLUSTERING, {"one": OWN})

    text = describe_conflict("me", OWN, MessageModel.BROADCASTING, wishes)

    assert text == "the group consumes by CLUSTERING, this member by BROADCASTING"
