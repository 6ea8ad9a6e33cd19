"""Source addresses of rules: the patterns of ACL 1.0 and the address ranges of ACL 2.0.

    192.168.0.7   192.168.0.{1,2}   192.168.1-10.*   192.168.*.*   *        ACL 1.0
    10.0.0.0/8    2001:db8::/32     127.0.0.1                              ACL 2.0

A text that is no such pattern is refused, because a pattern that matches nothing looks like one
that works.  Comparison is with the address of the connection, without its port.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final, Protocol, TypeAlias

from flintmq.errors import InvalidSetting

IpAddress: TypeAlias = IPv4Address | IPv6Address

_ALL: Final = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})
_RANGE: Final = re.compile(r"([0-9a-fA-F]{1,4})-([0-9a-fA-F]{1,4})")
_PARTS_4: Final = 4
_PARTS_6: Final = 8


class Source(Protocol):
    """A set of addresses."""

    def has(self, address: IpAddress) -> bool:
        """Whether the address is in the set."""


@dataclass(frozen=True, slots=True)
class Range:
    """Addresses of one network, in CIDR form; ``::/0`` and ``0.0.0.0/0`` are all addresses."""

    text: str
    network: IPv4Network | IPv6Network

    def has(self, address: IpAddress) -> bool:
        network = self.network
        return network.prefixlen == 0 or (address.version == network.version and address in network)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Parts:
    """Addresses whose parts lie within bounds: a white list pattern of ACL 1.0."""

    text: str
    bounds: tuple[tuple[int, int], ...]
    """The lowest and highest value of each of the four or eight parts; none means all addresses."""

    def has(self, address: IpAddress) -> bool:
        if not self.bounds:
            return True
        parts = _parts_of(address)
        return len(parts) == len(self.bounds) and all(
            low <= part <= high for part, (low, high) in zip(parts, self.bounds, strict=True)
        )

    def __str__(self) -> str:
        return self.text


def is_everywhere(source: Source) -> bool:
    """Whether every address is in the set."""
    return isinstance(source, Parts) and not source.bounds


def parse_range(text: str) -> Source:
    """An address or CIDR range of ACL 2.0; `InvalidSetting` for anything else."""
    text = text.strip()
    try:
        return Range(text, ip_network(text, strict=False))
    except ValueError:
        raise InvalidSetting(
            "sourceIps", text, "must be an address or a range such as 10.0.0.0/8"
        ) from None


def parse_white_addresses(text: str) -> tuple[Source, ...]:
    """A pattern of ACL 1.0, which may name several addresses; `InvalidSetting` if it is none."""
    text = text.strip()
    if not text:
        return ()
    if text in _ALL:
        return (Parts(text, ()),)
    if text.endswith("}"):
        head, brace, tail = text[:-1].partition("{")
        if not brace or "{" in tail:
            raise _not_a_pattern(text)
        return tuple(_single(head + part.strip(), text) for part in tail.split(","))
    if "," in text:
        return tuple(_single(part.strip(), text) for part in text.split(","))
    return (_pattern(text),)


def parse_address(text: str) -> IpAddress | None:
    """The address of a peer, without port; None where it is none (a Unix socket)."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _single(text: str, whole: str) -> Source:
    try:
        address = ip_address(text)
    except ValueError:
        raise _not_a_pattern(whole) from None
    return Parts(text, tuple((part, part) for part in _parts_of(address)))


def _pattern(text: str) -> Source:
    if "*" not in text and "-" not in text:
        return _single(text, text)
    is_6 = ":" in text
    base, wanted, top = (16, _PARTS_6, 0xFFFF) if is_6 else (10, _PARTS_4, 0xFF)
    parts = _filled(text, wanted) if is_6 else text.split(".")
    if len(parts) != wanted or parts[0] == "*":
        raise _not_a_pattern(text)
    bounds: list[tuple[int, int]] = []
    for number, part in enumerate(parts):
        rest = parts[number + 1 :]
        if part == "*":
            if any(later != "*" for later in rest):
                raise _not_a_pattern(text)
            bounds.append((0, top))
            continue
        if found := _RANGE.fullmatch(part):
            if any(later != "*" for later in rest):
                raise _not_a_pattern(text)
            low, high = found.groups()
        else:
            low = high = part
        try:
            bounds.append((int(low, base), int(high, base)))
        except ValueError:
            raise _not_a_pattern(text) from None
    if any(not 0 <= low <= high <= top for low, high in bounds):
        raise _not_a_pattern(text)
    return Parts(text, tuple(bounds))


def _filled(text: str, wanted: int) -> list[str]:
    """The parts of an IPv6 pattern, with zeros where ``::`` stands for them."""
    if text.count("::") > 1:
        return []
    head, gap, tail = text.partition("::")
    before = head.split(":") if head else []
    after = tail.split(":") if tail else []
    if not gap:
        return before
    return [*before, *["0"] * (wanted - len(before) - len(after)), *after]


def _parts_of(address: IpAddress) -> tuple[int, ...]:
    octets = address.packed
    if address.version == _PARTS_4:
        return tuple(octets)
    return tuple(octets[at] << 8 | octets[at + 1] for at in range(0, len(octets), 2))


def _not_a_pattern(text: str) -> InvalidSetting:
    return InvalidSetting(
        "white address", text, "Netaddress examine Exception netaddress is " + text
    )
