"""Messages are found by id, key and time, and what the index only guessed is left out."""

from __future__ import annotations

import pytest

from flintmq.core.admin.messages import (
    FOREVER_MS,
    consume_directly,
    message_at,
    messages_by_id,
    messages_by_key,
    messages_by_time,
)
from flintmq.errors import BrokerRefused, InvalidName, InvalidSetting, MalformedRecord
from flintmq.model.host import Host
from flintmq.model.message_id import offset_id
from flintmq.protocol.bodies.client import ClientConnection, ConsumerConnections
from flintmq.protocol.bodies.client_call import DirectOutcome, DirectResult
from flintmq.protocol.headers.client_call import ConsumeDirectly
from flintmq.protocol.headers.lookup import QueryAnswer, QueryMessage, ViewMessage
from flintmq.protocol.headers.offset import OffsetAnswer
from flintmq.protocol.headers.pull import PullAnswer
from support.core.peers import (
    NS,
    A,
    B,
    Peers,
    Reply,
    a_cluster,
    name_servers,
    no,
    ok,
    record,
    route,
    routes,
)

ID = offset_id(Host.parse(A), 4096)
ELSEWHERE = offset_id(Host.parse("192.168.1.1:22"), 4096)
NOTHING = no(22)


def found(*records: bytes) -> Reply:
    header = QueryAnswer(index_last_update_timestamp=1, index_last_update_phyoffset=1)
    return ok(header, b"".join(records))


def lookup(on_a: Reply, on_b: Reply = NOTHING) -> Peers:
    return Peers({(NS, 105): routes(orders=route(1)), (A, 12): on_a, (B, 12): on_b})


def test_an_offset_id_leads_to_its_broker() -> None:
    peers = Peers(a_cluster() | {(A, 33): ok(body=record(3))})

    message = peers.hold(message_at(name_servers(), ID))

    assert message is not None
    assert (message.broker, message.queue_offset) == ("broker-a", 3)
    assert peers.calls[-1].request.header(ViewMessage).offset == 4096


def test_an_id_that_leads_out_of_the_cluster_is_not_followed() -> None:
    peers = Peers(a_cluster())

    with pytest.raises(InvalidName, match=r"192\.168\.1\.1:22"):
        peers.hold(message_at(name_servers(), ELSEWHERE))

    assert {call.address for call in peers.calls} == {NS}


def test_a_message_that_is_gone_is_none_and_a_refusal_is_an_error() -> None:
    gone = no(1, "can not find message by the offset, 4096")

    assert Peers(a_cluster() | {(A, 33): gone}).hold(message_at(name_servers(), ID)) is None
    assert Peers(a_cluster() | {(A, 33): ok()}).hold(message_at(name_servers(), ID)) is None
    with pytest.raises(BrokerRefused):
        Peers(a_cluster() | {(A, 33): no(1, "busy")}).hold(message_at(name_servers(), ID))
    with pytest.raises(MalformedRecord):
        Peers(a_cluster() | {(A, 33): ok(body=b"x")}).hold(message_at(name_servers(), ID))


def test_a_key_is_compared_again_on_every_broker() -> None:
    right = record(1, store_ms=9, KEYS="k-1 k-2")
    collision = record(2, KEYS="k-7")
    older = record(5, store_ms=3, KEYS="k-1")
    peers = lookup(found(right, collision), found(older))

    messages = peers.hold(messages_by_key(name_servers(), "orders", "k-1", start_ms=2, stop_ms=10))

    header = peers.asked(12)[0][1].header(QueryMessage)
    assert [(m.broker, m.queue_offset) for m in messages] == [("broker-b", 5), ("broker-a", 1)]
    assert (header.begin_timestamp, header.end_timestamp, header.is_unique_key) == (2, 10, False)


def test_of_too_many_the_newest_are_given() -> None:
    peers = lookup(found(*(record(n, store_ms=n, KEYS="k") for n in range(5))))

    messages = peers.hold(messages_by_key(name_servers(), "orders", "k", count_max=2))

    assert [message.queue_offset for message in messages] == [3, 4]


def test_a_unique_id_is_looked_up_as_such() -> None:
    peers = lookup(found(record(1, UNIQ_KEY="U1"), record(2, UNIQ_KEY="U2")))

    messages = peers.hold(messages_by_id(name_servers(), "orders", "U1"))

    header = peers.asked(12)[0][1].header(QueryMessage)
    assert [message.message_id for message in messages] == ["U1"]
    assert (header.is_unique_key, header.end_timestamp) == (True, FOREVER_MS)


def test_a_time_is_looked_up_by_pulls() -> None:
    answer = PullAnswer(suggest_which_broker_id=0, next_begin_offset=5, min_offset=0, max_offset=9)
    body = b"".join(record(n, store_ms=100 + n) for n in range(2, 5))
    only_a = route(1, addresses={"broker-a": A})
    peers = Peers(
        {
            (NS, 105): routes(orders=only_a),
            (A, 31): ok(OffsetAnswer(offset=0)),
            (A, 30): ok(OffsetAnswer(offset=9)),
            (A, 29): [ok(OffsetAnswer(offset=2)), ok(OffsetAnswer(offset=4))],
            (A, 11): ok(answer, body),
        }
    )

    messages = peers.hold(messages_by_time(name_servers(), "orders", 103, 105))

    # a broker may start and stop one message early; what is outside the time is left out
    assert [message.store_ms for message in messages] == [103, 104]


def test_a_member_consumes_a_message_through_the_broker_that_has_it() -> None:
    result = DirectResult(
        consume_result=DirectOutcome.THREW, remark="KeyError", spent_time_mills=12
    )
    peers = Peers(a_cluster() | {(A, 33): ok(body=record(3)), (A, 309): ok(body=result.to_body())})

    done = peers.hold(consume_directly(name_servers(), "billing", ID, client_id="c1"))

    header = peers.calls[-1].request.header(ConsumeDirectly)
    assert (done.outcome, done.remark, done.elapsed_ms) == (DirectOutcome.THREW, "KeyError", 12)
    assert (header.client_id, header.msg_id, header.topic) == ("c1", ID, "orders")


def test_where_no_member_is_named_one_that_is_online_consumes() -> None:
    """Brokers of RocketMQ choose none by themselves."""
    online = ConsumerConnections(
        connection_set=(ClientConnection(client_id="c2"), ClientConnection(client_id="c1"))
    )
    peers = Peers(
        a_cluster()
        | {
            (A, 33): ok(body=record(3)),
            (A, 203): ok(body=online.to_body()),
            (A, 309): ok(body=DirectResult().to_body()),
        }
    )

    peers.hold(consume_directly(name_servers(), "billing", ID))

    assert peers.calls[-1].request.header(ConsumeDirectly).client_id == "c1"


def test_a_group_without_members_consumes_nothing() -> None:
    peers = Peers(a_cluster() | {(A, 33): ok(body=record(3)), (A, 203): no(206)})

    with pytest.raises(InvalidSetting, match="no member"):
        peers.hold(consume_directly(name_servers(), "billing", ID))


def test_a_message_that_is_gone_cannot_be_consumed() -> None:
    peers = Peers(a_cluster() | {(A, 33): no(1, "can not find message by the offset, 1")})

    with pytest.raises(InvalidName, match="gone"):
        peers.hold(consume_directly(name_servers(), "billing", ID))
