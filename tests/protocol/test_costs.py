"""No frame of a peer costs more than a bounded piece of CPU, whatever it is filled with.

CPU is measured, not the clock on the wall, against ten times the 50 ms that a frame may cost:
before there were limits each of these took seconds.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from time import process_time

import pytest

from flintmq.errors import BodyTooLarge, FlintError, MalformedBody, MalformedFrame, MalformedHeader
from flintmq.protocol.bodies.register import TOPICS_MAX
from flintmq.protocol.body_limits import BODY_BYTES_MAX, SMALL_BODY_BYTES
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.fields import FIELDS_MAX
from flintmq.protocol.frame import (
    FRAME_BYTES_MAX,
    HEADER_BYTES_ACCEPTED,
    FrameReader,
    HeaderForm,
    frame_prefix,
    read_prefix,
)
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.typed_request import RequestReader, TypedRequest
from flintmq.protocol.wire import decode_command
from support.protocol.registrations import read_compressed

CPU_S = 0.5

READER = RequestReader(REQUEST_HEADERS)


def cpu_of(work: Callable[[], object], *errors: type[FlintError]) -> float:
    """What a piece of work takes that has to fail in one of these ways."""
    start_s = process_time()
    with pytest.raises(errors):
        work()
    return process_time() - start_s


def binary_header(count: int) -> bytes:
    fields = b"".join(
        struct.pack(">h3si1s", 3, b"%03x" % (n % 4096), 1, b"v") for n in range(count)
    )
    head = struct.pack(">hbhii", RequestCode.PULL_MESSAGE, 0, 400, 1, 0)
    return head + struct.pack(">i", 0) + struct.pack(">i", len(fields)) + fields


def json_header(count: int) -> bytes:
    fields = b",".join(b'"%x":1' % n for n in range(count))
    return b'{"code":11,"extFields":{%b},"flag":0,"language":0,"opaque":1}' % fields


@pytest.mark.parametrize("form", list(HeaderForm))
def test_a_header_of_many_fields_is_refused_early(form: HeaderForm) -> None:
    make = json_header if form is HeaderForm.JSON else binary_header
    header = make(40_000)
    assert len(header) <= HEADER_BYTES_ACCEPTED

    assert cpu_of(lambda: READER.read((form, header, b"")), MalformedHeader) < CPU_S
    assert cpu_of(lambda: decode_command((form, header, b"")), MalformedHeader) < CPU_S


@pytest.mark.parametrize("form", list(HeaderForm))
def test_a_header_has_as_many_fields_as_allowed(form: HeaderForm) -> None:
    make = json_header if form is HeaderForm.JSON else binary_header

    assert decode_command((form, make(FIELDS_MAX), b"")).code == RequestCode.PULL_MESSAGE


@pytest.mark.parametrize("form", list(HeaderForm))
def test_a_header_over_the_limit_ends_the_connection_before_it_is_held(form: HeaderForm) -> None:
    prefix = frame_prefix(form, bytes(HEADER_BYTES_ACCEPTED + 1), 10)[:8]

    with pytest.raises(MalformedFrame, match="over the limit"):
        FrameReader().feed(prefix)
    with pytest.raises(MalformedFrame, match="over the limit"):
        read_prefix(prefix)


def test_a_header_of_the_limit_is_read() -> None:
    prefix = frame_prefix(HeaderForm.JSON, bytes(HEADER_BYTES_ACCEPTED), 10)[:8]

    assert FrameReader().feed(prefix) == []
    assert read_prefix(prefix) == (0, HEADER_BYTES_ACCEPTED, 10)


def read_with_body(code: RequestCode, size_bytes: int) -> object:
    names = REQUEST_HEADERS[code].__struct_encode_fields__
    fields = b",".join(b'"%b":"1"' % name.encode() for name in names)
    header = b'{"code":%d,"extFields":{%b},"flag":0,"opaque":1}' % (code, fields)
    return READER.read((HeaderForm.JSON, header, bytes(size_bytes)))


@pytest.mark.parametrize("code", sorted(REQUEST_HEADERS))
def test_a_body_has_the_limit_of_its_code(code: RequestCode) -> None:
    limit = BODY_BYTES_MAX.get(code, SMALL_BODY_BYTES)

    assert isinstance(read_with_body(code, limit), TypedRequest)
    with pytest.raises(BodyTooLarge, match=f"request {int(code)} "):
        read_with_body(code, limit + 1)


def test_sends_may_fill_a_frame_and_settings_may_not() -> None:
    assert BODY_BYTES_MAX[RequestCode.SEND_MESSAGE_V2] == FRAME_BYTES_MAX
    assert BODY_BYTES_MAX[RequestCode.SEND_BATCH_MESSAGE] == FRAME_BYTES_MAX
    assert RequestCode.UPDATE_BROKER_CONFIG not in BODY_BYTES_MAX
    assert RequestCode.UPDATE_NAMESRV_CONFIG not in BODY_BYTES_MAX


def packed_registration(count: int) -> bytes:
    """A registration of many topics with one name, which packs to nearly nothing."""
    text = b"t 1 1 6 SINGLE_TAG"
    topic = struct.pack(">i", len(text)) + text
    version = b'{"counter":1,"timestamp":1}'
    head = struct.pack(">i", len(version)) + version + struct.pack(">i", count)
    return zlib.compress(head + topic * count + struct.pack(">i", 2) + b"[]", 9)


def test_a_packed_registration_has_a_limit_of_topics() -> None:
    body = packed_registration(600_000)
    assert len(body) < 100_000

    cpu_s = cpu_of(lambda: read_compressed(body, 400), MalformedBody)

    assert cpu_s < CPU_S


def test_a_registration_of_a_large_broker_is_read() -> None:
    body = packed_registration(10_000)

    assert read_compressed(body, 400).filter_server_list == ()
    assert TOPICS_MAX >= 50_000
