"""Which processor serves which request.

Every module of processors has a table ``PROCESSORS``; here they become one.  A code in none of
them is refused with REQUEST_CODE_NOT_SUPPORTED (3), as RocketMQ does.
"""

from __future__ import annotations

from collections.abc import Mapping

from flintmq.broker.admin import broker_admin as admin_broker
from flintmq.broker.admin import client_admin as admin_clients
from flintmq.broker.admin import group_admin as admin_groups
from flintmq.broker.admin import message_lookup as lookup
from flintmq.broker.admin import offset_admin as admin_offsets
from flintmq.broker.admin import topic_admin as admin_topics
from flintmq.broker.consume import client_requests as members
from flintmq.broker.consume import consumer_offsets, end_transaction, pull
from flintmq.broker.send import reply, send_back
from flintmq.broker.send import send_message as send
from flintmq.broker.state.broker_state import Processor
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
