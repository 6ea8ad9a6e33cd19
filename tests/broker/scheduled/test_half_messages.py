"""A half message is stored where nobody reads it, with everything its end will need."""

from __future__ import annotations

from pathlib import Path

from flintmq.model.sys_flag import COMPRESSED
from flintmq.model.topic import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from support.broker.queued import bodies, message, properties_of, records
from support.broker.transactions import TOPIC, end, put_half
from support.broker.world import START_MS, World
from support.store.real_stores import PLAIN, stored_messages


def test_it_lies_in_the_half_topic_and_knows_where_it_belongs(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        put_half(world, b"x", TAGS="a")

        (record,) = records(world, HALF_TOPIC)

        assert bodies(world, TOPIC, 2) == []
        assert (record.queue_id, record.sys_flag, record.flag) == (0, 0, 7)
        assert properties_of(record) == {
            "PGROUP": "tx-producers",
            "REAL_QID": "2",
            "REAL_TOPIC": TOPIC,
            "TAGS": "a",
            "TRAN_MSG": "true",
            "UNIQ_KEY": "id-x",
            "__transactionId__": "id-x",
        }


def test_only_the_bits_of_the_transaction_are_cleared(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        new = message(world, TOPIC, b"x")
        new.sys_flag = 12 | COMPRESSED

        world.state.halves.append(world.state, new, world.now_ms)
        world.settle()

        assert records(world, HALF_TOPIC)[0].sys_flag == COMPRESSED


def test_a_delay_counts_from_the_commit(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        level = put_half(world, b"level", DELAY=1)
        timer = put_half(world, b"timer", TIMER_DELAY_MS=700)
        world.advance(5_000)
        before = bodies(world, SCHEDULE_TOPIC) + bodies(world, TIMER_TOPIC)
        end(world, level)
        end(world, timer)

        world.advance(5_000)

        assert before == []
        assert [(r.body, r.store_ms, r.sys_flag) for r in records(world, TOPIC, 2)] == [
            (b"timer", START_MS + 5_700, 8),
            (b"level", START_MS + 6_000, 8),
        ]


def test_the_mark_of_an_end_is_what_both_releases_read(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        put_half(world, b"0")
        second = put_half(world, b"1")
        end(world, second)

        (op,) = records(world, OP_HALF_TOPIC)

        assert op.body == b"1"
        assert properties_of(op) == {"TAGS": "d", "WAIT": "true"}
        assert (op.queue_id, op.sys_flag, op.born_ms) == (0, 0, START_MS)
        assert op.born_host == op.store_host == world.state.host


def test_the_properties_are_those_of_real_half_messages(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        put_half(world, b"x", KEYS="k", TAGS="a", WAIT="true", CLUSTER="c")
        ours = set(properties_of(records(world, HALF_TOPIC)[0]))

    for name in PLAIN:
        half = next(m for m in stored_messages(name) if m["topic"] == HALF_TOPIC)
        missing = set(half["properties"]) - ours
        assert missing <= {"MSG_REGION", "TRACE_ON"}, "the send puts these on"
