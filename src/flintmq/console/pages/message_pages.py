"""Messages: found by place, time, key or id, filtered by tag, SQL92 or text, and shown whole.

A filter is a tag expression, a SQL92 condition or plain text; it is never code.  With
``--no-bodies`` no page shows a body, none is searched, and none can be downloaded.
"""

from __future__ import annotations

from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from flintmq.console.showing.asked import Asked
from flintmq.console.showing.bodies import show_body
from flintmq.console.showing.page import Values, asked_of
from flintmq.console.watching.cluster_view import side_by_side
from flintmq.console.watching.message_scan import (
    MessageRow,
    MessageScan,
    Scanned,
    message_in,
    scan,
)
from flintmq.core.admin.message_trace import life_events
from flintmq.core.admin.spans import read_target
from flintmq.core.reading.read_span import Wanted
from flintmq.errors import FlintError, InvalidName, NoRoute
from flintmq.model import properties as names
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef

FOUND_MAX: Final = 64
"""Messages with one key: what a broker gives at most."""

GROUPS_MAX: Final = 20
"""Groups whose offset is compared with the place of a message."""

NEWEST: Final = "newest"


async def load_messages(asked: Asked) -> Values:
    """The table: by id, by key, or a scan."""
    topic = asked.text("name")
    fields = {
        name: asked.text(name) for name in ("from", "queue", "tag", "sql", "text", "key", "id")
    }
    if not asked.site.shows_bodies:
        fields["text"] = ""
    queues = await asked.cluster.topic_queues(topic)
    note, found = "", Scanned([], 0, 0, is_cut=False)
    if fields["id"]:
        rows = await _by_id(asked, topic, fields["id"])
        found, note = _whole(rows), "Every message with this id."
    elif fields["key"]:
        messages = await asked.cluster.admin.messages_by_key(
            topic, fields["key"], count_max=FOUND_MAX
        )
        found = _whole([MessageRow.of(each) for each in messages])
        note = f"Messages with this key, {FOUND_MAX} at most."
    else:
        found = await scan(asked.cluster.admin, _wish(asked, topic, fields))
        note = _note(found)
    return {
        "name": topic,
        "fields": fields,
        "queues": [f"{each.queue.broker}/{each.queue.queue_id}" for each in queues],
        "found": found,
        "note": note,
        "later": _later(fields, found),
    }


def _wish(asked: Asked, topic: str, fields: dict[str, str]) -> MessageScan:
    wanted = Wanted.by(tags=fields["tag"] or None, sql=fields["sql"] or None)
    place = None
    if fields["from"] not in ("", NEWEST):
        place = read_target(fields["from"], asked.site.wall())
    broker, queue_id = read_queue(fields["queue"])
    return MessageScan(topic, place, wanted, fields["text"], broker, queue_id)


def read_queue(text: str) -> tuple[str | None, int | None]:
    """``broker-a/3``, as the list of queues has it; no queue for an empty text."""
    if not text:
        return None, None
    broker, slash, number = text.rpartition("/")
    if not slash or not (number.isascii() and number.isdigit() and len(number) < 10):
        raise InvalidName("queue", text, "choose one of the list, as broker-a/0")
    return broker, int(number)


def _note(found: Scanned) -> str:
    if not found.is_cut:
        read = "1 message was" if found.read == 1 else f"{found.read:,} messages were"
        return f"All that fit; {read} read."
    return f"{found.read:,} of {found.total:,} messages were read; the table holds 50 at most."


def _later(fields: dict[str, str], found: Scanned) -> str:
    """Where the next table starts: behind the last row of one queue, or at its time."""
    if not found.rows or not found.is_cut or fields["from"] in ("", NEWEST):
        return ""
    last = found.rows[-1]
    return str(last.offset + 1) if fields["queue"] else str(last.store_ms)


def _whole(rows: list[MessageRow]) -> Scanned:
    return Scanned(rows, len(rows), len(rows), is_cut=False)


async def _by_id(asked: Asked, topic: str, message_id: str) -> list[MessageRow]:
    found = list(await asked.cluster.admin.messages_by_id(topic, message_id))
    if not found:
        try:
            one = await asked.cluster.admin.message_at(message_id)
        except InvalidName:
            one = None
        found = [] if one is None else [one]
    return [MessageRow.of(each) for each in found]


# One message


async def _message(asked: Asked) -> tuple[ReceivedMessage, str]:
    return await message_in(
        asked.cluster.admin,
        asked.text("topic"),
        asked.text("broker"),
        asked.number("queue", default=0),
        asked.number("offset", default=0),
    )


async def load_message(asked: Asked) -> Values:
    message, fault = await _message(asked)
    return {
        "message": message,
        "fault": fault,
        "place": place_of(message),
        "properties": sorted(message.properties.items()),
        "body": show_body(message.body, asked.text("as")) if asked.site.shows_bodies else None,
        "passed": await _passed(asked, message),
        "unique_id": message.properties.get(names.UNIQ_KEY),
    }


def place_of(message: ReceivedMessage) -> dict[str, Any]:
    """The fields of an address that lead to this message."""
    return {
        "topic": message.topic,
        "broker": message.broker,
        "queue": message.queue_id,
        "offset": message.queue_offset,
    }


async def _passed(asked: Asked, message: ReceivedMessage) -> list[tuple[str, bool | None]]:
    """For each group of the topic, whether its committed offset is behind this message."""
    detail = await asked.cluster.topic_detail(message.topic)
    groups = detail.groups[:GROUPS_MAX]
    offsets = await side_by_side(
        asked.cluster.admin.offsets(group, message.topic) for group in groups
    )
    queue = QueueRef(message.topic, message.broker, message.queue_id)
    found: list[tuple[str, bool | None]] = []
    for group, each in zip(groups, offsets, strict=True):
        at = None if isinstance(each, FlintError) else each.get(queue)
        found.append((group, None if at is None else at > message.queue_offset))
    return found


async def download_body(request: Request) -> Response:
    """The bytes of a body as a file: a browser must not open it."""
    asked = asked_of(request)
    if not asked.site.shows_bodies:
        raise HTTPException(403, "This console shows no bodies (--no-bodies).")
    message, _ = await _message(asked)
    name = f"message-{message.queue_id}-{message.queue_offset}.bin"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(message.body, 200, headers, "application/octet-stream")


async def load_trace(asked: Asked) -> Values:
    """The life of a message as a timeline."""
    message_id, topic = asked.text("id"), asked.text("topic")
    life = await asked.cluster.admin.trace(message_id, topic=topic or None)
    if life.is_empty:
        raise NoRoute(topic, f"nothing is known of {message_id}")
    events = life_events(life)
    return {
        "message_id": message_id,
        "topic": topic,
        "events": events,
        "first_ms": events[0].at_ms,
        "has_trace": bool(life.sends or life.consumptions),
        "unreadable": life.unreadable,
    }
