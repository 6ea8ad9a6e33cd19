"""The offset of a stream: the range of each queue in its last micro-batch.

    {"v": 1, "q": {"orders|broker-a|0": {"from": 5, "to": 10}, …}}

It is the end offset of a micro-batch and describes all of it: Spark writes it to the checkpoint
before it runs the micro-batch, and a micro-batch that is run again reads the same ranges.  The
next one continues at ``to``, except in queues that are new to the stream or were assigned to it
again: those have a start of their own.

Spark compares offsets as text, so the keys are in the order of the queues.  In a key, ``%`` and
``|`` of a name are written ``%25`` and ``%7C``; RocketMQ allows both in topics.

Invariant: each queue is in it once, and an offset that is read back equals the one written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from flintmq.errors import InvalidSetting
from flintmq.model.queue import QueueOffset, QueueRef, Span

VERSION: Final = 1

_SEPARATOR: Final = "|"


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The ranges of a micro-batch; a queue of which it reads nothing has an empty range."""

    spans: tuple[Span, ...] = ()

    def __post_init__(self) -> None:
        refs = (span.queue for span in self.spans)
        if not all(one < next_one for one, next_one in pairwise(refs)):
            raise ValueError("queues must be sorted, and each there once")

    @classmethod
    def of(cls, spans: Iterable[Span]) -> StreamOffset:
        """The offset with these spans, in any order."""
        return cls(tuple(sorted(spans, key=lambda span: span.queue)))

    @classmethod
    def at(cls, places: Mapping[QueueRef, QueueOffset]) -> StreamOffset:
        """The offset before the first micro-batch: empty ranges at the start offsets."""
        return cls.of(Span(queue, offset, offset) for queue, offset in places.items())

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> StreamOffset:
        """Read an offset of a checkpoint; `InvalidSetting` when it is not of this format."""
        version = tree.get("v")
        if version != VERSION:
            reason = (
                f"its offsets are of version {version!r}, and this is version {VERSION}: "
                "go on with the flintmq that wrote it, or start with a new checkpoint"
            )
            raise InvalidSetting("checkpointLocation", str(tree)[:80], reason)
        try:
            return cls.of(
                Span(queue_of(key), _number(span["from"]), _number(span["to"]))
                for key, span in tree["q"].items()
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"its offsets cannot be read ({error}): start with a new checkpoint"
            raise InvalidSetting("checkpointLocation", str(tree)[:80], reason) from None

    def to_json(self) -> dict[str, Any]:
        """The offset as plain dictionaries, always in the same order."""
        spans = {key_of(span.queue): {"from": span.start, "to": span.stop} for span in self.spans}
        return {"v": VERSION, "q": spans}

    @property
    def stops(self) -> dict[QueueRef, QueueOffset]:
        """The offset at which the next micro-batch continues in each queue."""
        return {span.queue: span.stop for span in self.spans}

    @property
    def message_count(self) -> int:
        """The number of offsets in all ranges; a filter may leave fewer messages."""
        return sum(map(len, self.spans))

    def advance(
        self,
        stops: Mapping[QueueRef, QueueOffset],
        starts: Mapping[QueueRef, QueueOffset] | None = None,
    ) -> StreamOffset:
        """The micro-batch after this one: up to ``stops``, from ``starts`` or from the end of this.

        ``starts`` has at least the queues that are new.  A queue that is not in ``stops`` is left
        out.  When there is nothing to read the same offset is returned, which tells Spark that no
        micro-batch is due.
        """
        here = self.stops
        given = starts or {}
        spans = []
        for queue, stop in stops.items():
            start = given.get(queue, here.get(queue))
            if start is None:
                raise ValueError(f"{queue} is new, and nobody said where it starts")
            spans.append(Span(queue, start, max(start, stop)))
        return StreamOffset.of(spans) if any(map(len, spans)) else self


def key_of(queue: QueueRef) -> str:
    return _SEPARATOR.join((_escaped(queue.topic), _escaped(queue.broker), str(queue.queue_id)))


def queue_of(key: str) -> QueueRef:
    """The queue of a key; ValueError when it is malformed."""
    topic, broker, queue_id = key.split(_SEPARATOR)
    return QueueRef(_plain(topic), _plain(broker), int(queue_id))


def _escaped(name: str) -> str:
    return name.replace("%", "%25").replace(_SEPARATOR, "%7C")


def _plain(text: str) -> str:
    return text.replace("%7C", _SEPARATOR).replace("%25", "%")


def _number(value: object) -> QueueOffset:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no offset")
    return QueueOffset(value)
