"""Signing in and out.

A token opens a session, or, where the console was told so, an account of the brokers.  A token is
typed into the form; one that the console made for this start may also come in the address that it
prints, because it is worth nothing after the next start.  Wrong logins are counted, and from some
on nobody is let in for a minute.
"""

from __future__ import annotations

from hmac import compare_digest

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from flintmq.console.guard.forms import Form, read_form, require_token
from flintmq.console.guard.sessions import LIFE_MS
from flintmq.console.showing.page import asked_of, sentence
from flintmq.console.showing.site import Site
from flintmq.console.showing.templates import template
from flintmq.console.watching.account_login import AccountLogin
from flintmq.console.watching.cluster_view import ClusterView
from flintmq.errors import FlintError
from flintmq.logs import logger

log = logger(__name__)

WRONG = "That token is wrong. The console printed it when it started, or it is the one you set."
TOO_MANY = "Too many wrong logins. Wait a minute and try again."


async def sign_in(request: Request) -> Response:
    """GET: the form, or straight in with the address that the console printed; POST: the form."""
    site: Site = request.app.state.site
    if request.method == "POST":
        form = await read_form(request)
        wanted, given, may_come = inside(form.text("next")), form.text("token"), True
        if site.accounts is not None:
            return await _sign_in_account(request, site, site.accounts, form)
    else:
        wanted = inside(request.query_params.get("next", "/"))
        given = request.query_params.get("token", "")
        may_come = site.token_in_links and bool(given)
    if not may_come:
        is_in = request.scope["session"] is not None
        return RedirectResponse(wanted, 303) if is_in else _form(site, wanted, "", 200)
    if not site.sessions.may_try():
        return _form(site, wanted, TOO_MANY, 429)
    if not is_token(site, given):
        site.sessions.count_failure()
        log.warning("a login with a wrong token from %s", request.client and request.client.host)
        return _form(site, wanted, WRONG, 403)
    return _signed_in(request, site, wanted, "token", site.cluster)


async def _sign_in_account(
    request: Request, site: Site, accounts: AccountLogin, form: Form
) -> Response:
    """The brokers decide; a cluster that is away counts as no failure."""
    wanted, name = inside(form.text("next")), form.text("username")
    if not site.sessions.may_try():
        return _form(site, wanted, TOO_MANY, 429)
    try:
        opened = await accounts.open(name, form.text("token"))
    except FlintError as error:
        return _form(site, wanted, f"The cluster does not answer: {sentence(error)}", 503)
    if isinstance(opened, str):
        site.sessions.count_failure()
        log.warning("the account %s cannot sign in", name)
        return _form(site, wanted, opened, 403)
    return _signed_in(request, site, wanted, name, opened)


async def sign_out(request: Request) -> Response:
    asked = asked_of(request)
    require_token(await read_form(request), asked.session)
    asked.site.sessions.end(asked.session)
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(asked.site.cookie)
    return answer


def is_token(site: Site, given: str) -> bool:
    return compare_digest(site.token.encode(), given.encode())


def inside(path: str) -> str:
    """A path of this console; anything that could lead elsewhere is its first page."""
    is_plain = path.startswith("/") and not path.startswith("//") and "\\" not in path
    return path if is_plain and path.isprintable() else "/"


def _signed_in(
    request: Request, site: Site, wanted: str, person: str, cluster: ClusterView
) -> Response:
    old = request.scope["session"]
    if old is not None:
        site.sessions.end(old)
    session = site.sessions.open(person, cluster)
    answer = RedirectResponse(wanted, 303)
    answer.set_cookie(
        site.cookie,
        session.key,
        max_age=LIFE_MS // 1000,
        httponly=True,
        samesite="strict",
        secure=site.is_secure,
    )
    return answer


def _form(site: Site, wanted: str, error: str, status: int) -> Response:
    values = {"next": wanted, "error": error, "with_accounts": site.accounts is not None}
    return HTMLResponse(template("login.html").render(values), status)
