"""How long requests take, from their arrival to their answer, by code and outcome.

Nothing of it is counted unless metrics are served.  Sends that came in one read are answered
together, so they took equally long and cost one entry.

Only codes that the broker serves are told apart: a peer could make up any number of others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

from flintmq.metrics.families import Distribution
from flintmq.model.topic import is_system_topic
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.typed_request import TypedRequest

CALL_BOUNDS_MS: Final = (1, 3, 5, 7, 10, 100, 1_000, 2_000, 3_000)
CREATE_BOUNDS_MS: Final = (10, 100, 1_000, 3_000, 5_000)

OTHER: Final = -1
"""Stands for every code that is not served."""

_SUCCESS = int(ResponseCode.SUCCESS)
_SEND = int(RequestCode.SEND_MESSAGE_V2)
_BATCH = int(RequestCode.SEND_BATCH_MESSAGE)
_TOPIC_CREATES = frozenset(
    {int(RequestCode.UPDATE_AND_CREATE_TOPIC), int(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST)}
)
_GROUP_CREATE = int(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
_CREATES = _TOPIC_CREATES | {_GROUP_CREATE}


class RequestKind(NamedTuple):
    """Requests of one code that ended alike."""

    code: int
    answer_code: int
    is_held: bool
    is_oneway: bool


class RequestTimes:
    """Times of all requests of a broker since its start."""

    def __init__(self, clock: Callable[[], int], served: Collection[int]) -> None:
        self._sends = Distribution(CALL_BOUNDS_MS)
        self.calls = {(_SEND, _SUCCESS, False, False): self._sends}
        """By the fields of `RequestKind`."""
        self.topic_creates: dict[tuple[bool, bool], Distribution] = {}
        """By whether it went well, and whether the topic is the system's."""
        self.group_creates: dict[bool, Distribution] = {}
        self._clock = clock
        self._served = frozenset(map(int, served))

    def answered(self, request: TypedRequest[Any], answer_code: int) -> None:
        """A request was answered, or is done with if it wants no answer."""
        code = request.code
        took_ms = self._clock() - request.came_ms
        times = self.calls.get((code, answer_code, request.is_held, request.is_oneway))
        if times is not None and 0 <= took_ms <= 1:
            times.counts[0] += 1
            times.sum += took_ms
        else:
            self._add(code, answer_code, request.is_held, request.is_oneway, took_ms, 1)
        if code in _CREATES:
            self._created(request, answer_code, took_ms)

    def sends_answered(self, answers: int, batches: int, came_ms: int) -> None:
        """Sends that came together were stored and answered together; some may be batches."""
        took_ms = self._clock() - came_ms
        if batches:
            batches = min(batches, answers)  # those that are oneway have no answer
            self._add(_BATCH, _SUCCESS, False, False, took_ms, batches)
            answers -= batches
        if took_ms == 0:
            self._sends.counts[0] += answers
        elif answers:
            self._sends.add(max(took_ms, 0), answers)

    def _add(
        self, code: int, answer_code: int, held: bool, oneway: bool, took_ms: int, times: int
    ) -> None:
        key = (code, answer_code, held, oneway)
        times_of = self.calls.get(key)
        if times_of is None:
            if code not in self._served:
                key = (OTHER, answer_code, held, oneway)
            times_of = self.calls.setdefault(key, Distribution(CALL_BOUNDS_MS))
        if took_ms <= 1:
            times_of.counts[0] += times
            times_of.sum += took_ms * times if took_ms > 0 else 0  # a clock may be moved back
        else:
            times_of.add(took_ms, times)

    def _created(self, request: TypedRequest[Any], answer_code: int, took_ms: int) -> None:
        is_well = answer_code == _SUCCESS
        if request.code == _GROUP_CREATE:
            found = self.group_creates.setdefault(is_well, Distribution(CREATE_BOUNDS_MS))
        else:
            is_system = is_system_topic(getattr(request.header, "topic", ""))
            key = (is_well, is_system)
            found = self.topic_creates.setdefault(key, Distribution(CREATE_BOUNDS_MS))
        found.add(max(took_ms, 0))
