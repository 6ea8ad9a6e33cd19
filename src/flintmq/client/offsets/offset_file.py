"""The file in which a broadcasting consumer keeps its offsets, where RocketMQ keeps it too.

    ~/.rocketmq_offsets/{client id}/{group}/offsets.json       the newest
                                           offsets.json.bak    what it was before

A new content is written beside the old one, synced, and put in its place; the old one becomes
the ``.bak``.  Whenever the machine stops, one of the two is whole, and reading takes the first
that is.

Refused: a client id that would lead out of the directory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from flintmq.errors import DiskFailed, InvalidSetting, MalformedBody, StoreRefused
from flintmq.model.group import check_group_name
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.bodies.offset import LocalOffsets

DIRECTORY_VARIABLE = "FLINTMQ_OFFSETS_DIR"
"""The environment variable that moves the directory; an argument beats it."""

USUAL_DIRECTORY = ".rocketmq_offsets"
FILE_NAME = "offsets.json"

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
"""What this makes is for its owner alone."""

FILE_BYTES_MAX = 64 * 1024 * 1024
"""Half a million queues; a file beyond it is none of ours."""


def offsets_path(client_id: str, group: str, directory: Path | str | None = None) -> Path:
    """Where the offsets of one consumer are."""
    check_group_name(group)
    if client_id in ("", ".", "..") or any(letter in client_id for letter in "/\\\0"):
        raise InvalidSetting("client id", client_id, "it cannot be the name of a directory")
    chosen = directory or os.environ.get(DIRECTORY_VARIABLE) or Path.home() / USUAL_DIRECTORY
    return Path(chosen) / client_id / group / FILE_NAME


def read_offsets(path: Path) -> dict[QueueRef, QueueOffset]:
    """The offsets of the file or else of its ``.bak``; none at all where neither exists.

    `StoreRefused` when there is something and none of it can be read: to start anew then is
    the user's to decide.
    """
    faults = []
    for candidate in (path, _backup(path)):
        try:
            content = _content(candidate)
            if content is not None:
                return _parsed(content)
        except MalformedBody as error:
            faults.append(f"{candidate.name}: {error.reason}")
    if faults:
        reason = f"{'; '.join(faults)}: mend it, or remove both to start anew"
        raise StoreRefused(str(path), reason)
    return {}


def write_offsets(path: Path, offsets: Mapping[QueueRef, QueueOffset]) -> None:
    """Replace the file.  `DiskFailed` leaves the old one, or its ``.bak``, as it was."""
    content = LocalOffsets(offset_table=dict(sorted(offsets.items()))).to_file()
    fresh = path.with_name(path.name + ".tmp")
    try:
        _make_directory(path.parent)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if _is_whole(path):  # a broken file must not take the place of a good .bak
            os.replace(path, _backup(path))  # noqa: PTH105  # beside the other calls of os
        os.replace(fresh, path)  # noqa: PTH105
        _sync_directory(path.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise DiskFailed(str(path), "write", reason, error.errno or 0) from None


def _make_directory(path: Path) -> None:
    """Make a directory and those it is in, for their owner alone."""
    if not path.is_dir():
        _make_directory(path.parent)
        path.mkdir(DIRECTORY_MODE, exist_ok=True)


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def _content(path: Path) -> bytes | None:
    """What a file holds, None when it is not there."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = error.strerror or str(error)
        raise DiskFailed(str(path), "read", reason, error.errno or 0) from None
    if len(content) > FILE_BYTES_MAX:
        raise MalformedBody(path.name, f"it is larger than {FILE_BYTES_MAX} bytes")
    return content


def _parsed(content: bytes) -> dict[QueueRef, QueueOffset]:
    if not content.strip():
        raise MalformedBody(FILE_NAME, "it is empty")
    table = LocalOffsets.from_file(content).offset_table
    return {queue: QueueOffset(offset) for queue, offset in table.items()}


def _is_whole(path: Path) -> bool:
    try:
        content = _content(path)
        if content is None:
            return False
        _parsed(content)
    except MalformedBody:
        return False
    return True


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
