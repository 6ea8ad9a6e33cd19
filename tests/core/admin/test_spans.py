"""Times and places become spans that lie in their queues."""

from __future__ import annotations

import pytest

from flintmq.core.admin.spans import (
    END,
    START,
    Target,
    ToOffset,
    ToTime,
    locate_spans,
    queue_earliest_ms,
    queue_extent,
    queue_offset_at,
)
from flintmq.errors import NoRoute
from flintmq.model.queue import Extent, QueueOffset, QueueRef
from flintmq.protocol.headers.offset import OffsetAnswer, StoreTimeAnswer
from support.core.peers import NS, A, B, Peers, Reply, name_servers, ok, route, routes


def at(offset: int) -> Reply:
    return ok(OffsetAnswer(offset=offset))


def world() -> Peers:
    script: dict[tuple[str, int], Reply | list[Reply]] = {(NS, 105): routes(orders=route(2))}
    for address in (A, B):
        script |= {(address, 31): at(10), (address, 30): at(50), (address, 29): at(20)}
        script[address, 32] = ok(StoreTimeAnswer(timestamp=77))
    return Peers(script)


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        (START, END, (10, 50)),
        (END, END, (50, 50)),
        (ToTime(5), END, (20, 50)),
        (ToOffset(QueueOffset(0)), ToOffset(QueueOffset(99)), (10, 50)),
        (END, START, (50, 50)),
    ],
)
def test_a_span_lies_in_its_queue(start: Target, stop: Target, expected: tuple[int, int]) -> None:
    found = world().hold(locate_spans(name_servers(), "orders", start, stop))

    assert len(found) == 4
    assert {(one.span.start, one.span.stop) for one in found} == {expected}
    assert {one.address for one in found} == {A, B}


def test_spans_may_be_of_one_queue() -> None:
    found = world().hold(locate_spans(name_servers(), "orders", broker="broker-b", queue_id=1))

    assert [str(one.span.queue) for one in found] == ["orders/broker-b/1"]


def test_one_queue_can_be_asked_about() -> None:
    queue = QueueRef("orders", "broker-b", 1)

    assert world().hold(queue_extent(name_servers(), queue)) == Extent(
        QueueOffset(10), QueueOffset(50)
    )
    assert world().hold(queue_offset_at(name_servers(), queue, 5)) == 20
    assert world().hold(queue_earliest_ms(name_servers(), queue)) == 77


@pytest.mark.parametrize("queue", [QueueRef("orders", "broker-b", 2), QueueRef("orders", "x", 0)])
def test_a_queue_that_is_not_there_has_no_route(queue: QueueRef) -> None:
    with pytest.raises(NoRoute, match="has no queue"):
        world().hold(queue_extent(name_servers(), queue))
