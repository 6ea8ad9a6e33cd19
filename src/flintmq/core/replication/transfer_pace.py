"""How fast a master feeds one slave: RocketMQ's flow control of the HA connection.

With haFlowControlEnable a connection is sent maxHaTransferByteInSecond bytes at most in a second.
One begins with the first bytes after the last one ended.

Invariant: in no second under way more is taken than the limit.
"""

from __future__ import annotations

SECOND_MS = 1_000
UNLIMITED = 2**62


class TransferPace:
    """Of one connection; a limit of None is none."""

    __slots__ = ("_began_ms", "_limit", "_taken")

    def __init__(self, bytes_a_second: int | None) -> None:
        self._limit = bytes_a_second
        self._began_ms: int | None = None
        self._taken = 0

    def room(self, now_ms: int) -> int:
        """How many bytes may be sent now."""
        if self._limit is None:
            return UNLIMITED
        if self._began_ms is None or now_ms - self._began_ms >= SECOND_MS:
            self._began_ms, self._taken = now_ms, 0
        return self._limit - self._taken

    def sent(self, size_bytes: int) -> None:
        """So much was sent, of what there was room for."""
        self._taken += size_bytes

    def wait_ms(self, now_ms: int) -> int:
        """How long it takes until there is room again."""
        assert self._began_ms is not None, "there is always room before the first byte"
        return max(self._began_ms + SECOND_MS - now_ms, 0)
