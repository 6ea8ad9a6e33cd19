"""Where a peer listens: a host name or IP address, and a port."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address

from flintmq.errors import InvalidSetting

PORT_MAX = 65_535

NAMESRV_VARIABLE = "NAMESRV_ADDR"
"""The environment variable with name servers that all RocketMQ clients and tools know."""


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A host and a port.  Port 0 is for listening: the system chooses one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read ``host:port`` or ``[ipv6]:port``; raise `InvalidSetting` when it is neither."""
        host, colon, port = text.strip().rpartition(":")
        if "/" in text:
            raise InvalidSetting("address", text, "give host:port, without a scheme or a path")
        if "," in text:
            raise InvalidSetting("address", text, "several addresses are separated by ';'")
        if not colon or not host:
            raise InvalidSetting("address", text, "give host:port")
        if not (port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
            raise InvalidSetting("address", text, f"the port is a number from 0 to {PORT_MAX}")
        return cls(_plain_host(host, text), int(port))

    @property
    def is_v6(self) -> bool:
        return ":" in self.host

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if self.is_v6 else f"{self.host}:{self.port}"


def parse_host(text: str) -> str:
    """Read a host name or an IP address of either kind, without a port."""
    return Address.parse(f"[{text}]:0" if ":" in text else f"{text}:0").host


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Read a list such as ``a:9876;b:9876``, the way name servers are given; keep its order."""
    addresses = [Address.parse(part) for part in text.split(";") if part.strip()]
    if not addresses:
        raise InvalidSetting("address", text, "give at least one host:port")
    for address in addresses:
        if address.port == 0:
            raise InvalidSetting("address", str(address), "nobody can be reached at port 0")
    return tuple(dict.fromkeys(addresses))


def name_servers(given: str | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The addresses of name servers, as given or from the environment."""
    text = given or environment.get(NAMESRV_VARIABLE, "")
    if not text.strip():
        raise InvalidSetting(
            "namesrv", "", f"no name server is set: give namesrv= or set {NAMESRV_VARIABLE}"
        )
    return tuple(map(str, parse_addresses(text)))


def _plain_host(host: str, text: str) -> str:
    if host.startswith("[") and host.endswith("]"):
        try:
            IPv6Address(host[1:-1])
        except AddressValueError:
            raise InvalidSetting("address", text, "no IPv6 address in the brackets") from None
        return host[1:-1]
    if ":" in host:
        raise InvalidSetting("address", text, "an IPv6 address goes in brackets: [::1]:9876")
    try:
        host.encode("idna")  # as the system's resolver will
    except UnicodeError:
        raise InvalidSetting("address", text, "that is no host name") from None
    if any(letter.isspace() or letter in "[]" for letter in host):
        raise InvalidSetting("address", text, "that is no host name")
    return host
