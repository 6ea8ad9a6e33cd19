"""Signing commands by an account, as ACL 1.0 and the auth of 5.3 check it.

The signature is the HMAC-SHA1, in Base64, of the values of all header fields in the order
of their names, followed by the body.  It therefore comes last: a field that is added later
breaks it.

One field has a history: brokers of 4.9 leave ``_UNIQUE_KEY_QUERY`` out of the signed content,
later ones only for senders up to 4.9.3.  `sign` sends such a command as 4.9.3, so that every
broker accepts it; `verify` follows the later rule.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from functools import lru_cache

from msgspec.structs import replace

from flintmq.protocol.command import Command
from flintmq.protocol.fields import write_fields
from flintmq.protocol.version import QUERY_FLAG_UNSIGNED_UNTIL

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105  # the name of a field
SIGNATURE = "Signature"

QUERY_FLAG = "_UNIQUE_KEY_QUERY"

_BLOCK_BYTES = 64  # of SHA-1
_INNER_PAD = bytes(octet ^ 0x36 for octet in range(256))
_OUTER_PAD = bytes(octet ^ 0x5C for octet in range(256))


def sign(
    command: Command, access_key: str, secret_key: str, security_token: str | None = None
) -> Command:
    """The command with the fields that prove who sends it."""
    fields = command.field_texts()
    fields[ACCESS_KEY] = access_key
    if security_token is not None:
        fields[SECURITY_TOKEN] = security_token
    version = command.version
    if QUERY_FLAG in fields:
        version = min(version, QUERY_FLAG_UNSIGNED_UNTIL)
    fields[SIGNATURE] = _signature(fields, command.body, secret_key, {SIGNATURE, QUERY_FLAG})
    return replace(command, fields=write_fields(fields), version=version)


def verify(command: Command, secret_key: str) -> bool:
    """Whether the signature was made with this secret, over this command."""
    return is_signed_by(secret_key, command.field_texts(), command.body, command.version)


def is_signed_by(secret_key: str, fields: dict[str, str], body: bytes, version: int) -> bool:
    """Whether the signature among these fields was made with this secret.

    Fields are those of the request as text, its signature among them.  The comparison takes the
    same time whatever the signature is.
    """
    given = fields.get(SIGNATURE, "").encode()
    exempt = {SIGNATURE}
    if version <= QUERY_FLAG_UNSIGNED_UNTIL:
        exempt.add(QUERY_FLAG)
    return hmac.compare_digest(_signature(fields, body, secret_key, exempt).encode(), given)


KEYS_MAX = 1_024
"""Secrets whose share is kept: some users at a time; about 1 KB each."""


class SigningKey:
    """A secret whose share of HMAC-SHA1 is computed once: a signature costs a third of the time."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret_key: str) -> None:
        key = secret_key.encode()
        if len(key) > _BLOCK_BYTES:
            key = hashlib.sha1(key, usedforsecurity=False).digest()
        key = key.ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha1(key.translate(_INNER_PAD), usedforsecurity=False)
        self._outer = hashlib.sha1(key.translate(_OUTER_PAD), usedforsecurity=False)

    def digest(self, content: bytes) -> bytes:
        """The HMAC of a content, as RFC 2104 defines it."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(content)
        outer.update(inner.digest())
        return outer.digest()


@lru_cache(KEYS_MAX)
def signing_key(secret_key: str) -> SigningKey:
    """The key of a secret, made once."""
    return SigningKey(secret_key)


def _signature(fields: dict[str, str], body: bytes, secret_key: str, exempt: set[str]) -> str:
    values = (fields[name] for name in sorted(fields) if name not in exempt)
    content = "".join(values).encode() + body
    return b64encode(signing_key(secret_key).digest(content)).decode()
