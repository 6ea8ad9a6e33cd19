"""How long the body of a request may be, by its code.

Only sends carry what may fill a frame.  The rest are names, settings and lists, and reading them
costs microseconds a piece: a limit on their bytes is a limit on the time of the loop.  Each is
many times what the largest known client or broker sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from flintmq.errors import BodyTooLarge
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.frame import FRAME_BYTES_MAX

KIB: Final = 1024
MIB: Final = 1024 * KIB

SMALL_BODY_BYTES: Final = 64 * KIB
"""For every code that is not in the table: most requests have no body, or a few names."""

BODY_BYTES_MAX: Final[Mapping[int, int]] = MappingProxyType(
    {
        int(code): limit
        for limit, codes in {
            # messages, alone or many
            FRAME_BYTES_MAX: (
                RequestCode.SEND_MESSAGE,
                RequestCode.SEND_MESSAGE_V2,
                RequestCode.SEND_BATCH_MESSAGE,
                RequestCode.SEND_REPLY_MESSAGE,
                RequestCode.SEND_REPLY_MESSAGE_V2,
                RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
                RequestCode.CONSUME_MESSAGE_DIRECTLY,
                RequestCode.CHECK_TRANSACTION_STATE,
                # fifty thousand topics, read in parts
                RequestCode.REGISTER_BROKER,
            ),
            # ten thousand topics, or five thousand subscriptions, or as many queues
            4 * MIB: (
                RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
                RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC,
            ),
            2 * MIB: (
                RequestCode.HEART_BEAT,
                RequestCode.CHECK_CLIENT_CONFIG,
                RequestCode.LOCK_BATCH_MQ,
                RequestCode.UNLOCK_BATCH_MQ,
                RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
                RequestCode.REGISTER_TOPIC_IN_NAMESRV,
                RequestCode.QUERY_ASSIGNMENT,
                RequestCode.BATCH_ACK_MESSAGE,
            ),
        }.items()
        for code in codes
    }
)


def check_body(code: int, body: bytes) -> None:
    """Raise `BodyTooLarge` for a body that is longer than its request may have."""
    limit_bytes = BODY_BYTES_MAX.get(code, SMALL_BODY_BYTES)
    if len(body) > limit_bytes:
        raise BodyTooLarge(limit_bytes, f"the body of request {code} has {len(body)} bytes")
