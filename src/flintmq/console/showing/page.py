"""A page: loaded, rendered, and kept up to date while somebody looks at it.

    GET /topics              the whole page
    GET /topics?stream=1     its block ``live`` again and again, as server-sent events

A page is one function that loads values and one template.  What changes stands in the template's
block ``live``; the stream renders only that.  Errors of the cluster become a page with a sentence,
and in a stream a notice in the place of the block, until the cluster answers again.

Invariant: no more than `STREAMS_MAX` streams are open, and none outlives its session.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from flintmq.console.guard.front_door import STREAM
from flintmq.console.guard.sessions import Session
from flintmq.console.showing.asked import Asked
from flintmq.console.showing.site import STREAMS_MAX, Site
from flintmq.console.showing.templates import link, template
from flintmq.errors import (
    BrokerRefused,
    FlintError,
    InvalidExpression,
    InvalidName,
    InvalidSetting,
    NoRoute,
)

Values: TypeAlias = Mapping[str, Any]
Loader: TypeAlias = Callable[[Asked], Awaitable[Values]]
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

STREAM_TYPE: Final = "text/event-stream"


def asked_of(request: Request) -> Asked:
    site: Site = request.app.state.site
    session = request.scope["session"]
    assert isinstance(session, Session), "the front door lets nobody in without one"
    return Asked(request, session, site)


def page(name: str, load: Loader) -> Endpoint:
    """The endpoint of a template and its loader."""

    async def endpoint(request: Request) -> Response:
        asked = asked_of(request)
        if asked.is_on(STREAM):
            return _stream(asked, name, load)
        return await render(asked, name, await load(asked))

    return endpoint


async def render(asked: Asked, name: str, values: Values, status: int = 200) -> HTMLResponse:
    """A whole page."""
    frame = await frame_values(asked)
    return HTMLResponse(template(name).render({**frame, **values}), status)


async def frame_values(asked: Asked) -> dict[str, Any]:
    """What the layout of every page shows."""
    try:
        cluster = await asked.cluster.names()
    except FlintError:
        cluster = asked.site.namesrv
    path = asked.request.url.path
    return {
        "cluster_name": cluster,
        "namesrv": asked.site.namesrv,
        "person": asked.session.person,
        "csrf": asked.session.csrf,
        "may_change": asked.site.may_change,
        "shows_bodies": asked.site.shows_bodies,
        "shows_spark": bool(asked.site.spark_runs),
        "path": path,
        "query": dict(asked.query),
        "stream_link": link(path, asked.query, stream=1),
        "now_ms": asked.site.wall(),
    }


# Live parts


def _stream(asked: Asked, name: str, load: Loader) -> Response:
    async def parts() -> AsyncIterator[str]:
        while await wait_live(asked, asked.site.live_s):
            try:
                values = {**(await frame_values(asked)), **(await load(asked))}
                part = template(name)
                text = "".join(part.blocks["live"](part.new_context(values)))
            except FlintError as error:
                text = template("notice.html").render(sentence=sentence(error))
            yield event("part", text)

    return stream_response(asked, parts())


def stream_response(asked: Asked, events: AsyncIterator[str]) -> Response:
    """An answer that goes on; 503 when too many are open."""
    if asked.site.streams >= STREAMS_MAX:
        text = "Too many live pages are open; close one of them."
        return Response(text, 503, {"Retry-After": "30"}, "text/plain")
    return StreamingResponse(_counted(asked.site, events), media_type=STREAM_TYPE)


async def _counted(site: Site, events: AsyncIterator[str]) -> AsyncIterator[str]:
    site.streams += 1
    try:
        yield "retry: 5000\n\n"
        async for each in events:
            yield each
    finally:
        site.streams -= 1


async def wait_live(asked: Asked, seconds: float) -> bool:
    """Wait; False when the console stops or the session is over."""
    with suppress(TimeoutError):
        await asyncio.wait_for(asked.site.stopping.wait(), seconds)
    return not asked.site.stopping.is_set() and asked.site.sessions.is_alive(asked.session)


def event(name: str, text: str) -> str:
    """One server-sent event; a line feed in the text begins a line of its own."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    return f"event: {name}\n{lines}\n"


# Errors


def sentence(error: FlintError) -> str:
    return str(error).partition("\n")[0]


async def show_cluster_error(request: Request, error: Exception) -> Response:
    """What a page shows when the cluster refuses or does not answer."""
    assert isinstance(error, FlintError)
    match error:
        case NoRoute():
            status, title = 404, "Not found"
        case InvalidName() | InvalidSetting() | InvalidExpression():
            status, title = 400, "That cannot be asked"
        case BrokerRefused():
            status, title = 502, "A broker refused the question"
        case _:
            status, title = 503, "The cluster does not answer"
    return await _show_error(request, status, title, sentence(error))


async def show_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    title = "Not found" if error.status_code == 404 else "That was refused"
    detail = "There is no such page." if error.status_code == 404 else error.detail
    return await _show_error(request, error.status_code, title, detail)


async def _show_error(request: Request, status: int, title: str, text: str) -> Response:
    if not isinstance(request.scope.get("session"), Session):
        return HTMLResponse(template("refused.html").render(title=title, sentence=text), status)
    asked = asked_of(request)
    return await render(asked, "error.html", {"title": title, "sentence": text}, status)
