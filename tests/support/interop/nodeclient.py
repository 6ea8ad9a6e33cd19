"""The Node client (npm ali-ons), installed once and kept in the cache.

npm's own settings say where packages come from; the lock file holds names, versions and hashes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

from support.interop.jvm import FETCH_TIMEOUT_S, make_once, run_tool
from support.interop.told import Event

SOURCES = Path(__file__).parents[2] / "interop" / "node"
FILES = ("package.json", "package-lock.json", "interop.js", "account.js")
RUN_TIMEOUT_S = 120


def install() -> Path:
    """The directory with the programs and all they need."""
    digest = hashlib.sha256()
    for name in FILES:
        digest.update((SOURCES / name).read_bytes())

    def install_into(made: Path) -> None:
        for name in FILES:
            shutil.copy(SOURCES / name, made)
        run_tool(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], FETCH_TIMEOUT_S, str(made)
        )

    return make_once(f"node/{digest.hexdigest()[:24]}", install_into)


def play(namesrv: str, prefix: str) -> list[Event]:
    """Run all scenarios at once and return what they told, failures among it."""
    done = subprocess.run(
        ["node", "interop.js", namesrv, prefix],
        check=False,
        cwd=install(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
    )
    told: list[Event] = [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]
    if not told:
        told.append({"scenario": "", "event": "end", "failure": done.stderr[-4_000:]})
    return told
