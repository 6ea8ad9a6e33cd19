"""What every change has in common: it is allowed, meant, confirmed by a name, and written down."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request

from flintmq.console.guard.forms import Form, read_form, require_token
from flintmq.console.showing.asked import Asked
from flintmq.console.showing.page import asked_of

READ_ONLY = "This console reads only. Start it with --allow-changes to change something."


async def begin_change(request: Request) -> tuple[Asked, Form]:
    """The form of a change; refuses it where nothing may be changed or the token is wrong."""
    asked = asked_of(request)
    form = await read_form(request)
    require_token(form, asked.session)
    require_changes(asked)
    return asked, form


def require_changes(asked: Asked) -> None:
    if not asked.site.may_change:
        raise HTTPException(403, READ_ONLY)


def is_confirmed(form: Form, name: str) -> bool:
    """Whether the person typed the name of what is to be changed."""
    return bool(name) and form.text("confirm") == name
