"""Members are told of every change before its cause is answered; refusals read as RocketMQ's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.requests.outcome import Answer
from flintmq.broker.requests.peer import Peer
from flintmq.broker.tables import clients as clients_module
from flintmq.model.group import MessageModel
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.client import ConsumerIds, Heartbeat
from flintmq.protocol.bodies.group import GroupConfig, LockAnswer, LockRequest
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command
from flintmq.protocol.headers.common_headers import OfConsumerGroup
from flintmq.protocol.headers.group import HeartbeatAnswer, UnregisterClient
from support.broker.heartbeats import consumer, golden_heartbeats, heartbeat, wants
from support.broker.world import SMALL_STORE, World, body_of, header_of

P1, P2 = Peer("127.0.0.1:40001"), Peer("127.0.0.1:40002")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        yield world


def config(**changes: bool) -> BrokerConfig:
    return BrokerConfig(store=SMALL_STORE, **changes)  # type: ignore[arg-type]  # all are booleans


def beat(world: World, peer: Peer, said: Heartbeat) -> Answer | None:
    return world.ask(RequestCode.HEART_BEAT, None, said.to_body(), peer=peer)


def notes(world: World) -> list[tuple[Peer, str]]:
    """Who was told of which group since the last look."""
    told = [(note.peer, _group_of(note.request)) for note in world.told]
    world.told.clear()
    return told


def _group_of(note: Command) -> str:
    assert note.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    assert note.is_oneway
    return note.header(OfConsumerGroup).consumer_group


# Heartbeats


def test_a_heartbeat_makes_the_group_and_its_retry_topic(world: World) -> None:
    world.state.groups.create_or_replace(
        GroupConfig(group_name="H", retry_queue_nums=3), world.now_ms
    )

    answer = beat(world, P1, heartbeat("c", consumer("G", wants("T")), consumer("H")))

    header = header_of(answer, HeartbeatAnswer)
    assert answer is not None
    assert (answer.code, answer.remark, answer.body) == (0, None, b"")
    assert (header.supports_v2, header.subscription_changed) == (True, True)
    assert "G" in world.state.groups
    retries, more = world.state.topics.find("%RETRY%G"), world.state.topics.find("%RETRY%H")
    assert retries is not None
    assert more is not None
    assert (retries.read_queue_nums, retries.write_queue_nums, retries.perm) == (1, 1, 6)
    assert (retries.order, retries.topic_sys_flag) == (False, 0)
    assert more.read_queue_nums == 3


def test_the_retry_topic_of_a_unit_or_of_an_ordered_topic_says_so(world: World) -> None:
    made = world.state.topics.ensure("T", 4, world.now_ms)
    world.state.topics.create_or_replace(msgspec.structs.replace(made, order=True), world.now_ms)

    beat(world, P1, heartbeat("c", consumer("G", wants("T"), unit_mode=True)))

    retries = world.state.topics.find("%RETRY%G")
    assert retries is not None
    assert retries.order
    assert retries.topic_sys_flag == 2


def test_a_retry_topic_that_is_there_stays_as_it_is(world: World) -> None:
    made = world.state.topics.ensure("%RETRY%G", 7, world.now_ms)

    beat(world, P1, heartbeat("c", consumer("G"), producers=("P",)))

    assert world.state.topics.find("%RETRY%G") == made
    assert [member.client_id for member in world.state.clients.producers("P")] == ["c"]


def test_a_group_that_may_not_be_made_is_passed_over(tmp_path: Path) -> None:
    with World(tmp_path, config(auto_create_group=False)) as world:
        answer = beat(world, P1, heartbeat("c", consumer("G"), producers=("P",)))

        assert answer is not None
        assert answer.code == 0
        assert world.state.clients.consumer_group("G") is None
        assert world.state.topics.find("%RETRY%G") is None
        assert world.state.clients.producer_groups() == ["P"]
        assert world.told == []


def test_a_group_with_a_bad_name_is_passed_over(world: World) -> None:
    answer = beat(world, P1, heartbeat("c", consumer("a b"), consumer("G")))

    assert answer is not None
    assert answer.code == 0
    assert [found.group for found in world.state.clients.consumer_groups()] == ["G"]


def test_too_many_groups_are_refused_before_any_is_made(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients_module, "CONNECTION_GROUPS_MAX", 1)

    answer = beat(world, P1, heartbeat("c", consumer("G"), consumer("H")))

    assert answer is not None
    assert answer.code == 2
    assert "G" not in world.state.groups
    assert world.state.clients.consumer_groups() == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"clientID":"c","consumerDataSet":1}'])
def test_a_broken_heartbeat_is_refused(world: World, body: bytes) -> None:
    answer = world.ask(RequestCode.HEART_BEAT, None, body)

    assert answer is not None
    assert answer.code == 1
    assert answer.remark


def test_a_short_heartbeat_is_asked_for_the_rest_when_it_differs(world: World) -> None:
    short = heartbeat("c", consumer("G"), fingerprint=8, without_sub=True)
    whole = heartbeat("c", consumer("G", wants("T", "a > 1", sql=True)), fingerprint=7)

    first = header_of(beat(world, P1, whole), HeartbeatAnswer)
    other = header_of(beat(world, P1, short), HeartbeatAnswer)
    again = header_of(beat(world, P1, short), HeartbeatAnswer)

    assert (first.supports_v2, first.subscription_changed) == (True, False)
    assert other.subscription_changed is True
    assert again.subscription_changed is False
    found = world.state.filters.find("T", "G")
    assert found is not None
    assert not found.dead


@pytest.mark.parametrize(("origin", "body"), golden_heartbeats())
def test_the_heartbeat_of_every_client_is_taken(world: World, origin: str, body: bytes) -> None:
    answer = world.ask(RequestCode.HEART_BEAT, None, body)

    assert answer is not None
    assert answer.code == 0, origin
    for each in Heartbeat.from_body(body).consumer_data_set:
        assert world.state.clients.consumer_group(each.group_name) is not None
        assert f"%RETRY%{each.group_name}" in world.state.topics


# Telling the others


def test_a_new_member_is_told_to_all_itself_included_and_before_its_answer(world: World) -> None:
    beat(world, P1, heartbeat("c1", consumer("G", wants("T"))))
    alone = notes(world)
    answers_before = len(world.answers)

    opaque = world.submit(
        RequestCode.HEART_BEAT, None, heartbeat("c2", consumer("G", wants("T"))).to_body(), peer=P2
    )

    assert alone == [(P1, "G")]
    assert notes(world) == [(P1, "G"), (P2, "G")]
    assert [number for _, number, _ in world.answers[answers_before:]] == [opaque]


def test_notes_leave_before_the_answer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(world, "send_oneway", lambda *_: order.append("note"))
    monkeypatch.setattr(world, "answer", lambda *_: order.append("answer"))

    beat(world, P1, heartbeat("c1", consumer("G")))

    assert order == ["note", "answer"]


def test_a_heartbeat_that_changes_nothing_is_told_to_nobody(world: World) -> None:
    beat(world, P1, heartbeat("c1", consumer("G", wants("T", version=1))))
    notes(world)

    beat(world, P1, heartbeat("c1", consumer("G", wants("T", version=1))))
    beat(world, P1, heartbeat("c1", consumer("G", wants("T", version=2))))

    assert notes(world) == []


def test_a_new_topic_is_told_to_the_group(world: World) -> None:
    beat(world, P1, heartbeat("c1", consumer("G", wants("T"))))
    notes(world)

    beat(world, P1, heartbeat("c1", consumer("G", wants("T"), wants("U"))))

    assert notes(world) == [(P1, "G")]


def test_a_broadcasting_group_is_not_told(world: World) -> None:
    said = heartbeat("c1", consumer("G", model=MessageModel.BROADCASTING))

    beat(world, P1, said)
    beat(world, P2, said)
    world.engine.lost(P2, world.now_ms)

    assert notes(world) == []


def test_a_group_may_do_without_being_told(world: World) -> None:
    quiet = GroupConfig(group_name="G", notify_consumer_ids_changed_enable=False)
    world.state.groups.create_or_replace(quiet, world.now_ms)

    beat(world, P1, heartbeat("c1", consumer("G"), consumer("H")))

    assert notes(world) == [(P1, "H")]


def test_a_broker_may_do_without_telling(tmp_path: Path) -> None:
    with World(tmp_path, config(notify_members=False)) as world:
        beat(world, P1, heartbeat("c1", consumer("G")))

        assert notes(world) == []


# Leaving


def test_who_unregisters_is_gone_and_the_others_are_told(world: World) -> None:
    for peer, client in ((P1, "c1"), (P2, "c2")):
        beat(world, peer, heartbeat(client, consumer("G"), producers=("P",)))
    notes(world)

    answer = world.ask(
        RequestCode.UNREGISTER_CLIENT,
        UnregisterClient(client_id="c1", producer_group="P", consumer_group="G"),
        peer=P1,
    )

    assert answer == Answer()
    assert notes(world) == [(P2, "G")]
    assert [member.client_id for member in world.state.clients.producers("P")] == ["c2"]
    found = world.state.clients.consumer_group("G")
    assert found is not None
    assert found.client_ids == ["c2"]


def test_a_stranger_may_unregister(world: World) -> None:
    header = UnregisterClient(client_id="c1", producer_group="", consumer_group="G")

    assert world.ask(RequestCode.UNREGISTER_CLIENT, header) == Answer()
    assert notes(world) == []


def test_a_lost_connection_leaves_and_the_others_are_told(world: World) -> None:
    for peer, client in ((P1, "c1"), (P2, "c2")):
        beat(world, peer, heartbeat(client, consumer("G")))
    notes(world)

    world.engine.lost(P1, world.now_ms)

    assert notes(world) == [(P2, "G")]


@pytest.mark.parametrize("unregisters", [True, False])
def test_the_filters_of_a_group_without_members_die(world: World, unregisters: bool) -> None:
    said = heartbeat("c1", consumer("G", wants("T", "a > 1", sql=True)))
    for peer in (P1, P2):
        beat(world, peer, said)

    def leaves(peer: Peer) -> None:
        if unregisters:
            header = UnregisterClient(client_id="c1", consumer_group="G")
            world.ask(RequestCode.UNREGISTER_CLIENT, header, peer=peer)
        else:
            world.engine.lost(peer, world.now_ms)

    leaves(P1)
    found = world.state.filters.find("T", "G")
    assert found is not None
    assert not found.dead
    leaves(P2)
    found = world.state.filters.find("T", "G")
    assert found is not None
    assert found.dead


def test_a_silent_connection_is_closed_after_two_minutes(world: World) -> None:
    beat(world, P1, heartbeat("c1", consumer("G")))

    world.advance(120_000)
    early = list(world.closed)
    world.advance(10_001)

    assert early == []
    assert set(world.closed) == {P1}


# The list of members


def test_the_members_of_a_group_are_listed(world: World) -> None:
    for peer, client in ((P1, "c1"), (P2, "c2")):
        beat(world, peer, heartbeat(client, consumer("G")))

    answer = world.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, OfConsumerGroup(consumer_group="G"))

    assert answer is not None
    assert answer.code == 0
    assert body_of(answer) == b'{"consumerIdList":["c1","c2"]}'
    assert ConsumerIds.from_body(body_of(answer)).consumer_id_list == ("c1", "c2")


def test_a_group_without_members_has_no_list(world: World) -> None:
    answer = world.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, OfConsumerGroup(consumer_group="G"))

    assert answer == Answer(1, remark="no consumer for this group, G")


# Locks

QUEUES = (QueueRef("T", "broker-a", 0), QueueRef("T", "other", 99))


def ask_for(world: World, client_id: str, *queues: QueueRef) -> tuple[QueueRef, ...]:
    body = LockRequest(client_id=client_id, consumer_group="G", mq_set=queues).to_body()
    answer = world.ask(RequestCode.LOCK_BATCH_MQ, None, body)
    return LockAnswer.from_body(body_of(answer)).lock_ok_mq_set


def test_queues_are_locked_until_given_up(world: World) -> None:
    first = ask_for(world, "c1", *QUEUES)
    second = ask_for(world, "c2", *QUEUES)
    give_up = LockRequest(client_id="c1", consumer_group="G", mq_set=QUEUES[:1]).to_body()

    answer = world.ask(RequestCode.UNLOCK_BATCH_MQ, None, give_up)

    assert first == QUEUES
    assert second == ()
    assert answer == Answer()
    assert ask_for(world, "c2", *QUEUES) == QUEUES[:1]


def test_a_lock_that_nobody_renews_ends(world: World) -> None:
    ask_for(world, "c1", *QUEUES)

    world.advance(59_500)
    early = ask_for(world, "c2", *QUEUES)
    world.advance(1_000)

    assert early == ()
    assert ask_for(world, "c2", *QUEUES) == QUEUES


def test_asking_for_nothing_is_answered_with_an_empty_list(world: World) -> None:
    body = LockRequest(client_id="c1", consumer_group="G").to_body()

    assert body_of(world.ask(RequestCode.LOCK_BATCH_MQ, None, body)) == b'{"lockOKMQSet":[]}'


@pytest.mark.parametrize("code", [RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ])
@pytest.mark.parametrize(
    "queue", [b'{"brokerName":"b","queueId":-1,"topic":"T"}', b'{"brokerName":"b"}', b"7"]
)
def test_what_is_no_queue_is_refused(world: World, code: RequestCode, queue: bytes) -> None:
    body = b'{"clientId":"c","consumerGroup":"G","mqSet":[%b]}' % queue

    answer = world.ask(code, None, body)

    assert answer is not None
    assert answer.code == 1
