"""A body that is written in parts is, byte for byte, the body written at once."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.errors import Overloaded
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies import in_parts
from flintmq.protocol.bodies.client import ClientConnection, ProducerConnections
from flintmq.protocol.bodies.in_parts import PART_ENTRIES, entry, list_in_parts, table_in_parts
from flintmq.protocol.bodies.stats import QueueExtent, TopicStats

T = TypeVar("T")


def run(work: Generator[None, None, T]) -> tuple[T, int]:
    """What comes out, and in how many parts."""
    count = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            value: T = end.value
            return value, count
        count += 1


@pytest.mark.parametrize("count", [0, 1, PART_ENTRIES, PART_ENTRIES * 3 + 1])
def test_a_table_is_written_as_a_whole_is(count: int) -> None:
    table = {QueueRef("T", "b", n): QueueExtent(max_offset=n) for n in range(count)}

    written, parts = run(
        table_in_parts(TopicStats(topic_put_tps=1.5), "offsetTable", table.items())
    )

    assert written == TopicStats(offset_table=table, topic_put_tps=1.5).to_body()
    assert parts == -(-count // PART_ENTRIES)


@pytest.mark.parametrize("count", [0, 1, PART_ENTRIES + 1])
def test_a_list_is_written_as_a_whole_is(count: int) -> None:
    clients = tuple(ClientConnection(client_id=f"c{n}") for n in range(count))

    written, _ = run(list_in_parts(ProducerConnections(), "connectionSet", clients))

    assert written == ProducerConnections(connection_set=clients).to_body()


@given(st.text(st.characters(codec="utf-8")))
def test_a_name_is_quoted_as_json(name: str) -> None:
    assert msgspec.json.decode(b"{%b}" % entry(name, b"[%b]", [b"1", b"2"])) == {name: [1, 2]}


def test_a_body_that_no_frame_holds_is_given_up_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_parts, "BODY_BYTES_MAX", 10_000)
    taken = 0

    def entries() -> Generator[tuple[str, int], None, None]:
        nonlocal taken
        for number in range(1_000_000):
            taken += 1
            yield f"topic{number}", number

    with pytest.raises(Overloaded):
        run(table_in_parts(TopicStats(), "offsetTable", entries()))

    assert taken < 2_000
