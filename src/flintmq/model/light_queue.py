"""Light queues: one record of a topic that is in queues of its own beside that of the topic.

A producer names them in INNER_MULTI_DISPATCH, separated by commas: ``%LMQ%alice,%LMQ%bob``.  The
broker writes the offset that the record has in each of them to INNER_MULTI_QUEUE_OFFSET, in the
same order.  A light queue is the queue 0 of a topic of its name, which nobody creates.

Invariant: a name that is taken is that of one directory, whoever wrote the record: no other place
can be named by it.
"""

from __future__ import annotations

import re

from flintmq.model.group import RETRY_PREFIX
from flintmq.model.topic import SCHEDULE_TOPIC

LIGHT_QUEUE_PREFIX = "%LMQ%"
LIGHT_QUEUE_ID = 0
SEPARATOR = ","
NAME_BYTES_MAX = 255
"""What file systems allow for the name of a directory.  RocketMQ has no limit of its own."""

_SEPARATORS = frozenset("/ " + SEPARATOR)
_OFFSET = re.compile(r"[0-9]{1,18}", re.ASCII)

_SYSTEM_PREFIX = "rmq_sys_"


def is_light(name: str) -> bool:
    """Whether a topic, or a group, is one of light queues."""
    return name.startswith(LIGHT_QUEUE_PREFIX)


def is_light_name(name: str) -> bool:
    """Whether a light queue may have this name.

    One word that can be printed and is the name of a directory: front ends put names of their
    clients into it, with characters that the alphabet of topics does not have.
    """
    return (
        is_light(name)
        and len(name) > len(LIGHT_QUEUE_PREFIX)
        and name.isprintable()
        and not _SEPARATORS.intersection(name)
        and len(name.encode()) <= NAME_BYTES_MAX
    )


def may_have_light(topic: str) -> bool:
    """Whether records of a topic may be in light queues: RocketMQ's rule."""
    return not topic.startswith((RETRY_PREFIX, _SYSTEM_PREFIX)) and topic != SCHEDULE_TOPIC


def light_places(topic: str, names: str, offsets: str) -> list[tuple[str, int]]:
    """The light queues that a record is in, and its offset in each; none where they do not fit.

    ``names`` and ``offsets`` are its two properties.
    """
    if not (names and offsets and may_have_light(topic)):
        return []
    queues, places = names.split(SEPARATOR), offsets.split(SEPARATOR)
    if len(queues) != len(places):
        return []
    return [
        (queue, int(place))
        for queue, place in zip(queues, places, strict=True)
        if is_light_name(queue) and _OFFSET.fullmatch(place)
    ]
