r"""The header of a send, cut into what repeats and what differs.

A producer writes the same header again and again: only the time, the properties and the opaque
number differ from one message to the next, and of the properties mostly the unique id alone.
So a server that knows the rest, byte for byte, need not decode it again.  `send_template` is the
other end of this.

    {"code":310, … "g":"TIME" … "i":"…UNIQ_KEY\u0001ID\u0002…" … "opaque":NUMBER, …}

What is cut out is digits, or letters and digits: whatever they are, the header around them means
the same.  A header that looks different is not cut, and whoever asked decodes it as a whole.

Invariant: the places of the cuts follow from the pieces, so equal pieces are equal headers.
"""

from __future__ import annotations

from typing import Final, TypeAlias
from weakref import WeakValueDictionary

from flintmq.protocol.frame import Frame, HeaderForm

SendCut: TypeAlias = tuple[bytes, bytes, bytes, bytes, bytes, bytes]
"""All but time, properties and number; time; properties before the id; id; after it; number."""

_JSON = int(HeaderForm.JSON)
_FRONTS: Final = frozenset({b'{"code":310,', b'{"code":320,'})
_FRONT_BYTES = 12
TIME_FIELD: Final = b'"g":"'
TIME_FIELD_BYTES: Final = len(TIME_FIELD)
_TIME_DIGITS: Final = 13  # from the year 2001 to 2286
_PROPERTIES: Final = b'"i":"'
_PROPERTIES_BYTES = len(_PROPERTIES)
_OPAQUE: Final = b'"opaque":'
_OPAQUE_BYTES = len(_OPAQUE)
_OPAQUE_DIGITS_MAX: Final = 9  # any number of so many digits fits 32 bits
_UNIQUE: Final = b"UNIQ_KEY\\u0001"
_UNIQUE_BYTES = len(_UNIQUE)
_SEPARATOR: Final = b"\\u0002"
_SIGNATURE: Final = b'"Signature":'  # differs with every message
SIGNATURE_FIELD: Final = b',"Signature":"'
SIGNATURE_AT: Final = len(SIGNATURE_FIELD)
SIGNED_BYTES: Final = SIGNATURE_AT + 29
"""The field with its value: twenty bytes of HMAC-SHA1 in Base64, and a quote."""

_ZERO = ord("0")

CUT_BYTES_MAX: Final = 2_048
"""A longer header is not cut: who sends such ones could fill the memory of whoever knows them.
That of a message with some keys and properties has 500 bytes."""


def cut_send(frame: Frame) -> SendCut | None:
    """The pieces of a send's header; nothing when it is not written the usual way."""
    form, header, _ = frame
    if form != _JSON or header[:_FRONT_BYTES] not in _FRONTS or _SIGNATURE in header:
        return None
    if len(header) > CUT_BYTES_MAX:
        return None
    time_at = header.find(TIME_FIELD) + TIME_FIELD_BYTES
    time_stop = time_at + _TIME_DIGITS
    text_at = header.find(_PROPERTIES, time_stop) + _PROPERTIES_BYTES
    id_at = header.find(_UNIQUE, text_at) + _UNIQUE_BYTES
    text_stop = header.find(b'"', text_at)
    id_stop = header.find(_SEPARATOR, id_at, text_stop)
    if id_stop < 0:
        id_stop = text_stop
    opaque_at = header.find(_OPAQUE, text_stop) + _OPAQUE_BYTES
    opaque_stop = header.find(b",", opaque_at)
    # a find in vain makes a place that is before the one before it, whatever comes after
    if not TIME_FIELD_BYTES <= time_at < time_stop < text_at < id_at <= id_stop <= text_stop:
        return None
    if not text_stop < opaque_at < opaque_stop:
        return None
    time = header[time_at:time_stop]
    unique_id = header[id_at:id_stop]
    opaque = header[opaque_at:opaque_stop]
    if not _are_values(time, unique_id, opaque):
        return None
    return (
        header[:time_at]
        + header[time_stop:text_at]
        + header[text_stop:opaque_at]
        + header[opaque_stop:],
        time,
        header[text_at:id_at],
        unique_id,
        header[id_stop:text_stop],
        opaque,
    )


def vary_send(frame: Frame, cut: SendCut, time_ms: int, unique_id: str, opaque: int) -> Frame:
    """A frame with other values where it was cut, to try whether they mean these values."""
    _, time, before, own_id, after, number = cut
    form, header, body = frame
    for old, new in (
        (TIME_FIELD + time, TIME_FIELD + b"%d" % time_ms),
        (_PROPERTIES + before + own_id + after, _PROPERTIES + before + unique_id.encode() + after),
        (_OPAQUE + number + b",", _OPAQUE + b"%d," % opaque),
    ):
        header = header.replace(old, new, 1)
    return form, header, body


