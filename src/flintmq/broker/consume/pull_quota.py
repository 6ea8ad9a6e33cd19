"""Pulls of an account or a group that has used up its quota: they wait, and lose nothing.

    over the quota ─┬─ first pass, may be held ─► held until something is left; then it runs again
                    ├─ first pass, else ────────► FLOW_CONTROL (215)
                    └─ second pass ─────────────► PULL_NOT_FOUND (19), at the offset it asked for

A pull that waits for its quota waits like one that waits for a message, so no client sees an error.
Arrivals do not wake it.  Where others of the same quota were faster, the client is told that there
is nothing new and pulls again from where it was.  Clients of 5.x and ours pause shortly after 215;
older ones log it and wait some seconds.  The offset that a pull brings is committed in any case.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from flintmq.access.quotas import QuotaUse
from flintmq.broker.requests.outcome import Answer, Hold, Outcome
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState
from flintmq.model.queue import QueueOffset
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.headers.pull import PullMessage
from flintmq.store.queues.selection import Selection

QUOTA_HOLD_MS: Final = 200
"""The shortest wait: what is left of a quota after a moment is too little for an answer, and a
second's worth is saved up."""

UNREACHED: Final = QueueOffset(2**62)
"""An offset that no queue grows past: whoever waits there is woken by the clock alone."""

_FIELDS: Final = (
    b'{"suggestWhichBrokerId":"0","nextBeginOffset":"%d","minOffset":"%d","maxOffset":"%d"}'
)


def over_quota(
    header: PullMessage,
    state: BrokerState,
    peer: Peer,
    now_ms: int,
    wanted: Selection,
    hold_ms: int | None,
    *,
    is_first: bool,
) -> Outcome:
    """What becomes of a pull that is over a quota; None when it is over none.

    ``hold_ms`` is how long it may be held, None where it may not.
    """
    group = header.consumer_group
    over = state.quotas.exhausted(QuotaUse.CONSUME, peer.account, group, now_ms)
    if over is None:
        return None
    if is_first:
        state.refusals.count(over.quota.limit)
        if hold_ms is None:
            return Answer(ResponseCode.FLOW_CONTROL, remark=over.reason)
        wait_ms = min(hold_ms, max(QUOTA_HOLD_MS, over.wait_ms(now_ms)))
        return Hold(header.topic, header.queue_id, UNREACHED, now_ms + wait_ms, wanted)
    fields = _FIELDS % (
        header.queue_offset,
        state.log.min_offset(header.topic, header.queue_id),
        state.log.max_offset(header.topic, header.queue_id),
    )
    return Answer(ResponseCode.PULL_NOT_FOUND, Raw(fields), b"", over.reason)
