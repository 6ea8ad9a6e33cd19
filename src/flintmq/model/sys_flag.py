"""The bits of a message's system flag.

The flag says what the rest of a record needs to be read: whether and how the body
is compressed, how wide the hosts are, and where the message stands in a
transaction.  Bits this module does not name are carried along untouched.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from flintmq.errors import MalformedBody

COMPRESSED: Final = 1
MULTI_TAGS: Final = 1 << 1
BORN_HOST_V6: Final = 1 << 4
STORE_HOST_V6: Final = 1 << 5
NEED_UNWRAP: Final = 1 << 6
INNER_BATCH: Final = 1 << 7

TRANSACTION_MASK: Final = 3 << 2
COMPRESSION_MASK: Final = 7 << 8


class TransactionType(IntEnum):
    """Where a message stands in a transaction, as the bits say it."""

    NONE = 0
    PREPARED = 1 << 2
    COMMIT = 2 << 2
    ROLLBACK = 3 << 2


class Compression(IntEnum):
    """How a compressed body is packed, as today's producers write it.

    A flag with no type bits at all also means zlib: producers before 4.9.4 knew nothing else.
    """

    LZ4 = 1 << 8
    ZSTD = 2 << 8
    ZLIB = 3 << 8


def with_transaction_type(sys_flag: int, kind: TransactionType) -> int:
    return (sys_flag & ~TRANSACTION_MASK) | kind


def compression(sys_flag: int) -> Compression | None:
    """How the body is packed, or None when it is not.  An unknown type is `MalformedBody`."""
    if not sys_flag & COMPRESSED:
        return None
    bits = sys_flag & COMPRESSION_MASK
    if bits == 0:
        return Compression.ZLIB
    try:
        return Compression(bits)
    except ValueError:
        raise MalformedBody("compressed body", f"unknown compression type {bits >> 8}") from None


def with_compression(sys_flag: int, kind: Compression) -> int:
    return (sys_flag & ~COMPRESSION_MASK) | COMPRESSED | kind


def needs_unwrap(sys_flag: int) -> bool:
    """Whether the body is an inner batch that the consumer has to split."""
    both = NEED_UNWRAP | INNER_BATCH
    return sys_flag & both == both
