"""Which processor serves which request.

Every module of processors has a table ``PROCESSORS``; here they become one.  A code in none of
them is refused with REQUEST_CODE_NOT_SUPPORTED (3), as RocketMQ does.

What stores messages, or changes topics, groups or offsets by hand, is wrapped: a broker that is
read-only, as a slave is, refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping

from flintmq.broker.admin import (
    account_admin,
    assignment,
    broker_admin,
    client_admin,
    consume_stats_admin,
    group_admin,
    message_lookup,
    offset_admin,
    read_only,
    reset_offsets,
    slave_requests,
    topic_admin,
)
from flintmq.broker.consume import (
    ack,
    client_requests,
    consumer_offsets,
    end_transaction,
    peek,
    pop,
    pull,
)
from flintmq.broker.send import recall, reply, send_back, send_message
from flintmq.broker.state.broker_state import Processor
from flintmq.protocol.codes import RequestCode

TABLES: tuple[Mapping[RequestCode, Processor], ...] = (
    send_message.PROCESSORS,
    recall.PROCESSORS,
    reply.PROCESSORS,
    send_back.PROCESSORS,
    pull.PROCESSORS,
    pop.PROCESSORS,
    ack.PROCESSORS,
    peek.PROCESSORS,
    consumer_offsets.PROCESSORS,
    message_lookup.PROCESSORS,
    client_requests.PROCESSORS,
    end_transaction.PROCESSORS,
    topic_admin.PROCESSORS,
    group_admin.PROCESSORS,
    offset_admin.PROCESSORS,
    reset_offsets.PROCESSORS,
    consume_stats_admin.PROCESSORS,
    client_admin.PROCESSORS,
    broker_admin.PROCESSORS,
    account_admin.PROCESSORS,
    slave_requests.PROCESSORS,
    assignment.PROCESSORS,
)


def processors() -> Mapping[int, Processor]:
    """The processor of every code this broker serves."""
    table: dict[int, Processor] = {}
    for served in TABLES:
        for code, processor in served.items():
            assert int(code) not in table, code
            table[int(code)] = read_only.wrapped(code, processor)
    return table
