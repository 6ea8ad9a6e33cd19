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

from flintmq.protocol.frame import Frame, HeaderForm

SendCut: TypeAlias = tuple[bytes, bytes, bytes, bytes, bytes, bytes]
"""All but time, properties and number; time; properties before the id; id; after it; number."""

_JSON = int(HeaderForm.JSON)
_FRONTS: Final = frozenset({b'{"code":310,', b'{"code":320,'})
_FRONT_BYTES = 12
_TIME: Final = b'"g":"'
_TIME_BYTES = len(_TIME)
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
_ZERO = ord("0")


def cut_send(frame: Frame) -> SendCut | None:
    """The pieces of a send's header; nothing when it is not written the usual way."""
    form, header, _ = frame
    if form != _JSON or header[:_FRONT_BYTES] not in _FRONTS or _SIGNATURE in header:
        return None
    time_at = header.find(_TIME) + _TIME_BYTES
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
    if not _TIME_BYTES <= time_at < time_stop < text_at < id_at <= id_stop <= text_stop:
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
    """The same frame with other values where it was cut, to try whether they mean these values."""
    _, time, before, own_id, after, number = cut
    form, header, body = frame
    for old, new in (
        (_TIME + time, _TIME + b"%d" % time_ms),
        (_PROPERTIES + before + own_id + after, _PROPERTIES + before + unique_id.encode() + after),
        (_OPAQUE + number + b",", _OPAQUE + b"%d," % opaque),
    ):
        header = header.replace(old, new, 1)
    return form, header, body


class SendMould:
    """One header with holes for time, id and number, which the next ones are tried against.

    It costs half of a cut.  ``head`` is what stands before the time.
    """

    __slots__ = (
        "_id_at",
        "_id_stop",
        "_middle",
        "_opaque_at",
        "_rest",
        "_tail",
        "_time_stop",
        "head",
    )

    def __init__(self, frame: Frame, cut: SendCut) -> None:
        header = frame[1]
        _, time, before, unique_id, _, opaque = cut
        time_at = header.find(_TIME) + _TIME_BYTES
        self.head = header[:time_at]
        self._time_stop = time_at + len(time)
        text_at = header.find(_PROPERTIES, self._time_stop) + _PROPERTIES_BYTES
        self._id_at = text_at + len(before)
        self._id_stop = self._id_at + len(unique_id)
        text_stop = header.find(b'"', text_at)
        self._opaque_at = header.find(_OPAQUE, text_stop) + _OPAQUE_BYTES
        self._middle = header[self._time_stop : self._id_at]
        self._rest = header[self._id_stop : self._opaque_at]
        self._tail = header[self._opaque_at + len(opaque) + 1 :]

    def values(self, frame: Frame) -> tuple[bytes, bytes, bytes] | None:
        """Time, id and number of a header with the same head; nothing when the rest differs."""
        form, header, _ = frame
        if (
            header[self._time_stop : self._id_at] != self._middle
            or header[self._id_stop : self._opaque_at] != self._rest
            or form != _JSON
        ):
            return None
        opaque, _, tail = header[self._opaque_at :].partition(b",")
        time = header[self._time_stop - _TIME_DIGITS : self._time_stop]
        unique_id = header[self._id_at : self._id_stop]
        if tail != self._tail or not _are_values(time, unique_id, opaque):
            return None
        return time, unique_id, opaque


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
