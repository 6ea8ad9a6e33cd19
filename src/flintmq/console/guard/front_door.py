"""What every request passes before a page sees it, and every answer before a browser does.

    Host header ─► method ─► size ─► origin of a POST ─► session ─► page
       400          405       413         403             303 / 401

The Host check keeps DNS rebinding out: a page of somebody else whose name leads to our loopback
address sends its own name.  The session cookie is ``SameSite=Strict`` and HttpOnly.

Invariant: every answer, also a refusal, has the security headers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flintmq.console.guard.sessions import Session, Sessions

FORM_BYTES_MAX: Final = 64 * 1024
"""Of a form that is sent; the largest one lists a few hundred message ids."""

METHODS: Final = frozenset({"GET", "HEAD", "POST"})

OPEN_PATHS: Final = frozenset({"/login", "/healthz"})
OPEN_FOLDER: Final = "/static/"
"""What is shown without a session."""

STREAM: Final = "stream"
"""The query field that asks for a page as a stream of its live part."""

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer browsers send "Origin: null" in forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class FrontDoor:
    """The middleware around the pages.  ``hosts`` are the names this console answers to."""

    def __init__(
        self, app: ASGIApp, *, hosts: Iterable[str], sessions: Sessions, cookie: str
    ) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._sessions = sessions
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        path = scope["path"]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if not path.startswith(OPEN_FOLDER):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            scope["session"] = session = self._session(scope)
            if session is None and path not in OPEN_PATHS and not path.startswith(OPEN_FOLDER):
                refusal = _sign_in_first(scope)
        app = self._app if refusal is None else refusal
        await app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if host_name(headers.get("host", "")) not in self._hosts:
            text = "This console does not answer to that host name; start it with --host NAME.\n"
            return PlainTextResponse(text, 400)
        if scope["method"] not in METHODS:
            return PlainTextResponse("Only GET, HEAD and POST are served.\n", 405)
        if scope["method"] == "POST":
            if "transfer-encoding" in headers or not _is_small(headers.get("content-length", "")):
                return PlainTextResponse(f"A form has at most {FORM_BYTES_MAX} bytes.\n", 413)
            if not is_same_origin(headers):
                return PlainTextResponse("The form was sent from another page.\n", 403)
        return None

    def _session(self, scope: Scope) -> Session | None:
        return self._sessions.find(HTTPConnection(scope).cookies.get(self._cookie, ""))


def host_name(header: str) -> str:
    """The name in a Host header, without its port; empty when there is none."""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return ""


def is_same_origin(headers: Headers) -> bool:
    """Whether a POST comes from a page of this console, as far as the browser says."""
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2].lower() == headers["host"].lower()


def _is_small(length: str) -> bool:
    return length.isascii() and length.isdigit() and int(length) <= FORM_BYTES_MAX


def _sign_in_first(scope: Scope) -> Response:
    query = scope["query_string"].decode("latin-1")
    if scope["method"] == "POST" or f"{STREAM}=" in query:
        return PlainTextResponse("Sign in first.\n", 401)
    wanted = scope["path"] + (f"?{query}" if query else "")
    return RedirectResponse("/login?next=" + quote(wanted, safe=""), 303)
