"""Sharing the room of one batch among the queues that want it."""

from __future__ import annotations

from collections.abc import Sequence


def share(wants: Sequence[int], costs: Sequence[int], budget: int) -> list[int]:
    """How many messages each may give, when ``budget`` is not enough for all that are wanted.

    A message of queue ``n`` costs ``costs[n]``.  First each queue that wants some gets one, in the
    order given, so that a short queue does not wait for a long one to be empty; the rest is shared
    in proportion to what is wanted.  Who gets nothing has to come earlier in the order next time.

    Invariant: the cost is within the budget, except that the first one is given always; and
    no room is left in which another message would fit.
    """
    assert len(wants) == len(costs)
    if sum(want * cost for want, cost in zip(wants, costs, strict=True)) <= budget:
        return list(wants)
    given = [0] * len(wants)
    left, nobody_yet = budget, True
    for place, (want, cost) in enumerate(zip(wants, costs, strict=True)):
        if want and (nobody_yet or cost <= left):
            given[place], nobody_yet = 1, False
            left -= cost
    rest = [want - got for want, got in zip(wants, given, strict=True)]
    total = sum(want * cost for want, cost in zip(rest, costs, strict=True))
    if left <= 0:
        return given
    room, remainders = left, []
    for place, (want, cost) in enumerate(zip(rest, costs, strict=True)):
        more, remainder = divmod(room * want, total)
        given[place] += more
        left -= more * cost
        remainders.append((-remainder, place))
    nearest = [place for _, place in sorted(remainders)]
    for at_most in (1, left):  # one each for those who were nearest to one more, then whoever fits
        for place in nearest:
            more = min(at_most, left // costs[place], wants[place] - given[place])
            given[place] += more
            left -= more * costs[place]
    return given
