"""Stores that are filled, killed and damaged."""

from __future__ import annotations

from pathlib import Path

from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import MessageLog
from support.store.stored import SMALL, START_MS, open_store, store


def files(directory: Path, *kinds: str) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for kind in kinds
        for path in sorted((directory / kind).rglob("*"))
        if path.is_file()
    }


def kill(log: MessageLog) -> None:
    """End without closing."""
    log._disk.unlock(log._lock)
    log._disk.close()


def filled(directory: Path, count: int, config: StoreConfig = SMALL) -> MessageLog:
    log = open_store(directory, config)
    for number in range(count):
        topic = "TU"[number % 2]
        body = b"%03d" % number * 20
        at = START_MS + number * 1000
        store(log, body, topic, keys=(f"k{number}",), now_ms=at, TAGS="a", KEYS=f"k{number}")
    log.flush()
    return log


def flip(directory: Path, log_offset: int, config: StoreConfig = SMALL) -> None:
    start = log_offset - log_offset % config.commit_log_file_bytes
    path = directory / "commitlog" / f"{start:020d}"
    content = bytearray(path.read_bytes())
    content[log_offset - start] ^= 1
    path.write_bytes(content)
