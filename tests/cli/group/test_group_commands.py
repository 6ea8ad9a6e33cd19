"""`flintmq group` tells how far groups are, and moves one only after showing what would be."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from flintmq import Message, Producer, PullConsumer, PushConsumer, SimpleConsumer
from flintmq.cli.shared.tables import MISSING
from flintmq.client.admin import Admin
from flintmq.client.push.push_settings import PushSettings
from flintmq.core.admin import group_diagnosis
from flintmq.core.admin.spans import START
from flintmq.core.reading.time_text import parse_time
from flintmq.errors import InvalidSetting
from flintmq.model.message import ReceivedMessage
from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import request
from flintmq.reports.amounts import duration
from support.broker.heartbeats import consumer, heartbeat, wants
from support.cli.asking import Shell, shell


@pytest.fixture(scope="module")
def user() -> Iterator[Shell]:
    with shell(brokers=2) as opened:
        opened.fill("orders", 10)
        yield opened


def made(user: Shell, group: str) -> str:
    """A group that stands at the start of ``orders``."""
    user.told("group", "create", group)
    with Admin(namesrv=user.namesrv) as admin:
        admin.apply_reset(admin.plan_reset(group, "orders", START))
    return group


def test_lag_for_programs_is_the_sum_and_every_queue(user: Shell) -> None:
    group = made(user, "billing")

    assert user.facts("group", "lag", group) == {
        "group": "billing",
        "lag": 10,
        "retries": 0,
        "in_flight": 0,
        "queues": [
            {
                "topic": "orders",
                "broker": broker,
                "queue_id": 0,
                "max_offset": 5,
                "consumer_offset": 0,
                "lag": 5,
                "in_flight": 0,
            }
            for broker in ("broker-a", "broker-b")
        ],
    }


def test_lag_for_people_is_a_table_and_a_sentence(user: Shell) -> None:
    told = user.told("group", "lag", made(user, "people"))

    assert "broker-b" in told
    assert "people is 10 messages behind" in told


def test_messages_that_members_hold_are_told_as_in_flight(user: Shell) -> None:
    user.fill("jobs", 6)
    with SimpleConsumer("workers", namesrv=user.namesrv, start_from="first") as workers:
        workers.subscribe("jobs")
        held: list[ReceivedMessage] = []
        while len(held) < 6:
            held += workers.receive(6 - len(held), invisible_ms=600_000)
        workers.ack(held[0])

        facts = user.facts("group", "lag", "workers")
        told = user.told("group", "lag", "workers")
        listed = {each["group"]: each for each in user.facts("group", "lag")}
        shown = user.facts("group", "show", "workers")

    assert (facts["lag"], facts["retries"], facts["in_flight"]) == (0, 0, 5)
    assert "workers is 0 messages behind, 5 in flight" in told
    assert listed["workers"]["in_flight"] == 5
    assert sum(each["in_flight"] for each in shown["queues"]) == 5


def test_a_group_without_offsets_is_no_unknown_group(user: Shell) -> None:
    user.told("group", "create", "young")

    told = user.told("group", "lag", "young")
    facts = user.facts("group", "lag", "young")
    code, words = user.complaint("group", "lag", "nobody")

    assert "no offset yet" in told
    assert facts == {"group": "young", "lag": 0, "retries": 0, "in_flight": 0, "queues": []}
    assert code == 1
    assert "'nobody'" in words
    assert "young" in words  # what there is


def test_groups_are_listed_without_those_of_the_system(user: Shell) -> None:
    user.told("group", "create", "listed", "--tries", "3")

    listed = {group["group"]: group for group in user.facts("group", "list")}

    assert listed["listed"] == {
        "group": "listed",
        "brokers": ["broker-a", "broker-b"],
        "retry_max": 3,
        "enabled": True,
    }
    assert "TOOLS_CONSUMER" not in listed
    assert "TOOLS_CONSUMER" in user.told("group", "list", "--all")


def test_a_reset_shows_what_would_be_and_asks(user: Shell) -> None:
    group = made(user, "careful")

    refused = user.run("group", "reset", group, "--topic", "orders", "--to", "end", input="n\n")
    still = user.facts("group", "lag", group)["lag"]
    agreed = user.run("group", "reset", group, "--topic", "orders", "--to", "end", input="y\n")
    after = user.facts("group", "lag", group)["lag"]

    assert "skipped" in refused.stdout
    assert (refused.exit_code, still) == (1, 10)
    assert (agreed.exit_code, after) == (0, 0)


def test_a_dry_run_changes_nothing(user: Shell) -> None:
    group = made(user, "dry")

    plan = user.facts("group", "reset", group, "-t", "orders", "--to", "3", "--dry-run", "--yes")

    assert plan["applied"] is False
    assert [(queue["from"], queue["to"]) for queue in plan["queues"]] == [(0, 3), (0, 3)]
    assert user.facts("group", "lag", group)["lag"] == 10


def test_a_program_has_to_say_yes(user: Shell) -> None:
    group = made(user, "program")

    code, words = user.complaint(
        "group", "reset", group, "-t", "orders", "--to", "end", "-o", "json"
    )
    moved = user.facts(
        "group", "reset", group, "-t", "orders", "--to", "4", "--broker", "broker-a", "--yes"
    )

    assert code == 2
    assert "--yes" in words
    assert moved["applied"] is True
    assert user.facts("group", "lag", group)["lag"] == 6


def test_a_group_is_moved_to_a_time(user: Shell) -> None:
    group = made(user, "timely")

    user.told("group", "reset", group, "-t", "orders", "--to", "now", "--yes")
    at_the_end = user.facts("group", "lag", group)["lag"]
    user.told("group", "reset", group, "-t", "orders", "--to", "1d", "--yes")

    assert at_the_end == 0
    assert user.facts("group", "lag", group)["lag"] == 10


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("-t", "orders", "--to", "99"), 2, "goes from 0 to 5"),
        (("-t", "orders", "--to", "soon"), 2, "ten minutes ago"),
        (("-t", "nothing", "--to", "end"), 1, "no route"),
        (("-t", "orders", "--to", "end", "--queue", "9"), 1, "no queue 9"),
        (("--to", "end"), 2, "--topic"),
    ],
)
def test_a_reset_that_makes_no_sense_is_refused(
    user: Shell, arguments: tuple[str, ...], code: int, words: str
) -> None:
    found = user.complaint("group", "reset", "billing", "--yes", *arguments)

    assert found[0] == code
    assert words in found[1]


def test_who_is_online_is_shown(user: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a member that does not answer when it is asked for its state."""
    monkeypatch.setattr(group_diagnosis, "CLIENT_CALL_MS", 500)
    made(user, "online")
    body = heartbeat("c1", consumer("online", wants("orders", "paid"))).to_body()
    with Admin(namesrv=user.namesrv) as admin, BlockingChannels() as channels:
        for address in admin.cluster().masters().values():
            channels.call(address, request(RequestCode.HEART_BEAT, body=body), 5_000)
        shown = user.facts("group", "show", "online")
        table = user.told("group", "show", "online")

    assert [member["client_id"] for member in shown["members"]] == ["c1"]
    assert {"topic": "orders", "expression": "paid", "kind": "TAG"} in shown["subscriptions"]
    assert "CLUSTERING" in table


