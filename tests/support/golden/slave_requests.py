"""What real slaves asked their name server and their master, and what they were answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from flintmq.protocol.command import Command
from flintmq.protocol.frame import FrameReader
from flintmq.protocol.wire import decode_command

HA = Path(__file__).parents[2] / "golden" / "ha"
VERSIONS = ("4.9.7", "5.3.3")


class SlaveRequest(NamedTuple):
    request: bytes
    answer: bytes

    @property
    def asked(self) -> Command:
        return decode_command(FrameReader().feed(self.request)[0])

    @property
    def answered(self) -> Command:
        return decode_command(FrameReader().feed(self.answer)[0])


def slave_requests(version: str) -> dict[int, SlaveRequest]:
    """The recorded requests of a slave by their code."""
    frames: dict[int, dict[str, bytes]] = {}
    for line in (HA / version / "slave-requests.jsonl").read_text(encoding="utf-8").splitlines():
        frame = json.loads(line)
        frames.setdefault(frame["code"], {})[frame["role"]] = bytes.fromhex(frame["frame_hex"])
    return {code: SlaveRequest(pair["request"], pair["answer"]) for code, pair in frames.items()}
