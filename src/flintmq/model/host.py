"""Where a peer is: an address and a port, as RocketMQ writes them into records and ids."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

KEPT: Final = 4_096
"""Addresses whose text is kept: servers ask for that of a peer with every request."""


@lru_cache(KEPT)
def _text(packed: bytes) -> str:
    return str(IPv6Address(packed) if len(packed) == 16 else IPv4Address(packed))


@dataclass(frozen=True, slots=True, order=True)
class Host:
    """An IP address as packed bytes (4 or 16 of them) and a port.

    The port is 32 bits wide because that is what records hold; a real one has 16.
    """

    packed: bytes
    port: int

    def __post_init__(self) -> None:
        if len(self.packed) not in (4, 16):
            raise ValueError(f"an address has 4 or 16 bytes, not {len(self.packed)}")
        if not -(2**31) <= self.port < 2**31:
            raise ValueError(f"a port fits 32 bits, {self.port} does not")

    @classmethod
    def parse(cls, text: str) -> Host:
        """Read ``ip:port`` or ``[ipv6]:port``."""
        ip, colon, port = text.rpartition(":")
        if not colon:
            raise ValueError(f"{text!r} is not ip:port")
        return cls(ip_address(ip.strip("[]")).packed, int(port))

    @property
    def is_v6(self) -> bool:
        return len(self.packed) == 16

    @property
    def ip(self) -> str:
        return _text(self.packed)

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if self.is_v6 else f"{self.ip}:{self.port}"
