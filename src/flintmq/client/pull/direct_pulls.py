"""Pulls of a consumer on the threads that wait for them, over a `DirectLine`.

What is asked and what comes back is the same as by the loop; only who carries it out differs.
What needs the loop is left to it, and None comes back: a broker that is not known, several
threads that pull at once.
"""

from __future__ import annotations

from flintmq.client.engine.direct_line import DirectLine
from flintmq.client.pull.pull_calls import Pulling
from flintmq.core.conversation import Call
from flintmq.core.group.pull_answers import PullAnswer
from flintmq.core.group.stream_requests import StreamPull


class DirectPulls:
    """The pulls of one consumer whose requests no hook has to see."""

    def __init__(self, line: DirectLine, pulling: Pulling) -> None:
        self.line = line
        self._pulling = pulling

    def pull(self, pull: StreamPull, timeout_ms: int) -> PullAnswer | None:
        """Pull once, as `Pulling.pull` does."""
        if not self.line.take():
            return None
        try:
            known = self._pulling.prepare(pull)
            if known is None:
                return None
            address, request = known
            reply = self.line.make(Call(address, request, timeout_ms))
            return self._pulling.read(reply, pull.queue, address)
        finally:
            self.line.give_back()
