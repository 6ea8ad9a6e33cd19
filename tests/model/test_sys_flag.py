"""The bits of the system flag are read and replaced one group at a time."""

from __future__ import annotations

import pytest

from flintmq.errors import MalformedBody
from flintmq.model.sys_flag import (
    Compression,
    TransactionType,
    compression,
    needs_unwrap,
    with_compression,
    with_transaction_type,
)


@pytest.mark.parametrize("kind", TransactionType)
@pytest.mark.parametrize("before", [0, 4, 12, 0x7FF])
def test_the_transaction_type_is_replaced_and_nothing_else(
    kind: TransactionType, before: int
) -> None:
    after = with_transaction_type(before, kind)

    assert after & 12 == kind
    assert after & ~12 == before & ~12


@pytest.mark.parametrize(
    ("sys_flag", "expected"),
    [
        (0, None),
        (768, None),
        (1, Compression.ZLIB),
        (1 | 768, Compression.ZLIB),
        (1 | 256, Compression.LZ4),
        (1 | 512 | 16, Compression.ZSTD),
    ],
)
def test_how_a_body_is_packed(sys_flag: int, expected: Compression | None) -> None:
    assert compression(sys_flag) is expected


@pytest.mark.parametrize("bits", [4, 5, 6, 7])
def test_an_unknown_way_of_packing_is_refused(bits: int) -> None:
    with pytest.raises(MalformedBody):
        compression(1 | bits << 8)


def test_a_zlib_producer_says_so_explicitly() -> None:
    assert with_compression(16, Compression.ZLIB) == 16 | 1 | 768
    assert with_compression(769, Compression.LZ4) == 257


@pytest.mark.parametrize(("sys_flag", "expected"), [(64, False), (128, False), (192, True)])
def test_only_both_bits_together_ask_for_splitting(sys_flag: int, expected: bool) -> None:
    assert needs_unwrap(sys_flag) is expected
