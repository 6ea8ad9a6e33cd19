"""Which processor serves which request.

Every module of processors has a table ``PROCESSORS``; here they become one.  A code in none of
them is refused with REQUEST_CODE_NOT_SUPPORTED (3), as RocketMQ does.
"""

from __future__ import annotations

from collections.abc import Mapping

from flintmq.broker import (
    admin_broker,
    admin_clients,
    admin_groups,
    admin_offsets,
    admin_topics,
    consumer_offsets,
    end_transaction,
    lookup,
    members,
    pull,
    reply,
    send,
    send_back,
)
from flintmq.broker.state import Processor
from flintmq.protocol.codes import RequestCode

TABLES: tuple[Mapping[RequestCode, Processor], ...] = (
    send.PROCESSORS,
    reply.PROCESSORS,
    send_back.PROCESSORS,
    pull.PROCESSORS,
    consumer_offsets.PROCESSORS,
    lookup.PROCESSORS,
    members.PROCESSORS,
    end_transaction.PROCESSORS,
    admin_topics.PROCESSORS,
    admin_groups.PROCESSORS,
    admin_offsets.PROCESSORS,
    admin_clients.PROCESSORS,
    admin_broker.PROCESSORS,
)


def processors() -> Mapping[int, Processor]:
    """Every code we serve."""
    table: dict[int, Processor] = {}
    for served in TABLES:
        for code, processor in served.items():
            assert int(code) not in table, code
            table[int(code)] = processor
    return table
