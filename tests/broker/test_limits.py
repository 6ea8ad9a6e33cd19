"""No peer costs the broker more than its share: of memory, of CPU, of the log.

What is kept is counted in names and characters, what is done in calls.  Limits that belong to one
table are in the tests of that table.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.consume import client_requests as members
from flintmq.broker.consume import pull as pull_module
from flintmq.broker.limits import compile_budget
from flintmq.broker.limits.compile_budget import PEER_CHARACTERS, TEXT_CHARACTERS
from flintmq.broker.requests.outcome import Answer
from flintmq.broker.requests.peer import Peer
from flintmq.broker.tables import groups
from flintmq.broker.tables import names as sendable
from flintmq.broker.tables.names import CLIENT_ID_CHARACTERS_MAX, DERIVED_TOPIC_CHARACTERS_MAX
from flintmq.filter import sql_eval
from flintmq.model.group import GROUP_CHARACTERS_MAX, MessageModel
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.client import CheckClientConfig, Heartbeat
from flintmq.protocol.bodies.group import GroupConfig, LockRequest
from flintmq.protocol.bodies.topic import TopicConfig, TopicConfigList
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.common_headers import GroupHeader
from flintmq.protocol.headers.group import ForbidGroup
from support.broker.admin import done, join, new_topic, refused
from support.broker.heartbeats import consumer, heartbeat, wants
from support.broker.pulling import SUBSCRIPTION, SUSPEND, pull_header
from support.broker.world import SMALL_STORE, World

BEAT = RequestCode.HEART_BEAT
LONG = "x" * 10_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        yield world


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The SQL92 texts that were compiled."""
    texts: list[str] = []
    compile_sql = sql_eval.compile_sql

    def counted(text: str) -> sql_eval.SqlPredicate:
        texts.append(text)
        return compile_sql(text)

    monkeypatch.setattr(sql_eval, "compile_sql", counted)
    return texts


def long_text(number: int) -> str:
    """An SQL92 text of 4,000 characters that no other test uses."""
    return f"n{number}_ IS NULL OR " + "a = 'x' OR " * 360 + "a = 'y'"


# Names


@pytest.mark.parametrize(
    "said",
    [
        heartbeat(LONG),
        heartbeat("c\x1b[2J", consumer("g")),
        heartbeat("c", consumer(LONG, wants("T"))),
        heartbeat("c", producers=(LONG,)),
        heartbeat("c", consumer("g", wants(LONG))),
    ],
    ids=["client id", "not printable", "group", "producer group", "topic"],
)
def test_a_heartbeat_with_a_name_nobody_has_is_refused_and_leaves_nothing(
    world: World, said: Heartbeat
) -> None:
    code, remark = refused(world, BEAT, None, said.to_body())

    assert code == ResponseCode.INVALID_PARAMETER
    assert remark is not None
    assert len(remark) < 200
    assert world.state.clients.producer_groups() == []
    assert world.state.clients.consumer_groups() == []
    assert world.state.groups.find("g") is None


def test_names_as_long_as_they_may_be_are_taken(world: World) -> None:
    group = "g" * GROUP_CHARACTERS_MAX
    topic = f"%RETRY%{group}+".ljust(DERIVED_TOPIC_CHARACTERS_MAX, "t")
    said = heartbeat("c" * CLIENT_ID_CHARACTERS_MAX, consumer(group, wants(topic)))

    done(world, BEAT, None, said.to_body())

    assert world.state.clients.subscription(group, topic) is not None


