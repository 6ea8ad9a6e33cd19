"""The header of a send, made from a template.

A producer writes the same header again and again: only the flags, the time and the properties
differ from one message to the next.  `SendFields` writes the rest once for each queue.  What
comes out is, byte for byte, what `write_header` makes of a `SendMessageV2`.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from flintmq.errors import LocalProtocolError
from flintmq.protocol.fields import header_fields
from flintmq.protocol.headers.send import SendMessageV2

_text = msgspec.json.Encoder().encode
_SLOTS = {"f": b'"%d"', "g": b'"%d"', "h": b'"%d"', "i": b"%b"}
"""The fields that differ, by their letters, in the order in which they are filled in."""


class SendFields:
    """Writes the header fields of every send of one group to one queue."""

    __slots__ = ("_template",)

    def __init__(
        self,
        group: str,
        topic: str,
        queue_id: int,
        broker: str,
        *,
        default_topic: str,
        default_queue_count: int,
        reconsume_times: int = 0,
        max_reconsume_times: int | None = None,
        unit_mode: bool = False,
        is_batch: bool = False,
    ) -> None:
        fixed = header_fields(
            SendMessageV2(
                producer_group=group,
                topic=topic,
                default_topic=default_topic,
                default_topic_queue_nums=default_queue_count,
                queue_id=queue_id,
                sys_flag=0,
                born_timestamp=0,
                flag=0,
                properties="",
                reconsume_times=reconsume_times,
                unit_mode=unit_mode,
                max_reconsume_times=max_reconsume_times,
                is_batch=is_batch,
                broker_name=broker,
            )
        )
        parts = (
            _text(name).replace(b"%", b"%%")
            + b":"
            + (_SLOTS.get(name) or _text(value).replace(b"%", b"%%"))
            for name, value in fixed.items()
        )
        self._template = b"{" + b",".join(parts) + b"}"

    def fill(self, sys_flag: int, born_ms: int, flag: int, properties: str) -> Raw:
        """The fields of one send; `LocalProtocolError` for properties that are no text."""
        try:
            return Raw(self._template % (sys_flag, born_ms, flag, _text(properties)))
        except UnicodeEncodeError as error:
            raise LocalProtocolError(f"properties are no Unicode text: {error.reason}") from None
