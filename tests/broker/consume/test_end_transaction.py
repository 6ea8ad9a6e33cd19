"""An end is done only to the half message it names, and both its records are stored or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flintmq.broker.requests.outcome import Answer
from flintmq.model.message_id import offset_id
from flintmq.model.topic import CHECK_MAX_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.transaction import ResumeCheck
from support.broker.queued import BORN_HOST, bodies, properties_of, put, records
from support.broker.transactions import COMMIT, ROLLBACK, TOPIC, end, join, put_half
from support.broker.world import START_MS, World
from support.store.refusing_disk import RefusingDisk


def said(answer: Answer | None) -> tuple[int, str | None]:
    assert answer is not None
    return answer.code, answer.remark


# Ending


def test_a_commit_makes_the_message_visible(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        half = put_half(world, b"x", TAGS="a", KEYS="k")
        stored = properties_of(records(world, HALF_TOPIC)[0])
        world.advance(50)

        answer = end(world, half)

        (record,) = records(world, TOPIC, 2)
        assert said(answer) == (0, None)
        assert (record.body, record.sys_flag, record.flag) == (b"x", 8, 7)
        assert record.prepared_offset == half.log_offset
        assert (record.born_ms, record.born_host) == (START_MS, BORN_HOST)
        assert record.store_ms == START_MS + 50
        assert properties_of(record) == stored
        assert bodies(world, OP_HALF_TOPIC) == [b"0"]


def test_a_rollback_leaves_only_its_mark(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        answer = end(world, put_half(world), ROLLBACK)

        assert said(answer) == (0, "not set any response code")
        assert bodies(world, TOPIC, 2) == []
        assert bodies(world, OP_HALF_TOPIC) == [b"0"]


def test_an_end_that_is_not_known_yet_is_never_answered(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        assert end(world, put_half(world), 0) is None
        assert bodies(world, OP_HALF_TOPIC) == []


@pytest.mark.parametrize("how", [1, 4, -8, 16])
def test_an_end_that_is_none_is_refused(tmp_path: Path, how: int) -> None:
    with World(tmp_path) as world:
        assert said(end(world, put_half(world), how)) == (1, "commitOrRollback field wrong")


@pytest.mark.parametrize("how", [COMMIT, ROLLBACK])
@pytest.mark.parametrize(
    ("changed", "remark"),
    [
        ({"producer_group": "others"}, "The producer group wrong"),
        ({"tran_state_table_offset": 1}, "The transaction state table offset wrong"),
        ({"commit_log_offset": 10_000_000}, "Find prepared transaction message failed"),
        ({"commit_log_offset": 3}, "Find prepared transaction message failed"),
        ({"commit_log_offset": -1}, "Find prepared transaction message failed"),
        ({"commit_log_offset": 2**63 - 1}, "Find prepared transaction message failed"),
    ],
)
def test_what_does_not_fit_the_half_message_is_refused(
    tmp_path: Path, how: int, changed: dict[str, Any], remark: str
) -> None:
    with World(tmp_path) as world:
        half = put_half(world)

        answer = end(world, half, how, **changed)

        assert said(answer) == (1, remark)
        assert bodies(world, OP_HALF_TOPIC) == bodies(world, TOPIC, 2) == []


def test_a_record_that_is_no_half_message_cannot_be_ended(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        end(world, put_half(world))
        (committed,) = records(world, TOPIC, 2)
        plain = put(world, TOPIC, PGROUP="tx-producers", REAL_TOPIC=TOPIC, REAL_QID=0)

        for log_offset, offset in (
            (committed.log_offset, committed.queue_offset),
            (plain.log_offset, plain.queue_offset),
        ):
            answer = end(world, plain, commit_log_offset=log_offset, tran_state_table_offset=offset)
            assert said(answer) == (1, "Find prepared transaction message failed")


def test_a_half_message_without_a_group_is_refused_with_a_text(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        code, remark = said(end(world, put_half(world, PGROUP="")))

        assert code == 1
        assert remark


def test_a_second_commit_is_not_noticed(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        half = put_half(world)

        answers = [said(end(world, half)), said(end(world, half))]

        assert answers == [(0, None), (0, None)]
        assert bodies(world, TOPIC, 2) == [b"hello", b"hello"]


@pytest.mark.parametrize(
    ("seconds", "age_ms", "from_check", "code"),
    [
        (10, 10_000, False, 0),
        (10, 10_001, False, 604),
        (10, 10_001, True, 0),
        (1, 6_000, False, 0),
        (1, 6_001, False, 604),
        ("soon", 6_001, False, 604),
    ],
)
def test_an_end_that_comes_after_its_time_is_refused(
    tmp_path: Path, seconds: object, age_ms: int, from_check: bool, code: int
) -> None:
    with World(tmp_path) as world:
        half = put_half(world, CHECK_IMMUNITY_TIME_IN_SECONDS=seconds)
        world.now_ms += age_ms

        answer = end(world, half, from_transaction_check=from_check)

        assert said(answer)[0] == code
        assert bool(bodies(world, TOPIC, 2)) == (code == 0)


def test_a_commit_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    disk = RefusingDisk()
    with World(tmp_path, disk=disk) as world:
        half = put_half(world)
        disk.changes_left = 0
        refused = end(world, half)
        disk.changes_left = None
        world.now_ms += 1_000
        nothing = bodies(world, TOPIC, 2) + bodies(world, OP_HALF_TOPIC)

        answer = end(world, half)

        assert said(refused)[0] == 14
        assert nothing == []
        assert said(answer) == (0, None)
        assert bodies(world, TOPIC, 2) == [b"hello"]


def test_a_commit_with_an_illegal_time_is_refused(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        half = put_half(world, TIMER_DELAY_SEC=10**9)

        assert said(end(world, half))[0] == 13
        assert bodies(world, OP_HALF_TOPIC) == []


# Resuming


def test_a_half_message_that_was_given_up_is_asked_about_again(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        join(world)
        put_half(world, TRANSACTION_CHECK_TIMES=15)
        world.advance(31_000)
        (given_up,) = records(world, CHECK_MAX_TOPIC)
        header = ResumeCheck(msg_id=offset_id(world.state.host, given_up.log_offset))

        answer = world.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, header)
        world.advance(31_000)

        assert said(answer) == (0, None)
        half = records(world, HALF_TOPIC)[1]
        assert properties_of(half)["TRANSACTION_CHECK_TIMES"] == "0"
        assert len(world.told) == 1


@pytest.mark.parametrize("message_id", ["", "x", "7F00000100002A9F0000000000ABCDEF"])
def test_nothing_is_resumed_that_is_not_there(tmp_path: Path, message_id: str) -> None:
    with World(tmp_path) as world:
        answer = world.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheck(msg_id=message_id))

        assert said(answer) == (
            1,
            "Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC.",
        )


def test_a_plain_message_is_not_resumed(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        plain = put(world, TOPIC)
        header = ResumeCheck(msg_id=offset_id(world.state.host, plain.log_offset))

        answer = world.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, header)

        assert said(answer)[0] == 1
        assert bodies(world, HALF_TOPIC) == []