@pytest.mark.parametrize(
    "asked",
    [
        LockRequest(client_id="c", consumer_group=LONG, mq_set=(QueueRef("T", "b", 0),)),
        LockRequest(client_id=LONG, consumer_group="g", mq_set=(QueueRef("T", "b", 0),)),
        LockRequest(client_id="c", consumer_group="g", mq_set=(QueueRef(LONG, "b", 0),)),
        LockRequest(client_id="c", consumer_group="g", mq_set=(QueueRef("T", LONG, 0),)),
        LockRequest(
            client_id="c",
            consumer_group="g",
            mq_set=tuple(QueueRef("T", "b", n) for n in range(members.LOCKED_AT_ONCE_MAX + 1)),
        ),
    ],
    ids=["group", "client id", "topic", "broker", "too many"],
)
def test_a_lock_nobody_asks_for_is_refused_and_leaves_nothing(
    world: World, asked: LockRequest
) -> None:
    code, _ = refused(world, RequestCode.LOCK_BATCH_MQ, None, asked.to_body())

    assert code == ResponseCode.INVALID_PARAMETER
    assert len(world.state.locks) == 0


@pytest.mark.parametrize(("group", "topic"), [(LONG, "T"), ("g", LONG), ("g\n", "T")])
def test_reading_is_forbidden_for_good_names_only(world: World, group: str, topic: str) -> None:
    header = ForbidGroup(group=group, topic=topic, readable=False)

    code, _ = refused(world, RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, header)

    assert code == ResponseCode.INVALID_PARAMETER
    assert world.state.groups.table().forbidden_table == {}


def test_reading_is_forbidden_for_so_many_pairs_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "FORBIDDEN_MAX", 2)
    for topic in ("T", "U"):
        header = ForbidGroup(group="g", topic=topic, readable=False)
        done(world, RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, header)

    header = ForbidGroup(group="h", topic="T", readable=False)
    code, _ = refused(world, RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, header)

    assert code == ResponseCode.SYSTEM_BUSY
    allowed = ForbidGroup(group="g", topic="T", readable=True)
    done(world, RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, allowed)
    done(world, RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, header)


def test_names_that_may_not_be_sent_to_are_not_remembered(world: World) -> None:
    for number in range(50):
        assert world.send(f"{number}" + "x" * 10_000).code == ResponseCode.INVALID_PARAMETER
        assert world.send(f"%LMQ%{number}").code == ResponseCode.NO_PERMISSION

    assert all(len(name) < 128 for name in sendable._good_names)
    assert not any(name.startswith("%LMQ%") for name in sendable._good_names)


# How many


def small(tmp_path: Path, **limits: int) -> World:
    config = BrokerConfig(store=SMALL_STORE)
    with World(tmp_path / "counted", config) as world:
        counts = {"topics_max": len(world.state.topics), "groups_max": len(world.state.groups)}
    wider = {name: counts.get(name, 0) + limit for name, limit in limits.items()}
    return World(tmp_path / "limited", replace(config, **wider))  # type: ignore[arg-type]


def test_admins_make_so_many_topics_only(tmp_path: Path) -> None:
    with small(tmp_path, topics_max=2) as world:
        done(world, RequestCode.UPDATE_AND_CREATE_TOPIC, new_topic("a"))
        three = TopicConfigList(
            topic_config_list=tuple(TopicConfig(topic_name=name) for name in ("a", "b", "c"))
        )
        all_or_none = refused(
            world, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, None, three.to_body()
        )
        done(world, RequestCode.UPDATE_AND_CREATE_TOPIC, new_topic("b"))
        one_more = refused(world, RequestCode.UPDATE_AND_CREATE_TOPIC, new_topic("c"))
        done(world, RequestCode.UPDATE_AND_CREATE_TOPIC, new_topic("a", 3))

        assert all_or_none[0] == one_more[0] == ResponseCode.SYSTEM_BUSY
        assert "topicsMax" in str(one_more[1])


def test_so_many_groups_are_made_only_whoever_asks(tmp_path: Path) -> None:
    with small(tmp_path, groups_max=1) as world:
        done(world, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GroupHeader(group="a"))
        by_asking = refused(world, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GroupHeader(group="b"))
        by_admin = refused(
            world,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            None,
            GroupConfig(group_name="b").to_body(),
        )
        done(world, BEAT, None, heartbeat("c", consumer("b", wants("T"))).to_body())

        assert by_asking[0] == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert by_admin[0] == ResponseCode.SYSTEM_BUSY
        assert world.state.clients.consumer_group("b") is None


