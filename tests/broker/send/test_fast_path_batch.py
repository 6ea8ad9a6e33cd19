"""Batches that are like the ones before are taken without being decoded, and what is stored and
answered is, byte for byte, what the usual way stores and answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.protocol.frame import Frame
from flintmq.protocol.records.batch import BatchEntry, encode_batch
from flintmq.store.files.store_config import Flush
from support.broker.both_ways import PLAIN, Line, line_after, play_both_ways, send
from support.broker.world import SMALL_STORE

HEAD = f"{PLAIN.partition('TAGS')[0]}"
BATCH: dict[str, Any] = {"code": 320, "m": "true"}


def entries(*texts: bytes, body: bytes = b"body") -> bytes:
    return encode_batch([BatchEntry(body, text, number) for number, text in enumerate(texts)])


def ids(count: int, rest: bytes = b"\x02WAIT\x01true\x02TAGS\x01TagA\x02") -> list[bytes]:
    return [b"UNIQ_KEY\x01ID%04X" % number + rest for number in range(count)]


def batch(number: int, body: bytes | None = None, **fields: Any) -> Frame:
    return send(number, HEAD, entries(*ids(3)) if body is None else body, **(BATCH | fields))


BODIES = st.sampled_from(
    [
        entries(*ids(3)),
        entries(*ids(1)),
        entries(*ids(2, b"\x02KEYS\x01a b\x02"), *ids(2, b"\x02TAGS\x01TagB\x02")),
        entries(*ids(2), b""),  # of several sizes, and one without properties
        entries(b"TAGS\x01TagA\x02", b"TAGS\x01TagB\x02"),
        entries(b"UNIQ_KEY\x01A\x02TAGS\x01T\x02", b"UNIQ_KEY\x01\x02A\x02TAGS\x01T\x02"),
        entries(b"UNIQ_KEY\x01AB\x02TAGS\x01T\x02", b"UNIQ_KEYS\x01B\x02TAGS\x01T\x02"),
        entries(b"UNIQ_KEY\x01AB", b"UNIQ_KEY\x01CD"),
        entries(*ids(2), body=b"x" * 1_500),
        entries(*ids(3), body=b"x" * 1_500),  # over the limit of a body
        entries(*[b""] * 40, body=b""),
        entries(*ids(3))[:-1],
        entries(*ids(3)) + b"xyz",
        b"no batch at all",
        b"",
    ]
)
HEADS = st.sampled_from(
    [
        HEAD,
        PLAIN,
        f"{HEAD}KEYS\x01k1 k2\x02",
        f"{HEAD}DELAY\x012\x02",
        HEAD.replace("true", "false"),
        HEAD.removesuffix("\x02"),
        "WAIT\x01true\x02",
        f"{HEAD}long\x01{'y' * 300}\x02",
    ]
)
FIELDS = st.fixed_dictionaries(
    {"m": st.sampled_from(["true", "true", "false"]), "code": st.sampled_from([320, 310])},
    optional={
        "b": st.sampled_from(["orders", "%RETRY%g", "bad topic"]),
        "e": st.sampled_from(["0", "7", "-1"]),
        "f": st.sampled_from(["0", "4"]),
        "h": st.sampled_from(["0", "9"]),
        "j": st.sampled_from(["0", "3"]),
        "command_flag": st.sampled_from([0, 2]),
    },
)
SENDS: st.SearchStrategy[Any] = st.tuples(HEADS, BODIES, FIELDS) | st.tuples(
    st.just(HEAD), BODIES, st.just(BATCH)
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(SENDS | st.sampled_from(["settings", "topic"]), max_size=4), max_size=6),
    st.sampled_from(["127.0.0.1:60000", "[::1]:60000"]),
    st.sampled_from([Flush.ASYNC, Flush.SYNC]),
    st.booleans(),
)
def test_both_ways_give_the_same(
    reads: list[list[Any]], peer: str, flush: Flush, checksums: bool
) -> None:
    play_both_ways(reads, peer, flush, checksums=checksums)


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    with line_after(tmp_path, batch) as line:
        yield line


def test_a_batch_that_came_twice_is_taken_from_then_on(line: Line) -> None:
    line.read([batch(3), batch(4), batch(5, entries(*ids(9)))])
    line.world.settle()

    assert line.taken == 3
    assert line.laid_out == 2  # the one before them told what is alike
    assert [line.code(number) for number in range(1, 6)] == [0] * 5
    assert line.world.state.log.max_offset("orders", 1) == 2 * 3 + 2 * 3 + 9


def test_messages_with_other_properties_are_learned_once(line: Line) -> None:
    others = entries(*ids(2, b"\x02KEYS\x01a b\x02TAGS\x01TagB\x02"))
    for number, body in enumerate((None, others, None, others), 3):
        line.read([batch(number, body)])
    line.world.settle()

    assert line.taken == 4
    assert line.laid_out == 2


def test_a_batch_that_is_malformed_is_refused_as_usual(line: Line) -> None:
    line.read([batch(3, b"no batch"), batch(4)])
    line.world.settle()

    assert line.taken == 1
    assert (line.code(3), line.code(4)) == (1, 0)
    assert line.world.state.log.max_offset("orders", 1) == 9


def test_one_message_and_a_batch_with_the_same_fields_are_told_apart(line: Line) -> None:
    for number in (3, 4, 5):
        line.read([batch(number, b"one message", m="false")])
        line.world.settle()
    line.read([batch(6)])
    line.world.settle()

    assert line.taken == 2
    assert line.world.state.log.max_offset("orders", 1) == 6 + 3 + 3


def test_a_batch_counts_once_among_the_sends_that_wait_for_the_medium(tmp_path: Path) -> None:
    config = BrokerConfig(store=replace(SMALL_STORE, flush=Flush.SYNC))
    line = Line(tmp_path, config=config)
    for number in (1, 2, 3):
        line.read([batch(number)])
    line.world.engine.end_turn(line.world.now_ms)

    assert line.taken == 1
    assert line.world.state.unsynced_count == 3
    line.world.stop()
