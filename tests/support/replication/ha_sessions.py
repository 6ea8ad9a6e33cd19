"""The sessions of real masters and slaves in ``tests/golden/ha``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from flintmq.protocol.replication.ha_frames import HEADER

SESSIONS = Path(__file__).parents[2] / "golden" / "ha"
RELEASES = ("4.9.7", "5.3.3")


@dataclass(frozen=True, slots=True)
class HaSession:
    """One release's session: two connections of one slave."""

    release: str
    from_master: tuple[bytes, bytes]
    from_slave: tuple[bytes, bytes]
    hashes: dict[str, str]
    file_bytes: int
    end: int
    timeline: list[dict[str, Any]]

    def frames(self, connection: int) -> list[tuple[int, bytes]]:
        """Offset and bytes of each frame that the master sent; no bytes are a heartbeat."""
        stream = self.from_master[connection]
        found = []
        at = 0
        while at < len(stream):
            offset, size_bytes = HEADER.unpack_from(stream, at)
            at += HEADER.size
            found.append((offset, stream[at : at + size_bytes]))
            at += size_bytes
        return found

    def log_from(self) -> tuple[int, bytes]:
        """The log that the master sent: where it begins, and its bytes."""
        frames = [frame for number in (0, 1) for frame in self.frames(number)]
        start = frames[0][0]
        octets = b"".join(octets for _, octets in frames)
        assert start + len(octets) == self.end
        return start, octets


@cache
def ha_session(release: str) -> HaSession:
    directory = SESSIONS / release
    expected = json.loads((directory / "expected-commitlog.json").read_bytes())

    def stream(number: int, direction: str) -> bytes:
        return (directory / f"conn{number}.{direction}.bin").read_bytes()

    return HaSession(
        release,
        (stream(0, "master-to-slave"), stream(1, "master-to-slave")),
        (stream(0, "slave-to-master"), stream(1, "slave-to-master")),
        expected["files"],
        expected["fileSize"],
        expected["endOffset"],
        [json.loads(line) for line in (directory / "timeline.jsonl").read_text().splitlines()],
    )
