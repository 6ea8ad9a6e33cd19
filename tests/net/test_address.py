"""An address is read once, with a clear word about what is wrong with it."""

from __future__ import annotations

import pytest

from flintmq.errors import InvalidSetting
from flintmq.net.address import Address, parse_addresses


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9876", "127.0.0.1", 9876),
        ("broker-a.example:10911", "broker-a.example", 10911),
        (" localhost:0 ", "localhost", 0),
        ("[::1]:65535", "::1", 65535),
    ],
)
def test_a_host_and_a_port_are_read_and_written_the_same(text: str, host: str, port: int) -> None:
    address = Address.parse(text)

    assert address == Address(host, port)
    assert str(address) == text.strip()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "give host:port"),
        ("localhost", "give host:port"),
        (":9876", "give host:port"),
        ("localhost:", "the port is a number"),
        ("localhost:name", "the port is a number"),
        ("localhost:65536", "the port is a number from 0 to 65535"),
        ("localhost:-1", "the port is a number"),
        ("localhost:٣", "the port is a number"),
        ("http://localhost:9876", "without a scheme"),
        ("a:1,b:2", "separated by ';'"),
        ("::1:9876", "goes in brackets"),
        ("[localhost]:9876", "no IPv6 address in the brackets"),
        ("my host:9876", "no host name"),
        (".example:9876", "no host name"),
        ("a..example:9876", "no host name"),
        (f"{'a' * 64}.example:9876", "no host name"),
    ],
)
def test_what_is_no_address_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidSetting, match=reason) as caught:
        Address.parse(text)

    assert caught.value.value == text


def test_a_list_keeps_its_order_and_drops_repetitions() -> None:
    addresses = parse_addresses("b:2; a:1;b:2;")

    assert addresses == (Address("b", 2), Address("a", 1))


@pytest.mark.parametrize("text", ["", " ; ", "a:1;b", "a:0"])
def test_a_list_without_a_place_to_go_is_refused(text: str) -> None:
    with pytest.raises(InvalidSetting):
        parse_addresses(text)
