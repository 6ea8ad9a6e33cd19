"""Sends that are like the ones before: taken without being decoded and checked again.

    frame ─► cut ─┬─ header known, properties known ─► record, place and answer from templates
                  └─ else ─► decoded, checked and served as usual ─► known the second time

Nearly all sends of a producer differ in nothing but time, unique id, opaque number and body.  What
the rest means, and that it may be stored, was found out by the normal path (`send_message`).  It is
true as long as neither the settings nor any topic changes, and then everything is forgotten.  What
depends on the message or on the moment is asked each time.

Known headers are for plain sends only, of one message or of a batch: no hooks, nothing delayed,
no transaction, no retry topic, no topic that keeps batches.  All else takes the normal path, with
the same result.

Invariant: what is stored and answered is, byte for byte, what the normal path stores and answers.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from flintmq.broker.send.seen_sends import QUEUE_FIELD, FastSender, KnownHeader, KnownText
from flintmq.broker.send.send_answer import SentFrame, message_ids
from flintmq.broker.send.send_batch import looked_at, split_checked
from flintmq.broker.send.send_checks import MULTI_TAG
from flintmq.broker.send.send_properties import plain_string, waits_for_disk
from flintmq.broker.send.sent_group import SentGroup
from flintmq.broker.state.broker_state import BrokerState
from flintmq.broker.tables.names import name_fault
from flintmq.errors import FlintError
from flintmq.kernel.python.batches import rest_of_all
from flintmq.model import properties as names
from flintmq.model.broker_role import BrokerRole
from flintmq.model.group import is_retry_topic
from flintmq.model.sys_flag import INNER_BATCH, TRANSACTION_MASK
from flintmq.model.topic import Permission
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.frame import Frame, HeaderForm
from flintmq.protocol.headers.send import SendMessageV2
from flintmq.protocol.headers.send_cut import TIME_FIELD, SendCut, cut_send, fit, vary_send
from flintmq.protocol.records.properties import (
    UNIQUE_ID_START,
    parse_properties,
    split_unique_id,
)
from flintmq.protocol.records.record_pattern import pattern_of
from flintmq.protocol.typed_request import RequestReader, TypedRequest
from flintmq.store.files.store_config import Flush

HEADERS_MAX = 16_384
"""Headers known at once; about 2 KB each.  One producer has one for each queue it sends to."""

TEXTS_MAX = 1_024
"""Property strings known at once.  Where keys make every one different, they come and go."""

_CODES = (int(RequestCode.SEND_MESSAGE_V2), int(RequestCode.SEND_BATCH_MESSAGE))
_NOT_PLAIN = TRANSACTION_MASK | INNER_BATCH
_JSON = int(HeaderForm.JSON)
_WRITE = int(Permission.WRITE)
_OTHER_MS, _OTHER_ID, _OTHER_OPAQUE = 1_234_567_890_123, "A1", 7
_OTHER_QUEUE = 7_654_321
_read = RequestReader(
    {RequestCode.SEND_MESSAGE_V2: SendMessageV2, RequestCode.SEND_BATCH_MESSAGE: SendMessageV2}
).read
_text_of = msgspec.json.Decoder(str).decode


class QuickSends:
    """What one broker knows of its producers' headers."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._plain = state.log.plain
        self._known: dict[tuple[int, bytes], KnownHeader] = {}
        self._seen: set[int] = set()  # of headers, by hash
        self._texts: dict[bytes, KnownText | None] = {}  # None: they ask for something special
        self._true_for: tuple[object, object] = (None, None)  # settings and topics
        self._body_bytes_max = 0

    def is_open(self, now_ms: int) -> bool:
        """Whether anything can be taken by the fast path now, in this read."""
        state = self._state
        config = state.config
        return not (
            state.is_stopping
            or state.is_read_only
            or state.unsynced_count >= config.unsynced_sends_max
            or state.unsynced_bytes >= config.unsynced_bytes_max
            or now_ms < config.accept_sends_from_ms
            or state.hooks.before_send
            or state.hooks.after_send
            or state.log.why_not is not None
            or not self._plain.has_room
        )

    def store_all(
        self, frames: list[Frame], start: int, sender: FastSender, group: SentGroup, now_ms: int
    ) -> int:
        """Take sends from ``start`` on while each is like one before it; tell how many."""
        true_for, state = self._true_for, self._state
        if (
            sender.true_for is not true_for
            or true_for[0] is not state.config
            or true_for[1] is not state.topics.version
            or state.quotas.sends
            or not sender.forms
            or not self._plain.takes_forms
        ):
            return 0
        found = self._plain.append_sends(
            frames, start, sender.forms, sender.form_bytes, self._body_bytes_max, now_ms
        )
        if found.taken:
            group.batches += found.batches
            for topic, is_fifo, sizes in found.sizes:
                (group.fifo_sizes if is_fifo else group.sizes).setdefault(topic, []).extend(sizes)
            group.body_bytes += found.body_bytes
            group.stop = self._plain.staged_to
            group.opaques += found.opaques
            group.frames += found.answers
        return found.taken

    def store(self, frame: Frame, sender: FastSender, group: SentGroup, now_ms: int) -> bool:
        """Take a send if its header is known; else the normal path has to serve it."""
        true_for = self._true_for
        body = frame[2]
        if (
            true_for[0] is not self._state.config
            or true_for[1] is not self._state.topics.version
            or not 0 < len(body) <= self._body_bytes_max
        ):
            return False
        values = None
        if sender.true_for is true_for and frame[0] == _JSON:
            found = sender.moulds.get(frame[1][: sender.head_bytes])
            if found is not None:
                mould, known, text = found
                values = mould.values(frame[1])
        if values is None:
            cut = cut_send(frame)
            both = None if cut is None else self._find(frame, cut, sender)
            if cut is None or both is None:
                return False
            known, text = both
            values = cut[1], cut[3], cut[5]
        born_ms, unique_id, opaque = values
        quotas = self._state.quotas
        if quotas.sends and not group.may_pay(quotas, known.group, now_ms):
            return False  # the normal path says why
        if known.is_batch:
            return self._store_batch(known, text, values, body, sender, group, now_ms)
        placed = self._plain.append(
            known.pattern,
            body,
            text.before + unique_id + text.after,
            int(born_ms),
            sender.born_host,
            text.tags_code,
            [str(unique_id, "ascii"), *text.keys],
            now_ms,
        )
        if placed is None:
            return False
        log_offset, queue_offset, size_bytes = placed
        topic = known.pattern.topic
        sizes_of = group.fifo_sizes if text.is_fifo else group.sizes
        sizes = sizes_of.get(topic)
        if sizes is None:
            sizes = sizes_of[topic] = []
        sizes.append(size_bytes)
        group.body_bytes += len(body)
        group.stop = log_offset + size_bytes
        for meter in group.meters:
            meter.pay(1, size_bytes)
        if not known.is_oneway:
            group.opaques.append(opaque)
            group.frames.append(known.answer.fill(log_offset, queue_offset, unique_id, opaque))
        return True

    def _store_batch(
        self,
        known: KnownHeader,
        text: KnownText,
        values: tuple[bytes, bytes, bytes],
        body: bytes,
        sender: FastSender,
        group: SentGroup,
        now_ms: int,
    ) -> bool:
        born_ms, unique_id, opaque = values
        state, pattern = self._state, known.pattern
        common = text.before + unique_id + text.after
        found_by = {**text.found_by, names.UNIQ_KEY: str(unique_id, "ascii")}
        try:
            parts = split_checked(body, pattern.topic, common, state.config.store)
            if parts is None:
                return False
            rest = rest_of_all(parts.properties)
            codes, keys = looked_at(parts.properties, found_by, rest)
            if rest is not None and not state.config.store.serves_light:
                text.learn_rest(rest, codes[0], tuple(keys[0][1:]))
            batch = self._plain.append_batch(
                pattern,
                parts,
                common,
                int(born_ms),
                sender.born_host,
                tags_codes=codes,
                keys=keys,
                now_ms=now_ms,
            )
        except FlintError:  # the normal path says why
            return False
        log_offsets, queue_offset, stop = batch
        ids = message_ids(state.host, log_offsets).encode()
        if not known.is_oneway:
            group.opaques.append(opaque)
            group.frames.append(known.answer.fill(ids, queue_offset, unique_id, opaque))
        count, size_bytes = len(log_offsets), stop - log_offsets[0]
        group.stop = stop
        group.batches.append((pattern.topic, count, size_bytes))
        for meter in group.meters:
            meter.pay(count, size_bytes)
        group.body_bytes += len(body)
        return True

    def _find(
        self, frame: Frame, cut: SendCut, sender: FastSender
    ) -> tuple[KnownHeader, KnownText] | None:
        shape, _, before, unique_id, after, _ = cut
        known = self._known.get((len(sender.born_host), shape))
        if known is None:
            return None
        text = self._texts.get(before + after, _UNKNOWN)
        if text is not None and text.id_bytes != len(unique_id):
            text = self._learn_text(before, unique_id, after)
        elif text is not None:  # the second time: there may be more of them
            sender.remember(fit(frame, cut), known, text, self._true_for)
        return None if text is None else (known, text)

    # Learning

    def learn(self, frame: Frame, request: TypedRequest[SendMessageV2], sender: FastSender) -> None:
        """A send took the normal path: if it is plain and came before, know its header from now on.

        Those that are signed differ every time, and learning costs more than a send.
        """
        if request.code not in _CODES:
            return
        cut = cut_send(frame)
        if cut is None:
            return
        state = self._state
        config, version = state.config, state.topics.version
        if self._true_for[0] is not config or self._true_for[1] is not version:
            self._known.clear()
            self._texts.clear()
            self._true_for = (config, version)
            self._body_bytes_max = config.store.message_bytes_max
        header = request.header
        key = len(sender.born_host), cut[0]
        seen = hash((key[0], _of_any_queue(cut[0])))
        if seen not in self._seen:
            if len(self._seen) >= HEADERS_MAX:
                self._seen.clear()
            self._seen.add(seen)
            return
        if key in self._known or not self._is_plain(header):
            return
        if not _means_what_it_says(frame, cut, request):
            return
        pattern = pattern_of(
            header.topic,
            header.queue_id,
            sender.peer.host.is_v6,
            state.host.packed,
            state.host.port,
            header.flag,
            header.sys_flag,
            header.reconsume_times,
        )
        if len(self._known) >= HEADERS_MAX:
            self._known.clear()
        answer = SentFrame(state, header.queue_id, is_batch=header.is_batch)
        known = self._known[key] = KnownHeader(
            pattern,
            answer,
            header.producer_group or "",
            is_oneway=request.is_oneway,
            is_batch=header.is_batch,
            queues=self._queues(frame, request),
        )
        text = self._text(cut) if known.queues else None
        if text is not None:  # at once: the next one may be of any queue
            sender.remember(fit(frame, cut), known, text, self._true_for)

    def _queues(self, frame: Frame, request: TypedRequest[SendMessageV2]) -> int:
        """How many queues such a header may name; 0 where another one may change more than that."""
        form, octets, body = frame
        header = request.header
        topic = self._state.topics.find(header.topic)
        own = QUEUE_FIELD + b'%d"' % header.queue_id
        if topic is None or octets.count(QUEUE_FIELD) != 1 or own not in octets:
            return 0
        if octets.find(TIME_FIELD) < octets.find(own):
            return 0
        varied = octets.replace(own, QUEUE_FIELD + b'%d"' % _OTHER_QUEUE)
        try:
            other = _read((form, varied, body))
        except FlintError:
            return 0
        if not isinstance(other, TypedRequest):
            return 0
        is_same = other.header == replace(header, queue_id=_OTHER_QUEUE)
        return max(topic.write_queue_nums, topic.read_queue_nums) if is_same else 0

    def _is_plain(self, header: SendMessageV2) -> bool:
        """Whether such a send is stored where it says, whatever its properties are."""
        config = self._state.config
        topic = self._state.topics.find(header.topic)
        return (
            topic is not None
            and topic.topic_filter_type != MULTI_TAG
            and (bool(config.permission & _WRITE) or not topic.order)
            and name_fault(header.topic) is None
            and 0 <= header.queue_id < max(topic.write_queue_nums, topic.read_queue_nums)
            and not header.sys_flag & _NOT_PLAIN
            and not is_retry_topic(header.topic)
            and header.topic not in self._state.log.batched
        )

    def _text(self, cut: SendCut) -> KnownText | None:
        """What is known of properties, or can be learned of them."""
        _, _, before, unique_id, after, _ = cut
        text = self._texts.get(before + after, _UNKNOWN)
        if text is None or text.id_bytes == len(unique_id):
            return text
        return self._learn_text(before, unique_id, after)

    def _learn_text(self, before: bytes, unique_id: bytes, after: bytes) -> KnownText | None:
        """What properties mean; nothing when they ask for something special."""
        if len(self._texts) >= TEXTS_MAX:
            self._texts.clear()
        known = self._texts[before + after] = self._plain_text(before, unique_id, after)
        return known

    def _plain_text(self, before: bytes, unique_id: bytes, after: bytes) -> KnownText | None:
        config = self._state.config
        try:
            text = _text_of(b'"' + before + unique_id + after + b'"')
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        properties = parse_properties(text)
        octets = plain_string(text, properties, config)
        if octets is None or properties.get(names.UNIQ_KEY) != str(unique_id, "ascii"):
            return None
        somebody_waits = config.store.flush is Flush.SYNC or config.role is BrokerRole.SYNC_MASTER
        if somebody_waits and not waits_for_disk(properties):
            return None
        parts = split_unique_id(octets)
        if parts is None or parts[1] != unique_id:
            return None
        start = parts[0] + UNIQUE_ID_START
        return KnownText(start, octets[len(start) + len(unique_id) :], len(unique_id), properties)


