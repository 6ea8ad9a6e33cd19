"""Forms as browsers send them.  They are small, and every field is there once.

A form that changes something carries the CSRF token of its session; `require_token` refuses it
otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

from flintmq.console.guard.sessions import Session

FIELDS_MAX: Final = 1_000
"""Of one form: a page of rows to choose from, and some."""

TOKEN_FIELD: Final = "csrf"  # noqa: S105  # the name of a field

FORM_TYPE: Final = "application/x-www-form-urlencoded"


class Form:
    """The fields of a form; one that is not there is empty."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    def text(self, name: str) -> str:
        return next((value for field, value in self._pairs if field == name), "").strip()

    def every(self, name: str) -> list[str]:
        """All values of a field that may be chosen several times."""
        return [value for field, value in self._pairs if field == name]

    @property
    def fields(self) -> Mapping[str, str]:
        return dict(self._pairs)


async def read_form(request: Request) -> Form:
    """The form of a POST; its size was checked at the door."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != FORM_TYPE:
        raise HTTPException(415, "Send the form as a browser does.")
    body = await request.body()
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX, errors="strict"
        )
    except ValueError:
        raise HTTPException(400, "The form cannot be read.") from None
    return Form(pairs)


def require_token(form: Form, session: Session) -> None:
    if not session.is_own_token(form.text(TOKEN_FIELD)):
        reason = "The form is not of this session. Go back, reload the page and send it again."
        raise HTTPException(403, reason)
