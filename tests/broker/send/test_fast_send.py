"""A send taken the quick way leaves the same bytes, on disk and on the wire, as any other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.send import fast_send as quick_send
from flintmq.broker.send import seen_sends
from flintmq.broker.send.fast_send import QuickSends
from flintmq.errors import DiskFailed, MalformedHeader
from flintmq.store.files.disk import Disk
from flintmq.store.files.store_config import Flush
from support.broker.both_ways import ID, PLAIN, Line, line_after, play_both_ways, send
from support.broker.world import SMALL_STORE

pytestmark = pytest.mark.usefixtures("each_kernel")

PROPERTIES = st.sampled_from(
    [
        PLAIN,
        f"TAGS\x01TagB\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01{ID}\x02",
        f"UNIQ_KEY\x01{ID}",
        f"UNIQ_KEY\x01{ID}\x02WAIT\x01false\x02",
        f"UNIQ_KEY\x01{ID}\x02DELAY\x012\x02",
        f"UNIQ_KEY\x01{ID}\x02TRAN_MSG\x01true\x02PGROUP\x01producers\x02",
        f"UNIQ_KEY\x01{ID}\x02UNIQ_KEY\x01other\x02",
        f"MY_UNIQ_KEY\x01{ID}\x02",
        f'UNIQ_KEY\x01{ID}\x02quoted\x01a"b\\c\x02',
        f"UNIQ_KEY\x01{ID}\x02text\x01żółć 😀\x02",
        f"UNIQ_KEY\x01{ID}\x02empty\x01\x02",
        f"UNIQ_KEY\x01{ID}\x02MSG_REGION\x01mine\x02",
        f"UNIQ_KEY\x01x-y\x02TAGS\x01{ID}\x02",
        "TAGS\x01none\x02",
        f"UNIQ_KEY\x01{ID}\x02__CRC32#\x010123456789\x02",
        "",
    ]
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "b": st.sampled_from(["orders", "events", "%RETRY%g", "bad topic", "TBW102"]),
        "e": st.sampled_from(["0", "3", "7", "-1", "99", "x"]),
        "f": st.sampled_from(["0", "4", "8", "1"]),
        "g": st.sampled_from(["0", "1700000000000", "12345678901234", "0700000000000"]),
        "h": st.sampled_from(["0", "9", "-5"]),
        "j": st.sampled_from(["0", "3"]),
        "l": st.just("5"),
        "m": st.sampled_from(["true", "1"]),
        "command_flag": st.sampled_from([0, 2]),
        "version": st.sampled_from([0, 400]),
    },
)
BODIES = st.sampled_from([b"hello", b"x" * 300, b"", b"y" * 5_000])
SENDS: st.SearchStrategy[Any] = st.tuples(PROPERTIES, BODIES, FIELDS) | st.just(
    (PLAIN, b"hello", {})
)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(SENDS | st.sampled_from(["settings", "topic"]), max_size=5), max_size=8),
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
    with line_after(tmp_path, send) as line:
        yield line


def test_what_came_twice_is_taken_from_then_on(line: Line) -> None:
    line.read([send(number) for number in range(3, 23)])
    line.world.settle()

    assert line.taken == 20
    assert sorted(line.answers()) == list(range(1, 23))
    assert line.world.state.log.max_offset("orders", 1) == 22


def test_keys_that_always_differ_are_taken_too(line: Line) -> None:
    for number in range(3, 9):
        line.read([send(number, PLAIN + f"KEYS\x01order{number}\x02")])
    line.world.settle()

    assert line.taken == 6
    found = line.world.state.log.lookup.by_key("orders", "order7", 32, 0, 2**62)
    assert len(found.views) == 1


def test_all_answers_of_a_read_leave_in_one_piece(line: Line) -> None:
    line.wrote.clear()

    line.read([send(number) for number in range(3, 13)])
    line.world.settle()

    assert len(line.wrote) == 1


def test_a_oneway_send_is_taken_and_not_answered(line: Line) -> None:
    for number in (3, 4, 5):
        line.read([send(number, command_flag=2)])
    line.world.settle()

    assert line.taken == 1
    assert sorted(line.answers()) == [1, 2]
    assert line.world.state.log.max_offset("orders", 1) == 5


@pytest.mark.parametrize("what", ["settings", "topics", "stopping", "hooks", "busy", "early"])
def test_what_changes_the_answer_ends_the_quick_way(line: Line, what: str) -> None:
    state = line.world.state
    if what == "settings":
        state.config = replace(state.config, region="elsewhere")
    elif what == "topics":
        state.topics.remove("orders", line.world.now_ms)
    elif what == "stopping":
        state.is_stopping = True
    elif what == "hooks":
        state.hooks.before_send.append(lambda _: None)
    elif what == "busy":
        state.unsynced_count = state.config.unsynced_sends_max
    else:
        state.config = replace(state.config, accept_sends_from_ms=line.world.now_ms + 1)

    line.read([send(3)])

    assert line.taken == 0


def test_a_body_over_the_limit_is_refused(line: Line) -> None:
    limit = line.world.state.config.store.message_bytes_max
    line.read([send(3, body=b"x" * (limit + 1)), send(4)])
    line.world.settle()

    assert line.taken == 1
    assert (line.code(3), line.code(4)) == (13, 0)


def test_a_turn_that_cannot_be_written_refuses_every_send(tmp_path: Path) -> None:
    disk = Disk()
    line = Line(tmp_path, disk=disk)
    for number in (1, 2):
        line.read([send(number)])
        line.world.settle()
    disk.write = failing  # type: ignore[method-assign]
    line.read([send(3), send(4)])
    line.world.engine.end_turn(line.world.now_ms)

    assert line.taken == 2
    assert (line.code(3), line.code(4)) == (14, 14)


def failing(path: Path, at: int, chunks: Any) -> None:
    raise DiskFailed(str(path), "write", "No space left on device", 28)


def test_under_sync_flush_a_read_is_answered_when_it_is_durable(tmp_path: Path) -> None:
    line = Line(tmp_path, config=BrokerConfig(store=replace(SMALL_STORE, flush=Flush.SYNC)))
    for number in (1, 2):
        line.read([send(number)])
        line.world.settle()
    line.read([send(3), send(4, body=b"12345678")])
    line.world.engine.end_turn(line.world.now_ms)
    state = line.world.state
    assert sorted(line.answers()) == [1, 2]
    assert (state.unsynced_count, state.unsynced_bytes) == (2, len(b"hello") + 8)

    line.world.settle()

    assert sorted(line.answers()) == [1, 2, 3, 4]
    assert (state.unsynced_count, state.unsynced_bytes) == (0, 0)


def test_memory_is_bounded_whatever_producers_write(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, limit in (
        (quick_send, "HEADERS_MAX"),
        (quick_send, "TEXTS_MAX"),
        (seen_sends, "MOULDS_MAX"),
    ):
        monkeypatch.setattr(module, limit, 3)
    for number in range(3, 60):
        queue, tag = number % 4, number % 7
        line.read([send(number, PLAIN.replace("TagA", f"T{tag}"), e=str(queue), h=str(tag))] * 2)
        sends: QuickSends = line.world.engine.quick
        assert max(len(sends._known), len(sends._texts), len(sends._seen)) <= 3
        assert len(line._session._sender.moulds) <= 3
    line.world.settle()


def test_what_is_known_of_one_queue_is_known_of_all(line: Line) -> None:
    line.read([send(3), send(4)])
    line.read([send(number, e=str(number % 2)) for number in range(5, 10)])
    line.world.settle()

    assert line.laid_out == 7
    assert [line.code(number) for number in range(3, 10)] == [0] * 7


def test_sends_each_to_another_queue_are_known_from_the_third_on(line: Line) -> None:
    """With thousands of queues in turn it would take as many sends to see a header again."""
    for number in range(4):
        line.read([send(3 + number, e=str(number), h="9")])
    line.world.settle()

    assert line.laid_out == 2
    assert [line.code(number) for number in range(3, 7)] == [0] * 4


@pytest.mark.parametrize("queue", ["7", "8", "01", "-1", "123456789012"])
def test_a_queue_that_the_topic_does_not_have_is_not_taken(line: Line, queue: str) -> None:
    line.read([send(3), send(4)])
    assert line.laid_out == 2
    line.read([send(5, e=queue)])
    line.world.settle()

    assert line.laid_out == 2


def test_sends_with_two_tags_in_turn_are_both_laid_out(line: Line) -> None:
    for number in range(3, 13):
        line.read([send(number, PLAIN.replace("TagA", f"Tag{number % 2}"))])
    line.world.settle()

    assert line.laid_out >= 6


def test_a_queue_id_that_stands_twice_makes_no_form(line: Line) -> None:
    for number in range(3, 8):
        form, header, body = send(number)
        line.read([(form, header.replace(b'"n":', b'"e":"0","n":'), body)])
    line.world.settle()

    assert line.laid_out == 0


def test_a_field_that_stands_twice_is_never_taken_for_known(line: Line) -> None:
    for number in (3, 4, 5):
        form, header, body = send(number)
        header = header.replace(b'"n":', b'"g":"1600000000000","n":')
        line.read([(form, header, body)])
    line.world.settle()

    assert line.taken == 0


def test_sends_are_counted(line: Line) -> None:
    before = line.world.state.stats.puts.times

    line.read([send(number) for number in range(3, 8)])

    assert line.world.state.stats.puts.times == before + 5


def test_a_frame_that_ends_the_connection_leaves_those_before_it_taken(line: Line) -> None:
    with pytest.raises(MalformedHeader):
        line.read([send(3), (0, b"no header", b"")])
    line.world.settle()

    assert line.taken == 1
    assert sorted(line.answers()) == [1, 2, 3]


def test_only_the_usual_way_can_move_a_deadline(line: Line) -> None:
    engine, now_ms = line.engine, line.world.now_ms
    engine.next_due_ms(now_ms)

    line.read([send(3)])
    engine.end_turn(now_ms)
    after_quick = engine.deadlines_moved
    line.read([send(4, f"UNIQ_KEY\x01{ID}\x02DELAY\x011\x02")])
    engine.end_turn(now_ms)

    assert line.taken == 1
    assert (after_quick, engine.deadlines_moved) == (False, True)
