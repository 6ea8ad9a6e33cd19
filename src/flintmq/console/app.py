"""The console as an ASGI application.

`make_app` puts the pages together for one cluster; it opens nothing before its lifespan starts.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from flintmq.client.admin_aio import Admin
from flintmq.client.admin_methods import AdminSettings
from flintmq.console.guard.front_door import FrontDoor
from flintmq.console.guard.sessions import RANDOM_BYTES, Sessions
from flintmq.console.pages.access_page import load_access
from flintmq.console.pages.change_pages import (
    apply_reset,
    create_topic,
    delete_topic,
    load_delete_topic,
    load_new_topic,
    load_reset,
)
from flintmq.console.pages.dead_letter_pages import (
    load_dead_letters,
    load_group_letters,
    load_letter,
)
from flintmq.console.pages.group_pages import load_group, load_groups, load_member
from flintmq.console.pages.history_page import load_history
from flintmq.console.pages.live_tail import show_tail
from flintmq.console.pages.login_page import sign_in, sign_out
from flintmq.console.pages.message_pages import (
    download_body,
    load_message,
    load_messages,
    load_trace,
)
from flintmq.console.pages.overview_page import load_overview
from flintmq.console.pages.replay_pages import load_replay, start_replay, stop_replay
from flintmq.console.pages.spark_pages import load_spark_run, load_spark_runs
from flintmq.console.pages.topic_pages import load_topic, load_topics
from flintmq.console.showing.page import page, show_cluster_error, show_http_error
from flintmq.console.showing.site import LIVE_S, RunningReplay, Site
from flintmq.console.showing.templates import STATIC
from flintmq.console.watching.account_login import AccountLogin
from flintmq.console.watching.cluster_view import ClusterView
from flintmq.console.watching.history import History
from flintmq.console.watching.spark_runs import SparkRuns
from flintmq.embedded.audit_log import AuditLog
from flintmq.errors import FlintError
from flintmq.net.address import Address
from flintmq.net.clock import wall_ms
from flintmq.net.tls import ServerTls

LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """How a console is to behave.

    ``token`` is what people sign in with; without one the console makes one for this start.
    ``hosts`` are names under which browsers reach it, besides those of loopback.
    """

    client: AdminSettings
    with_accounts: bool = False
    """Whether people sign in with accounts of the brokers, in place of a token."""
    token: str | None = None
    hosts: Iterable[str] = ()
    port: int = 0
    audit: Path | None = None
    """Where changes are written down; without it nothing can be changed."""
    shows_bodies: bool = True
    tls: ServerTls | None = None
    """How it speaks HTTPS; None is HTTP."""
    spark_runs: Iterable[Address] = ()
    """Where programs with Spark queries serve their metrics."""
    live_s: float = LIVE_S
    wall: Callable[[], int] = wall_ms


def make_app(settings: ConsoleSettings) -> Starlette:
    """The application; its ``state.site`` has the token."""
    sessions = Sessions(
        settings.wall,
        lambda session: site.close_view(session),  # noqa: PLW0108  # made below
    )
    admin = Admin(**settings.client)
    audit = None if settings.audit is None else AuditLog(settings.audit, clock=settings.wall)
    cluster = ClusterView(admin)
    site = Site(
        cluster=cluster,
        history=History(cluster, wall=settings.wall),
        spark_runs=SparkRuns(settings.spark_runs, wall=settings.wall),
        sessions=sessions,
        token=settings.token or secrets.token_urlsafe(RANDOM_BYTES),
        token_in_links=settings.token is None and not settings.with_accounts,
        accounts=AccountLogin(settings.client) if settings.with_accounts else None,
        cookie=f"flintmq_console_{settings.port}",
        namesrv=";".join(admin.name_servers.addresses),
        may_change=audit is not None,
        audit=audit,
        shows_bodies=settings.shows_bodies,
        is_secure=settings.tls is not None,
        wall=settings.wall,
        live_s=settings.live_s,
    )
    door = Middleware(
        FrontDoor,
        hosts=(*LOOPBACK_NAMES, *settings.hosts),
        sessions=sessions,
        cookie=site.cookie,
    )
    app = Starlette(
        routes=_routes(),
        middleware=[door],
        exception_handlers={FlintError: show_cluster_error, HTTPException: show_http_error},
        lifespan=_lifespan,
    )
    app.state.site = site
    if settings.with_accounts and not settings.client.get("access_key"):
        site.history.error = "the console has no account of its own"
    return app


def _routes() -> list[Route | Mount]:
    return [
        Route("/", page("overview.html", load_overview)),
        Route("/topics", page("topics.html", load_topics)),
        Route("/topic", page("topic.html", load_topic)),
        Route("/topic/messages", page("messages.html", load_messages)),
        Route("/topic/tail", show_tail),
        Route("/message", page("message.html", load_message)),
        Route("/message/body", download_body),
        Route("/message/trace", page("trace.html", load_trace)),
        Route("/groups", page("groups.html", load_groups)),
        Route("/group", page("group.html", load_group)),
        Route("/group/member", page("member.html", load_member)),
        Route("/history", page("history.html", load_history)),
        Route("/group/reset", page("reset.html", load_reset)),
        Route("/group/reset", apply_reset, methods=["POST"]),
        Route("/topics/new", page("new_topic.html", load_new_topic)),
        Route("/topics/new", create_topic, methods=["POST"]),
        Route("/topic/delete", page("delete_topic.html", load_delete_topic)),
        Route("/topic/delete", delete_topic, methods=["POST"]),
        Route("/dead-letters", page("dead_letters.html", load_dead_letters)),
        Route("/dead-letters/group", page("group_letters.html", load_group_letters)),
        Route("/dead-letters/letter", page("letter.html", load_letter)),
        Route("/dead-letters/replay", page("replay.html", load_replay)),
        Route("/dead-letters/replay", start_replay, methods=["POST"]),
        Route("/dead-letters/stop", stop_replay, methods=["POST"]),
        Route("/spark", page("spark_runs.html", load_spark_runs)),
        Route("/spark/run", page("spark_run.html", load_spark_run)),
        Route("/access", page("access.html", load_access)),
        Route("/login", sign_in, methods=["GET", "POST"]),
        Route("/logout", sign_out, methods=["POST"]),
        Route("/healthz", _healthz),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]


def _healthz(_request: Request) -> Response:
    """Whether the console itself is up; it says nothing of the cluster."""
    return PlainTextResponse("ok\n")


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    site: Site = app.state.site
    sampling = None if site.history.error else asyncio.create_task(site.history.run())
    try:
        yield
    finally:
        site.stopping.set()
        if sampling is not None:
            sampling.cancel()
            with suppress(asyncio.CancelledError):
                await sampling
        for replay in site.replays.values():
            await _end_replay(replay)
        site.sessions.end_all()
        await asyncio.gather(*site.closing)
        await site.cluster.close()
        if site.audit is not None:
            site.audit.close()


async def _end_replay(replay: RunningReplay) -> None:
    """Let the one that is being sent come to its end, and no other begin."""
    replay.is_stopped = True
    if replay.task is not None:
        await replay.task
