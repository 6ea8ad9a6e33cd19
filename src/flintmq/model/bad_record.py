"""A record that a broker has and nobody can decode: where it is, what is wrong, and its bytes.

Its frame is intact, so the records behind it can be read.  Its body does not unpack, does not
match its checksum or is no batch, or its topic is no text.  No listener can get it as a message;
what becomes of it is the consumer's setting ``on_bad_record``.

Invariant: ``raw`` is what the broker sent, byte for byte; the other fields are read from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flintmq.model.host import Host
from flintmq.model.message_id import offset_id
from flintmq.model.queue import LogOffset, QueueOffset


@dataclass(frozen=True, slots=True)
class BadRecord:
    """One record that cannot be decoded.

    ``topic`` is the one in the record, and empty where that is no text.  ``missing`` names the
    package that would be needed to unpack the body: then the record itself may be good.
    ``raw`` is empty where not even the frame could be read; then ``log_offset`` is -1.
    """

    topic: str
    broker: str
    queue_id: int
    queue_offset: QueueOffset
    log_offset: LogOffset
    store_host: Host
    store_ms: int
    born_ms: int
    reconsume_times: int
    sys_flag: int
    size_bytes: int
    reason: str
    missing: str = ""
    raw: bytes = field(default=b"", repr=False)

    @property
    def offset_message_id(self) -> str:
        """The offset message id of the record, as `message show` and a send-back name it."""
        return offset_id(self.store_host, self.log_offset)

    def __str__(self) -> str:
        place = f"{self.topic or '?'}/{self.broker}/{self.queue_id} at {self.queue_offset}"
        return f"{place} cannot be decoded: {self.reason}"
