"""What a client may still send before it is told to go on: on one call, or on a connection.

    take ─► less room ─► half of the window came, and little of it is unread ─► permit

What came and nobody has read holds permissions back, so a client that is ahead of a method waits,
and memory has a limit.  A message that is not yet whole holds nothing back: it could not end.
"""

from __future__ import annotations


class ReceiveWindow:
    """The window of flow control that the server keeps."""

    __slots__ = ("_half_bytes", "_room_bytes", "_taken_bytes")

    def __init__(self, size_bytes: int) -> None:
        self._half_bytes = size_bytes // 2
        self._room_bytes = size_bytes
        self._taken_bytes = 0

    def take(self, came_bytes: int) -> bool:
        """So much came; False where it was not permitted."""
        self._room_bytes -= came_bytes
        self._taken_bytes += came_bytes
        return self._room_bytes >= 0

    def permit(self, unread_bytes: int) -> int:
        """How much more the client may send from now on, by what is unread; mostly nothing."""
        taken_bytes = self._taken_bytes
        if taken_bytes < self._half_bytes or unread_bytes > self._half_bytes:
            return 0
        self._taken_bytes = 0
        self._room_bytes += taken_bytes
        return taken_bytes
