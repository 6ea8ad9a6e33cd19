"""Who is over a quota is told so, in the codes clients know, and loses nothing.

Sends are refused with SYSTEM_BUSY (2), whichever way they take; pulls are held until there is
something left, or told to come again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flintmq import EmbeddedBroker, EmbeddedUser, Message, Producer, PushConsumer, ReceivedMessage
from flintmq.access.quotas import parse_quotas
from flintmq.access.rules import User
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.store.files.store_config import Flush, StoreConfig
from support.broker.both_ways import Line, send
from support.broker.pulling import (
    COMMIT,
    GROUP,
    SUBSCRIPTION,
    SUSPEND,
    TOPIC,
    add_topic,
    bodies_of,
    pull,
    store,
    submit_pull,
)
from support.broker.world import SMALL_STORE, World

WAIT_S = 60.0
PULL_MAX = 4
LEAST_S = 0.7
"""What forty messages at twenty a second take at least: a second's worth is saved up, and the last
pull gets all of its messages if anything is left."""


def config_with(quotas: str) -> BrokerConfig:
    return BrokerConfig(store=SMALL_STORE, quotas=parse_quotas(quotas))


@contextmanager
def a_world(directory: Path, quotas: str) -> Iterator[World]:
    with World(directory, config_with(quotas)) as world:
        add_topic(world)
        yield world


# Sends


@pytest.mark.parametrize("quick", [True, False], ids=["fast path", "normal path"])
def test_sends_over_a_quota_are_refused_and_not_stored(tmp_path: Path, *, quick: bool) -> None:
    line = Line(tmp_path, quick=quick, config=config_with("group:producers send 10/s"))
    world = line.world
    for number in range(1, 16):
        line.read([send(number)])
        world.settle()

    codes = [line.code(number) for number in range(1, 16)]
    assert codes == [0] * 10 + [int(ResponseCode.SYSTEM_BUSY)] * 5
    assert world.state.log.max_offset("orders", 1) == 10
    assert line.taken == (8 if quick else 0)  # the first two are looked at
    assert b"the quota of group producers is 10/s to send" in line.answers()[15]
    assert world.state.refusals.counts == {"quota.group.send": 5}

    world.advance(500)
    for number in range(16, 26):
        line.read([send(number)])
        world.settle()
    assert [line.code(number) for number in range(16, 26)].count(0) == 5
    world.stop()


def test_bytes_of_a_batch_and_of_a_large_message_are_paid_afterwards(tmp_path: Path) -> None:
    line = Line(tmp_path, config=config_with("group:producers send 1KiB/s"))
    world = line.world
    line.read([send(1, body=bytes(5_000))])
    line.read([send(2)])
    world.settle()
    assert [line.code(1), line.code(2)] == [0, 2]

    world.advance(3_900)
    line.read([send(3)])
    world.settle()
    assert line.code(3) == 2, "five kilobytes take five seconds"
    world.advance(1_300)
    line.read([send(4)])
    world.settle()
    assert line.code(4) == 0
    world.stop()


def test_the_account_of_the_request_pays(tmp_path: Path) -> None:
    with a_world(tmp_path, "account:alice send 1/s") as world:
        codes = []
        for name in ("alice", "alice", "bob", "bob"):
            world.peer.user = User(name, "")
            codes.append(world.send(TOPIC).code)
        assert codes == [0, 2, 0, 0]


def test_what_consumers_send_to_be_retried_always_passes(tmp_path: Path) -> None:
    with a_world(tmp_path, "group:producers send 1/s") as world:
        world.state.groups.find_or_create("g", world.now_ms)
        codes = [world.send("%RETRY%g").code for _ in range(5)]
        assert codes == [0] * 5
        assert world.send(TOPIC).code == ResponseCode.SYSTEM_BUSY


# Pulls


def test_a_pull_over_a_quota_waits_and_gets_its_messages(tmp_path: Path) -> None:
    with a_world(tmp_path, f"group:{GROUP} consume 4/s") as world:
        store(world, *(b"%d" % number for number in range(12)))
        got: list[bytes] = []
        codes: set[int] = set()
        waited_ms = 0
        flags = SUBSCRIPTION | SUSPEND
        while len(got) < 12:
            opaque = submit_pull(
                world,
                queue_offset=len(got),
                max_msg_nums=4,
                sys_flag=flags,
                suspend_timeout_millis=15_000,
            )
            while (answer := world.answer_to(opaque)) is None:
                assert len(world.state.held) == 1
                world.advance(50)
                waited_ms += 50
            codes.add(answer.code)
            got += bodies_of(answer)
        assert got == [b"%d" % number for number in range(12)]
        assert codes == {0}
        assert waited_ms >= 1_000, "twelve messages at four a second, of which four are saved up"
        assert world.state.refusals.counts["quota.group.consume"] >= 2


def test_arrivals_do_not_wake_a_pull_that_waits_for_its_quota(tmp_path: Path) -> None:
    with a_world(tmp_path, f"group:{GROUP} consume 1/s") as world:
        store(world, b"1")
        assert bodies_of(pull(world)) == [b"1"]
        opaque = submit_pull(
            world,
            queue_offset=1,
            sys_flag=SUBSCRIPTION | SUSPEND,
            suspend_timeout_millis=15_000,
        )
        store(world, b"2", b"3")
        assert world.answer_to(opaque) is None
        world.advance(1_000)
        answer = world.answer_to(opaque)
        assert bodies_of(answer) == [b"2", b"3"]


def test_who_does_not_want_to_wait_is_told_to_come_again(tmp_path: Path) -> None:
    with a_world(tmp_path, f"group:{GROUP} consume 1/s") as world:
        store(world, b"1", b"2", b"3")
        pull(world)
        answer = pull(world, queue_offset=3)
        assert answer is not None
        assert answer.code == ResponseCode.FLOW_CONTROL
        assert f"the quota of group {GROUP} is 1/s to consume" in (answer.remark or "")


def test_where_another_was_faster_the_client_stays_at_its_offset(tmp_path: Path) -> None:
    with a_world(tmp_path, f"group:{GROUP} consume 1/s") as world:
        store(world, *(b"%d" % number for number in range(9)))
        pull(world, max_msg_nums=1)
        waiting: Any = {"sys_flag": SUBSCRIPTION | SUSPEND, "suspend_timeout_millis": 15_000}
        first = submit_pull(world, queue_offset=1, **waiting)
        second = submit_pull(world, queue_offset=4, **waiting)
        world.advance(1_000)
        one, other = world.answer_to(first), world.answer_to(second)
        assert one is not None
        assert other is not None
        assert (one.code, other.code) == (0, ResponseCode.PULL_NOT_FOUND)
        assert b'"nextBeginOffset":"4"' in bytes(other.header)  # type: ignore[arg-type]  # Raw


def test_the_offset_that_a_waiting_pull_brings_is_committed(tmp_path: Path) -> None:
    with a_world(tmp_path, f"group:{GROUP} consume 1/s") as world:
        store(world, b"1", b"2")
        pull(world)
        pull(world, queue_offset=2, sys_flag=SUBSCRIPTION | COMMIT, commit_offset=2)
        assert world.state.offsets.queues(GROUP, TOPIC)[0] == 2


# Settings


def test_quotas_change_while_the_broker_runs_all_or_none(tmp_path: Path) -> None:
    with a_world(tmp_path, "") as world:
        change = RequestCode.UPDATE_BROKER_CONFIG
        assert [world.send(TOPIC).code for _ in range(3)] == [0, 0, 0]
        done = world.ask(change, None, b"quotas=group:producers send 1/s")
        assert done is not None
        assert done.code == 0
        assert [world.send(TOPIC).code for _ in range(2)] == [0, 2]

        wrong = world.ask(change, None, b"quotas=group:x send 1/s; group:producers send many")
        assert wrong is not None
        assert wrong.code == ResponseCode.INVALID_PARAMETER
        assert "it must be like" in (wrong.remark or "")
        assert world.send(TOPIC).code == 2

        world.ask(change, None, b"quotas=")
        assert world.send(TOPIC).code == 0


# Clients


def test_our_clients_wait_for_their_quotas_and_nothing_is_lost() -> None:
    """Whatever they have to wait, producers and consumers of ours need no help."""
    quotas = parse_quotas("account:shop send 20/s; group:billing consume 20/s")
    config = BrokerConfig(store=StoreConfig(flush=Flush.ASYNC), quotas=quotas)
    users = [EmbeddedUser("shop", "shop-secret", is_super=True)]
    got: set[bytes] = set()
    all_came = threading.Event()

    def listen(messages: Sequence[ReceivedMessage]) -> None:
        got.update(bytes(message.body) for message in messages)
        if len(got) == 40:
            all_came.set()

    with EmbeddedBroker(config=config, accounts=users) as broker:
        account: Any = {"access_key": "shop", "secret_key": "shop-secret"}
        start_s = time.monotonic()
        with Producer("p", namesrv=broker.namesrv, **account) as producer:
            for number in range(40):
                producer.send(Message("orders", b"%d" % number), timeout_ms=60_000)
        sent_s = time.monotonic()
        consumer = PushConsumer(
            "billing",
            listen,
            namesrv=broker.namesrv,
            start_from="start",
            pull_batch_max=PULL_MAX,
            **account,
        )
        consumer.subscribe("orders")
        with consumer:
            assert all_came.wait(WAIT_S)
        came_s = time.monotonic()
    assert got == {b"%d" % number for number in range(40)}
    assert sent_s - start_s > LEAST_S
    assert came_s - sent_s > LEAST_S
