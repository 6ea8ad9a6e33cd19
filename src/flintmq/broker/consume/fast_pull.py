"""Pulls that are like the ones before: answered without being decoded and checked again.

    frame ─► pieces known ─┬─ records there, sound, in memory ─► answer from a template
                           └─ else ─► decoded, checked and served as usual ─► known the second time

Nearly all pulls of a consumer differ in nothing but queue id, offsets and opaque number.  What the
rest means, and that it may be served, was found out by the normal path (`pull`).  It is true as
long as neither the settings, nor any topic, nor the group changes.  What the members of a group
subscribe to is asked each time, unless the pull says itself that it wants everything.

Only what is found at once is answered here, and only for who wants everything: an offset that a
queue does not have, a filter, a reset, a quota or a hook are for the normal path.

Invariant: the answer, and what is counted and committed, is that of the normal path.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from flintmq.broker.consume.pull import count_found, found_template, usual_limits
from flintmq.broker.consume.pull_checks import admit, wanted_by_group
from flintmq.broker.counters.call_times import RequestTimes
from flintmq.broker.requests.answers import Chunk, with_body
from flintmq.broker.requests.outcome import SUCCESS, Refusal
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState
from flintmq.errors import FlintError
from flintmq.model.light_queue import is_light
from flintmq.protocol.bodies.group import GroupConfig
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.frame import Frame, HeaderForm
from flintmq.protocol.headers.pull import PullFlag, PullMessage
from flintmq.protocol.typed_request import RequestReader, TypedRequest
from flintmq.store.queues.selection import EVERYTHING

FORMS_MAX: Final = 8
"""Kinds of pulls known of one connection: a consumer has two for each topic."""

DIGITS_MAX: Final = 9
OFFSET_DIGITS_MAX: Final = 18
"""Numbers of so many digits fit 32 and 64 bits."""

_FIELDS: Final = (b'"queueId":"', b'"queueOffset":"', b'"commitOffset":"', b'"opaque":')
_OTHERS: Final = (b"7", b"123456789012345", b"98765432109", b"7654321")
_JSON = int(HeaderForm.JSON)
_CODE = int(RequestCode.PULL_MESSAGE)
_SUBSCRIPTION = int(PullFlag.SUBSCRIPTION)
_COMMIT_OFFSET = int(PullFlag.COMMIT_OFFSET)
_ZERO = ord("0")
_read = RequestReader({RequestCode.PULL_MESSAGE: PullMessage}).read

Values = tuple[int, int, int, int]
"""Queue id, queue offset, committed offset and opaque number."""


class PullShape:
    """A header around its four numbers: five pieces, and which number is where."""

    __slots__ = ("order", "pieces")

    def __init__(self, pieces: tuple[bytes, ...], order: tuple[int, ...]) -> None:
        self.pieces = pieces
        self.order = order

    def values(self, header: bytes) -> Values | None:
        """The numbers of a header of this shape; nothing of any other."""
        first, second, third, fourth, last = self.pieces
        if not header.startswith(first):
            return None
        found = []
        at = len(first)
        for piece in (second, third, fourth, last):
            stop = header.find(piece[:1], at)
            number = header[at:stop]
            if not header.startswith(piece, stop) or not number.isdigit():
                return None
            if len(number) > OFFSET_DIGITS_MAX or (number[0] == _ZERO and len(number) > 1):
                return None
            found.append(int(number))
            at = stop + len(piece)
        one, two, three, four = self.order
        values = found[one], found[two], found[three], found[four]
        if at != len(header) or values[0] >= 10**DIGITS_MAX or values[3] >= 10**DIGITS_MAX:
            return None
        return values

    def fill(self, numbers: tuple[bytes, ...]) -> bytes:
        """A header of this shape with other numbers."""
        placed = [b""] * len(numbers)
        for number, place in zip(numbers, self.order, strict=True):
            placed[place] = number
        pairs = zip(self.pieces, [*placed, b""], strict=True)
        return b"".join(piece + number for piece, number in pairs)


def cut_pull(header: bytes) -> PullShape | None:
    """The shape of a header that has each number once."""
    places = []
    for field, name in enumerate(_FIELDS):
        start = header.find(name) + len(name)
        if start < len(name) or header.find(name, start) >= 0:
            return None
        stop = start
        while header[stop : stop + 1].isdigit():
            stop += 1
        if stop == start or header[stop : stop + 1] not in (b'"', b","):
            return None
        places.append((start, stop, field))
    places.sort()
    bounds = [0, *(bound for start, stop, _ in places for bound in (start, stop)), len(header)]
    pieces = tuple(header[bounds[n] : bounds[n + 1]] for n in range(0, len(bounds), 2))
    fields = [field for _, _, field in places]
    return PullShape(pieces, tuple(fields.index(field) for field in range(len(_FIELDS))))


class KnownPull:
    """Pulls of one shape: what they ask for, and for which settings and names that is true."""

    __slots__ = (
        "answer",
        "bytes_max",
        "commits",
        "config",
        "count_max",
        "group",
        "request",
        "shape",
        "topic",
        "topics",
    )

    def __init__(
        self,
        shape: PullShape,
        request: TypedRequest[PullMessage],
        state: BrokerState,
        group: GroupConfig,
        topic: TopicConfig,
    ) -> None:
        header = request.header
        self.shape = shape
        self.request = replace(request, is_held=False)
        self.group = group
        self.topic = topic
        self.config: object = state.config
        self.topics: object = state.topics.version
        self.count_max, self.bytes_max = usual_limits(state, header) or (0, 0)
        self.commits = bool(header.sys_flag & _COMMIT_OFFSET)
        self.answer = found_template(state, group, topic)

    def is_true(self, state: BrokerState) -> bool:
        """Whether nothing changed that it depends on."""
        return (
            self.config is state.config
            and self.topics is state.topics.version
            and state.groups.find(self.request.header.consumer_group) is self.group
        )


class FastPuller:
    """A connection, and the kinds of pulls it sent."""

    __slots__ = ("is_known", "known", "peer", "seen")

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.known: list[KnownPull] = []  # the last one first
        self.seen: set[int] = set()  # shapes that came once, by hash
        self.is_known = False
        """Whether the last pull has a shape that is known, though it may not have been answered."""


class QuickPulls:
    """Answers the pulls of one broker that are like those before."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self.calls: RequestTimes | None = None

    def answer(self, frame: Frame, puller: FastPuller, now_ms: int) -> list[Chunk] | None:
        """The answer to a pull, if it is like one before and finds something."""
        form, header, _ = frame
        puller.is_known = False
        for known in puller.known:
            values = known.shape.values(header)
            if values is not None:
                break
        else:
            return None
        state = self._state
        if form != _JSON or not known.is_true(state):
            puller.known.remove(known)
            return None
        puller.is_known = True
        if known is not puller.known[0]:
            puller.known.remove(known)
            puller.known.insert(0, known)
        if (
            state.quotas.consumes
            or state.hooks.on_pull
            or state.offsets.has_resets
            or values[0] >= known.topic.read_queue_nums
        ):
            return None
        try:
            return self._found(known, values, puller.peer, now_ms)
        except (Refusal, FlintError):
            return None  # the normal path says why

    def _found(
        self, known: KnownPull, values: Values, peer: Peer, now_ms: int
    ) -> list[Chunk] | None:
        state, header = self._state, known.request.header
        queue_id, offset, commit_offset, opaque = values
        by_group = not header.sys_flag & _SUBSCRIPTION
        if by_group and wanted_by_group(header, known.group, state) is not EVERYTHING:
            return None
        result = state.log.read_few(
            header.topic, queue_id, offset, known.count_max, known.bytes_max
        )
        if result is None:
            return None
        group_name, topic_name, offsets = header.consumer_group, header.topic, state.offsets
        if known.commits and state.takes_commits_of_pulls:
            offsets.commit(group_name, topic_name, queue_id, commit_offset, peer.address)
        offsets.note_pull(group_name, topic_name, queue_id, result.next_offset)
        count_found(state, (group_name, topic_name, queue_id), result, now_ms)
        if self.calls is not None:
            known.request.came_ms = now_ms
            self.calls.answered(known.request, SUCCESS)
        head = known.answer % (result.next_offset, result.min_offset, result.max_offset, opaque)
        return with_body(head, result.views, result.size_bytes)

    def learn(self, frame: Frame, request: TypedRequest[PullMessage], puller: FastPuller) -> None:
        """A pull took the normal path: if it came before and is plain, know it from now on."""
        form, octets, body = frame
        if request.code != _CODE or puller.is_known or form != _JSON or body or request.is_oneway:
            return
        shape = cut_pull(octets)
        if shape is None or shape.values(octets) is None:
            return
        key = hash(shape.pieces)
        if key not in puller.seen:
            if len(puller.seen) >= FORMS_MAX:
                puller.seen.clear()
            puller.seen.add(key)
            return
        state, header = self._state, request.header
        if is_light(header.topic) or is_light(header.consumer_group):
            return
        if usual_limits(state, header) is None or not _means_what_it_says(shape, request):
            return
        try:
            group, topic, wanted = admit(request, state, puller.peer, request.came_ms)
        except (Refusal, FlintError):
            return
        if wanted is EVERYTHING:
            del puller.known[FORMS_MAX - 1 :]
            puller.known.insert(0, KnownPull(shape, request, state, group, topic))


def _means_what_it_says(shape: PullShape, request: TypedRequest[PullMessage]) -> bool:
    """Whether other numbers change these fields of the request and nothing else."""
    try:
        other = _read((_JSON, shape.fill(_OTHERS), b""))
    except FlintError:
        return False
    queue_id, queue_offset, commit_offset, opaque = map(int, _OTHERS)
    expected = replace(
        request.header,
        queue_id=queue_id,
        queue_offset=queue_offset,
        commit_offset=commit_offset,
    )
    return (
        isinstance(other, TypedRequest)
        and other.header == expected
        and other.opaque == opaque
        and (other.code, other.flag) == (request.code, request.flag)
    )
