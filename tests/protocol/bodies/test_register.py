"""A packed registration says what the plain one says, and cannot be made to unpack without end."""

from __future__ import annotations

import contextlib
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import MalformedBody
from flintmq.protocol.bodies.common_bodies import DataVersion
from flintmq.protocol.bodies.register import BrokerRegistration
from flintmq.protocol.bodies.topic import TopicConfig, TopicTable
from flintmq.protocol.fastjson import BODY_BYTES_MAX, DEPTH_MAX
from flintmq.protocol.version import QUEUE_MAPPING_SINCE
from support.body_strategies import JSON, NAME
from support.protocol.registrations import compressed_form, read_compressed

V4_9_7, V5_3_3 = 407, 479
COUNTS = st.integers(0, 2**31 - 1)
TOPICS = st.builds(
    TopicConfig,
    attributes=st.dictionaries(NAME, NAME, max_size=2),
    perm=st.integers(0, 7),
    read_queue_nums=COUNTS,
    topic_name=NAME,
    write_queue_nums=COUNTS,
)


@st.composite
def registrations(draw: st.DrawFn) -> BrokerRegistration:
    topics = draw(st.lists(TOPICS, max_size=4))
    mappings = draw(st.dictionaries(NAME, JSON, max_size=2))
    return BrokerRegistration(
        filter_server_list=tuple(draw(st.lists(NAME, max_size=2))),
        topic_config_serialize_wrapper=TopicTable(
            data_version=DataVersion(counter=draw(COUNTS), timestamp=draw(COUNTS)),
            topic_config_table={topic.topic_name: topic for topic in topics},
            topic_queue_mapping_info_map={
                topic: {"topic": topic, "rest": rest} for topic, rest in mappings.items()
            },
        ),
    )


def packed(*texts: bytes) -> bytes:
    return zlib.compress(b"".join(struct.pack(">i", len(text)) + text for text in texts))


@given(registrations())
@settings(max_examples=60, deadline=None)
def test_the_packed_form_comes_back_whole_in_5(registration: BrokerRegistration) -> None:
    body = compressed_form(registration, V5_3_3)

    assert read_compressed(body, V5_3_3) == registration


@given(registrations())
@settings(max_examples=30, deadline=None)
def test_the_packed_form_of_4_knows_no_attributes_and_no_mappings(
    registration: BrokerRegistration,
) -> None:
    body = compressed_form(registration, V4_9_7)

    read = read_compressed(body, V4_9_7).topic_config_serialize_wrapper

    written = registration.topic_config_serialize_wrapper.topic_config_table
    assert read.topic_config_table.keys() == written.keys()
    assert {topic.attributes for topic in read.topic_config_table.values()} <= {None}
    assert read.topic_queue_mapping_info_map is None


def test_a_topic_is_five_words_or_six() -> None:
    topic = TopicConfig(topic_name="t", read_queue_nums=4, write_queue_nums=3, perm=6)
    registration = BrokerRegistration(
        topic_config_serialize_wrapper=TopicTable(topic_config_table={"t": topic})
    )

    assert b"t 4 3 6 SINGLE_TAG\0" in zlib.decompress(compressed_form(registration, V4_9_7))
    assert b"t 4 3 6 SINGLE_TAG {}\0" in zlib.decompress(
        compressed_form(registration, QUEUE_MAPPING_SINCE)
    )


def test_attributes_that_cannot_be_read_are_left_out() -> None:
    """A space in a value breaks Java's form; the topic must still be registered."""
    topic = b't 4 3 6 SINGLE_TAG {"a":b c'
    body = zlib.compress(
        struct.pack(">i2sii", 2, b"{}", 1, len(topic)) + topic + struct.pack(">i2s", 2, b"[]")
    )

    table = read_compressed(body, V4_9_7)

    assert table.topic_config_serialize_wrapper.topic_config_table["t"].attributes is None


def test_a_stream_that_unpacks_past_the_limit_is_refused() -> None:
    bomb = zlib.compress(b"\0" * (BODY_BYTES_MAX + 1), 9)

    with pytest.raises(MalformedBody, match="unpacks to over"):
        read_compressed(bomb, V5_3_3)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        packed()[:-1],
        packed(),
        packed(b"{}"),
        packed(b"[]"),
        zlib.compress(struct.pack(">i", -1)),
        zlib.compress(struct.pack(">i", 2**31 - 1) + b"{}"),
        zlib.compress(struct.pack(">i", 2) + b"{}" + struct.pack(">i", 2**31 - 1)),
        zlib.compress(struct.pack(">i2sii", 2, b"{}", 1, 3) + b"t 4"),
        zlib.compress(struct.pack(">i2sii", 2, b"{}", 1, 15) + b"t four 3 6 TYPE"),
        zlib.compress(struct.pack(">i2sii", 2, b"{}", 1, 21) + b"t 2147483648 3 6 TYPE"),
    ],
)
def test_a_packed_body_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedBody):
        read_compressed(body, V5_3_3)


def test_a_stream_without_its_end_is_refused() -> None:
    body = compressed_form(BrokerRegistration(), V5_3_3)

    with pytest.raises(MalformedBody, match="too early"):
        read_compressed(body[:-4], V5_3_3)


def test_a_mapping_cannot_nest_without_end() -> None:
    deep = b'{"a":' + b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1) + b"}"
    start = struct.pack(">i2sii2s", 2, b"{}", 0, 2, b"[]")
    body = zlib.compress(start + struct.pack(">ii", 1, len(deep)) + deep)

    with pytest.raises(MalformedBody, match="deep"):
        read_compressed(body, V5_3_3)


@pytest.mark.parametrize("count", [-1, -(2**31)])
def test_a_negative_count_is_refused(count: int) -> None:
    body = zlib.compress(struct.pack(">i2sii2s", 2, b"{}", count, 2, b"[]"))

    with pytest.raises(MalformedBody, match="no length"):
        read_compressed(body, V4_9_7)


@given(registrations(), st.data())
@settings(max_examples=80, deadline=None)
def test_damaged_packed_bodies_raise_malformed_body(
    registration: BrokerRegistration, data: st.DataObject
) -> None:
    unpacked = bytearray(zlib.decompress(compressed_form(registration, V5_3_3)))
    at = data.draw(st.integers(0, len(unpacked) - 1))
    unpacked[at] = data.draw(st.integers(0, 255))

    with contextlib.suppress(MalformedBody):
        read_compressed(zlib.compress(unpacked), V5_3_3)
