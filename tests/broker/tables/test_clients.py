"""A group has exactly the members whose heartbeats are fresh, and one table of subscriptions."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.requests.peer import Peer
from flintmq.broker.tables import clients as clients_module
from flintmq.broker.tables.clients import Clients, HeartbeatResult
from flintmq.broker.tables.subscription_conflicts import (
    SubscriptionConflict,
    SubscriptionWishes,
    conflicts_of,
)
from flintmq.errors import Overloaded
from flintmq.model.group import MessageModel
from flintmq.protocol.bodies.client import Heartbeat
from support.broker.heartbeats import consumer, golden_heartbeats, heartbeat, wants

NOW_MS = 1_000_000


def new_clients(timeout_ms: int = 120_000) -> Clients:
    return Clients(BrokerConfig(client_timeout_ms=timeout_ms))


def new_peer(number: int = 0) -> Peer:
    return Peer(f"127.0.0.1:{40_000 + number}")


def beat(clients: Clients, peer: Peer, said: Heartbeat, now_ms: int = NOW_MS) -> HeartbeatResult:
    return clients.heartbeat(said, peer, "JAVA", 479, now_ms)


# Members


def test_a_new_connection_changes_its_group_and_a_repeated_heartbeat_does_not() -> None:
    clients, peer = new_clients(), new_peer()
    said = heartbeat("c1", consumer("G", wants("T")))

    first = beat(clients, peer, said)
    again = beat(clients, peer, said, NOW_MS + 5)

    assert first.changed_groups == ("G",)
    assert again.changed_groups == ()
    found = clients.consumer_group("G")
    assert found is not None
    assert found.client_ids == ["c1"]
    (member,) = found.members.values()
    assert (member.language, member.version, member.seen_ms) == ("JAVA", 479, NOW_MS + 5)


def test_the_last_heartbeat_decides_how_a_group_consumes() -> None:
    clients = new_clients()
    beat(clients, new_peer(1), heartbeat("c1", consumer("G")))

    beat(clients, new_peer(2), heartbeat("c2", consumer("G", model=MessageModel.BROADCASTING)))

    found = clients.consumer_group("G")
    assert found is not None
    assert found.message_model is MessageModel.BROADCASTING
    assert found.client_ids == ["c1", "c2"]


def test_another_client_id_on_the_same_connection_replaces_the_first() -> None:
    clients, peer = new_clients(), new_peer()
    beat(clients, peer, heartbeat("old", consumer("G"), producers=("P",)))

    result = beat(clients, peer, heartbeat("new", consumer("G"), producers=("P",)))

    found = clients.consumer_group("G")
    assert found is not None
    assert (found.client_ids, result.changed_groups) == (["new"], ())
    assert clients.producer_of_client("old") is None
    assert clients.producer_of_client("new") is not None


def test_a_client_is_found_in_its_group_by_its_id() -> None:
    clients, peer = new_clients(), new_peer(2)
    beat(clients, new_peer(1), heartbeat("c1", consumer("G")))
    beat(clients, peer, heartbeat("c2", consumer("G")))

    found = clients.consumer_group("G")

    assert found is not None
    member = found.member_of_client("c2")
    assert member is not None
    assert member.peer is peer
    assert found.member_of_client("c3") is None


# Subscriptions


def test_a_topic_that_comes_or_goes_is_a_change() -> None:
    clients, peer = new_clients(), new_peer()
    beat(clients, peer, heartbeat("c", consumer("G", wants("T"))))

    came = beat(clients, peer, heartbeat("c", consumer("G", wants("T"), wants("U"))))
    went = beat(clients, peer, heartbeat("c", consumer("G", wants("U"))))

    assert (came.changed_groups, went.changed_groups) == (("G",), ("G",))
    assert clients.subscription("G", "T") is None
    assert clients.subscription("G", "U") == wants("U")
    assert clients.groups_subscribing("U") == ["G"]
    assert clients.groups_subscribing("T") == []


@pytest.mark.parametrize(("version", "text"), [(2, "B"), (1, "A"), (0, "A")])
def test_only_a_newer_version_replaces_a_subscription_and_nobody_is_told(
    version: int, text: str
) -> None:
    clients, peer = new_clients(), new_peer()
    beat(clients, peer, heartbeat("c", consumer("G", wants("T", "A", version=1))))

    result = beat(clients, peer, heartbeat("c", consumer("G", wants("T", "B", version=version))))

    found = clients.subscription("G", "T")
    assert found is not None
    assert found.sub_string == text
    assert result.changed_groups == ()


def test_a_group_that_is_not_there_wants_nothing() -> None:
    clients = new_clients()

    assert clients.consumer_group("G") is None
    assert clients.subscription("G", "T") is None
    assert clients.conflicts() == []


# Heartbeats of the new kind


def test_an_old_heartbeat_is_always_asked_for_all() -> None:
    clients, peer = new_clients(), new_peer()
    said = heartbeat("c", consumer("G", wants("T")))

    assert beat(clients, peer, said).subscription_changed
    assert beat(clients, peer, said).subscription_changed


def test_a_heartbeat_without_subscriptions_leaves_them_as_they_are() -> None:
    clients, peer = new_clients(), new_peer()
    whole = beat(clients, peer, heartbeat("c", consumer("G", wants("T")), fingerprint=7))

    short = beat(
        clients, peer, heartbeat("c", consumer("G"), fingerprint=7, without_sub=True), NOW_MS + 9
    )

    assert not whole.subscription_changed
    assert not short.subscription_changed
    assert short.changed_groups == ()
    assert clients.subscription("G", "T") == wants("T")
    assert clients.expired(NOW_MS + 120_001) == []


def test_another_fingerprint_asks_for_the_subscriptions_once() -> None:
    clients, peer = new_clients(), new_peer()
    beat(clients, peer, heartbeat("c", consumer("G", wants("T")), fingerprint=7))

    other = beat(clients, peer, heartbeat("c", consumer("G"), fingerprint=8, without_sub=True))
    whole = beat(clients, peer, heartbeat("c", consumer("G", wants("U")), fingerprint=8))

    assert other.subscription_changed
    assert not whole.subscription_changed
    assert clients.subscription("G", "U") is not None


def test_a_group_nobody_knows_has_to_send_its_subscriptions() -> None:
    """After a restart of the broker the client still believes that it sent them."""
    clients = new_clients()

    result = beat(
        clients, new_peer(), heartbeat("c", consumer("G"), fingerprint=7, without_sub=True)
    )

    assert result == HeartbeatResult(("G",), subscription_changed=True)


def test_leaving_the_subscriptions_out_means_nothing_without_a_fingerprint() -> None:
    clients, peer = new_clients(), new_peer()
    beat(clients, peer, heartbeat("c", consumer("G", wants("T"))))

    beat(clients, peer, heartbeat("c", consumer("G"), without_sub=True))

    assert clients.subscription("G", "T") is None


# Producers


def test_producers_take_turns() -> None:
    clients = new_clients()
    for number in range(3):
        beat(clients, new_peer(number), heartbeat(f"p{number}", producers=("P",)))

    turns = [clients.next_producer("P") for _ in range(6)]

    names = [member.client_id for member in turns if member is not None]
    assert len(names) == 6
    assert sorted(names[:3]) == ["p0", "p1", "p2"]
    assert names[3:] == names[:3]
    assert clients.next_producer("nobody") is None


def test_a_producer_is_found_by_client_id_on_its_newest_connection() -> None:
    clients, old, new = new_clients(), new_peer(1), new_peer(2)
    beat(clients, old, heartbeat("p", producers=("P",)))
    beat(clients, new, heartbeat("p", producers=("P",)))

    clients.lost(old)

    found = clients.producer_of_client("p")
    assert found is not None
    assert found.peer is new
    clients.lost(new)
    assert clients.producer_of_client("p") is None
    assert clients.producer_groups() == []


@pytest.mark.parametrize("left", ["P", "Q"])
def test_a_client_with_two_producers_is_found_until_both_are_gone(left: str) -> None:
    clients, peer = new_clients(), new_peer()
    beat(clients, peer, heartbeat("p", producers=("P", "Q")))

    clients.unregister(peer, "p", left, None)

    assert clients.producer_of_client("p") is not None
    assert clients.producers(left) == []
    clients.unregister(peer, "p", "Q" if left == "P" else "P", None)
    assert clients.producer_of_client("p") is None


# Leaving


def test_who_unregisters_is_gone_from_that_group_alone() -> None:
    clients, peer = new_clients(), new_peer()
    beat(clients, peer, heartbeat("c", consumer("G"), consumer("H"), producers=("G",)))

    left = clients.unregister(peer, "c", "", "G")

    assert left == ["G"]
    assert clients.consumer_group("G") is None
    assert clients.consumer_group("H") is not None
    assert len(clients.producers("G")) == 1
    assert clients.unregister(peer, "c", None, "G") == []
    assert clients.unregister(new_peer(5), "c", "G", "H") == []


def test_a_lost_connection_leaves_all_its_groups() -> None:
    clients, peer, other = new_clients(), new_peer(1), new_peer(2)
    beat(clients, peer, heartbeat("c", consumer("G"), consumer("H"), producers=("P",)))
    beat(clients, other, heartbeat("d", consumer("H")))

    left = clients.lost(peer)

    assert left == ["G", "H"]
    assert [found.group for found in clients.consumer_groups()] == ["H"]
    assert clients.producer_groups() == []
    assert clients.lost(peer) == []


def test_a_connection_expires_when_its_last_heartbeat_is_too_old() -> None:
    clients, consuming, producing = new_clients(1_000), new_peer(1), new_peer(2)
    beat(clients, consuming, heartbeat("c", consumer("G")))
    beat(clients, producing, heartbeat("p", producers=("P",)))

    assert clients.expired(NOW_MS + 1_000) == []
    assert clients.expired(NOW_MS + 1_001) == [consuming, producing]
    beat(clients, consuming, heartbeat("c", consumer("G")), NOW_MS + 1_001)
    assert clients.expired(NOW_MS + 1_001) == [producing]


def test_members_stay_as_alive_as_they_were_when_the_clock_moves() -> None:
    clients, peer = new_clients(1_000), new_peer()
    beat(clients, peer, heartbeat("c", consumer("G"), producers=("P",)))

    clients.carry(50_000)

    assert clients.expired(NOW_MS + 51_000) == []
    assert clients.expired(NOW_MS + 51_001) == [peer]


def test_one_connection_may_not_have_endless_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients_module, "CONNECTION_GROUPS_MAX", 3)
    clients, peer = new_clients(), new_peer()
    beat(clients, peer, heartbeat("c", consumer("G"), producers=("P", "Q")))

    with pytest.raises(Overloaded):
        beat(clients, peer, heartbeat("c", consumer("H")))

    beat(clients, peer, heartbeat("c", consumer("G"), producers=("P", "Q")))
    assert clients.consumer_group("H") is None


# Conflicts


def test_members_that_want_different_things_are_logged_once_and_listed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clients, second = new_clients(), new_peer(2)
    beat(clients, new_peer(1), heartbeat("c1", consumer("G", wants("T", "A"))))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            beat(clients, second, heartbeat("c2", consumer("G", wants("T", "B"))))

    (conflict,) = clients.conflicts()

    assert (conflict.group, conflict.topic) == ("G", "T")
    assert (conflict.client_id, conflict.text) == ("c1", "A")
    assert (conflict.other_client_id, conflict.other_text) == ("c2", "B")
    assert len(caplog.records) == 1


def test_many_members_that_differ_are_one_line_and_a_count(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line for every pair would be a way to fill the disk, and to stop the broker."""
    compared: list[str] = []

    def counted(
        group: str, wishes: SubscriptionWishes, others: Iterable[SubscriptionWishes]
    ) -> Iterator[SubscriptionConflict]:
        others = list(others)
        compared.extend(other.client_id for other in others)
        return conflicts_of(group, wishes, others)

    monkeypatch.setattr(clients_module, "conflicts_of", counted)
    clients = new_clients()
    with caplog.at_level(logging.WARNING):
        for number in range(400):
            said = heartbeat(f"c{number}", consumer("G", wants("T", f"tag{number}")))
            beat(clients, new_peer(number), said)
        said = heartbeat("late", consumer("G", wants("T", "late")))
        beat(clients, new_peer(1_000), said, NOW_MS + 120_000)

    first, second = (record.getMessage() for record in caplog.records)
    assert "(1 times)" in first
    assert "(399 times)" in second
    assert len(compared) == 400