def test_topics_of_groups_that_come_and_go_are_not_endless(tmp_path: Path) -> None:
    with small(tmp_path, topics_max=0, groups_max=1) as world:
        state = world.state
        limit = state.config.topics_max + 2 * state.config.groups_max + 100
        for number in range(limit):
            said = heartbeat("c", consumer(f"g{number}", wants("T")))
            world.ask(BEAT, None, said.to_body())
            state.groups.remove(f"g{number}", world.now_ms)

        assert len(state.topics) < limit


def test_a_group_has_so_many_members_that_share_its_queues(tmp_path: Path) -> None:
    with World(tmp_path, BrokerConfig(store=SMALL_STORE, group_members_max=2)) as world:
        first = join(world, "g", "T", client_id="c1", port=50_001)
        join(world, "g", "T", client_id="c2", port=50_002)
        said = heartbeat("c3", consumer("g", wants("T"))).to_body()
        third = world.ask(BEAT, None, said, peer=Peer("127.0.0.1:50003"))
        again = world.ask(
            BEAT, None, heartbeat("c1", consumer("g", wants("T"))).to_body(), peer=first
        )
        many = consumer("all", wants("T"), model=MessageModel.BROADCASTING)
        for port in range(50_010, 50_020):
            said = heartbeat(f"c{port}", many).to_body()
            answer = world.ask(BEAT, None, said, peer=Peer(f"127.0.0.1:{port}"))
            assert answer is not None
            assert answer.code == ResponseCode.SUCCESS

        assert third is not None
        assert again is not None
        assert (third.code, again.code) == (ResponseCode.SYSTEM_BUSY, ResponseCode.SUCCESS)
        assert "groupMembersMax" in str(third.remark)


def test_a_heartbeat_has_so_many_subscriptions_only(world: World) -> None:
    many = [wants(f"T{number}") for number in range(members.SUBSCRIPTIONS_MAX + 1)]
    long = [wants(f"T{number}", "x" * 30_000) for number in range(20)]
    tags = [wants("T", "||".join(["t"] * 5_000))]

    codes = [
        refused(world, BEAT, None, heartbeat("c", consumer("g", *each)).to_body())[0]
        for each in (many, long, tags)
    ]

    assert codes == [
        ResponseCode.INVALID_PARAMETER,
        ResponseCode.INVALID_PARAMETER,
        ResponseCode.SUBSCRIPTION_PARSE_FAILED,
    ]
    assert world.state.clients.consumer_group("g") is None


def test_what_a_member_wants_is_kept_short_and_told_apart(world: World) -> None:
    one, two = ("||".join([f"t{n}" for n in range(4_000)] + [last]) for last in ("one", "two"))
    for port, tags in ((50_001, one), (50_002, two)):
        said = heartbeat(f"c{port}", consumer("g", wants("T", tags))).to_body()
        world.ask(BEAT, None, said, peer=Peer(f"127.0.0.1:{port}"))

    (conflict,) = world.state.clients.conflicts()

    assert conflict.text != conflict.other_text
    assert len(conflict.text) < 300


def test_held_pulls_have_so_many_characters_of_subscriptions_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_module, "HELD_CHARACTERS_MAX", 30_000)
    world.state.topics.ensure("T", 1, world.now_ms)

    def ask(number: int) -> Answer | None:
        tags = "||".join([f"t{number}", "x" * 10_000])
        header = pull_header(
            topic="T",
            subscription=tags,
            sys_flag=SUBSCRIPTION | SUSPEND,
            suspend_timeout_millis=20_000,
        )
        return world.ask(RequestCode.PULL_MESSAGE, header)

    answers = [ask(number) for number in range(10)]

    assert [answer is None for answer in answers] == [True] * 3 + [False] * 7
    assert world.state.held.characters < 40_000
    world.engine.lost(world.peer, world.now_ms)
    assert world.state.held.characters == 0
    assert ask(11) is None


