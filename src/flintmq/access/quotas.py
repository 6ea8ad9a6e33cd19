"""Quotas: how many messages and bytes a second an account or a group may send or consume.

    account:alice send 1000/s 1MiB/s; group:billing consume 10MiB/s; account:* send 5000/s

A quota names its holder, what it is for, and one rate or two: a bare number is messages, one with a
unit is bytes.  ``*`` is every account, or group, without a quota of its own for that; each of them
has a balance of its own.  A producer group is what a client calls itself, so a quota on sends of a
group binds only those who say who they are; one on an account binds whoever signs.

`Quotas` has the balances (`TokenBucket`): whoever has anything left may go on, and pays for it.

Invariant: balances stay when other quotas change, and their number has a limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from flintmq.access.token_bucket import TokenBucket

QUOTAS_MAX: Final = 1_000
METERS_MAX: Final = 10_000
"""Balances kept at once.  Groups of ``*`` are named by peers; beyond it all of them begin again."""

UNITS: Final = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
RATE_MAX: Final = 2**40
STAR: Final = "*"

_ENTRY: Final = re.compile(
    r"(account|group):(\S+) (send|consume)((?: [0-9]+(?:B|KiB|MiB|GiB)?/s)+)"
)
_RATE: Final = re.compile(r"([0-9]+)(B|KiB|MiB|GiB)?/s")
_FORM: Final = "it must be like: account:alice send 1000/s 1MiB/s; group:* consume 10MiB/s"


class QuotaUse(StrEnum):
    """What a quota is for."""

    SEND = "send"
    CONSUME = "consume"


class QuotaOwner(StrEnum):
    """Who has a quota."""

    ACCOUNT = "account"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class Quota:
    """One quota.  None is no limit."""

    holder: QuotaOwner
    name: str
    use: QuotaUse
    messages: int | None = None
    size_bytes: int | None = None

    def __str__(self) -> str:
        rates = []
        if self.messages is not None:
            rates.append(f"{self.messages}/s")
        if self.size_bytes is not None:
            rates.append(f"{_size_text(self.size_bytes)}/s")
        return " ".join([f"{self.holder}:{self.name}", self.use, *rates])

    @property
    def limit(self) -> str:
        """How refusals by it are counted."""
        return f"quota.{self.holder}.{self.use}"


def parse_quotas(text: str) -> tuple[Quota, ...]:
    """Quotas as a setting has them.  Raises `ValueError` with what is wrong."""
    found: dict[tuple[QuotaOwner, str, QuotaUse], Quota] = {}
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        quota = _parse_quota(" ".join(entry.split()))
        key = quota.holder, quota.name, quota.use
        if key in found:
            raise ValueError(f"{quota.holder}:{quota.name} {quota.use} is there twice")
        found[key] = quota
    if len(found) > QUOTAS_MAX:
        raise ValueError(f"there may be {QUOTAS_MAX} quotas")
    return tuple(found.values())


def show_quotas(quotas: Iterable[Quota]) -> str:
    """Quotas written in the form that `parse_quotas` reads."""
    return "; ".join(map(str, quotas))


def _parse_quota(entry: str) -> Quota:
    matched = _ENTRY.fullmatch(entry)
    if matched is None:
        raise ValueError(f"{entry[:80]!r}: {_FORM}")
    messages = size_bytes = None
    for number, unit in _RATE.findall(matched[4]):
        rate = int(number) * UNITS.get(unit, 1)
        if not 0 < rate <= RATE_MAX:
            raise ValueError(f"{entry[:80]!r}: a rate is from 1 to {RATE_MAX}")
        if unit and size_bytes is None:
            size_bytes = rate
        elif not unit and messages is None:
            messages = rate
        else:
            raise ValueError(f"{entry[:80]!r}: one rate of messages and one of bytes, no more")
    holder, use = QuotaOwner(matched[1]), QuotaUse(matched[3])
    return Quota(holder, matched[2], use, messages, size_bytes)


def _size_text(size_bytes: int) -> str:
    for unit, size in reversed(UNITS.items()):
        if size_bytes % size == 0:
            return f"{size_bytes // size}{unit}"
    return f"{size_bytes}B"


class QuotaMeter:
    """The balances of one holder under one quota."""

    __slots__ = ("_bytes", "_messages", "name", "quota")

    def __init__(self, quota: Quota, name: str, now_ms: int) -> None:
        self.quota = quota
        self.name = name
        rates = quota.messages, quota.size_bytes
        self._messages, self._bytes = (
            None if rate is None else TokenBucket(rate, now_ms) for rate in rates
        )

    def has_any(self, now_ms: int) -> bool:
        """Whether the account or group may send or consume now."""
        return (self._messages is None or self._messages.has_any(now_ms)) and (
            self._bytes is None or self._bytes.has_any(now_ms)
        )

    def pay(self, messages: int, size_bytes: int) -> None:
        """Charge what the account or group sent or consumed."""
        if self._messages is not None:
            self._messages.pay(messages)
        if self._bytes is not None:
            self._bytes.pay(size_bytes)

    def wait_ms(self, now_ms: int) -> int:
        """How long until the account or group may send or consume again."""
        buckets = (self._messages, self._bytes)
        return max(each.wait_ms(now_ms) for each in buckets if each is not None)

    @property
    def reason(self) -> str:
        """Why a request is refused, as the remark of the answer says it."""
        rates = " ".join(str(self.quota).split(" ")[2:])
        return (
            f"[FLOWCONTROL]the quota of {self.quota.holder} {self.name} is {rates} "
            f"to {self.quota.use}, try again later"
        )


Meters = tuple[QuotaMeter, ...]


class Quotas:
    """The quotas in force, and the balances of all that have one."""

    def __init__(self, quotas: Iterable[Quota] = ()) -> None:
        self.sends = self.consumes = False
        """Whether there is any quota for it; without one nothing has to be looked up."""
        self._quotas: dict[tuple[QuotaOwner, str, QuotaUse], Quota] = {}
        self._meters: dict[tuple[QuotaOwner, str, QuotaUse], QuotaMeter] = {}
        self._found: dict[tuple[QuotaUse, str | None, str], Meters] = {}
        self.configure(quotas)

    def configure(self, quotas: Iterable[Quota]) -> None:
        """Go on with these; balances of quotas that stay the same stay too."""
        self._quotas = {(each.holder, each.name, each.use): each for each in quotas}
        self.sends = any(each.use is QuotaUse.SEND for each in self._quotas.values())
        self.consumes = any(each.use is QuotaUse.CONSUME for each in self._quotas.values())
        self._meters = {
            key: meter for key, meter in self._meters.items() if self.quota(*key) == meter.quota
        }
        self._found.clear()

    def quota(self, holder: QuotaOwner, name: str, use: QuotaUse) -> Quota | None:
        """The quota that counts for somebody."""
        return self._quotas.get((holder, name, use)) or self._quotas.get((holder, STAR, use))

    def meters(self, use: QuotaUse, account: str | None, group: str, now_ms: int) -> Meters:
        """The balances that a request of this account and group is paid from."""
        found = self._found.get((use, account, group))
        if found is None:
            if len(self._found) >= METERS_MAX or len(self._meters) >= METERS_MAX:
                self._found.clear()
                self._meters.clear()
            holders = [(QuotaOwner.GROUP, group)]
            if account is not None:
                holders.insert(0, (QuotaOwner.ACCOUNT, account))
            made = (self._meter(holder, name, use, now_ms) for holder, name in holders)
            found = self._found[use, account, group] = tuple(each for each in made if each)
        return found

    def exhausted(
        self, use: QuotaUse, account: str | None, group: str, now_ms: int
    ) -> QuotaMeter | None:
        """The first balance that allows a request of this account and group nothing now."""
        for meter in self.meters(use, account, group, now_ms):
            if not meter.has_any(now_ms):
                return meter
        return None

    def pay(
        self,
        use: QuotaUse,
        account: str | None,
        group: str,
        messages: int,
        size_bytes: int,
        now_ms: int,
    ) -> None:
        """Messages were stored or handed out."""
        for meter in self.meters(use, account, group, now_ms):
            meter.pay(messages, size_bytes)

    def _meter(
        self, holder: QuotaOwner, name: str, use: QuotaUse, now_ms: int
    ) -> QuotaMeter | None:
        quota = self.quota(holder, name, use)
        if quota is None:
            return None
        key = holder, name, use
        if key not in self._meters:
            self._meters[key] = QuotaMeter(quota, name, now_ms)
        return self._meters[key]