def test_a_conflict_is_logged_again_only_when_somebody_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clients, first, second = new_clients(), new_peer(1), new_peer(2)
    with caplog.at_level(logging.WARNING):
        for version in range(5):
            text, at_ms = "B" if version < 3 else "C", NOW_MS + version * 60_000
            said = heartbeat("c1", consumer("G", wants("T", "A", version=version)))
            beat(clients, first, said, at_ms)
            said = heartbeat("c2", consumer("G", wants("T", text, version=version)))
            beat(clients, second, said, at_ms)

    messages = [record.getMessage() for record in caplog.records]

    assert len(messages) == 2
    for part in ("G", "T", "c1", "c2", "'A'"):
        assert all(part in message for message in messages)
    assert "'B'" in messages[0]
    assert "'C'" in messages[1]


def test_a_conflict_ends_when_one_of_its_members_leaves() -> None:
    clients, second = new_clients(), new_peer(2)
    beat(clients, new_peer(1), heartbeat("c1", consumer("G", wants("T", "A"))))
    beat(clients, second, heartbeat("c2", consumer("G", wants("T", "B"))))

    clients.lost(second)

    assert clients.conflicts() == []


def test_a_member_that_never_told_its_subscriptions_is_in_no_conflict() -> None:
    clients = new_clients()
    beat(clients, new_peer(1), heartbeat("c1", consumer("G", wants("T")), fingerprint=7))

    beat(clients, new_peer(2), heartbeat("c2", consumer("G"), fingerprint=7, without_sub=True))

    assert clients.conflicts() == []


# Everybody's heartbeats


@pytest.mark.parametrize(("origin", "body"), golden_heartbeats())
def test_the_heartbeat_of_every_client_registers_what_it_says(origin: str, body: bytes) -> None:
    clients, peer = new_clients(), new_peer()
    said = Heartbeat.from_body(body)

    beat(clients, peer, said)

    assert {found.group for found in clients.consumer_groups()} == {
        each.group_name for each in said.consumer_data_set
    }, origin
    for each in said.consumer_data_set:
        for subscription in each.subscription_data_set:
            assert clients.subscription(each.group_name, subscription.topic) == subscription
    assert set(clients.producer_groups()) == {each.group_name for each in said.producer_data_set}
    assert beat(clients, peer, said).changed_groups == ()
