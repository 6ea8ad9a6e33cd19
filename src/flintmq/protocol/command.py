"""One remoting command: what a frame means.

A command is a request or an answer.  Which one, and whether an answer is wanted, its
flag tells; which answer belongs to which request, its opaque number tells.  The typed
header stays undecoded in ``fields`` until somebody asks for it by class, so a request that
is only passed on keeps every field, known or not.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Raw

from flintmq.protocol.fields import (
    NO_FIELDS,
    Header,
    Int32,
    read_fields,
    read_header,
    write_header,
)

VERSION = 479
"""What we say we are: V5_3_3, so that 5.x peers use all they have."""

LANGUAGE = "PYTHON"

ANSWER_BIT = 1
ONEWAY_BIT = 2

H = TypeVar("H", bound=Header)


class Command(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={"fields": "extFields", "body": " body"},  # no header field: `decode` sets it
):
    """A request or an answer, header and body.

    Defaults are what a Java peer takes for granted when a field is missing; `request` and
    `answer` say who we are.
    """

    code: Int32 = 0
    opaque: Int32 = 0
    flag: Int32 = 0
    version: Int32 = 0
    language: str = "JAVA"
    remark: str | None = None
    fields: Raw = NO_FIELDS
    body: bytes = b""

    @property
    def is_answer(self) -> bool:
        return self.flag & ANSWER_BIT != 0

    @property
    def is_oneway(self) -> bool:
        return self.flag & ONEWAY_BIT != 0

    def header(self, kind: type[H]) -> H:
        """The typed header; `MalformedHeader` names the field when the peer sent a bad one."""
        return read_header(kind, self.fields)

    def field_texts(self) -> dict[str, str]:
        """Every header field as text, known or not."""
        return read_fields(self.fields)


def request(
    code: int,
    header: Header | None = None,
    body: bytes = b"",
    *,
    oneway: bool = False,
    opaque: int = 0,
) -> Command:
    """A request with a typed header; `Connection.call` gives it its opaque number."""
    return Command(
        code=code,
        opaque=opaque,
        flag=ONEWAY_BIT if oneway else 0,
        version=VERSION,
        language=LANGUAGE,
        fields=NO_FIELDS if header is None else write_header(header),
        body=body,
    )


def answer(
    to: Command,
    code: int,
    header: Header | None = None,
    body: bytes = b"",
    *,
    remark: str | None = None,
) -> Command:
    """The answer to a request, under its opaque number."""
    return Command(
        code=code,
        opaque=to.opaque,
        flag=ANSWER_BIT,
        version=VERSION,
        language=LANGUAGE,
        remark=remark,
        fields=NO_FIELDS if header is None else write_header(header),
        body=body,
    )
