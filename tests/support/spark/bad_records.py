"""A queue in which good messages stand between records that cannot be decoded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.kernel.layout import HEAD, SYS_FLAG_AT
from flintmq.model.sys_flag import INNER_BATCH, NEED_UNWRAP, Compression, with_compression
from support.poison import send_raw
from support.spark.support import write_held

GARBAGE: Final = b"\x00 no frame of any kind \xff"
NO_BATCH: Final = b"a body that will be called a batch"
SPOILT: Final = b"a body whose checksum will be wrong"

BAD: Final = {
    "zlib": (with_compression(0, Compression.ZLIB), GARBAGE),
    "lz4": (with_compression(0, Compression.LZ4), GARBAGE),
    "zstd": (with_compression(0, Compression.ZSTD), GARBAGE),
    "batch": (0, NO_BATCH),
    "checksum": (0, SPOILT),
}
"""What is wrong with a record, and the flag and body it is sent with."""

WORDS: Final = {
    "zlib": "zlib",
    "lz4": "LZ4",
    "zstd": "ZSTD",
    "batch": "batch",
    "checksum": "checksum",
}
"""What the reason says of each."""

GOOD: Final = [f"good-{n}" for n in range(len(BAD) + 1)]
"""One before, between and behind the bad ones: at the even offsets."""

BAD_OFFSETS: Final = {1 + 2 * n: kind for n, kind in enumerate(BAD)}
COUNT: Final = len(GOOD) + len(BAD)

NOT_COPIED: Final = frozenset({"checksum", "batch"})
"""Brokers copy neither a record that fails its checksum nor an inner batch to dead letters."""


def send_with_flag(
    servers: EmbeddedBroker, topic: str, body: bytes, sys_flag: int = 0, properties: str = ""
) -> None:
    """Send a body as it is, with a flag that may not be true of it: brokers do not unpack."""
    send_raw(servers.broker, topic, body, sys_flag, properties=properties)


def send_mixed(servers: EmbeddedBroker, topic: str, properties: str = "") -> None:
    """Good and bad ones by turns, to queue 0."""
    for good, (sys_flag, bad) in zip(GOOD, BAD.values(), strict=False):
        send_with_flag(servers, topic, good.encode(), properties=properties)
        send_with_flag(servers, topic, bad, sys_flag, properties)
    send_with_flag(servers, topic, GOOD[-1].encode(), properties=properties)
    flag = (NEED_UNWRAP | INNER_BATCH).to_bytes(4, "big")
    spoil(servers, NO_BATCH, flag, SYS_FLAG_AT - HEAD.size)
    spoil(servers, SPOILT, SPOILT.upper())


def spoil(servers: EmbeddedBroker, before: bytes, after: bytes, ahead: int = 0) -> None:
    """Write other bytes into the log, behind the broker's back, ``ahead`` of where some are."""
    write_held(servers)
    found = 0
    for path in sorted(Path(servers.directory).rglob("commitlog/*")):
        if path.is_file():
            with path.open("r+b") as file:
                written_bytes = os.lseek(file.fileno(), 0, os.SEEK_HOLE)  # of a gigabyte
                file.seek(0)
                octets, at = file.read(written_bytes), -1
                while (at := octets.find(before, at + 1)) >= 0:
                    file.seek(at + ahead)
                    file.write(after)
                    found += 1
    assert found, "the bytes are not in the log"
