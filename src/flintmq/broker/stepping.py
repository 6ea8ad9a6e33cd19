"""Answers that are computed in parts, so that the loop is never blocked for long.

    Steps ─► add ─► run ─► run ─► … ─► outcome
                     └── a few milliseconds of it in each turn of the loop

A connection has one of them at work; its others wait behind it.  Connections take turns, so one
that asks for much does not delay the others.  `run` takes the clock as a question: its owner
says when the time is over.

Invariant: whatever is added comes out of `run` once, or is dropped with its connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import msgspec

from flintmq.broker.requests.outcome import Outcome, Steps
from flintmq.broker.requests.peer import Peer
from flintmq.errors import Overloaded
from flintmq.protocol.fields import Header
from flintmq.protocol.typed_request import TypedRequest

WAITING_MAX = 64
"""Answers in parts that one connection may wait for.  A tool waits for one; a client with many
threads for one in each thread."""


class SteppedRequest(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A request and the rest of the work for its answer."""

    peer: Peer
    request: TypedRequest[Header]
    steps: Steps


class Stepping:
    """All answers that are being computed in parts."""

    def __init__(self) -> None:
        self._peers: dict[Peer, deque[SteppedRequest]] = {}  # the first one is next

    def __len__(self) -> int:
        return sum(len(waiting) for waiting in self._peers.values())

    def __bool__(self) -> bool:
        return bool(self._peers)

    def add(self, work: SteppedRequest) -> None:
        """Compute an answer in later turns."""
        waiting = self._peers.setdefault(work.peer, deque())
        if len(waiting) >= WAITING_MAX:
            raise Overloaded("large answers one connection waits for", WAITING_MAX, "WAITING_MAX")
        waiting.append(work)

    def run(
        self, is_over: Callable[[], bool]
    ) -> Iterator[tuple[SteppedRequest, Outcome | Exception]]:
        """Work until the time is over; give what was finished, with its outcome or its error.

        At least one step is made.
        """
        while self._peers:
            peer, waiting = next(iter(self._peers.items()))
            work = waiting[0]
            try:
                next(work.steps.work)
            except StopIteration as end:
                self._finished(peer)
                yield work, end.value
            except Exception as error:
                self._finished(peer)
                yield work, error
            if is_over():
                if peer in self._peers:  # the next one's turn
                    self._peers[peer] = self._peers.pop(peer)
                return

    def drop(self, peer: Peer) -> None:
        """A connection was lost: nobody waits for its answers."""
        for work in self._peers.pop(peer, ()):
            work.steps.work.close()

    def drain(self) -> list[SteppedRequest]:
        """All that is left, for a broker that stops."""
        left = [work for waiting in self._peers.values() for work in waiting]
        self._peers.clear()
        for work in left:
            work.steps.work.close()
        return left

    def _finished(self, peer: Peer) -> None:
        waiting = self._peers[peer]
        waiting.popleft()
        if not waiting:
            del self._peers[peer]
