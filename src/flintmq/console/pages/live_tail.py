"""A topic as it grows: rows that come by server-sent events.

A viewer sees at most `ROWS_A_TICK` rows in each tick; what is more is counted and left out, and the
page says how many.  Nothing is committed, and no consumer notices.

Invariant: however fast a topic grows, a tail holds no more than `WAITING_MAX` rows.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from flintmq.client.admin_aio import Admin
from flintmq.console.guard.front_door import STREAM
from flintmq.console.pages.message_pages import read_queue
from flintmq.console.showing.asked import Asked
from flintmq.console.showing.page import (
    asked_of,
    event,
    render,
    sentence,
    stream_response,
    wait_live,
)
from flintmq.console.showing.templates import template
from flintmq.console.watching.message_scan import (
    QUEUES_MAX,
    MessageRow,
    MessageScan,
    scan,
)
from flintmq.core.admin.spans import END, LocatedSpan
from flintmq.core.reading.follow import Follower
from flintmq.core.reading.read_span import Wanted
from flintmq.errors import FlintError, NoRoute, Unreachable

TICK_S: Final = 0.5
ROWS_A_TICK: Final = 50
WAITING_MAX: Final = 200
"""Rows that wait for a tick; also what a browser keeps."""

TRY_AGAIN_S: Final = 1.0


class TailBuffer:
    """Rows that wait, and how many were left out."""

    def __init__(self) -> None:
        self._rows: deque[MessageRow] = deque()
        self._left_out = 0
        self.error: FlintError | None = None

    def add(self, row: MessageRow) -> None:
        self._rows.append(row)
        if len(self._rows) > WAITING_MAX:
            self._rows.popleft()
            self._left_out += 1

    def next_rows(self) -> tuple[list[MessageRow], int]:
        """The newest rows of this tick, newest first, and how many were left out before them."""
        rows = [self._rows.pop() for _ in range(min(ROWS_A_TICK, len(self._rows)))]
        left_out, self._left_out = self._left_out + len(self._rows), 0
        self._rows.clear()
        return rows, left_out


async def show_tail(request: Request) -> Response:
    asked = asked_of(request)
    topic = asked.text("name")
    wanted = Wanted.by(tags=asked.text("tag") or None, sql=asked.text("sql") or None)
    broker, queue_id = read_queue(asked.text("queue"))
    if asked.is_on(STREAM):
        admin = asked.cluster.admin
        spans = await admin.locate_spans(topic, END, END, broker=broker, queue_id=queue_id)
        if len(spans) > QUEUES_MAX:
            raise NoRoute(topic, f"it has {len(spans)} queues: choose one")
        return stream_response(asked, _rows(asked, spans, wanted))
    found = await scan(asked.cluster.admin, MessageScan(topic, None, wanted, "", broker, queue_id))
    fields = {name: asked.text(name) for name in ("tag", "sql", "queue")}
    values = {"name": topic, "rows": found.rows, "fields": fields, "most": WAITING_MAX}
    return await render(asked, "tail.html", values)


async def _rows(asked: Asked, spans: tuple[LocatedSpan, ...], wanted: Wanted) -> AsyncIterator[str]:
    buffer = TailBuffer()
    admin = asked.cluster.admin
    tasks = [asyncio.create_task(follow(admin, each, wanted, buffer)) for each in spans]
    part = template("tail_rows.html")
    try:
        while await wait_live(asked, TICK_S):
            rows, left_out = buffer.next_rows()
            error = "" if buffer.error is None else sentence(buffer.error)
            if rows or left_out or error:
                yield event(
                    "part",
                    part.render(
                        rows=rows,
                        left_out=left_out,
                        error=error,
                        shows_bodies=asked.site.shows_bodies,
                    ),
                )
            if error:
                return
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def follow(admin: Admin, located: LocatedSpan, wanted: Wanted, buffer: TailBuffer) -> None:
    """Pull one queue for ever.  A broker that is away is waited for; one that refuses ends it."""
    follower = Follower(located.span.queue, located.address, located.span.stop, wanted=wanted)
    while True:
        try:
            page = follower.answered(await admin.make(follower.call()))
        except Unreachable:
            await asyncio.sleep(TRY_AGAIN_S)
            continue
        except FlintError as error:
            buffer.error = error
            return
        for message in page.shown(wanted):
            buffer.add(MessageRow.of(message))