class SendMould:
    """One header with holes for time, id and number, which the next ones are tried against.

    It costs half of a cut.  ``head`` is what stands before the time.  `fit` makes one.
    """

    __slots__ = (
        "__weakref__",
        "_id_at",
        "_id_stop",
        "_last",
        "_middle",
        "_opaque_at",
        "_rest",
        "_tail",
        "_time_stop",
        "_values",
        "head",
        "pieces",
    )

    def __init__(self, head: bytes, middle: bytes, id_bytes: int, rest: bytes, tail: bytes) -> None:
        self.head = head
        self.pieces = head, middle, id_bytes, rest, tail
        self._time_stop = len(head) + _TIME_DIGITS
        self._id_at = self._time_stop + len(middle)
        self._id_stop = self._id_at + id_bytes
        self._opaque_at = self._id_stop + len(rest)
        self._middle = middle
        self._rest = rest
        self._tail = tail
        self._last = b""
        self._values: tuple[bytes, bytes, bytes] | None = None

    def values(self, header: bytes) -> tuple[bytes, bytes, bytes] | None:
        """Time, id and number of a JSON header with the same head; nothing when the rest differs.

        Of the header that was asked for last they are known: a gate asks before its session does.
        """
        if header is self._last:
            return self._values
        if (
            header[self._time_stop : self._id_at] != self._middle
            or header[self._id_stop : self._opaque_at] != self._rest
        ):
            return None
        opaque, _, tail = header[self._opaque_at :].partition(b",")
        time = header[self._time_stop - _TIME_DIGITS : self._time_stop]
        unique_id = header[self._id_at : self._id_stop]
        if not (  # as `_are_values`, without the call
            tail == self._tail
            and time.isdigit()
            and time[0] != _ZERO
            and unique_id.isalnum()
            and opaque.isdigit()
            and opaque[0] != _ZERO
            and len(opaque) <= _OPAQUE_DIGITS_MAX
        ):
            return None
        self._last = header
        self._values = values = time, unique_id, opaque
        return values


_moulds: WeakValueDictionary[tuple[bytes, bytes, int, bytes, bytes], SendMould] = (
    WeakValueDictionary()
)


def fit(frame: Frame, cut: SendCut) -> SendMould:
    """The mould of a header that was cut; equal headers have the same one."""
    header = frame[1]
    _, time, before, unique_id, _, opaque = cut
    time_at = header.find(TIME_FIELD) + TIME_FIELD_BYTES
    time_stop = time_at + len(time)
    text_at = header.find(_PROPERTIES, time_stop) + _PROPERTIES_BYTES
    id_at = text_at + len(before)
    id_stop = id_at + len(unique_id)
    opaque_at = header.find(_OPAQUE, header.find(b'"', text_at)) + _OPAQUE_BYTES
    parts = (
        header[:time_at],
        header[time_stop:id_at],
        len(unique_id),
        header[id_stop:opaque_at],
        header[opaque_at + len(opaque) + 1 :],
    )
    mould = _moulds.get(parts)
    if mould is None:
        mould = _moulds[parts] = SendMould(*parts)
    return mould


def _are_values(time: bytes, unique_id: bytes, opaque: bytes) -> bool:
    """Whether they can stand for others without changing what is around them."""
    return (
        time.isdigit()
        and time[0] != _ZERO
        and unique_id.isalnum()
        and opaque.isdigit()
        and opaque[0] != _ZERO
        and len(opaque) <= _OPAQUE_DIGITS_MAX
    )


class TextMould:
    """One header with holes for time, all properties and number; the properties may be any text.

    `mould_of` makes one.  ``head`` is what stands before the time.
    """

    __slots__ = ("_middle", "_rest", "_tail", "_text_at", "_time_at", "_time_stop", "head")

    def __init__(self, head: bytes, middle: bytes, rest: bytes, tail: bytes) -> None:
        self.head = head
        self._time_at = len(head)
        self._time_stop = self._time_at + _TIME_DIGITS
        self._text_at = self._time_stop + len(middle)
        self._middle = middle
        self._rest = rest
        self._tail = tail

    def values(self, header: bytes) -> tuple[bytes, bytes] | None:
        """Time and properties of a header with the same head; nothing when the rest differs.

        Properties come as they are written, in quotes.
        """
        text_at = self._text_at
        rest, tail = self._rest, self._tail
        text_stop = header.find(b'"', text_at)
        opaque_at = text_stop + len(rest)
        opaque_stop = header.find(b",", opaque_at)
        time = header[self._time_at : self._time_stop]
        if (
            header[self._time_stop : text_at] == self._middle
            and header[text_stop:opaque_at] == rest
            and header[opaque_stop:] == tail
            and time.isdigit()
            and header[opaque_at:opaque_stop].isdigit()
        ):
            return time, header[text_at - 1 : text_stop + 1]
        return None

    def fill(self, time: bytes, text: bytes, opaque: bytes) -> bytes:
        """The header with these values."""
        return b"".join((self.head, time, self._middle, text, self._rest, opaque, self._tail))


def mould_of(frame: Frame) -> TextMould | None:
    """The mould of a send's header; nothing when it is not written the usual way."""
    form, header, _ = frame
    if form != _JSON or header[:_FRONT_BYTES] not in _FRONTS or _SIGNATURE in header:
        return None
    if len(header) > CUT_BYTES_MAX:
        return None
    time_at = header.find(TIME_FIELD) + TIME_FIELD_BYTES
    time_stop = time_at + _TIME_DIGITS
    text_at = header.find(_PROPERTIES, time_stop) + _PROPERTIES_BYTES
    text_stop = header.find(b'"', text_at)
    opaque_at = header.find(_OPAQUE, text_stop) + _OPAQUE_BYTES
    opaque_stop = header.find(b",", opaque_at)
    # a find in vain makes a place that is before the one before it
    if not TIME_FIELD_BYTES <= time_at < time_stop < text_at <= text_stop < opaque_at < opaque_stop:
        return None
    return TextMould(
        header[:time_at],
        header[time_stop:text_at],
        header[text_stop:opaque_at],
        header[opaque_stop:],
    )


def strip_signature(header: bytes) -> tuple[bytes, bytes] | None:
    """A JSON header without its signature, and the signature with the quote behind it; None where
    none is found.

    It looks at bytes alone.  Whether the rest still means the same, and what was cut out is a
    signature, whoever uses it has to see.  No client writes the signature as the first of all
    fields: the name of the account comes before.
    """
    at = header.rfind(SIGNATURE_FIELD)  # most clients write it last
    stop = at + SIGNED_BYTES
    return None if at < 0 else (header[:at] + header[stop:], header[at + SIGNATURE_AT : stop])
