"""How an error reads in an answer: as in the log, without the directories of this machine."""

from __future__ import annotations

from pathlib import PurePath


def remark_of(error: Exception) -> str:
    """The text of an error for a peer: files by their names alone, and no file of the system."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    path = getattr(error, "path", None)
    if isinstance(path, str) and PurePath(path).is_absolute():
        return str(error).replace(path, PurePath(path).name or "the store")
    return str(error)
