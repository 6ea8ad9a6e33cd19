"""A question has one answer or a typed error that says who refused; name servers stand in for
each other.
"""

from __future__ import annotations

import pytest

from flintmq.core.ask import ASK_MS, ask, ask_any, ask_each
from flintmq.errors import BrokerRefused, Unreachable
from flintmq.protocol.headers.topic import ForgetTopic
from support.core.peers import NS, Peers, name_servers, no, ok

GONE = Unreachable("a:1", "refused")


def test_a_refusal_names_the_address_and_leaves_the_hint_out() -> None:
    peers = Peers({("a:1", 28): no(16, "no right \nSee http://x for further details.")})

    with pytest.raises(BrokerRefused) as caught:
        peers.hold(ask("a:1", 28))

    assert caught.value.args == (16, "no right", "a:1")
    assert peers.calls[0].timeout_ms == ASK_MS


def test_a_code_that_is_expected_is_an_answer() -> None:
    peers = Peers({("a:1", 28): no(17)})

    assert peers.hold(ask("a:1", 28, accepted=(0, 17))).code == 17


def test_the_next_name_server_is_asked_when_one_does_not_answer() -> None:
    servers = name_servers("a:1", "b:1")
    peers = Peers({("a:1", 106): GONE, ("b:1", 106): ok()})

    peers.hold(ask_any(servers, 106))
    peers.hold(ask_any(servers, 106))

    assert [call.address for call in peers.calls] == ["a:1", "b:1", "b:1"]


def test_a_name_server_that_refuses_is_named() -> None:
    servers = name_servers("a:1", "b:1")
    peers = Peers({("a:1", 106): GONE, ("b:1", 106): no(1, "broken")})

    with pytest.raises(BrokerRefused) as caught:
        peers.hold(ask_any(servers, 106))

    assert caught.value.address == "b:1"


def test_no_name_server_at_all_is_unreachable() -> None:
    peers = Peers({(NS, 106): GONE})

    with pytest.raises(Unreachable):
        peers.hold(ask_any(name_servers(), 106))


def test_every_name_server_is_told_and_what_failed_is_raised_at_the_end() -> None:
    servers = name_servers("a:1", "b:1")
    peers = Peers({("a:1", 216): GONE, ("b:1", 216): ok()})

    with pytest.raises(Unreachable):
        peers.hold(ask_each(servers, 216, ForgetTopic(topic="orders")))

    assert [call.address for call in peers.calls] == ["a:1", "b:1"]


def test_all_told_is_no_error() -> None:
    peers = Peers({(NS, 216): ok()})

    peers.hold(ask_each(name_servers(), 216, ForgetTopic(topic="orders")))

    assert len(peers.calls) == 1


def test_a_broker_in_place_of_a_name_server_is_named_as_such() -> None:
    peers = Peers({(NS, 206): no(3, "request type 206 not supported")})

    with pytest.raises(BrokerRefused, match="ns:9876 is a broker, not a name server"):
        peers.hold(ask_any(name_servers(), 206))
