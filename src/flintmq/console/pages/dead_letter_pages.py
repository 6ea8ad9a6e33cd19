"""Dead letters: how many, why, and what became of each.

A group's page reads its newest `LETTERS_MAX` dead letters.  Which of them are dealt with is known
from marks and from the copies that replays sent: the rules are those of
`core.admin.dead_letter_marks`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from flintmq.console.pages.message_pages import place_of
from flintmq.console.showing.asked import Asked
from flintmq.console.showing.bodies import show_body
from flintmq.console.showing.page import Values, sentence
from flintmq.console.showing.paging import RowPage
from flintmq.console.watching.cluster_view import side_by_side
from flintmq.console.watching.message_scan import MessageRow, message_in
from flintmq.core.admin.dead_letters import BuriedMessage
from flintmq.core.admin.topics import TopicKind, TopicName
from flintmq.errors import FlintError, NoRoute
from flintmq.model import properties as names
from flintmq.model.group import DEAD_LETTER_PREFIX, dead_letter_topic
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef

LETTERS_MAX: Final = 256
"""Dead letters of a group that a page knows, the newest; `flintmq dlq` knows them all."""

NO_REASON: Final = "no reason was given"


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter and whether it lies before the mark of its queue."""

    buried: BuriedMessage
    is_marked: bool

    @property
    def reason(self) -> str:
        return self.buried.reason or NO_REASON

    @property
    def row(self) -> MessageRow:
        return MessageRow.of(self.buried.message)


async def load_dead_letters(asked: Asked) -> Values:
    """Every group that has a dead letter topic."""
    part = asked.text("q")
    topics = [
        each
        for each in await asked.cluster.topics()
        if each.kind is TopicKind.DEAD_LETTER and part.lower() in each.name.lower()
    ]
    page = RowPage[TopicName].of(topics, asked.number("page", default=1, low=1))
    sizes = await asked.cluster.sizes(page.rows)
    rows: list[dict[str, Any]] = []
    for topic, size in zip(page.rows, sizes, strict=True):
        is_error = isinstance(size, FlintError)
        rows.append(
            {
                "group": topic.name.removeprefix(DEAD_LETTER_PREFIX),
                "size": None if is_error else size,
                "error": sentence(size) if isinstance(size, FlintError) else "",
            }
        )
    return {"rows": rows, "page": page, "q": part}


async def find_letters(asked: Asked, group: str) -> list[Letter]:
    """The newest dead letters of a group, newest first."""
    admin = asked.cluster.admin
    found = await admin.dead_letters(group, count_max=LETTERS_MAX)
    marks = {mark.queue: mark.marked_to for mark in await admin.dead_letter_marks(group)}
    letters = []
    for each in reversed(found):
        message = each.message
        queue = QueueRef(message.topic, message.broker, message.queue_id)
        letters.append(Letter(each, message.queue_offset < marks.get(queue, 0)))
    return letters


def chosen(letters: Iterable[Letter], reason: str) -> list[Letter]:
    """Those with a reason, or all."""
    return [each for each in letters if reason in ("", each.reason)]


async def load_group_letters(asked: Asked) -> Values:
    group, reason = asked.text("name"), asked.text("reason")
    running = asked.site.replays.get(group)
    letters = await find_letters(asked, group)
    page = RowPage[Letter].of(chosen(letters, reason), asked.number("page", default=1, low=1))
    replays = await side_by_side(
        asked.cluster.admin.replays(group, each.buried) for each in page.rows
    )
    rows = [
        (letter, max((copy.store_ms for copy in copies), default=None))
        for letter, copies in zip(page.rows, map(_or_none, replays), strict=True)
    ]
    return {
        "group": group,
        "reason": reason,
        "reasons": Counter(each.reason for each in letters).most_common(),
        "rows": rows,
        "page": page,
        "is_cut": len(letters) >= LETTERS_MAX,
        "most": LETTERS_MAX,
        "running": running,
        "is_live": running is not None and not running.is_over,
    }


def _or_none(found: tuple[ReceivedMessage, ...] | FlintError) -> tuple[ReceivedMessage, ...]:
    return () if isinstance(found, FlintError) else found


async def load_letter(asked: Asked) -> Values:
    """A dead letter beside the message that it was."""
    group = asked.text("group")
    admin = asked.cluster.admin
    message, fault = await message_in(
        admin,
        dead_letter_topic(group),
        asked.text("broker"),
        asked.number("queue", default=0),
        asked.number("offset", default=0),
    )
    buried = BuriedMessage.of(message)
    original = await _original(asked, buried)
    return {
        "group": group,
        "buried": buried,
        "message": message,
        "fault": fault,
        "place": place_of(message),
        "original": original,
        "original_place": None if original is None else place_of(original),
        "differences": [] if original is None else compare(original, message),
        "is_same_body": original is not None and original.body == message.body,
        "body": show_body(message.body, asked.text("as")) if asked.site.shows_bodies else None,
        "replays": await admin.replays(group, buried),
    }


async def _original(asked: Asked, buried: BuriedMessage) -> ReceivedMessage | None:
    """The message that died, where its topic still has it."""
    unique_id = buried.message.properties.get(names.UNIQ_KEY)
    if buried.origin_topic is None or unique_id is None:
        return None
    try:
        found = await asked.cluster.admin.messages_by_id(buried.origin_topic, unique_id)
    except NoRoute:
        return None
    return found[0] if found else None


def compare(
    original: ReceivedMessage, letter: ReceivedMessage
) -> list[tuple[str, str | None, str | None]]:
    """The properties in which the two differ: name, before, after."""
    every = sorted({*original.properties, *letter.properties})
    pairs = ((name, original.properties.get(name), letter.properties.get(name)) for name in every)
    return [each for each in pairs if each[1] != each[2]]
