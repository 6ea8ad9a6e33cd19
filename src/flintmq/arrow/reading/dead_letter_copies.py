"""Makes dead letters of records that cannot be decoded: their broker copies its own bytes.

    CONSUMER_SEND_MSG_BACK (36) with level -1 ──stored──► done
          │ unknown group: it is created there, and the request repeated
          └ refused, `REFUSED_MAX` times ──► `BrokerRefused`: the caller decides

A broker that cannot be reached is `Unreachable`: the task fails, and Spark runs it again.  A task
that runs again has its records copied again.
"""

from __future__ import annotations

import time
from typing import Final

from flintmq.arrow.reading.access import CLIENT_ID, Line
from flintmq.arrow.reading.masters import Masters
from flintmq.core.ask import refusal
from flintmq.core.conversation import Call
from flintmq.core.group.actions import SEND_BACK_TIMEOUT_MS, DeadLetterRecord
from flintmq.core.group.consumer_settings import RETRY_MAX
from flintmq.core.group.group_introduction import introduce
from flintmq.core.group.requests import dead_letter_request
from flintmq.model.bad_record import BadRecord
from flintmq.model.queue import QueueRef
from flintmq.protocol.codes import ResponseCode

REFUSED_MAX: Final = 3
"""Attempts for one record: the broker's reason may be temporary, but a task cannot wait long."""

PAUSE_S: Final = 0.2
"""Between two attempts."""

_SUCCESS: Final = int(ResponseCode.SUCCESS)
_UNKNOWN_GROUP: Final = int(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)


class DeadLetterCopies:
    """The dead-letter copies of one task.  ``group`` is the name on the wire."""

    def __init__(
        self, line: Line, group: str, *, tries_max: int = RETRY_MAX, unit_mode: bool = False
    ) -> None:
        self._line = line
        self._group = group
        self._tries_max = tries_max
        self._unit_mode = unit_mode
        self._masters = Masters(line)

    def copy(self, bad: BadRecord, queue: QueueRef) -> None:
        """Have a record copied to the dead letters; `BrokerRefused` when it is not."""
        address = self._masters.address(queue)
        ask = DeadLetterRecord(queue, bad, 0, None)
        asked = dead_letter_request(ask, self._group, self._tries_max, unit_mode=self._unit_mode)
        for left in reversed(range(REFUSED_MAX)):
            reply = self._line.make(Call(address, asked, SEND_BACK_TIMEOUT_MS))
            if reply.code == _SUCCESS:
                return
            if not left:
                raise refusal(reply, address)
            if reply.code == _UNKNOWN_GROUP:
                self._line.hold(introduce(address, self._group, CLIENT_ID))
            else:
                time.sleep(PAUSE_S)
