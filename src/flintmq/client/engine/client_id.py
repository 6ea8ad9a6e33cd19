"""Who a client says it is, and the ids it gives its messages.

A client id is ``ip@instance``, and more parts where they are needed.  Brokers tell the members
of a group apart by it and nothing else, so by default no two clients have the same.
"""

from __future__ import annotations

import itertools
import random
import socket
import time
from datetime import datetime
from ipaddress import ip_address

from flintmq.client.engine import fork
from flintmq.model.message_id import UniqueIds

LOOPBACK = "127.0.0.1"

_instances = itertools.count(1)


def client_id(
    *,
    ip: str | None = None,
    instance_name: str | None = None,
    unit_name: str | None = None,
    stream: bool = False,
) -> str:
    """The id of a new client; without an instance name it is unlike any other.

    ``stream`` marks pull and lite pull consumers, as RocketMQ's do.
    """
    instance = instance_name or f"{fork.process_id()}#{time.time_ns()}.{next(_instances)}"
    parts = [ip or own_ip(), instance]
    if unit_name:
        parts.append(unit_name)
    if stream:
        parts.append("STREAM")
    return "@".join(parts)


def own_ip() -> str:
    """The address this machine is reached at, as far as its routing table knows."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("10.255.255.255", 9))  # a datagram socket sends nothing by this
            return str(probe.getsockname()[0])
        except OSError:
            return LOOPBACK


class MessageIds:
    """Makes the unique ids of messages; month by month, since ids count from the first of it."""

    def __init__(self) -> None:
        ip = ip_address(own_ip()).packed
        constant = random.SystemRandom().randrange(1 << 32)
        self._ids = UniqueIds(ip, fork.process_id(), constant)
        self._month_start_ms = 0
        self._next_month_ms = 0

    def make(self, now_ms: int) -> str:
        return self._ids.make(now_ms, self._month(now_ms))

    def make_many(self, now_ms: int, count: int) -> list[str]:
        return self._ids.make_many(now_ms, self._month(now_ms), count)

    def _month(self, now_ms: int) -> int:
        if not self._month_start_ms <= now_ms < self._next_month_ms:
            self._month_start_ms, self._next_month_ms = month_of(now_ms)
        return self._month_start_ms


def month_of(now_ms: int) -> tuple[int, int]:
    """When the month of a time began and when the next begins, in local time."""
    at = datetime.fromtimestamp(now_ms / 1000).astimezone()
    start = datetime(at.year, at.month, 1).astimezone()
    year, month = (at.year + 1, 1) if at.month == 12 else (at.year, at.month + 1)
    stop = datetime(year, month, 1).astimezone()
    return round(start.timestamp() * 1000), round(stop.timestamp() * 1000)


_message_ids: MessageIds | None = None


def message_ids() -> MessageIds:
    """The one source of ids of this process."""
    global _message_ids  # noqa: PLW0603  # a child process has to make its own
    if _message_ids is None:
        _message_ids = MessageIds()
    return _message_ids


def _forget() -> None:
    global _message_ids  # noqa: PLW0603
    _message_ids = None


fork.in_every_child(_forget)
