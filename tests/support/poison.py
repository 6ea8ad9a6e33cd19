"""Messages that nobody can decode, written as any peer can write them: by a raw send."""

from __future__ import annotations

import zlib
from typing import Final, NamedTuple

from flintmq.model.message import BODY_BYTES_MAX
from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import request
from flintmq.protocol.headers.send import SendAnswer, SendMessageV2

CALL_MS: Final = 15_000


class Poison(NamedTuple):
    body: bytes
    sys_flag: int


LZ4, ZSTD, ZLIB = 1 << 8 | 1, 2 << 8 | 1, 3 << 8 | 1

POISONS: Final = {
    "no zlib stream": Poison(b"this was never packed", 1),
    "a zlib stream that is cut off": Poison(zlib.compress(bytes(500))[:-5], ZLIB),
    "no lz4 frame": Poison(b"this was never packed", LZ4),
    "no zstd frame": Poison(b"this was never packed", ZSTD),
    "a body that unpacks too far": Poison(zlib.compress(bytes(BODY_BYTES_MAX + 1)), 1),
    "a kind of packing nobody knows": Poison(b"this was never packed", 7 << 8 | 1),
}
"""By what is wrong with them.  An inner batch that is none is missing: our broker refuses it."""


def send_raw(
    address: str, topic: str, body: bytes, sys_flag: int, *, queue_id: int = 0, properties: str = ""
) -> SendAnswer:
    """Send a body as it is."""
    header = SendMessageV2(
        producer_group="poisoners",
        topic=topic,
        queue_id=queue_id,
        sys_flag=sys_flag,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties=properties,
        reconsume_times=0,
    )
    with BlockingChannels() as channels:
        reply = channels.call(address, request(RequestCode.SEND_MESSAGE_V2, header, body), CALL_MS)
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return reply.header(SendAnswer)


def poison(address: str, topic: str, what: str, *, queue_id: int = 0) -> SendAnswer:
    """Send one of `POISONS`."""
    body, sys_flag = POISONS[what]
    return send_raw(address, topic, body, sys_flag, queue_id=queue_id, properties="TAGS\x01a\x02")
