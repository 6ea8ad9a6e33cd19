"""Signed sends that are like the ones before: their signature is checked without decoding them.

    frame ─► without its signature ─► header known ─► content from a template ─► HMAC ─► passes
                                            └─ unknown ─► decoded, checked, known the next time

Sends of a producer differ in time, properties, opaque number and body.  All else, topic and user
among it, is the same bytes, so the rights they need are the same.  What is signed is made of the
same parts: the values of all fields in the order of their names, then the body.

Invariant: every signature is computed and compared; only what it is computed over is put together
from known parts.  Known headers count for one rule set and one connection.
"""

from __future__ import annotations

from binascii import b2a_base64
from hmac import compare_digest
from typing import Final

import msgspec

from flintmq.access.rules import RuleSet, User
from flintmq.errors import MalformedHeader
from flintmq.protocol.command import Command
from flintmq.protocol.frame import Frame
from flintmq.protocol.headers.send_cut import (
    SIGNATURE_AT,
    SIGNATURE_FIELD,
    SIGNED_BYTES,
    TIME_FIELD,
    TIME_FIELD_BYTES,
    SendMould,
    TextMould,
    cut_send,
    fit,
    mould_of,
    strip_signature,
)
from flintmq.protocol.signature import QUERY_FLAG, SIGNATURE, signing_key
from flintmq.protocol.wire import decode_command

HEADERS_MAX: Final = 64
"""Headers known of one connection: a producer has one for each queue it sends to."""

REFIT_AFTER: Final = 16
"""Sends whose properties differ in more than the id, until others are expected: it costs two.
Every time it is twice as many, since keys that always differ fit nothing …"""

REFIT_MAX: Final = 1_024
"""… and no more than so many."""

_TIME: Final = "g"
_PROPERTIES: Final = "i"
_QUOTE: Final = b'"'
_OTHER: Final = {_TIME: "1234567890123", _PROPERTIES: "A1"}
_OTHER_OPAQUE: Final = 7
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError)
_text_of = msgspec.json.Decoder(str).decode


class _KnownSend:
    """A header with holes, and the parts of what is signed.

    Most sends differ from the one before in time and unique id alone: those need no decoding at
    all.  Where properties differ in more than that, they are decoded.
    """

    __slots__ = ("_exact", "_misses", "_mould", "_parts", "_patience", "_texts", "key", "user")

    def __init__(self, mould: TextMould, user: User, before: str, between: str, after: str) -> None:
        self.user = user
        self.key = signing_key(user.secret)
        self._mould = mould
        self._parts = before.encode(), between.encode(), after.encode()
        self._exact: SendMould | None = None
        self._texts = b"", b""
        self._misses = 0
        self._patience = REFIT_AFTER

    def content(self, header: bytes, body: bytes) -> bytes | None:
        """What is signed, of a header with the same head; None when the rest differs."""
        before, between, after = self._parts
        if self._exact is not None and (values := self._exact.values(header)) is not None:
            first, last = self._texts
            return b"".join((before, values[0], first, values[1], last, body))
        found = self._mould.values(header)
        if found is None:
            return None
        time, text = found
        properties = _decoded(text)
        if properties is None:
            return None
        self._misses += 1
        if self._misses >= self._patience:
            self._patience = min(2 * self._patience, REFIT_MAX)
            self.fit((0, header, body))
        return b"".join((before, time, between, properties, after, body))

    def fit(self, bare: Frame) -> None:
        """Expect properties like those of this header in the next ones."""
        self._misses = 0
        cut = cut_send(bare)
        if cut is None:
            return
        _, between, after = self._parts
        first, last = _decoded(b'"%b"' % cut[2]), _decoded(b'"%b"' % cut[4])
        if first is not None and last is not None:
            self._exact = fit(bare, cut)
            self._texts = between + first, last + after


