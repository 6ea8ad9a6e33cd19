"""The compressed form of REGISTER_BROKER (103), as a Java broker writes it, and read at once."""

from __future__ import annotations

import struct
import zlib

from flintmq.protocol import fastjson
from flintmq.protocol.bodies.body import wire_fields
from flintmq.protocol.bodies.register import BrokerRegistration
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.protocol.version import QUEUE_MAPPING_SINCE

LENGTH = struct.Struct(">i")


def compressed_form(registration: BrokerRegistration, version: int) -> bytes:
    """The binary form, for a header that says ``compressed`` and ``version``."""
    table = registration.topic_config_serialize_wrapper
    with_attributes = version >= QUEUE_MAPPING_SINCE
    parts = [
        _sized(table.data_version.to_body()),
        LENGTH.pack(len(table.topic_config_table)),
        *(_sized(_topic_text(t, with_attributes)) for t in table.topic_config_table.values()),
        _sized(fastjson.write(registration.filter_server_list, wire_fields)),
    ]
    if version >= QUEUE_MAPPING_SINCE:
        mappings = table.topic_queue_mapping_info_map or {}
        parts.append(LENGTH.pack(len(mappings)))
        parts += [_sized(fastjson.write(m, wire_fields)) for m in mappings.values()]
    return zlib.compress(b"".join(parts), 9)


def read_compressed(body: bytes, version: int) -> BrokerRegistration:
    """The registration of a binary form.  Raises `MalformedBody`."""
    reading = BrokerRegistration.reading_compressed(body, version)
    while True:
        try:
            next(reading)
        except StopIteration as end:
            found: BrokerRegistration = end.value
            return found


def _sized(text: bytes) -> bytes:
    return LENGTH.pack(len(text)) + text


def _topic_text(topic: TopicConfig, with_attributes: bool) -> bytes:
    text = (
        f"{topic.topic_name} {topic.read_queue_nums} {topic.write_queue_nums} "
        f"{topic.perm} {topic.topic_filter_type}"
    ).encode()
    if not with_attributes:
        return text
    return text + b" " + fastjson.write(topic.attributes or {}, wire_fields)
