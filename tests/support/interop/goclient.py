"""The Go client (apache/rocketmq-client-go), built once and kept in the cache.

The Go tool's own settings say where modules come from; nothing here names a server.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

from support.interop.jvm import FETCH_TIMEOUT_S, make_once, run_tool
from support.interop.told import Event

SOURCES = Path(__file__).parents[2] / "interop" / "go"
RUN_TIMEOUT_S = 150


def build() -> Path:
    """The program of ``go/``."""
    digest = hashlib.sha256()
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())

    def compile_into(made: Path) -> None:
        command = ["go", "build", "-mod=readonly", "-o", str(made / "interop"), "."]
        run_tool(command, FETCH_TIMEOUT_S, str(SOURCES))

    return make_once(f"go/{digest.hexdigest()[:24]}", compile_into) / "interop"


def play(namesrv: str, broker: str, prefix: str, home: Path) -> list[Event]:
    """Run all scenarios at once and return what they told, failures among it."""
    done = subprocess.run(
        [build(), namesrv, broker, prefix],
        check=False,
        cwd=home,
        env={**os.environ, "HOME": str(home)},  # offsets of broadcasts are kept there
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
    )
    told: list[Event] = [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]
    if not told:
        told.append({"scenario": "", "event": "end", "failure": done.stderr[-4_000:]})
    return told