class KnownSends:
    """The signed headers that one connection sent last."""

    __slots__ = ("_known", "_rules", "_seen")

    def __init__(self) -> None:
        self._known: dict[bytes, _KnownSend] = {}
        self._seen: dict[bytes, None] = {}  # heads of headers that came once
        self._rules: RuleSet | None = None

    def check(self, frame: Frame, rules: RuleSet) -> tuple[bytes, User] | None:
        """The header without its signature and who signed it; None where that is not known.

        A wrong signature is None too: whoever decodes the frame says why it is refused.
        """
        if rules is not self._rules:
            self._known.clear()
            return None
        form, signed, body = frame
        at = signed.rfind(SIGNATURE_FIELD)  # as `strip_signature`, without the call
        if at < 0 or form:
            return None
        stop = at + SIGNED_BYTES
        header = signed[:at] + signed[stop:]
        known = self._known.get(header[: header.find(TIME_FIELD) + TIME_FIELD_BYTES])
        if known is None:
            return None
        content = known.content(header, body)
        if content is None:
            return None
        signature = b2a_base64(known.key.digest(content), newline=False) + _QUOTE
        if not compare_digest(signature, signed[at + SIGNATURE_AT : stop]):
            return None
        return header, known.user

    def learn(self, frame: Frame, command: Command, user: User, rules: RuleSet) -> None:
        """A signed send passed: know its header from the second time on, if it is written the
        usual way.  A header that comes once would cost more than it saves.
        """
        form, header, body = frame
        stripped = strip_signature(header)
        if stripped is None or user.unsigned_from:
            return
        bare = form, stripped[0], body
        mould = mould_of(bare)
        if mould is None:
            return
        if mould.head not in self._seen:
            if len(self._seen) >= HEADERS_MAX:
                self._seen.clear()
            self._seen[mould.head] = None
            return
        fields = _same_without_signature(bare, command)
        if (
            fields is None
            or QUERY_FLAG in fields
            or not _means_what_it_says(mould, command, fields)
        ):
            return
        names = sorted(fields)
        before = "".join(fields[name] for name in names if name < _TIME)
        between = "".join(fields[name] for name in names if _TIME < name < _PROPERTIES)
        after = "".join(fields[name] for name in names if name > _PROPERTIES)
        if self._rules is not rules or len(self._known) >= HEADERS_MAX:
            self._known.clear()
            self._rules = rules
        known = self._known[mould.head] = _KnownSend(mould, user, before, between, after)
        known.fit(bare)


def _decoded(text: bytes) -> bytes | None:
    """What a JSON string in quotes stands for, as UTF-8."""
    try:
        return _text_of(text).encode()
    except _UNREADABLE:
        return None


def _same_without_signature(bare: Frame, command: Command) -> dict[str, str] | None:
    """The fields of a header without its signature; None where it means anything else than before.

    Cutting bytes out of a header is safe only for headers that are written the usual way: a peer
    may write the name of the field as part of another name, or write fields twice.
    """
    fields = command.field_texts()
    fields.pop(SIGNATURE, None)
    return fields if _is_like(bare[1], command, fields, command.opaque) else None


def _means_what_it_says(mould: TextMould, command: Command, fields: dict[str, str]) -> bool:
    """Whether other values in the holes are another time, other properties, another number, and
    nothing else changes.
    """
    time, text = _OTHER[_TIME].encode(), _OTHER[_PROPERTIES].encode()
    other = mould.fill(time, text, b"%d" % _OTHER_OPAQUE)
    return _is_like(other, command, {**fields, **_OTHER}, _OTHER_OPAQUE)


def _is_like(header: bytes, command: Command, fields: dict[str, str], opaque: int) -> bool:
    try:
        other = decode_command((0, header, b""))
        return (other.field_texts(), other.code, other.flag, other.version, other.opaque) == (
            fields,
            command.code,
            command.flag,
            command.version,
            opaque,
        )
    except MalformedHeader:
        return False
