"""How far the timer messages of a broker were delivered.  A file of our own."""

from __future__ import annotations

from flintmq.protocol.bodies.body import Body
from flintmq.protocol.fields import Int64


class TimerPositions(Body, frozen=True, kw_only=True):
    """Of the messages before ``next_offset``, those up to a time and an offset were delivered.

    Delivery goes by time and, within a millisecond, by queue offset; so one pair says it all,
    but for the ``late`` ones: they came when their turn was over, and still wait.  Nothing
    before ``low_offset`` waits.
    """

    delivered_ms: Int64 = -1
    delivered_offset: Int64 = -1
    late: tuple[Int64, ...] = ()
    low_offset: Int64 = 0
    next_offset: Int64 = 0