def test_a_large_group_that_changes_all_the_time_is_told_seldom(world: World) -> None:
    """Every change would be a message to every member."""
    count = members.MANY_MEMBERS + 1
    peers = [Peer(f"127.0.0.1:{50_000 + number}") for number in range(count)]
    for number, peer in enumerate(peers):
        said = heartbeat(f"c{number}", consumer("g", wants("T")))
        world.state.clients.heartbeat(said, peer, "JAVA", 479, world.now_ms)
    world.now_ms += 5_000

    for number in range(20):
        said = heartbeat("c0", consumer("g", wants("T"), wants(f"U{number}")))
        world.ask(BEAT, None, said.to_body(), peer=peers[0])
    at_once = len(world.told)
    world.advance(world.state.config.client_scan_ms + 1)

    assert at_once == count
    assert len(world.told) == 2 * count


# SQL92


def test_a_heartbeat_of_many_expressions_compiles_a_few_and_the_next_one_more(
    world: World, compiled: list[str]
) -> None:
    wishes = [wants(f"T{n}", long_text(100 + n), sql=True) for n in range(100)]
    said = heartbeat("c", consumer("g", *wishes[:60])).to_body()

    done(world, BEAT, None, said)
    first = len(compiled)
    world.now_ms += 1_000
    done(world, BEAT, None, said)

    assert first == PEER_CHARACTERS // TEXT_CHARACTERS == 2
    assert len(set(compiled)) == len(compiled) == 2 * first


def test_pulls_with_new_expressions_are_told_to_wait_and_known_ones_are_served(
    world: World, compiled: list[str]
) -> None:
    world.send("T")
    texts = [long_text(300 + n) for n in range(10)]

    def pull(text: str, peer: Peer) -> int:
        header = pull_header(topic="T", subscription=text, expression_type="SQL92")
        answer = world.ask(RequestCode.PULL_MESSAGE, header, peer=peer)
        assert answer is not None
        return answer.code

    first = [pull(text, world.peer) for text in texts]
    again = [pull(text, world.peer) for text in texts[:2]]
    other = pull(texts[5], Peer("127.0.0.1:50001"))

    assert first.count(ResponseCode.SYSTEM_BUSY) == 8
    assert ResponseCode.SYSTEM_BUSY not in [*again, other]
    assert len(compiled) == 3


def test_all_connections_together_have_an_allowance_too(world: World, compiled: list[str]) -> None:
    world.state.compiling = compile_budget.CompileBudget()
    for number in range(100):
        check = CheckClientConfig(
            client_id="c",
            group="g",
            subscription_data=wants("T", long_text(500 + number), sql=True),
        )
        peer = Peer(f"127.0.0.1:{50_000 + number}")
        world.ask(RequestCode.CHECK_CLIENT_CONFIG, None, check.to_body(), peer=peer)

    assert len(compiled) == compile_budget.BROKER_CHARACTERS // TEXT_CHARACTERS
    for number in range(100):
        world.engine.lost(Peer(f"127.0.0.1:{50_000 + number}"), world.now_ms)


def test_an_expression_over_the_limits_is_told_so_by_a_pull(world: World) -> None:
    world.send("T")
    text = " OR ".join(["a = 5"] * 2_000)
    answer = world.ask(
        RequestCode.PULL_MESSAGE,
        pull_header(topic="T", subscription=text, expression_type="SQL92"),
    )

    assert answer is not None
    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "2048" in str(answer.remark)


def test_an_expression_that_does_not_compile_is_logged_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    said = heartbeat("c", consumer("g", wants("T", "once > > logged", sql=True))).to_body()
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            done(world, BEAT, None, said)

    assert sum("no filter" in record.getMessage() for record in caplog.records) == 1
