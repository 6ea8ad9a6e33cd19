"""What is to be told to a client on its telemetry stream.

Invariant: at most `COMMANDS_MAX` wait in it, so a client that does not read costs no more.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

COMMANDS_MAX: Final = 64
"""Commands that wait for a client to read: settings and checks, each of a few kilobytes."""


class TelemetryOutbox:
    """The way to one client, while its stream is open."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[Any] = asyncio.Queue(COMMANDS_MAX + 1)
        self.is_closed = False

    def put(self, command: Any) -> bool:
        """Tell a client something; False where it has too much to read, or has left."""
        if self.is_closed or self._waiting.qsize() >= COMMANDS_MAX:
            return False
        self._waiting.put_nowait(command)
        return True

    def close(self) -> None:
        """What waits is still told; then the stream ends."""
        if not self.is_closed:
            self.is_closed = True
            self._waiting.put_nowait(None)

    async def next(self) -> Any:
        """The next command; None when there is no more."""
        return await self._waiting.get()
