"""What a unique id says of itself, as Java's client reads it."""

from __future__ import annotations


def created_ms(
    unique_id: str, *, now_ms: int, month_start_ms: int, previous_month_start_ms: int
) -> int:
    """About when ``unique_id`` was made.  It does not say its month: the latest that fits is it."""
    octets = bytes.fromhex(unique_id)
    age_ms = int.from_bytes(octets[-6:-2], "big", signed=True)
    if month_start_ms + age_ms <= now_ms:
        return month_start_ms + age_ms
    return previous_month_start_ms + age_ms
