"""An offset the broker does not know is None, one it cannot say is an error."""

from __future__ import annotations

import pytest

from flintmq.core.reading.broker_offsets import (
    commit_offset,
    commit_oneway,
    earliest_ms,
    extent,
    group_offset,
    max_offset,
    min_offset,
    offset_at,
)
from flintmq.errors import BrokerRefused, RemoteProtocolError
from flintmq.model.queue import Extent, QueueOffset, QueueRef
from flintmq.protocol.codes import RequestCode as Code
from flintmq.protocol.headers.offset import (
    OffsetAnswer,
    QueryConsumerOffset,
    SearchOffset,
    StoreTimeAnswer,
    UpdateConsumerOffset,
)
from support.core.peers import A, Peers, no, ok

QUEUE = QueueRef("orders", "broker-a", 3)


def test_a_known_offset_is_given() -> None:
    peers = Peers({(A, 14): ok(OffsetAnswer(offset=7))})

    found = peers.hold(group_offset(A, "billing", QUEUE, zero_if_young=False))

    header = peers.calls[0].request.header(QueryConsumerOffset)
    assert found == 7
    assert (header.consumer_group, header.topic, header.queue_id) == ("billing", "orders", 3)
    assert (header.broker_name, header.set_zero_if_not_found) == ("broker-a", False)


def test_an_unknown_offset_is_none() -> None:
    assert Peers({(A, 14): no(22)}).hold(group_offset(A, "billing", QUEUE)) is None


def test_a_broker_that_cannot_say_is_an_error() -> None:
    with pytest.raises(BrokerRefused):
        Peers({(A, 14): no(1, "store closed")}).hold(group_offset(A, "billing", QUEUE))


def test_a_negative_offset_is_nobodys() -> None:
    with pytest.raises(RemoteProtocolError, match="-1"):
        Peers({(A, 30): ok(OffsetAnswer(offset=-1))}).hold(max_offset(A, QUEUE))


def test_a_commit_is_waited_for_or_only_sent() -> None:
    peers = Peers({(A, 15): ok()})

    peers.hold(commit_offset(A, "billing", QUEUE, QueueOffset(9)))
    peers.hold(commit_oneway(A, "billing", QUEUE, QueueOffset(9)))

    waited, sent = (call.request for call in peers.calls)
    assert (waited.is_oneway, sent.is_oneway) == (False, True)
    assert waited.header(UpdateConsumerOffset) == sent.header(UpdateConsumerOffset)
    assert waited.header(UpdateConsumerOffset).commit_offset == 9


def test_a_refused_commit_is_heard() -> None:
    with pytest.raises(BrokerRefused, match="26"):
        Peers({(A, 15): no(26)}).hold(commit_offset(A, "billing", QUEUE, QueueOffset(9)))


def test_an_extent_never_ends_before_it_starts() -> None:
    peers = Peers({(A, 31): ok(OffsetAnswer(offset=5)), (A, 30): ok(OffsetAnswer(offset=4))})

    assert peers.hold(extent(A, QUEUE)) == Extent(QueueOffset(5), QueueOffset(5))
    assert peers.hold(min_offset(A, QUEUE)) == 5


def test_times_are_asked_for_and_may_be_unknown() -> None:
    peers = Peers(
        {
            (A, 29): ok(OffsetAnswer(offset=6)),
            (A, 32): [ok(StoreTimeAnswer(timestamp=123)), ok(StoreTimeAnswer(timestamp=-1))],
        }
    )

    assert peers.hold(offset_at(A, QUEUE, 1_000)) == 6
    assert peers.calls[0].request.header(SearchOffset).timestamp == 1_000
    assert peers.hold(earliest_ms(A, QUEUE)) == 123
    assert peers.hold(earliest_ms(A, QUEUE)) is None
    assert peers.calls[-1].request.code == Code.GET_EARLIEST_MSG_STORETIME
