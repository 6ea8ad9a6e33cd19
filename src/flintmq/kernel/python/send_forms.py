"""What `sends` is given and gives: forms of sends that were seen before, and what is laid out.

A `SendForm` is all that is known of sends of one connection that are alike: the header with holes
for queue id, time, unique id and opaque number, and the pieces of record and answer around what
differs.  Who makes a form has found out that such a send may be stored as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

RawFrame: TypeAlias = tuple[int, bytes, bytes]
"""Form, header and body of a frame."""

Keyed: TypeAlias = tuple[str, int, int | bytes, int]
"""Topic, number of keys, log offset and store time of a record, as the key index takes it.

In place of the log offset may stand the units of several records that share their keys.
"""


class BatchForm(NamedTuple):
    """What is known of the messages in a batch.

    ``rests`` has the tags code and the keys of the properties behind a unique id.  ``id_prefix`` is
    what every message id begins with.  ``each_bytes`` are counted for every message besides what
    the body of the request has.
    """

    rests: Mapping[bytes, tuple[int, tuple[str, ...]]]
    id_prefix: bytes
    each_bytes: int


class SendForm(NamedTuple):
    """Sends that differ in queue id, time, unique id, opaque number and body alone.

    The header is ``head`` queue ``gap`` time ``middle`` id ``rest`` number ``,`` ``tail``, and
    queue ids are below ``queues``.  The properties of the record are ``before`` id ``after``; those
    of a batch stand before that.  ``answer`` are the pieces around log offset, queue id, queue
    offset, id and number; None where nobody waits for one.  ``batch`` is None where a send has one
    message.
    """

    head: bytes
    gap: bytes
    middle: bytes
    id_bytes: int
    rest: bytes
    tail: bytes
    fixed_bytes: int
    magic: bytes
    flag: bytes
    sys_flag: bytes
    born_host: bytes
    store_rest: bytes
    topic_field: bytes
    before: bytes
    after: bytes
    tags_code: int
    keys: tuple[str, ...]
    topic: str
    queues: int
    is_fifo: bool
    answer: tuple[bytes, bytes, bytes, bytes, bytes, bytes] | None
    batch: BatchForm | None


class SendRoom(NamedTuple):
    """Where records go and how large they may be.  ``log_stop`` is where the last one must end.

    A batch may have ``batch_bytes_max``, and begins at ``turn_stop`` at the latest.
    """

    head_bytes: int
    log_offset: int
    log_stop: int
    record_bytes_max: int
    body_bytes_max: int
    batch_bytes_max: int
    turn_stop: int
    now_ms: int


class LaidOut(NamedTuple):
    """What became of the first ``taken`` frames.

    ``grown`` has for every queue what ``growth_of`` gave, its units and its tags codes; ``sizes``
    those of the records by topic and whether they are FIFO; ``batches`` topic, number of messages
    and size of each.
    """

    taken: int
    records: bytes
    grown: list[tuple[Any, bytes, list[int]]]
    sizes: list[tuple[str, bool, list[int]]]
    batches: list[tuple[str, int, int]]
    keys: list[str]
    keyed: list[Keyed]
    answers: list[bytes]
    opaques: list[bytes]
    body_bytes: int
