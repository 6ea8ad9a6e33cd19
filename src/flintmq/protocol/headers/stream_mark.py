"""The mark that requests of pulling consumers carry, as RocketMQ's do.

No broker acts on it.  It stands in front of all other fields, so that nothing has to be read or
written anew to put it there.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from flintmq.protocol.command import Command

_MARK: Final = b'{"ReqT":"0"'


def mark_stream(request: Command) -> Command:
    """The request with the mark of a consumer that pulls by itself."""
    fields = bytes(request.fields)
    rest = fields[1:].lstrip()
    if rest.startswith(b"}"):
        return replace(request, fields=Raw(_MARK + b"}"))
    return replace(request, fields=Raw(_MARK + b"," + rest))
