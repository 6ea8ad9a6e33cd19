"""What must hold for any bytes, for every decoder that takes bytes of peers.

A check lets an error of ours through and fails with anything else.
"""

from __future__ import annotations

import zlib
from contextlib import suppress

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.config.config_file import changed_config as changed_broker
from flintmq.broker.config.config_file import read_broker_conf
from flintmq.core.group.pull_answers import read_pull_answer
from flintmq.errors import FlintError
from flintmq.filter.sql_eval import compile_sql
from flintmq.filter.tags import parse_tags
from flintmq.model.queue import QueueRef
from flintmq.model.sys_flag import Compression
from flintmq.nameserver.config import NameServerConfig, read_config
from flintmq.nameserver.config import changed_config as changed_name_server
from flintmq.protocol.bodies.java_properties import read_properties
from flintmq.protocol.bodies.route import TopicRoute
from flintmq.protocol.compression import unpack
from flintmq.protocol.frame import FrameReader
from flintmq.protocol.records.properties import parse_properties, split_unique_id
from flintmq.protocol.records.property_scan import property_spans, tags_codes
from flintmq.protocol.records.received import decode_messages
from flintmq.protocol.records.record import decode_record, encode_record
from flintmq.protocol.records.record_scan import scan_records
from flintmq.protocol.records.sift import sift_records
from flintmq.protocol.wire import decode_command
from support.body_strategies import body_classes
from support.fuzz.served import mended
from support.protocol.fuzz_wire import check_header_bytes
from support.protocol.registrations import read_compressed

UNPACKED_BYTES_MAX = 1024 * 1024
QUEUE = QueueRef("T", "broker-a", 0)


def check_header(data: bytes) -> None:
    for form in (0, 1):
        check_header_bytes(form, data)


def check_records(data: bytes) -> None:
    """The scan and the one-by-one decoder agree, and what is read is written again."""
    columns = scan_records(data)
    at = 0
    for start, size in zip(columns.start.tolist(), columns.size_bytes.tolist(), strict=True):
        assert start == at
        at = start + size
    with suppress(FlintError):
        record = decode_record(data)
        assert encode_record(record) == data[: len(encode_record(record))]
    (tags,) = property_spans(columns, "TAGS")
    tags_codes(columns, tags)
    check_messages(data)


def check_messages(data: bytes) -> None:
    """What a consumer makes of the records of an answer, with all that is read only when asked."""
    sift_records(data, broker="broker-a", body_bytes_max=UNPACKED_BYTES_MAX)
    received = decode_messages(data, broker="broker-a", body_bytes_max=UNPACKED_BYTES_MAX)
    for message in received.messages:
        assert message.tags is None or message.tags == message.properties["TAGS"]
        assert list(message.keys) == list(message.keys)
        assert dict(message.properties) == dict(message.properties.items())
        assert len(message.body) <= UNPACKED_BYTES_MAX
        repr(message)
    for bad in received.bad:
        repr(bad)


def check_pull_answer(data: bytes) -> None:
    """A whole answer to a pull, header and records."""
    for frame in FrameReader().feed(mended(data)):
        read_pull_answer(decode_command(frame), QUEUE, "127.0.0.1:1")


def check_bodies(data: bytes) -> None:
    for cls in body_classes():
        with suppress(FlintError):
            cls.from_body(data)
    with suppress(FlintError):
        route = TopicRoute.from_body(data).to_route()
        route.publish_queues("T")
        route.subscribe_queues("T")


def check_registration(data: bytes) -> None:
    for version in (407, 479):
        for body in (data, zlib.compress(data, 1)):
            with suppress(FlintError):
                read_compressed(body, version)


def check_packed(data: bytes) -> None:
    for kind in Compression:
        with suppress(FlintError):
            assert len(unpack(data, kind, UNPACKED_BYTES_MAX)) <= UNPACKED_BYTES_MAX


def check_properties(data: bytes) -> None:
    found = parse_properties(data)
    assert all(name and value for name, value in found.items())
    parts = split_unique_id(data)
    if parts is not None and parts[1]:
        assert found["UNIQ_KEY"] == parts[1].decode("utf-8", "replace")


def check_expression(data: bytes) -> None:
    compile_sql(data.decode("utf-8", "replace")).evaluate({"a": "7", "b": "x", "price": "1e2"})


def check_tags(data: bytes) -> None:
    parse_tags(data.decode("utf-8", "replace")).matches_tag("TagA")


def check_settings(data: bytes) -> None:
    with suppress(FlintError):
        read_broker_conf(data)
    with suppress(FlintError):
        read_config(data)
    texts = read_properties(data)
    with suppress(FlintError):
        changed_broker(BrokerConfig(), texts)
    changed_name_server(NameServerConfig(), texts)
