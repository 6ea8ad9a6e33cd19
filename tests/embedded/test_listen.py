"""An embedded broker listens where it is told, or says why it cannot."""

from __future__ import annotations

import socket

import pytest

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import InvalidSetting
from flintmq.net.address import Address
from flintmq.protocol.codes import RequestCode
from support.embedded.asking import ask
from support.net.ports import port_with_one_below


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def test_it_listens_where_it_is_told() -> None:
    namesrv, broker = (Address("127.0.0.1", free_port()) for _ in range(2))

    with EmbeddedBroker(namesrv_listen=namesrv, broker_listen=broker) as servers:
        assert servers.namesrv == str(namesrv)
        assert servers.broker == str(broker)


def test_where_it_is_told_the_fast_port_is_served_too_and_again_after_a_restart() -> None:
    where = Address("127.0.0.1", port_with_one_below(2))
    below = f"127.0.0.1:{where.port - 2}"

    with EmbeddedBroker(broker_listen=where) as servers:
        before = ask(below, RequestCode.GET_BROKER_RUNTIME_INFO)
        servers.stop_broker("broker-a")
        servers.start_broker("broker-a")
        after = ask(below, RequestCode.GET_BROKER_RUNTIME_INFO)

    assert (before.code, after.code) == (0, 0)


def test_on_a_port_of_the_systems_choice_it_takes_no_other_not_even_after_a_restart() -> None:
    with EmbeddedBroker() as servers:
        servers.stop_broker("broker-a")
        servers.start_broker("broker-a")
        fast = servers.call(lambda inside: inside.brokers["broker-a"].listeners.fast)

    assert fast is None


def test_a_taken_port_is_named_and_several_cannot_share_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(InvalidSetting, match=str(address)):
            EmbeddedBroker(broker_listen=address).start()
    with pytest.raises(ValueError, match="cannot all listen"):
        EmbeddedBroker(brokers=2, broker_listen=address)
