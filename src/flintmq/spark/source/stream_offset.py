"""The offset of a stream: which messages its last batch holds, queue by queue.

    {"v": 1, "q": {"orders|broker-a|0": {"from": 5, "to": 10}, …}}

It is the end of a batch and says all of it: Spark keeps it in the checkpoint before it runs the
batch, and a batch that is run again reads the same ranges.  The next batch goes on at ``to``,
except in queues that are new to the stream or came back to it: those start where they are told.

Spark compares offsets as text, so the order of keys is fixed: that of the queues.  In a key, ``%``
and ``|`` of a name are written ``%25`` and ``%7C``; RocketMQ allows both in topics.

Invariant: each queue is there once, and an offset read back is the one that was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from flintmq.errors import InvalidSetting
from flintmq.model.queue import QueueOffset, QueueRef, Span

VERSION: Final = 1

_SEPARATOR: Final = "|"


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The ranges of a batch; a queue that has nothing in it has an empty range."""

    spans: tuple[Span, ...] = ()

    def __post_init__(self) -> None:
        refs = [span.queue for span in self.spans]
        if sorted(set(refs)) != refs:
            raise ValueError("queues must be sorted, and each there once")

    @classmethod
    def of(cls, spans: Iterable[Span]) -> StreamOffset:
        """In any order."""
        return cls(tuple(sorted(spans, key=lambda span: span.queue)))

    @classmethod
    def at(cls, places: Mapping[QueueRef, QueueOffset]) -> StreamOffset:
        """Before the first batch: nothing read, and where to start."""
        return cls.of(Span(queue, offset, offset) for queue, offset in places.items())

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> StreamOffset:
        """Read an offset of a checkpoint; `InvalidSetting` when it is none of ours."""
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
        """For Spark: plain dictionaries, always in the same order."""
        spans = {key_of(span.queue): {"from": span.start, "to": span.stop} for span in self.spans}
        return {"v": VERSION, "q": spans}

    @property
    def stops(self) -> dict[QueueRef, QueueOffset]:
        """Where the next batch goes on."""
        return {span.queue: span.stop for span in self.spans}

    @property
    def message_count(self) -> int:
        """How many offsets the batch covers; a filter may leave fewer messages."""
        return sum(map(len, self.spans))

    def advance(
        self,
        stops: Mapping[QueueRef, QueueOffset],
        starts: Mapping[QueueRef, QueueOffset] | None = None,
    ) -> StreamOffset:
        """The batch after this one: up to ``stops``, from here or from where ``starts`` says.

        ``starts`` has the queues that are new or were regained.  A queue of which ``stops`` says
        nothing is left out.  When there is nothing to read the offset stays as it is, which
        tells Spark that no batch is due.
        """
        here = self.stops
        told = starts or {}
        spans = []
        for queue, stop in stops.items():
            start = told.get(queue, here.get(queue))
            if start is None:
                raise ValueError(f"{queue} is new, and nobody said where it starts")
            spans.append(Span(queue, start, max(start, stop)))
        return StreamOffset.of(spans) if any(map(len, spans)) else self


def key_of(queue: QueueRef) -> str:
    return _SEPARATOR.join((_escaped(queue.topic), _escaped(queue.broker), str(queue.queue_id)))


def queue_of(key: str) -> QueueRef:
    """Read a key; ValueError when it is none."""
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
