"""Which processor serves which request.

Every module of processors has a table ``PROCESSORS``; here they become one.  A code in none of
them is refused with code 3, as RocketMQ does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeAlias

from flintmq.broker.outcome import Outcome
from flintmq.broker.peer import Peer
from flintmq.broker.state import BrokerState
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.typed_request import TypedRequest

Processor: TypeAlias = Callable[[TypedRequest[Any], BrokerState, Peer, int], Outcome]

MODULES = (
    "send",
    "reply",
    "send_back",
    "pull",
    "consumer_offsets",
    "lookup",
    "members",
    "end_transaction",
    "admin_topics",
    "admin_groups",
    "admin_offsets",
    "admin_clients",
    "admin_broker",
)


def processors() -> Mapping[int, Processor]:
    """Every code we serve."""
    table: dict[int, Processor] = {}
    for name in MODULES:
        module = import_module(f"flintmq.broker.{name}")
        served: Mapping[RequestCode, Processor] = module.PROCESSORS
        for code, processor in served.items():
            assert int(code) not in table, code
            table[int(code)] = processor
    return table