def test_nobody_online_is_said(user: Shell) -> None:
    made(user, "asleep")

    assert "no member of asleep is online" in user.told("group", "show", "asleep")
    assert user.facts("group", "show", "asleep")["online"] is False
    assert user.complaint("group", "show", "nobody")[0] == 1


def test_a_group_goes_where_another_stands_after_it_was_shown(user: Shell) -> None:
    made(user, "leader")
    follower = made(user, "follower")
    user.told("group", "reset", "leader", "-t", "orders", "--to", "3", "--yes")

    refused = user.run("group", "reset", follower, "--like", "leader", input="n\n")
    still = user.facts("group", "lag", follower)["lag"]
    plan = user.facts("group", "reset", follower, "--like", "leader", "--yes")

    assert "skipped" in refused.stdout
    assert (refused.exit_code, still) == (1, 10)
    assert [(queue["topic"], queue["from"], queue["to"]) for queue in plan["queues"]] == [
        ("orders", 0, 3),
        ("orders", 0, 3),
    ]
    assert user.facts("group", "lag", follower)["lag"] == 4
    assert user.complaint("group", "reset", follower, "--like", "nobody", "--yes")[0] == 1
    assert user.complaint("group", "reset", follower, "--like", "leader", "--to", "end")[0] == 2
    assert user.complaint("group", "reset", follower, "--like", "leader", "--queue", "1")[0] == 2


