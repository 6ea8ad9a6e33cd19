"""What is known of sends that were seen before: headers, properties, and forms for the kernel.

A `FastSender` is one connection: the headers it wrote last, to be tried first.  What a header or
properties stand for is in `KnownHeader` and `KnownText`; `fast_send` finds it out, keeps it and
says how long it is true.
"""

from __future__ import annotations

from collections.abc import Mapping

from flintmq.broker.requests.peer import Peer
from flintmq.broker.send.send_answer import SentFrame
from flintmq.broker.send.send_batch import FOUND_BY
from flintmq.kernel.layout import RECORD_BYTES_MIN
from flintmq.kernel.python.send_forms import BatchForm, SendForm
from flintmq.model import properties as names
from flintmq.model.java_hash import tags_code
from flintmq.protocol.headers.send_cut import SendMould
from flintmq.protocol.records.record_pattern import RecordPattern, packed_host
from flintmq.store.queues.dispatch import keys_of

MOULDS_MAX = 64
"""Headers tried first, of one connection."""

FORMS_MAX = 8
"""Those that are alike up to their queue: other tags, packed or not."""

QUEUE_FIELD = b'"e":"'

RESTS_MAX = 16
REST_BYTES_MAX = 512
"""What is known of the properties of messages in batches, for each text of a header."""


class FastSender:
    """A connection, and the headers it wrote last."""

    __slots__ = ("born_host", "form_bytes", "forms", "head_bytes", "moulds", "peer", "true_for")

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.born_host = packed_host(peer.host)
        self.moulds: dict[bytes, tuple[SendMould, KnownHeader, KnownText]] = {}
        self.forms: dict[bytes, tuple[SendForm, ...]] = {}  # of any queue, for the kernel
        self.head_bytes = self.form_bytes = 0
        self.true_for: object = None

    def remember(
        self, mould: SendMould, known: KnownHeader, text: KnownText, true_for: object
    ) -> None:
        """A header was taken; the next one may be like it."""
        if self.true_for is not true_for or len(self.moulds) >= MOULDS_MAX:
            self.moulds.clear()
            self.forms.clear()
            self.true_for = true_for
        self.moulds[mould.head] = mould, known, text
        self.head_bytes = len(mould.head)
        if known.queues:
            form = form_of(mould, known, text, self.born_host)
            others = (each for each in self.forms.get(form.head, ()) if not _same(each, form))
            self.forms[form.head] = (form, *others)[:FORMS_MAX]
            self.form_bytes = len(form.head)


class KnownHeader:
    """A header that was seen before: what it stands for.

    With other queue ids below ``queues`` it stands for the same; 0 where that is not known.
    """

    __slots__ = ("answer", "group", "is_batch", "is_oneway", "pattern", "queues")

    def __init__(
        self,
        pattern: RecordPattern,
        answer: SentFrame,
        group: str,
        *,
        is_oneway: bool,
        is_batch: bool,
        queues: int,
    ) -> None:
        self.queues = queues
        self.group = group
        self.pattern = pattern
        self.answer = answer
        self.is_oneway = is_oneway
        self.is_batch = is_batch


class KnownText:
    """Properties that were seen before, around a unique id of ``id_bytes``."""

    __slots__ = ("after", "before", "found_by", "id_bytes", "is_fifo", "keys", "rests", "tags_code")

    def __init__(
        self, before: bytes, after: bytes, id_bytes: int, properties: Mapping[str, str]
    ) -> None:
        self.before = before
        self.after = after
        self.id_bytes = id_bytes
        self.is_fifo = names.SHARDING_KEY in properties
        self.tags_code = tags_code(properties.get(names.TAGS))
        self.keys = keys_of(properties)[1:]
        self.found_by = {name: properties[name] for name in FOUND_BY if name in properties}
        self.rests: dict[bytes, tuple[int, tuple[str, ...]]] = {}
        """Of messages in a batch: the tags code, and the keys besides the id that all share."""

    def learn_rest(self, rest: bytes, tags_code: int, keys: tuple[str, ...]) -> None:
        """Properties of messages in a batch, without their ids, were looked at."""
        if len(rest) <= REST_BYTES_MAX:
            if len(self.rests) >= RESTS_MAX:
                self.rests.clear()
            self.rests[rest] = tags_code, keys


def form_of(mould: SendMould, known: KnownHeader, text: KnownText, born_host: bytes) -> SendForm:
    """All that is known of such sends, as the kernel takes it."""
    pattern = known.pattern
    batch = None
    if known.is_batch:
        common_bytes = len(text.before) + text.id_bytes + len(text.after)
        each_bytes = RECORD_BYTES_MIN + len(pattern.topic) + common_bytes
        batch = BatchForm(text.rests, known.answer.id_prefix, each_bytes)
    magic, queue_and_flag, sys_flag, store_rest, topic_field = pattern.pieces()
    start, middle, id_bytes, rest, tail = mould.pieces
    head, field, gap = start.partition(QUEUE_FIELD)
    return SendForm(
        head + field,
        gap.lstrip(b"0123456789"),
        middle,
        id_bytes,
        rest,
        tail,
        pattern.fixed_bytes,
        magic,
        queue_and_flag[4:],
        sys_flag,
        born_host,
        store_rest,
        topic_field,
        text.before,
        text.after,
        text.tags_code,
        tuple(text.keys),
        pattern.topic,
        known.queues,
        text.is_fifo,
        None if known.is_oneway else known.answer.pieces,
        batch,
    )


def _same(one: SendForm, other: SendForm) -> bool:
    """Whether they are of the same headers."""
    return one[:6] == other[:6]