def _of_any_queue(shape: bytes) -> bytes:
    """A header without its queue id: of thousands of queues, the second send is like the first."""
    before, _, after = shape.partition(QUEUE_FIELD)
    return before + after.lstrip(b"0123456789")


_UNKNOWN = KnownText(b"", b"", -1, {})


def _means_what_it_says(frame: Frame, cut: SendCut, request: TypedRequest[SendMessageV2]) -> bool:
    """Whether other values at the cuts change these fields of the request and nothing else."""
    other_frame = vary_send(frame, cut, _OTHER_MS, _OTHER_ID, _OTHER_OPAQUE)
    try:
        other = _read(other_frame)
    except FlintError:
        return False
    header, id_text = request.header, str(cut[3], "ascii")
    properties = (header.properties or "").replace(
        f"{names.UNIQ_KEY}\x01{id_text}", f"{names.UNIQ_KEY}\x01{_OTHER_ID}", 1
    )
    expected = replace(header, born_timestamp=_OTHER_MS, properties=properties)
    return (
        isinstance(other, TypedRequest)
        and other.header == expected
        and other.opaque == _OTHER_OPAQUE
        and (other.code, other.flag) == (request.code, request.flag)
        and header.born_timestamp == int(cut[1])
        and request.opaque == int(cut[5])
    )
