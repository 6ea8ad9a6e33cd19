"""The console shows our broker and the real ones of both releases, and moves a group at each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq import DeadLetter, Message, PushConsumer, ReceivedMessage
from flintmq.client.admin import Admin
from support.console.browsing import Tags, Visitor, visiting
from support.interop.filled import new_topic, patiently, send_to
from support.interop.ours import Served

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),  # the first test starts servers
]

CALL_MS = 15_000
COUNT = 20


@pytest.fixture(scope="module")
def visitor(each: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    audit = tmp_path_factory.mktemp("console") / "audit.log"
    queues = new_topic(each, "shown", 2)
    messages = [
        Message("shown", b'{"order": %d}' % number, tags="paid", keys=f"o-{number}")
        for number in range(COUNT)
    ]
    send_to(each, messages, queues)
    with visiting(each.namesrv, audit=audit, account={"call_timeout_ms": CALL_MS}) as made:
        made.sign_in()
        with _consumer(each):
            patiently(lambda: "/dead-letters/group?name=shown-group" in made.text("/dead-letters"))
            patiently(lambda: "is not behind" in made.text("/group", name="shown-group"))
            made.sweep()
            yield made


def _consumer(each: Served) -> PushConsumer:
    def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        if any(message.keys[0] == "o-3" for message in messages):
            raise DeadLetter("no such customer")

    consumer = PushConsumer(
        "shown-group", listen, namesrv=each.namesrv, start_from="first", batch_max=1
    )
    return consumer.subscribe("shown")


def links(page: str, start: str) -> list[str]:
    found = [tag.attributes.get("href") or "" for tag in Tags.of(page, "a")]
    return [link for link in found if link.startswith(start)]


def test_every_page_is_there(visitor: Visitor) -> None:
    message = links(visitor.text("/topic/messages?name=shown"), "/message?")[0]
    member = links(visitor.text("/group?name=shown-group"), "/group/member?")[0]
    letter = links(visitor.text("/dead-letters/group?name=shown-group"), "/dead-letters/letter?")[0]
    life = links(visitor.text(message), "/message/trace?")[0]
    pages = {
        path: visitor.open(path).status_code
        for path in (
            "/",
            "/topics",
            "/topics?kind=all",
            "/topic?name=shown",
            "/topic/messages?name=shown&tag=paid&from=start",
            "/topic/tail?name=shown",
            "/groups",
            "/group/reset?name=shown-group&topic=shown&to=start",
            "/dead-letters/replay?name=shown-group",
            "/access",
            "/history",
            message,
            member,
            member + "&stacks=1",
            letter,
            life,
        )
    }

    assert {path: status for path, status in pages.items() if status != 200} == {}


def test_messages_are_found_by_key_id_and_time(visitor: Visitor) -> None:
    patiently(lambda: links(visitor.text("/topic/messages?name=shown&key=o-7"), "/message?"))
    newest = links(visitor.text("/topic/messages?name=shown"), "/message?")
    recent = links(visitor.text("/topic/messages?name=shown&from=1h"), "/message?")

    assert len(newest) == len(recent) == COUNT


def test_the_dead_letter_is_shown_beside_its_original(visitor: Visitor) -> None:
    page = visitor.text("/dead-letters/group?name=shown-group")
    letter = visitor.text(links(page, "/dead-letters/letter?")[0])

    assert "no such customer" in page
    assert "The bodies are the same." in letter


def test_a_topic_and_a_group_are_changed(visitor: Visitor, each: Served, tmp_path: Path) -> None:
    made = visitor.send("/topics/new", name="made-here", queues=1, confirm="made-here")
    with Admin(namesrv=each.namesrv, call_timeout_ms=CALL_MS) as admin:
        admin.create_group("moved-group")
        wish = {"name": "moved-group", "topic": "shown", "to": "end", "confirm": "moved-group"}
        moved = visitor.send("/group/reset", **wish)
        patiently(lambda: admin.lag("moved-group", topic="shown").queues)
        lag = admin.lag("moved-group", topic="shown").lag
    gone = visitor.send("/topic/delete", name="made-here", confirm="made-here")

    assert (made.status_code, moved.status_code, gone.status_code) == (303, 303, 303)
    assert lag == 0
