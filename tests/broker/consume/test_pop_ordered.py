"""An ordered pop blocks its queue until its messages are acknowledged or visible again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq.protocol.pop.order_bodies import OrderedPops
from support.broker.popping import (
    GROUP,
    TOPIC,
    Popped,
    ack,
    answered,
    change,
    hold,
    offset_of,
    pop,
    pop_world,
    saved,
    send,
    started_again,
)
from support.broker.world import World


@pytest.fixture(autouse=True)
def no_wait_for_the_medium(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr("os.fdatasync", lambda _: None)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with pop_world(tmp_path) as made:
        send(made, b"0", b"1", b"2", b"3")
        yield made


def in_order(world: World, attempt: str | None = None, count: int = 2) -> Popped:
    return pop(world, order=True, attempt_id=attempt, max_msg_nums=count, invisible_time=6_000)


def test_a_queue_is_blocked_until_its_batch_is_acknowledged(world: World) -> None:
    first = in_order(world)
    assert first.bodies == [b"0", b"1"]
    assert (first.header.revive_qid, first.header.order_count_info) == (999, "0 0 0")
    assert offset_of(world) == 0
    assert in_order(world).code == 210

    ack(world, first.handles[1])
    assert offset_of(world) == 0
    ack(world, first.handles[0])
    assert offset_of(world) == 2
    assert in_order(world).bodies == [b"2", b"3"]


def test_what_expires_is_read_again_from_the_first_unacknowledged(world: World) -> None:
    first = in_order(world)
    ack(world, first.handles[0])
    assert offset_of(world) == 1
    world.advance(6_000)

    again = in_order(world, count=3)

    assert again.bodies == [b"1", b"2", b"3"]
    assert again.header.order_count_info == "0 qo0%1 1;0 0 0"
    assert [receipt.reconsume_times for receipt in again.receipts] == [1, 0, 0]
    assert ack(world, first.handles[1]).code == 0
    assert offset_of(world) == 1


def test_the_same_attempt_gets_the_same_messages_again(world: World) -> None:
    first = in_order(world, "attempt-1")
    again = in_order(world, "attempt-1")
    assert again.bodies == first.bodies
    assert again.header.order_count_info == "0 0 0"
    assert in_order(world, "attempt-2").code == 210


def test_a_message_that_is_not_in_the_batch_is_13(world: World) -> None:
    first = in_order(world)
    answer = ack(world, first.handles[0], offset=3)
    assert answer.code == 13
    assert answer.remark is not None
    assert answer.remark.startswith("offset is illegal, key:")


def test_changed_times_count_for_their_message_alone(world: World) -> None:
    first = in_order(world)
    world.advance(1_000)
    new = change(world, first.handles[0], 10_000)
    assert new.pop_ms == first.handles[0].pop_ms
    assert new.invisible_ms == 11_000
    ack(world, first.handles[1])
    world.advance(9_999)
    assert in_order(world).code == 210
    world.advance(1)
    assert in_order(world).bodies == [b"0", b"1"]


def test_a_change_below_the_committed_offset_does_nothing(world: World) -> None:
    first = in_order(world)
    ack(world, first.handles[0])
    new = change(world, first.handles[0], 10_000)
    assert (new.pop_ms, new.invisible_ms, new.revive_queue_id) == (0, 0, 0)


@pytest.mark.parametrize("how", ["acknowledged", "expired", "made visible"])
def test_a_held_pop_gets_a_queue_that_becomes_free(world: World, how: str) -> None:
    first = in_order(world)
    opaque = hold(world, order=True)
    if how == "acknowledged":
        for handle in first.handles:
            ack(world, handle)
        assert answered(world, opaque).bodies == [b"2", b"3"]
    elif how == "expired":
        world.advance(6_000)
        assert answered(world, opaque).bodies == [b"0", b"1", b"2", b"3"]
    else:
        for handle in first.handles:
            change(world, handle, 0)
        assert answered(world, opaque).bodies == [b"0", b"1", b"2", b"3"]


def test_the_table_is_saved_as_5_3_3_saves_it(world: World) -> None:
    in_order(world, "attempt-0")
    world.advance(6_000)
    first = in_order(world, "attempt-1")
    ack(world, first.handles[0])
    new = change(world, first.handles[1], 9_244)
    saved(world)

    text = (world.directory / "config" / "consumerOrderInfo.json").read_text(encoding="utf-8")

    at, visible = first.header.pop_time, new.expires_ms
    assert text == (
        '{\n\t"table":{\n\t\t"T@G":{0:{\n\t\t\t\t"a":"attempt-1",\n\t\t\t\t"cm":1,\n'
        f'\t\t\t\t"i":6000,\n\t\t\t\t"l":{at},\n\t\t\t\t"o":[\n\t\t\t\t\t0,\n\t\t\t\t\t1\n\t\t\t\t],\n'
        f'\t\t\t\t"oc":{{0:1,1:1\n\t\t\t\t}},\n\t\t\t\t"ot":{{1:{visible}\n\t\t\t\t}},\n'
        f'\t\t\t\t"popTime":{at}\n\t\t\t}}\n\t\t}}\n\t}}\n}}'
    )
    assert OrderedPops.from_file(text.encode()).table[f"{TOPIC}@{GROUP}"][0].acked == 1


@pytest.mark.parametrize("save", [True, False])
def test_a_blocked_queue_stays_blocked_over_a_restart(tmp_path: Path, save: bool) -> None:
    world = pop_world(tmp_path)
    send(world, b"0", b"1", b"2", b"3")
    saved(world)
    first = in_order(world)
    ack(world, first.handles[0])

    with started_again(world, save=save) as again:
        assert in_order(again).code == 210
        assert offset_of(again) == 1
        ack(again, first.handles[1])
        assert in_order(again).bodies == [b"2", b"3"]
