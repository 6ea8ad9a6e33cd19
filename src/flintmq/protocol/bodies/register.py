"""REGISTER_BROKER (103): a broker tells a name server which topics it has.

The body is JSON.  With ``compressed`` in the header it is a zlib stream of lengths (int32)
and texts instead:

    data version     length, JSON
    topics           count, then for each: length, "name read write perm FILTER [attributes]"
    filter servers   length, JSON array
    mappings         count, then for each: length, JSON       only from 5.0.0 on

The short form of a topic loses its flags and its order.  An unpacked body is never longer
than the longest frame, since it could have been sent plain.

A large broker tells thousands of topics, and each takes microseconds to read.  `reading` is a
generator that reads a part of them and yields, for servers that have others to serve meanwhile.
"""

from __future__ import annotations

import contextlib
import re
import struct
import zlib
from collections.abc import Generator, Iterator
from typing import Any

import msgspec

from flintmq.errors import MalformedBody
from flintmq.protocol import fastjson
from flintmq.protocol.bodies.body import Json, RequestBody, decoder_of
from flintmq.protocol.bodies.common_bodies import DataVersion
from flintmq.protocol.bodies.topic import TopicConfig, TopicConfigField, TopicTable
from flintmq.protocol.fastjson import BODY_BYTES_MAX
from flintmq.protocol.records.record import crc_of
from flintmq.protocol.version import QUEUE_MAPPING_SINCE

LENGTH = struct.Struct(">i")

TOPICS_MAX = 50_000
"""Topics of one registration: five times the largest broker that is known to work well."""

PART_TOPICS = 200
"""Topics read before others have their turn: a millisecond."""

PART_BYTES = 64 * 1024
"""A body that is read at once: two milliseconds."""

UNPACK_BYTES = 1024 * 1024
"""What is unpacked before others have their turn: a few milliseconds."""

SHORT_WORDS = 5
_SHORT_NAMES = ("topicName", "readQueueNums", "writeQueueNums", "perm", "topicFilterType")
_plain_numbers = re.compile(r"[0-9]{1,9} [0-9]{1,9} [0-9]{1,9}").fullmatch

_texts = decoder_of(tuple[str, ...])
_attributes = decoder_of(dict[str, str])
_mapping = decoder_of(dict[str, Json])
_topic = decoder_of(TopicConfigField)


class BrokerRegistration(RequestBody, frozen=True, kw_only=True):
    """The topics of one broker.  ``filter_server_list`` is empty since 4.x."""

    filter_server_list: tuple[str, ...] = ()
    topic_config_serialize_wrapper: TopicTable = TopicTable()

    @classmethod
    def reading(cls, body: bytes) -> Generator[None, None, BrokerRegistration]:
        """Read the JSON form in parts.  Raises `MalformedBody`."""
        if len(body) <= PART_BYTES:
            return cls.from_body(body)
        given = _RawRegistration.from_body(body)
        table = given.topic_config_serialize_wrapper
        _check_count(len(table.topic_config_table))
        yield
        decode = _topic.decode
        topics: dict[str, TopicConfig] = {}
        for number, (name, raw) in enumerate(table.topic_config_table.items(), 1):
            try:
                topics[name] = decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise MalformedBody(cls.__name__, f"topic {name!r:.200}: {error}") from error
            if number % PART_TOPICS == 0:
                yield
        return cls(
            filter_server_list=given.filter_server_list,
            topic_config_serialize_wrapper=TopicTable(
                data_version=table.data_version,
                mapping_data_version=table.mapping_data_version,
                topic_config_table=topics,
                topic_queue_mapping_detail_map=table.topic_queue_mapping_detail_map,
                topic_queue_mapping_info_map=table.topic_queue_mapping_info_map,
            ),
        )

    @classmethod
    def reading_compressed(
        cls, body: bytes, version: int
    ) -> Generator[None, None, BrokerRegistration]:
        """Read the binary form in parts.  Raises `MalformedBody`."""
        parts = _Parts((yield from _unpacking(body)))
        data_version = DataVersion.from_body(parts.text())
        topics: dict[str, TopicConfig] = {}
        for number in parts.each():
            topic = _read_topic(parts.text())
            topics[topic.topic_name] = topic
            if number % PART_TOPICS == 0:
                yield
        filter_servers = fastjson.read(parts.text(), _texts, cls.__name__)
        mappings: dict[str, Any] | None = None
        if version >= QUEUE_MAPPING_SINCE:
            mappings = {}
            for number in parts.each():
                mapping = fastjson.read(parts.text(), _mapping, cls.__name__)
                mappings[str(mapping.get("topic"))] = mapping
                if number % PART_TOPICS == 0:
                    yield
        return cls(
            filter_server_list=filter_servers,
            topic_config_serialize_wrapper=TopicTable(
                data_version=data_version,
                topic_config_table=topics,
                topic_queue_mapping_info_map=mappings,
            ),
        )


