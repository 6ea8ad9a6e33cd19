"""REGISTER_BROKER (103): a broker tells a name server which topics it has.

The body is JSON.  With ``compressed`` in the header it is a zlib stream of lengths (int32)
and texts instead:

    data version     length, JSON
    topics           count, then for each: length, "name read write perm FILTER [attributes]"
    filter servers   length, JSON array
    mappings         count, then for each: length, JSON       only from 5.0.0 on

The short form of a topic loses its flags and its order.  An unpacked body is never longer
than the longest frame, since it could have been sent plain.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from flintmq.errors import MalformedBody
from flintmq.protocol import fastjson
from flintmq.protocol.bodies.body import Json, RequestBody, decoder_of, wire_fields
from flintmq.protocol.bodies.topic import TopicConfig, TopicTable
from flintmq.protocol.bodies.version import DataVersion
from flintmq.protocol.fastjson import BODY_BYTES_MAX
from flintmq.protocol.record import crc_of
from flintmq.protocol.version import QUEUE_MAPPING_SINCE

LENGTH = struct.Struct(">i")

_texts = decoder_of(tuple[str, ...])
_attributes = decoder_of(dict[str, str])
_mapping = decoder_of(dict[str, Json])


class BrokerRegistration(RequestBody, frozen=True, kw_only=True):
    """The topics of one broker.  ``filter_server_list`` is empty since 4.x."""

    filter_server_list: tuple[str, ...] = ()
    topic_config_serialize_wrapper: TopicTable = TopicTable()

    def to_compressed_body(self, version: int) -> bytes:
        """The binary form, for a header that says ``compressed`` and ``version``."""
        table = self.topic_config_serialize_wrapper
        with_attributes = version >= QUEUE_MAPPING_SINCE
        parts = [
            _sized(table.data_version.to_body()),
            LENGTH.pack(len(table.topic_config_table)),
            *(_sized(_topic_text(t, with_attributes)) for t in table.topic_config_table.values()),
            _sized(fastjson.write(self.filter_server_list, wire_fields)),
        ]
        if version >= QUEUE_MAPPING_SINCE:
            mappings = table.topic_queue_mapping_info_map or {}
            parts.append(LENGTH.pack(len(mappings)))
            parts += [_sized(fastjson.write(m, wire_fields)) for m in mappings.values()]
        return zlib.compress(b"".join(parts), 9)

    @classmethod
    def from_compressed_body(cls, body: bytes, version: int) -> BrokerRegistration:
        """Read the binary form.  Raises `MalformedBody`."""
        parts = _Parts(_unpack(body))
        data_version = DataVersion.from_body(parts.text())
        topics = [_read_topic(parts.text()) for _ in parts.each()]
        filter_servers = fastjson.read(parts.text(), _texts, cls.__name__)
        mappings: dict[str, Any] | None = None
        if version >= QUEUE_MAPPING_SINCE:
            found = [fastjson.read(parts.text(), _mapping, cls.__name__) for _ in parts.each()]
            mappings = {str(mapping.get("topic")): mapping for mapping in found}
        return cls(
            filter_server_list=filter_servers,
            topic_config_serialize_wrapper=TopicTable(
                data_version=data_version,
                topic_config_table={topic.topic_name: topic for topic in topics},
                topic_queue_mapping_info_map=mappings,
            ),
        )


def body_crc32(body: bytes) -> int:
    """What ``bodyCrc32`` of the header holds: of the bytes as sent, without the sign bit."""
    return crc_of(body)


class _Parts:
    """Reads lengths and texts one after another."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self._position = 0

    def text(self) -> bytes:
        return self._take(self._number())

    def each(self) -> Iterator[int]:
        """As many turns as the count says.  Each turn must take something, or it fails."""
        return iter(range(self._number()))

    def _number(self) -> int:
        (number,) = LENGTH.unpack(self._take(LENGTH.size))
        if number < 0:
            raise MalformedBody(BrokerRegistration.__name__, f"{number} is no length")
        return int(number)

    def _take(self, size_bytes: int) -> bytes:
        stop = self._position + size_bytes
        if stop > len(self._octets):
            raise MalformedBody(BrokerRegistration.__name__, "ends in the middle of a text")
        taken = self._octets[self._position : stop]
        self._position = stop
        return taken


def _unpack(body: bytes) -> bytes:
    stream = zlib.decompressobj()
    try:
        unpacked = stream.decompress(body, BODY_BYTES_MAX + 1)
    except zlib.error as error:
        raise MalformedBody(BrokerRegistration.__name__, str(error)) from error
    if len(unpacked) > BODY_BYTES_MAX:
        raise MalformedBody(BrokerRegistration.__name__, f"unpacks to over {BODY_BYTES_MAX} bytes")
    if not stream.eof:
        raise MalformedBody(BrokerRegistration.__name__, "the compressed stream ends too early")
    return unpacked


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


def _read_topic(text: bytes) -> TopicConfig:
    """A topic in its short form.  Attributes that cannot be read are left out, as in Java."""
    name, *words = text.decode("utf-8", "replace").split(" ", 5)
    names = ("readQueueNums", "writeQueueNums", "perm", "topicFilterType")
    fields: dict[str, object] = {"topicName": name, **dict(zip(names, words, strict=False))}
    if len(words) > len(names):
        with contextlib.suppress(MalformedBody):
            fields["attributes"] = fastjson.read(words[-1].encode(), _attributes, "attributes")
    try:
        if len(words) < len(names):
            raise ValueError("too few words")
        return TopicConfig.from_fields(fields)
    except ValueError as error:
        raise MalformedBody(BrokerRegistration.__name__, f"topic {text!r:.200}: {error}") from error
