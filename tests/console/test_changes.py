"""Nothing changes without a flag, a token and the name typed, and each change is written down."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq import Message
from flintmq.client.admin import Admin
from flintmq.core.admin.spans import END
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.embedded.embedded_users import EmbeddedUser
from support.console.browsing import Tags, Visitor, visiting

CHANGES = (
    "/group/reset",
    "/topics/new",
    "/topic/delete",
    "/dead-letters/replay",
    "/dead-letters/stop",
)


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


@pytest.fixture
def visitor(broker: EmbeddedBroker, audit: Path) -> Iterator[Visitor]:
    with visiting(broker.namesrv, audit=audit) as made:
        made.sign_in()
        yield made


def written(audit: Path) -> list[tuple[str, str, str, str]]:
    facts = [json.loads(line) for line in audit.read_text(encoding="utf-8").splitlines()]
    return [(each["user"], each["action"], each["target"], each["outcome"]) for each in facts]


@pytest.mark.parametrize("path", CHANGES)
def test_a_console_that_reads_only_refuses_every_change(broker: EmbeddedBroker, path: str) -> None:
    with visiting(broker.namesrv) as reader:
        reader.sign_in()
        answer = reader.send(
            path, name="orders", confirm="orders", queues=1, topic="orders", to="end"
        )

    assert answer.status_code == 403
    assert "reads only" in answer.text


@pytest.mark.parametrize("path", CHANGES)
def test_a_form_without_the_token_of_its_session_changes_nothing(
    visitor: Visitor, audit: Path, path: str
) -> None:
    without = visitor.client.post(path, data={"name": "orders", "confirm": "orders", "queues": "1"})
    wrong = visitor.client.post(path, data={"csrf": "guess", "name": "orders", "confirm": "orders"})

    assert (without.status_code, wrong.status_code) == (403, 403)
    assert written(audit) == []


def test_pages_of_changes_are_not_offered_where_nothing_may_change(
    broker: EmbeddedBroker, visitor: Visitor
) -> None:
    with visiting(broker.namesrv) as reader:
        reader.sign_in()
        assert "New topic" not in reader.text("/topics")
        assert reader.status("/topics/new") == 403

    assert "New topic" in visitor.text("/topics")
    assert "changes allowed" in visitor.text("/")


def test_a_topic_is_created_and_deleted_by_its_name(
    broker: EmbeddedBroker, visitor: Visitor, audit: Path
) -> None:
    slip = visitor.send("/topics/new", name="made", queues=2, confirm="maid")
    made = visitor.send("/topics/new", name="made", queues=2, confirm="made")
    page = visitor.text("/topic", name="made")
    bad = visitor.send("/topics/new", name="no good name!", queues=2, confirm="no good name!")
    kept = visitor.send("/topic/delete", name="made", confirm="")
    gone = visitor.send("/topic/delete", name="made", confirm="made")

    assert (slip.status_code, made.status_code, bad.status_code) == (400, 303, 400)
    assert "made" in page
    assert (kept.status_code, gone.status_code) == (400, 303)
    assert visitor.status("/topic", name="made") == 404
    done = [each for each in written(audit) if each[3] == "done"]
    assert done == [
        ("token", "create topic", "made", "done"),
        ("token", "delete topic", "made", "done"),
    ]
    assert audit.stat().st_mode & 0o077 == 0


def test_a_topic_of_the_brokers_stays(visitor: Visitor) -> None:
    answer = visitor.send("/topic/delete", name="broker-a", confirm="broker-a")

    assert answer.status_code == 400
    assert visitor.status("/topic", name="broker-a") == 200


def test_a_reset_is_shown_first_and_then_goes_where_it_was_shown(
    broker: EmbeddedBroker, visitor: Visitor, audit: Path
) -> None:
    with Admin(namesrv=broker.namesrv) as admin:
        admin.create_topic("moved", queues=1)
        admin.create_group("movers")
        with broker.producer("shop") as producer:
            for number in range(10):
                producer.send(Message("moved", b"%d" % number))
        admin.apply_reset(admin.plan_reset("movers", "moved", END))

        wish = {"name": "movers", "topic": "moved", "to": "3"}
        preview = visitor.text("/group/reset", **wish)
        before = admin.lag("movers").lag
        slip = visitor.send("/group/reset", **wish, confirm="mover")
        done = visitor.send("/group/reset", **wish, confirm="movers")
        after = admin.lag("movers").lag

    assert "7 messages would be consumed once more." in preview
    assert (before, slip.status_code, done.status_code, after) == (0, 400, 303, 7)
    assert written(audit) == [("token", "reset offsets", "movers", "done")]
    details = json.loads(audit.read_text(encoding="utf-8"))["details"]
    assert details == "moved to 3: broker-a/0 10 to 3"


def test_a_reset_out_of_the_queue_is_refused_with_a_sentence(visitor: Visitor) -> None:
    answer = visitor.client.get(
        "/group/reset", params={"name": "nobody", "topic": "moved", "to": "999"}
    )

    assert answer.status_code in (400, 404)


def test_a_reader_may_look_at_a_reset_but_gets_no_form(broker: EmbeddedBroker) -> None:
    with Admin(namesrv=broker.namesrv) as admin:
        admin.create_topic("looked-at", queues=1)
        admin.create_group("lookers")
    with visiting(broker.namesrv) as reader:
        reader.sign_in()
        page = reader.text("/group/reset", name="lookers", topic="looked-at", to="end")

    forms = [tag.attributes.get("method") for tag in Tags.of(page, "form")]
    assert forms.count("post") == 1, "only the one that signs out"


def test_users_and_policies_are_shown_without_any_secret() -> None:
    users = [
        EmbeddedUser("alice", "the-secret-of-alice", allow={"Topic:orders": "Pub"}),
        EmbeddedUser("root", "the-secret-of-root", is_super=True),
    ]
    with EmbeddedBroker(accounts=users) as guarded:
        account = dict(guarded.account("root"))
        with visiting(guarded.namesrv, account=account) as visitor:
            visitor.sign_in()
            page = visitor.text("/access")

    assert "alice" in page
    assert "Topic:orders" in page
    assert "the-secret-of" not in page


def test_brokers_without_access_control_say_so(visitor: Visitor) -> None:
    page = visitor.text("/access")

    assert "No secret is asked for or shown." in page
