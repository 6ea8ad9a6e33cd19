"""Pulls of a consumer on the threads that wait for them, over a `DirectLine`.

What is asked and what comes back is the same as by the loop; only who carries it out differs.
What needs the loop is left to it, and None comes back: a broker that is not known, several
threads that pull at once.
"""

from __future__ import annotations

from flintmq.client.engine.broker_calls import BrokerCalls
from flintmq.client.engine.direct_line import DirectLine
from flintmq.core.conversation import Call
from flintmq.core.group.pull_answers import PullAnswer
from flintmq.core.reading.pull_request import Pull


class DirectPulls:
    """The pulls of one consumer whose requests no hook has to see."""

    def __init__(self, line: DirectLine, pulling: BrokerCalls) -> None:
        self.line = line
        self._pulling = pulling

    def pull(self, pull: Pull) -> PullAnswer | None:
        """Pull once, as `BrokerCalls.pull` does."""
        if not self.line.take():
            return None
        try:
            known = self._pulling.prepare(pull)
            if known is None:
                return None
            address, request = known
            reply = self.line.make(Call(address, request, pull.timeout_ms))
            return self._pulling.read(reply, pull, address)
        finally:
            self.line.give_back()
