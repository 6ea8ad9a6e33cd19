"""What the program that runs a query and the query's source process tell each other.

Both are on the driver's machine, but Spark gives the source no way to be spoken to, and ends it
without asking.  So they leave notes in a directory that only this user can read:

    program ──► finish, finished     come to rest; this is the end of the last batch that is done
    source  ──► member, resting      who we are in the group; nothing is under way any more
    source  ──► lease, left          until when locks hold; it is out of the group

Invariant: a note is there as a whole or not at all.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

FINISH: Final = "finish"
FINISHED: Final = "finished"
MEMBER: Final = "member"
RESTING: Final = "resting"
LEASE: Final = "lease"
LEFT: Final = "left"


class Notes:
    """Notes in a directory.  Without one nothing is kept and nothing is found."""

    def __init__(self, directory: str | None) -> None:
        self._directory = None if directory is None else Path(directory)

    def write(self, name: str, value: Any = None) -> None:
        if self._directory is None:
            return
        temporary = self._directory / f".{name}.{os.getpid()}"
        try:
            temporary.write_text(json.dumps(value), encoding="utf-8")
            temporary.replace(self._directory / name)
        except FileNotFoundError:
            return  # the program is gone, and nobody reads it

    def has(self, name: str) -> bool:
        return self._directory is not None and (self._directory / name).exists()

    def read(self, name: str) -> Any:
        """What a note says, or None where there is none."""
        if self._directory is None:
            return None
        try:
            return json.loads((self._directory / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
