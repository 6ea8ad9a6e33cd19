"""The store directories of real brokers in ``tests/golden/stores``, and what is in them."""

from __future__ import annotations

import json
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[2] / "golden" / "stores"

PLAIN = ("golden-4.9.7", "golden-5.3.3")
EXTENDED = ("golden-ext-4.9.7", "golden-ext-5.3.3")
ALL = PLAIN + EXTENDED


def unpack_store(name: str, to: Path) -> Path:
    """A fresh copy of a store directory below ``to``."""
    with tarfile.open(FIXTURES / f"{name}.tgz") as archive:
        for member in archive:  # extractall wants a filter from 3.12 on, and has none before 3.11.4
            path = to / member.name
            file = archive.extractfile(member)
            if file is None:
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.read())
    return to / "store"


@cache
def manifest(name: str) -> dict[str, Any]:
    """What a store directory holds, as its README tells."""
    content: dict[str, Any] = json.loads((FIXTURES / f"{name}.manifest.json").read_bytes())
    return content


def setting(name: str, key: str) -> int:
    """A number the broker was configured with."""
    return int(manifest(name)["settings"][key])


def stored_messages(name: str) -> list[dict[str, Any]]:
    """Every record of the store, in the order of the commit log."""
    found = manifest(name)
    return sorted(
        [*found["messages"], *found["not_readable_by_pull"]], key=lambda m: m["commitLogOffset"]
    )
