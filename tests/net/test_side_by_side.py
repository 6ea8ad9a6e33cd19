"""Many conversations end, each with its own result, and a dead peer costs the others nothing."""

from __future__ import annotations

import pytest

from flintmq.arrow.reading.access import Access
from flintmq.core.conversation import Conversation
from flintmq.core.reading.broker_offsets import extent, max_offset
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import Unreachable
from flintmq.model.queue import Extent, QueueRef
from flintmq.net import side_by_side
from flintmq.net.side_by_side import hold_all
from support.spark.support import BROKER, create_topic, send


def test_each_gives_its_result_in_order(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "AT_ONCE", 3)
    create_topic(broker, "many", 8)
    for queue_id in range(8):
        send(broker, "many", ["x"] * queue_id, queue_id=queue_id) if queue_id else None
    with Access((broker.namesrv,)).open() as line:
        found = hold_all(
            line, [extent(broker.broker, QueueRef("many", BROKER, n)) for n in range(8)]
        )

    assert [each.stop for each in found if isinstance(each, Extent)] == list(range(8))


def test_errors_stay_with_who_made_them(broker: EmbeddedBroker) -> None:
    create_topic(broker, "one")
    queue = QueueRef("one", BROKER, 0)

    def patient() -> Conversation[str]:
        try:
            yield from max_offset("127.0.0.1:1", queue)
        except Unreachable:
            yield from max_offset(broker.broker, queue)
        return "found elsewhere"

    with Access((broker.namesrv,)).open() as line:
        dead, alive, moved = hold_all(
            line, [max_offset("127.0.0.1:1", queue), max_offset(broker.broker, queue), patient()]
        )

    assert isinstance(dead, Unreachable)
    assert (alive, moved) == (0, "found elsewhere")


def test_nothing_to_hold_is_nothing() -> None:
    with Access(("127.0.0.1:1",)).open() as line:
        assert hold_all(line, []) == []
