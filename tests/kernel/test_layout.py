"""Everything that reads or writes a record's head by position agrees with RocketMQ's layout, which
is written down here by hand, and with the one table it is derived from.
"""

from __future__ import annotations

import struct

import numpy as np
import pytest

from flintmq.kernel import layout
from flintmq.kernel.layout import Raw, field_span, numpy_fields, record_struct
from flintmq.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        (0, ">iIIiiqqiq4siq4siiqi"),
        (BORN_HOST_V6, ">iIIiiqqiq16siq4siiqi"),
        (STORE_HOST_V6, ">iIIiiqqiq4siq16siiqi"),
        (BORN_HOST_V6 | STORE_HOST_V6, ">iIIiiqqiq16siq16siiqi"),
    ],
)
def test_heads_are_those_of_rocketmq_for_every_width_of_hosts(bits: int, expected: str) -> None:
    assert layout.HEADS[bits].format == expected


def test_offsets_are_those_of_a_record_with_ipv4_hosts() -> None:
    assert (
        layout.MAGIC_AT,
        layout.QUEUE_OFFSET_AT,
        layout.LOG_OFFSET_AT,
        layout.SYS_FLAG_AT,
        layout.BORN_HOST_AT,
        layout.STORE_MS_AT,
        layout.STORE_HOST_AT,
        layout.RECONSUME_TIMES_AT,
        layout.BODY_LENGTH_AT,
        layout.BODY_AT,
        layout.RECORD_BYTES_MIN,
    ) == (4, 20, 28, 36, 48, 56, 64, 72, 84, 88, 91)


def test_an_ipv6_host_moves_what_is_behind_it() -> None:
    assert field_span("store_ms", BORN_HOST_V6)[0] == 56 + layout.V6_BYTES_MORE
    assert field_span("store_ms", STORE_HOST_V6)[0] == 56
    assert field_span("body_length", layout.V6_BITS)[1] == 88 + 2 * layout.V6_BYTES_MORE


def test_a_struct_of_some_fields_skips_the_others() -> None:
    assert record_struct("size", "magic", "sys_flag").format == ">iI28xi"
    assert record_struct("log_offset", "sys_flag", start=layout.LOG_OFFSET_AT).format == ">qi"
    assert record_struct("size", Raw("magic", "queue_id"), "flag").format == ">i12si"


def test_a_field_that_a_record_does_not_have_is_an_error() -> None:
    with pytest.raises(KeyError):
        record_struct("size", "tags")


def test_dtypes_and_structs_read_the_same_numbers() -> None:
    names = ("size", "queue_id", "log_offset", "prepared_offset", "body_length")
    octets = bytes(range(100, 100 + layout.BODY_AT))
    by_numpy = np.frombuffer(octets, np.dtype(numpy_fields(*names)))[0].item()
    tail = np.dtype(numpy_fields("body_length", start=layout.BODY_LENGTH_AT))

    assert by_numpy == record_struct(*names).unpack(octets)
    assert tail.itemsize == struct.calcsize(">i")
