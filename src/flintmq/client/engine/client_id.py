"""Who a client says it is, and the ids it gives its messages.

A client id is ``ip@instance``, and more parts where they are needed.  Brokers tell the members
of a group apart by it and nothing else, so by default no two clients have the same.
"""

from __future__ import annotations

import itertools
import random
import socket
import time
from ipaddress import ip_address

from flintmq.client.engine.lifecycle import in_every_child, process_id
from flintmq.model.message_id import MonthlyIds, UniqueIds

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
    instance = instance_name or f"{process_id()}#{time.time_ns()}.{next(_instances)}"
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


_message_ids: MonthlyIds | None = None


def message_ids() -> MonthlyIds:
    """The one source of ids of this process."""
    global _message_ids  # noqa: PLW0603  # a child process has to make its own
    if _message_ids is None:
        constant = random.SystemRandom().randrange(1 << 32)
        ids = UniqueIds(ip_address(own_ip()).packed, process_id(), constant)
        _message_ids = MonthlyIds(ids)
    return _message_ids


def _forget() -> None:
    global _message_ids  # noqa: PLW0603
    _message_ids = None


in_every_child(_forget)
