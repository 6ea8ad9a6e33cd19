"""What peers are told of an error names no directory of this machine."""

from __future__ import annotations

import pytest

from flintmq.errors import DiskFailed, InvalidName, StoreLocked, StoreRefused
from flintmq.protocol.remarks import remark_of


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            DiskFailed("/home/me/data/commitlog/00000", "write", "No space left on device", 28),
            "cannot write 00000: No space left on device; free some space",
        ),
        (DiskFailed("kvConfig.json", "replace", "full"), "cannot replace kvConfig.json: full"),
        (StoreRefused("/home/me/data", "is no store"), "data: is no store"),
        (FileNotFoundError(2, "No such file", "/home/me/x"), "No such file"),
        (PermissionError(), "PermissionError"),
        (InvalidName("topic", "/t", "no"), "topic '/t': no"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_is_told_without_directories(error: Exception, text: str) -> None:
    assert remark_of(error) == text


def test_a_lock_is_named_by_its_file() -> None:
    assert "/home" not in remark_of(StoreLocked("/home/me/data/lock"))
