"""Who makes a call: what the metadata of a call and its connection say.

`x-mq-client-id` names a client for as long as it lives; settings, half messages and receipts are
kept under it.  It must be there.  Everything else may be missing or strange: languages and
versions are only shown to people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flintmq.access.rules import User
from flintmq.printable import printable
from flintmq.proxy.wire.grpc_codes import Code
from flintmq.proxy.wire.statuses import StatusRefusal

CLIENT_ID: Final = "x-mq-client-id"
LANGUAGE: Final = "x-mq-language"
CLIENT_VERSION: Final = "x-mq-client-version"
DATE_TIME: Final = "x-mq-date-time"
AUTHORIZATION: Final = "authorization"

CLIENT_ID_CHARACTERS_MAX: Final = 255
"""Of a client id.  Those of the official clients have about sixty."""

POLLING_TIME_SINCE: Final = "5.0.3"
"""Clients from here on know ILLEGAL_POLLING_TIME."""


@dataclass(frozen=True, slots=True)
class Caller:
    """One call: its client, its connection, its time."""

    client_id: str
    peer: str
    """``ip:port`` of the client."""
    deadline_ms: int | None
    """What is left of its time; None is for ever."""
    metadata: Mapping[str, str]
    user: User | None = None
    """Who signed it, where access control is on."""

    @property
    def language(self) -> str:
        return printable(self.metadata.get(LANGUAGE, "")[:20])

    @property
    def version(self) -> str:
        return printable(self.metadata.get(CLIENT_VERSION, "")[:20])

    @property
    def ip(self) -> str:
        return self.peer.rpartition(":")[0].strip("[]")


def client_id_of(metadata: Mapping[str, str]) -> str:
    """The id of the client; `StatusRefusal` without one."""
    client_id = metadata.get(CLIENT_ID, "").strip()
    if not client_id:
        raise StatusRefusal(Code.CLIENT_ID_REQUIRED, "client id cannot be empty")
    if len(client_id) > CLIENT_ID_CHARACTERS_MAX:
        text = f"client id is longer than {CLIENT_ID_CHARACTERS_MAX} characters"
        raise StatusRefusal(Code.CLIENT_ID_REQUIRED, text)
    return client_id