class _RawTable(RequestBody, frozen=True, kw_only=True):
    """A `TopicTable` whose topics are not read yet."""

    data_version: DataVersion = DataVersion()
    mapping_data_version: DataVersion | None = None
    topic_config_table: dict[str, msgspec.Raw] = {}
    topic_queue_mapping_detail_map: dict[str, Json] | None = None
    topic_queue_mapping_info_map: dict[str, Json] | None = None


class _RawRegistration(RequestBody, frozen=True, kw_only=True):
    filter_server_list: tuple[str, ...] = ()
    topic_config_serialize_wrapper: _RawTable = _RawTable()


def _check_count(count: int) -> None:
    if count > TOPICS_MAX:
        reason = f"{count} topics are over the limit of {TOPICS_MAX}"
        raise MalformedBody(BrokerRegistration.__name__, reason)


def body_crc32(body: bytes) -> int:
    """What ``bodyCrc32`` of the header holds: of the bytes as sent, without the sign bit."""
    return crc_of(body)


class _Parts:
    """Reads lengths and texts one after another."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self._position = 0

    def text(self) -> bytes:
        return self._read_bytes(self._number())

    def each(self) -> Iterator[int]:
        """As many turns as the count says, counted from 1."""
        count = self._number()
        _check_count(count)
        return iter(range(1, count + 1))

    def _number(self) -> int:
        (number,) = LENGTH.unpack(self._read_bytes(LENGTH.size))
        if number < 0:
            raise MalformedBody(BrokerRegistration.__name__, f"{number} is no length")
        return int(number)

    def _read_bytes(self, size_bytes: int) -> bytes:
        stop = self._position + size_bytes
        if stop > len(self._octets):
            raise MalformedBody(BrokerRegistration.__name__, "ends in the middle of a text")
        taken = self._octets[self._position : stop]
        self._position = stop
        return taken


def _unpacking(body: bytes) -> Generator[None, None, bytes]:
    stream = zlib.decompressobj()
    pieces, size_bytes, packed = [], 0, body
    try:
        while packed and not stream.eof:
            piece = stream.decompress(packed, UNPACK_BYTES)
            packed = stream.unconsumed_tail
            pieces.append(piece)
            size_bytes += len(piece)
            if size_bytes > BODY_BYTES_MAX:
                break
            if packed:
                yield
    except zlib.error as error:
        raise MalformedBody(BrokerRegistration.__name__, str(error)) from error
    if size_bytes > BODY_BYTES_MAX:
        raise MalformedBody(BrokerRegistration.__name__, f"unpacks to over {BODY_BYTES_MAX} bytes")
    if not stream.eof:
        raise MalformedBody(BrokerRegistration.__name__, "the compressed stream ends too early")
    return b"".join(pieces)


def _read_topic(text: bytes) -> TopicConfig:
    """A topic in its short form.  Attributes that cannot be read are left out, as in Java."""
    words = text.decode("utf-8", "replace").split(" ", 5)
    try:
        if len(words) < SHORT_WORDS:
            raise ValueError("too few words")
        attributes = None
        if len(words) > SHORT_WORDS and words[-1] != "{}":
            with contextlib.suppress(MalformedBody):
                attributes = fastjson.read(words[-1].encode(), _attributes, "attributes")
        elif len(words) > SHORT_WORDS:
            attributes = {}
        if _plain_numbers(" ".join(words[1:4])) is not None:  # nearly always
            return TopicConfig(
                topic_name=words[0],
                read_queue_nums=int(words[1]),
                write_queue_nums=int(words[2]),
                perm=int(words[3]),
                topic_filter_type=words[4],
                attributes=attributes,
            )
        fields: dict[str, object] = dict(zip(_SHORT_NAMES, words[:SHORT_WORDS], strict=True))
        if attributes is not None:
            fields["attributes"] = attributes
        return TopicConfig.from_fields(fields)
    except ValueError as error:
        raise MalformedBody(BrokerRegistration.__name__, f"topic {text!r:.200}: {error}") from error
