"""Signing commands by an account, as ACL 1.0 and the auth of 5.3 check it.

The signature is the HMAC-SHA1, in Base64, of the values of all header fields in the order
of their names, followed by the body.  It therefore comes last: a field that is added later
breaks it.

One field has a history: brokers of 4.9 leave ``_UNIQUE_KEY_QUERY`` out of the signed content,
later ones only for senders up to 4.9.3.  `sign` sends such a command as 4.9.3, so that every
broker accepts it; `verify` accepts both.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode

from msgspec.structs import replace

from flintmq.protocol.command import Command
from flintmq.protocol.fields import write_fields
from flintmq.protocol.version import QUERY_FLAG_UNSIGNED_UNTIL

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105  # the name of a field
SIGNATURE = "Signature"

_QUERY_FLAG = "_UNIQUE_KEY_QUERY"


def sign(
    command: Command, access_key: str, secret_key: str, security_token: str | None = None
) -> Command:
    """The command with the fields that prove who sends it."""
    fields = command.field_texts()
    fields[ACCESS_KEY] = access_key
    if security_token is not None:
        fields[SECURITY_TOKEN] = security_token
    version = command.version
    if _QUERY_FLAG in fields:
        version = min(version, QUERY_FLAG_UNSIGNED_UNTIL)
    fields[SIGNATURE] = _signature(fields, command.body, secret_key, {SIGNATURE, _QUERY_FLAG})
    return replace(command, fields=write_fields(fields), version=version)


def verify(command: Command, secret_key: str) -> bool:
    """Whether the signature was made with this secret, over this command."""
    fields = command.field_texts()
    given = fields.get(SIGNATURE, "").encode()
    exempt = [{SIGNATURE}]
    if _QUERY_FLAG in fields:
        exempt.append({SIGNATURE, _QUERY_FLAG})
    return any(
        hmac.compare_digest(_signature(fields, command.body, secret_key, names).encode(), given)
        for names in exempt
    )


def _signature(fields: dict[str, str], body: bytes, secret_key: str, exempt: set[str]) -> str:
    values = (fields[name] for name in sorted(fields) if name not in exempt)
    content = "".join(values).encode() + body
    return b64encode(hmac.digest(secret_key.encode(), content, hashlib.sha1)).decode()
