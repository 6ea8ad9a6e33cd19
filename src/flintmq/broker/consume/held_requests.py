"""Which function runs a pop or a notification again that was held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flintmq.broker.consume.peek import notify, notify_at_last
from flintmq.broker.consume.pop import pop, pop_at_last
from flintmq.broker.state.broker_state import Processor
from flintmq.protocol.codes import RequestCode

PASSES: Final[Mapping[int, Processor]] = {
    int(RequestCode.POP_MESSAGE): pop,
    int(RequestCode.NOTIFICATION): notify,
}
"""After something arrived; it may be held again."""

AT_LAST: Final[Mapping[int, Processor]] = {
    int(RequestCode.POP_MESSAGE): pop_at_last,
    int(RequestCode.NOTIFICATION): notify_at_last,
}
"""When the deadline has come; whatever comes out is the answer."""
