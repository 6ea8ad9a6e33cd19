"""How a send is answered: ids, places, and the two fields every answer of a send carries.

The fields of a success are put together as text: this is the hottest answer of the broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import repeat
from struct import Struct

import msgspec
from msgspec import Raw

from flintmq.broker.requests.answers import encode_answer
from flintmq.broker.requests.outcome import SUCCESS, Answer, Stored
from flintmq.broker.state.broker_state import BrokerState
from flintmq.model.host import Host
from flintmq.model.message_id import offset_id_prefix
from flintmq.model.queue import LogOffset
from flintmq.protocol.frame import PREFIX
from flintmq.protocol.headers.send import SendRefusal

KEPT_MAX = 64
"""Prefixes and endings remembered: a process has few brokers, and each has one at a time."""


_OFFSET = LogOffset(0x7A6B_5C4D_3E2F_1A0B)
_PLACE = 7_310_529_468_203_175_811
_UNIQUE_ID = "WhereTheUniqueIdGoes"
_OPAQUE = 1_937_402_865
"""Values that stand nowhere else in an answer, to find the places of what differs."""


class SentMessages(Stored, frozen=True, gc=False):
    """The answer to a send that took its messages, with what hooks get."""

    message_ids: str
    count: int
    size_bytes: int


def refusal_header(state: BrokerState) -> SendRefusal:
    config = state.config
    return SendRefusal(trace_on="true" if config.trace_on else "false", region=config.region)


def message_id(host: Host, log_offset: LogOffset) -> str:
    """The offset message id of a record stored at ``host``."""
    return "%s%016X" % (_id_prefix(host.packed, host.port), log_offset)  # noqa: UP031  # faster


def message_ids(host: Host, log_offsets: Sequence[int]) -> str:
    """The offset message ids of many records, joined by commas."""
    prefix = bytes.fromhex(_id_prefix(host.packed, host.port))
    pack = _id_struct(len(prefix)).pack
    octets = b"".join(map(pack, repeat(prefix), log_offsets))
    return octets.hex(",", len(octets) // len(log_offsets)).upper()


def sent_answer(
    state: BrokerState,
    message_ids: str,
    queue_id: int,
    queue_offset: int,
    unique_id: str | None,
    *,
    is_inner_batch: bool = False,
    recall_handle: str | None = None,
) -> Answer:
    """The messages were taken; those of an inner batch as one record with that unique id."""
    config = state.config
    own = ""
    if unique_id is not None:
        if not (unique_id.isalnum() and unique_id.isascii()):
            unique_id = _inner_json(unique_id)
        own = f'"transactionId":"{unique_id}",'
        if is_inner_batch:
            own += f'"batchUniqId":"{unique_id}",'
    if recall_handle is not None:
        own += f'"recallHandle":"{recall_handle}",'
    text = (
        f'{{"msgId":"{message_ids}","queueId":"{queue_id}","queueOffset":"{queue_offset}",'
        f"{own}{_ending(config.region, config.trace_on)}"
    )
    return Answer(SUCCESS, Raw(text))


class SentFrame:
    """The frame that answers a send to one queue, with room for what differs.

    That of a batch has room for any number of message ids.
    """

    __slots__ = ("_template", "id_prefix", "pieces")

    def __init__(self, state: BrokerState, queue_id: int, *, is_batch: bool = False) -> None:
        offset_id = message_id(state.host, _OFFSET)
        self.id_prefix = offset_id[:-16].encode()
        answer = sent_answer(state, offset_id, queue_id, _PLACE, _UNIQUE_ID)
        (frame,) = encode_answer(_OPAQUE, answer)
        rest = bytes(frame[PREFIX.size :]).replace(b"%", b"%%")
        rest, _, end = rest.rpartition(b"%d" % _OPAQUE)  # what is configured stands before it
        template, pieces = b"", []
        for mark, slot in (
            (offset_id, "%b" if is_batch else offset_id[:-16] + "%016X"),
            (str(_PLACE), "%d"),
            (_UNIQUE_ID, "%b"),
        ):
            before, _, rest = rest.partition(mark.encode())
            template += before + slot.encode()
            pieces.append(before)
        self._template = template + rest + b"%b" + end
        pieces = [piece.replace(b"%%", b"%") for piece in (*pieces, rest, end)]
        one, two, three, four, five = pieces
        queue = b'"queueId":"'
        to_queue, _, from_queue = two.partition(queue + b"%d" % queue_id)
        self.pieces = one + self.id_prefix, to_queue + queue, from_queue, three, four, five
        """What stands around log offset, queue id, queue offset, unique id and opaque number."""

    def fill(
        self, log_offset: int | bytes, queue_offset: int, unique_id: bytes, opaque: bytes
    ) -> bytes:
        """For a batch ``log_offset`` is its message ids."""
        header = self._template % (log_offset, queue_offset, unique_id, opaque)
        return PREFIX.pack(len(header) + 4, len(header)) + header


def with_code(frame: bytes, code: int) -> bytes:
    """A frame of `SentFrame` with a code other than success."""
    mark = b'{"code":%d,' % SUCCESS
    head = frame[PREFIX.size :]
    assert head.startswith(mark), head[:40]
    head = b'{"code":%d,' % code + head[len(mark) :]
    return PREFIX.pack(len(head) + 4, len(head)) + head


@lru_cache(maxsize=KEPT_MAX)
def _id_prefix(packed: bytes, port: int) -> str:
    return offset_id_prefix(Host(packed, port))


@lru_cache(maxsize=KEPT_MAX)
def _id_struct(prefix_bytes: int) -> Struct:
    return Struct(f">{prefix_bytes}sq")


@lru_cache(maxsize=KEPT_MAX)
def _ending(region: str, trace_on: bool) -> str:
    trace = "true" if trace_on else "false"
    return f'"TRACE_ON":"{trace}","MSG_REGION":"{_inner_json(region)}"}}'


def _inner_json(text: str) -> str:
    """A text as it stands between the quotes of JSON."""
    return msgspec.json.encode(text)[1:-1].decode()
