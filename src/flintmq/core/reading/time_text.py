"""Times as people type them: ``2026-11-16T08:30``, ``1794803628010``, ``10m`` for ten minutes ago.

A time without a zone is of the zone of this machine.
"""

from __future__ import annotations

import re
from datetime import datetime

from flintmq.errors import InvalidSetting

UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

MILLISECONDS = re.compile(r"[0-9]{11,14}")
AGO = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)")


def parse_time(text: str, now_ms: int) -> int:
    """Milliseconds since 1970; `InvalidSetting` for anything else."""
    text = text.strip()
    if text == "now":
        return now_ms
    if MILLISECONDS.fullmatch(text):
        return int(text)
    if ago := AGO.fullmatch(text):
        return max(0, now_ms - int(ago[1]) * UNITS_MS[ago[2]])
    try:
        return max(0, round(datetime.fromisoformat(text).astimezone().timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        reason = "give 2026-11-16T08:30, milliseconds since 1970, or 10m for ten minutes ago"
        raise InvalidSetting("time", text, reason) from None
