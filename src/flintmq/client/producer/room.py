"""The sends under way of one producer on its loop, and who waits for one of them to end.

Invariant: at most ``size`` are inside, and whoever waited longest comes in first.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Room:
    """Counts sends under way.  It belongs to one loop."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._count = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._until_empty: list[asyncio.Future[None]] = []

    def __repr__(self) -> str:
        return f"<Room {self._count} of {self._size}, {len(self._waiting)} wait>"

    def enter_now(self) -> bool:
        """Begin a send; False where it has to wait, in `enter`."""
        if self._count >= self._size or self._waiting:
            return False
        self._count += 1
        return True

    async def enter(self) -> None:
        """Begin a send as soon as one ends and nobody waits longer."""
        if self.enter_now():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()  # the place was ours already
            raise

    def leave(self) -> None:
        """A send came to its end; its place passes to whoever waits."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._count -= 1
        if not self._count and self._until_empty:
            for each in self._until_empty:
                if not each.done():
                    each.set_result(None)
            self._until_empty.clear()

    async def wait_empty(self) -> None:
        """Wait until no send is under way."""
        while self._count:
            empty: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._until_empty.append(empty)
            await empty
