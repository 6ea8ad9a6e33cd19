"""Amounts for people: bytes, shares, rates and durations, each in a few characters."""

from __future__ import annotations

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def size_text(size_bytes: float | None) -> str | None:
    """``1.5 GiB``; None stays None, which a table shows as a dash."""
    if size_bytes is None:
        return None
    if size_bytes < 1024:
        return f"{size_bytes:.0f} B"
    size = float(size_bytes)
    for unit in _UNITS:
        size /= 1024
        if size < 1024 or unit == _UNITS[-1]:
            break
    return f"{size:.1f} {unit}"


def share_text(ratio: float | None) -> str | None:
    """``42 %`` of a share between 0 and 1."""
    return None if ratio is None else f"{100 * ratio:.0f} %"


def rate_text(per_s: float | None) -> str | None:
    """``1,234.5/s``."""
    return None if per_s is None else f"{per_s:,.1f}/s"


def duration(seconds: float) -> str:
    """``3.5 h``; days, hours and minutes from two of them on."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
