"""Answers that wait for what they promise: on disk, and at a slave.

    written ─► sync flush? ─► on disk ─► SYNC_MASTER? ─► stored by slaves ─► answered
                  │ DiskFailed              │ no slave is there: SLAVE_NOT_AVAILABLE (11) at once
                  ▼                         └ slave_timeout_ms is over: FLUSH_SLAVE_TIMEOUT (12)
               refused

With 11 and 12 the message is stored here, as in RocketMQ, and producers count it as sent.  Other
requests that store messages wait in the same way, and are answered with success at the end of it.

Invariant: answers of one stage leave in the order of the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from flintmq.broker.engine_port import Port, Request
from flintmq.broker.failures import not_available
from flintmq.broker.requests.outcome import Answer, Stored
from flintmq.broker.requests.peer import Peer
from flintmq.broker.send.send_answer import SentMessages, with_code
from flintmq.broker.send.sent_group import SentGroup
from flintmq.broker.state.broker_state import BrokerState
from flintmq.errors import DiskFailed
from flintmq.model.broker_role import BrokerRole
from flintmq.model.queue import LogOffset
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.typed_request import TypedRequest
from flintmq.store.files.store_config import Flush

Refuse: TypeAlias = Callable[[Request, Peer, Answer], None]


class Parked(msgspec.Struct, gc=False):
    """A request whose answer waits."""

    peer: Peer
    request: Request
    stored: Stored
    is_creating: bool = False
    """Whether its answer waits until the topic it created is registered."""
    is_due: bool = False
    """Whether nothing but that is missing."""
    code: int = 0

    def __len__(self) -> int:
        return 1

    @property
    def stop(self) -> LogOffset | None:
        return self.stored.stop

    @property
    def body_bytes(self) -> int:
        return len(self.request.body)

    @property
    def answer_bytes(self) -> int:
        """Of messages that the answer brings."""
        return sum(map(len, body)) if isinstance(body := self.stored.answer.body, list) else 0

    @property
    def answer(self) -> Answer:
        """The answer; that of a send says what it lacks."""
        answer = self.stored.answer
        if self.code and isinstance(self.stored, SentMessages):
            return msgspec.structs.replace(answer, code=self.code)
        return answer


AnyParked: TypeAlias = Parked | SentGroup


class ParkedSends:
    """The answers of one broker that wait.

    ``refuse`` sends one, and ``answered`` is told of groups that were answered.
    """

    def __init__(
        self,
        state: BrokerState,
        port: Port,
        refuse: Refuse,
        answered: Callable[[SentGroup], None],
    ) -> None:
        self._state = state
        self._port = port
        self._refuse = refuse
        self._answered = answered
        self._unsynced: deque[AnyParked] = deque()
        # until when, for how many slaves, and what
        self._unreplicated: deque[tuple[int, int, AnyParked]] = deque()

    # Disk

    @property
    def wants_sync(self) -> bool:
        """Whether a send waits for the disk."""
        return bool(self._unsynced)

    @property
    def waits_up_to(self) -> int | None:
        """Where in the log the last send that waits for the disk ends, if any does."""
        return _stop(self._unsynced[-1]) if self._unsynced else None

    def add(self, written: Iterable[AnyParked], now_ms: int) -> None:
        """Answer what was written, now or when it is where it has to be."""
        state = self._state
        waits = state.config.store.flush is Flush.SYNC
        durable_to = state.log.durable_to
        for each in written:
            state.unsynced_count += len(each)
            state.unsynced_bytes += each.body_bytes
            if waits and each.stop is not None and each.stop > durable_to:
                self._unsynced.append(each)
            else:
                self._replicate(each, now_ms)

    def durable(self, now_ms: int) -> None:
        """A sync ended well: go on with what waited for it."""
        durable_to = self._state.log.durable_to
        while self._unsynced and _stop(self._unsynced[0]) <= durable_to:
            self._replicate(self._unsynced.popleft(), now_ms)

    def sync_failed(self, failure: DiskFailed) -> int:
        """A sync failed: whoever waits for it must send again.  Tells how many these are."""
        count = len(self._unsynced)
        while self._unsynced:
            self._end(self._unsynced.popleft(), failure)
        return count

    # Slaves

    def _replicate(self, parked: AnyParked, now_ms: int) -> None:
        config, slaves = self._state.config, self._state.slaves
        if config.role is BrokerRole.SYNC_MASTER and parked.stop is not None:
            near = slaves.near_count(LogOffset(parked.stop))
            needed = config.replication.copies_needed(1 + near) - 1
            if needed and parked.stop > slaves.stored_to(needed):
                if near >= needed:
                    until_ms = now_ms + config.replication.slave_timeout_ms
                    self._unreplicated.append((until_ms, needed, parked))
                    return
                parked.code = ResponseCode.SLAVE_NOT_AVAILABLE
        self._end(parked, None)

    def replicated(self) -> None:
        """A slave has stored more: answer what waited for it."""
        known: dict[int, int] = {}
        while self._unreplicated:
            _, needed, parked = self._unreplicated[0]
            if needed not in known:
                known[needed] = self._state.slaves.stored_to(needed)
            if _stop(parked) > known[needed]:
                return
            self._unreplicated.popleft()
            self._end(parked, None)

    def expire(self, now_ms: int) -> None:
        """Answer those for whom no slave was in time."""
        while self._unreplicated and self._unreplicated[0][0] <= now_ms:
            parked = self._unreplicated.popleft()[2]
            parked.code = ResponseCode.FLUSH_SLAVE_TIMEOUT
            self._end(parked, None)

    def next_due_ms(self) -> int | None:
        """When `expire` has something to do."""
        return self._unreplicated[0][0] if self._unreplicated else None

    # Answering

    def _end(self, parked: AnyParked, failure: DiskFailed | None) -> None:
        self._state.unsynced_count -= len(parked)
        self._state.unsynced_bytes -= parked.body_bytes
        self.answer(parked, failure)

    def answer(self, parked: AnyParked, failure: DiskFailed | None) -> None:
        """Answer a request that waits no more; one that created a topic may still have to."""
        if isinstance(parked, Parked):
            if parked.is_creating and failure is None:
                parked.is_due = True
                return
            answer = parked.answer
            parked.peer.owed_bytes -= parked.answer_bytes
            if failure is not None:
                answer = not_available(self._state, failure)
            self._refuse(parked.request, parked.peer, answer)
        elif failure is None:
            frames = parked.frames
            parked.write(
                [with_code(frame, parked.code) for frame in frames] if parked.code else frames
            )
            self._answered(parked)
        else:
            answer = not_available(self._state, failure)
            for opaque in parked.opaques:
                request: Request = TypedRequest(header=None, opaque=int(opaque))
                self._port.answer(parked.peer, request, answer)


def _stop(parked: AnyParked) -> int:
    assert parked.stop is not None
    return parked.stop
