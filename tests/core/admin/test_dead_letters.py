"""A dead letter knows what it was, and goes back to its group as if it had never been tried."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flintmq.core.admin.dead_letters import (
    Buried,
    BuriedMessage,
    ReplayTo,
    count_dead_letters,
    list_dead_letters,
    replay,
)
from flintmq.errors import InvalidName, NoRoute
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef
from flintmq.model.topic import Permission
from flintmq.protocol.bodies.stats import QueueExtent, TopicStats
from flintmq.protocol.bodies.topic import TopicList
from flintmq.protocol.command import Command
from flintmq.protocol.headers.common_headers import OfTopic
from flintmq.protocol.headers.offset import OffsetAnswer
from flintmq.protocol.headers.pull import PullAnswer, PullMessage
from flintmq.protocol.headers.send import SendAnswer, SendMessageV2
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.received import decode_messages
from support.core.peers import (
    NS,
    A,
    B,
    Peers,
    Reply,
    a_cluster,
    name_servers,
    ok,
    record,
    route,
    routes,
)

ONLY_A = route(1, addresses={"broker-a": A})


def dead(offset: int = 0, **properties: str) -> ReceivedMessage:
    octets = record(offset, b"body", topic="%DLQ%billing", queue_id=0, store_ms=1, **properties)
    return decode_messages(octets, broker="broker-a").messages[0]


def queue_of(count: int) -> dict[tuple[str, int], Reply | list[Reply]]:
    def pull(request: Command) -> Command:
        at = request.header(PullMessage).queue_offset
        header = PullAnswer(
            suggest_which_broker_id=0, next_begin_offset=count, min_offset=0, max_offset=count
        )
        body = b"".join(record(n, store_ms=n, RETRY_TOPIC="orders") for n in range(at, count))
        return ok(header, body)

    return {
        (NS, 105): routes(DLQ_billing=ONLY_A),
        (A, 31): ok(OffsetAnswer(offset=0)),
        (A, 30): ok(OffsetAnswer(offset=count)),
        (A, 11): pull,
    }


@pytest.mark.parametrize(("newest", "expected"), [(True, [8, 9]), (False, [0, 1])])
def test_the_newest_are_listed_or_the_oldest(newest: bool, expected: list[int]) -> None:
    peers = Peers(queue_of(10))

    letters = peers.hold(list_dead_letters(name_servers(), "billing", count_max=2, newest=newest))

    assert [letter.message.queue_offset for letter in letters] == expected
    assert {letter.origin_topic for letter in letters} == {"orders"}


def test_a_group_that_never_failed_has_none() -> None:
    peers = Peers({(NS, 105): routes()})

    assert peers.hold(list_dead_letters(name_servers(), "billing")) == ()


def test_a_dead_letter_says_why_it_was_given_up() -> None:
    letter = BuriedMessage.of(dead(RETRY_TOPIC="orders", DLQ_REASON="no order"))

    assert letter.reason == "no order"
    assert BuriedMessage.of(dead(RETRY_TOPIC="orders")).reason is None


def test_a_dead_letter_says_where_it_came_from_in_both_versions_words() -> None:
    of_4_9 = BuriedMessage.of(dead(RETRY_TOPIC="orders", ORIGIN_MESSAGE_ID="ID1"))
    of_5 = BuriedMessage.of(
        dead(RETRY_TOPIC="x", DLQ_ORIGIN_TOPIC="orders", DLQ_ORIGIN_MESSAGE_ID="ID2")
    )

    assert (of_4_9.origin_topic, of_4_9.origin_message_id) == ("orders", "ID1")
    assert (of_5.origin_topic, of_5.origin_message_id) == ("orders", "ID2")


def world(**known: object) -> Peers:
    stored = SendAnswer(msg_id="NEW", queue_id=0, queue_offset=1)
    return Peers(
        {
            (NS, 105): routes(**known),  # type: ignore[arg-type]
            (A, 310): ok(stored),
            (B, 310): ok(stored),
        }
    )


def test_it_goes_back_to_its_group_alone_as_if_never_tried() -> None:
    peers = world(RETRY_billing=route(1))
    letter = BuriedMessage.of(
        dead(
            RETRY_TOPIC="orders",
            UNIQ_KEY="U1",
            TAGS="paid",
            colour="red",
            DELAY="0",
            RECONSUME_TIME="16",
            REAL_TOPIC="x",
        )
    )

    stored = peers.hold(replay(name_servers(), "billing", letter, now_ms=5))

    request = peers.calls[-1].request
    header = request.header(SendMessageV2)
    properties = parse_properties(header.properties or "")
    assert (header.topic, header.reconsume_times) == ("%RETRY%billing", 0)
    assert (request.body, peers.calls[-1].address) == (b"body", A)
    assert properties == {
        "RETRY_TOPIC": "orders",
        "UNIQ_KEY": "U1",
        "TAGS": "paid",
        "colour": "red",
        "DLQ_REPLAY_OF": "broker-a/0/0/1",
    }
    assert stored.message_id == "U1"


def test_it_may_go_to_everyone() -> None:
    peers = world(orders=route(1))
    letter = BuriedMessage.of(dead(RETRY_TOPIC="orders"))

    peers.hold(replay(name_servers(), "billing", letter, to=ReplayTo.TOPIC, now_ms=5))

    header = peers.calls[-1].request.header(SendMessageV2)
    assert header.topic == "orders"
    assert "RETRY_TOPIC" not in (header.properties or "")


def test_what_does_not_say_where_it_came_from_stays() -> None:
    with pytest.raises(InvalidName, match="which topic"):
        Peers({}).hold(replay(name_servers(), "billing", BuriedMessage.of(dead()), now_ms=5))


def test_a_topic_that_takes_nothing_gets_nothing() -> None:
    letter = BuriedMessage.of(dead(RETRY_TOPIC="orders"))
    peers = world(RETRY_billing=route(1, Permission.READ))

    with pytest.raises(NoRoute, match="no broker takes messages"):
        peers.hold(replay(name_servers(), "billing", letter, now_ms=5))


def test_another_broker_stands_in_for_one_without_the_topic() -> None:
    letter = BuriedMessage.of(dead(RETRY_TOPIC="orders"))
    peers = world(RETRY_billing=route(1, addresses={"broker-b": B}))

    peers.hold(replay(name_servers(), "billing", letter, now_ms=5))

    assert peers.calls[-1].address == B


def test_a_fixed_order_may_name_a_broker_that_is_not_there() -> None:
    letter = BuriedMessage.of(dead(RETRY_TOPIC="orders"))
    peers = world(RETRY_billing=replace(route(1), order="broker-x:1"))

    with pytest.raises(NoRoute, match="broker-x"):
        peers.hold(replay(name_servers(), "billing", letter, now_ms=5))


def test_groups_with_dead_letters_are_counted() -> None:
    def stats(request: Command) -> Command:
        queue = QueueRef(request.header(OfTopic).topic, "broker-a", 0)
        extent = QueueExtent(min_offset=2, max_offset=9, last_update_timestamp=77)
        return ok(body=TopicStats(offset_table={queue: extent}).to_body())

    topics = TopicList(topic_list=("orders", "%DLQ%billing", "%RETRY%billing"))
    peers = Peers(
        a_cluster()
        | {
            (NS, 206): ok(body=topics.to_body()),
            (NS, 105): routes(DLQ_billing=ONLY_A),
            (A, 202): stats,
        }
    )

    assert peers.hold(count_dead_letters(name_servers())) == (Buried("billing", 7, 77),)