def test_lag_is_watched_with_its_rate_and_its_end(user: Shell) -> None:
    group = made(user, "watched")
    looks = user.lines("group", "lag", group, "--watch", "--count", "2", "--interval", "0.05")
    told = user.told("group", "lag", group, "-w", "-c", "2", "-i", "0.05")

    assert [look["lag"] for look in looks] == [10, 10]
    assert [look["consumed_per_s"] for look in looks] == [None, None]
    assert [look["stored_per_s"] for look in looks] == [None, 0]
    assert looks[1]["drain_s"] is None
    assert told.splitlines() == [
        f"watched is 10 messages behind; out {MISSING}, in {MISSING}, ETA {MISSING}",
        f"watched is 10 messages behind; out {MISSING}, in 0.0/s, ETA {MISSING}",
    ]
    assert user.complaint("group", "lag", "nobody", "--watch")[0] == 1


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (119, "119 s"), (120, "2.0 min"), (9_000, "2.5 h")]
)
def test_how_long_it_takes_is_told_in_fitting_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_why_a_queue_stands_still_is_told_by_the_member_that_has_it(user: Shell) -> None:
    with PullConsumer("stuck", namesrv=user.namesrv) as pulling:
        for queue in pulling.queues("orders"):  # after a reset the member would rest for 10 s
            pulling.commit(queue, 0)
    gate, started = threading.Event(), threading.Event()

    def listen(_messages: object) -> None:
        started.set()
        gate.wait(60)

    consumer = PushConsumer("stuck", listen, namesrv=user.namesrv)
    with consumer.subscribe("orders"):
        assert started.wait(60)
        shown = user.facts("group", "show", "stuck")
        page = user.told("group", "show", "stuck")
        connected = user.facts("group", "connections", "stuck")
        gate.set()

    behind = [each for each in shown["queues"] if each["lag"]]
    assert {each["owners"][0] for each in behind} == {consumer.client_id}
    assert any("a listener is at" in each["why"] for each in behind)
    assert "a listener is at" in page
    assert [each["client_id"] for each in connected["consumers"]] == [consumer.client_id]


def test_members_that_differ_are_named(user: Shell) -> None:
    made(user, "differing")
    settings: PushSettings = {"namesrv": user.namesrv, "on_conflict": "warn"}
    one = PushConsumer("differing", lambda _: None, **settings).subscribe("orders", tags="a")
    two = PushConsumer("differing", lambda _: None, **settings).subscribe("orders", tags="b")
    with one, two:
        shown = user.facts("group", "show", "differing")
        page = user.told("group", "show", "differing")

    (conflict, *_) = shown["conflicts"]
    assert conflict.startswith("members differ on orders: ")
    assert f"{one.client_id} wants a" in conflict
    assert f"{two.client_id} wants b" in conflict
    assert "conflict: members differ" in page


def test_producers_are_connections_too(user: Shell) -> None:
    with Producer("sellers", namesrv=user.namesrv) as producer:
        producer.send(Message("sold", b"1"))
        connected = user.facts("group", "connections", "sellers")
        table = user.told("group", "connections", "sellers")

    assert [each["client_id"] for each in connected["producers"]] == [producer.client_id]
    assert "producer" in table
    made(user, "lonely")
    assert "nobody of lonely" in user.told("group", "connections", "lonely")
    assert user.complaint("group", "connections", "nobody")[0] == 1


def test_a_group_is_cloned_and_deleted(user: Shell) -> None:
    made(user, "original")

    user.told("group", "clone", "original", "--to", "copy")
    copied = user.facts("group", "lag", "copy")["lag"]
    listed = [each["group"] for each in user.facts("group", "list")]
    spared = user.run("group", "delete", "original", input="n\n")
    user.told("group", "delete", "original", "--yes")

    assert copied == 10
    assert {"original", "copy"} <= set(listed)
    assert "copy is deleted" in user.told("group", "delete", "copy", "--yes")
    assert user.complaint("group", "clone", "nobody", "--to", "copy")[0] == 1
    assert spared.exit_code == 1
    assert user.complaint("group", "lag", "original")[0] == 1
    assert user.complaint("group", "delete", "original", "--yes")[0] == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", 1_000_000_000_000),
        ("90s", 1_000_000_000_000 - 90_000),
        ("1794803628010", 1_794_803_628_010),
        ("1970-01-02T00:00:00+00:00", 86_400_000),
        ("99999d", 0),
    ],
)
def test_times_are_read_as_people_type_them(text: str, expected: int) -> None:
    assert parse_time(text, 1_000_000_000_000) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "10y", "-5m", "2026-13-01"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidSetting, match="ten minutes ago"):
        parse_time(text, 0)


def test_the_mode_of_a_group_is_set_on_every_broker_of_the_topic(user: Shell) -> None:
    group = made(user, "popping")

    told = user.told("group", "set-mode", group, "orders", "pop")
    facts = user.facts("group", "set-mode", group, "orders", "pop", "--share-queues", "2")

    assert "popping takes orders by pop on broker-a, broker-b" in told
    assert facts == {
        "group": "popping",
        "topic": "orders",
        "mode": "pop",
        "brokers": ["broker-a", "broker-b"],
    }
    with Admin(namesrv=user.namesrv) as admin:
        (setting,) = [each for each in admin.consume_modes() if each.group == group]
    assert (setting.mode, setting.share_queues) == ("pop", 2)
    assert setting.brokers == ("broker-a", "broker-b")
